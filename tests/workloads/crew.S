/* SPDX-License-Identifier: GPL-2.0 */
/*
 * crew OTHERS ROUNDS: a process of 1 + OTHERS threads, at most 64 others, all of
 * which live when it stops. The others wait in read(2) then. Each does ROUNDS
 * rounds.
 *
 * Instructions:
 *   the first thread   2 * ROUNDS + 8
 *   each other         2 * ROUNDS + 5: the stop makes read(2) run its SYSCALL again
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %r12
	NUMBER	2, %rbx
	PIPE	ends
	mov	%r12, %r15
1:	THREAD
	test	%eax, %eax
	jz	other
	dec	%r15
	jnz	1b
	NAP				/* until all of them wait */
	STOP
	BYTES	ends+4, %r12		/* 5: a byte for each */
2:	dec	%rbx			/* 2 a round */
	jnz	2b
	EXIT				/* 3 */

other:	BYTE	__NR_read, ends		/* 1: again, after the stop */
	jmp	2b			/* 1 */

	.data
nap:	.quad	0, 200000000
ends:	.long	0, 0
bytes:	.fill	64
