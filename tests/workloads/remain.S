/* SPDX-License-Identifier: GPL-2.0 */
/*
 * remain ROUNDS: a process with a child that does ROUNDS rounds, stops itself,
 * and does as many again if it is let go on. The first exits as soon as the
 * child has stopped.
 *
 * Instructions:
 *   the first                    13
 *   the child until it stops     2 * ROUNDS + 9
 */
#include "known.h"

#define WUNTRACED	2

	.globl	_start
_start:
	NUMBER	1, %r12
	STOP
	FORK	child			/* 4, and 2 in the child */
	WAIT	WUNTRACED		/* 6 */
	EXIT				/* 3 */

child:	mov	%r12, %rbx		/* 1 */
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	STOP				/* 6 */
	mov	%r12, %rbx
2:	dec	%rbx
	jnz	2b
	EXIT
