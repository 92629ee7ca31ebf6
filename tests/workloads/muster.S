/* SPDX-License-Identifier: GPL-2.0 */
/*
 * muster THREADS ROUNDS: makes threads, with hardly a pause. Each of them, and the
 * first when it has made all, waits for a byte from the standard input, and
 * does ROUNDS rounds. It does not stop itself.
 *
 * Instructions after the byte, of each thread: 2 * ROUNDS + 3
 * Before it at most 22 for each of THREADS, and 5.
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %r12
	NUMBER	2, %rbx
1:	THREAD				/* 15, and 2 in the new one */
	test	%eax, %eax
	jz	2f
	NAP
	dec	%r12
	jnz	1b
2:	BYTE	__NR_read, input	/* 5 */
3:	dec	%rbx			/* 2 a round */
	jnz	3b
	EXIT				/* 3 */

	.data
nap:	.quad	0, 300000
input:	.long	0
