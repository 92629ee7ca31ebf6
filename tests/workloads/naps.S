/* SPDX-License-Identifier: GPL-2.0 */
/*
 * naps ROUNDS NANOSECONDS: works a little, sleeps, and so on: each round
 * switches it out once.
 *
 * Instructions: 2007 * ROUNDS + 3
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	NUMBER	2
	mov	%rax, nap+8(%rip)
	STOP
1:	mov	$1000, %ecx		/* 2001 a round */
2:	dec	%ecx
	jnz	2b
	NAP				/* 4 a round */
	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */

	.data
nap:	.quad	0, 0
