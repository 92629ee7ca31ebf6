/* SPDX-License-Identifier: GPL-2.0 */
/*
 * known ROUNDS: a loop of known length.
 *
 * Instructions: 2 * ROUNDS + 3
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	STOP
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */
