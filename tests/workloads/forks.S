/* SPDX-License-Identifier: GPL-2.0 */
/*
 * forks ROUNDS: a process with a child that does ROUNDS rounds; then it does
 * as many itself.
 *
 * Instructions: 2 * ROUNDS + 13, and 2 * ROUNDS + 5 of the child
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	STOP
	FORK	1f			/* 4 */
	WAIT				/* 6 */
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */
