/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stages ROUNDS: three times ROUNDS rounds, with a stop before each. In the
 * second stage it makes a child, which waits for the third and then does as many.
 *
 * Instructions:
 *   first stage    2 * ROUNDS + 7
 *   second stage   2 * ROUNDS + 11, and 7 of the child
 *   third stage    2 * ROUNDS + 15, and 2 * ROUNDS + 4 of the child
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %r12
	PIPE	ends
	STOP
	mov	%r12, %rbx		/* 2 * ROUNDS + 1 */
1:	dec	%rbx
	jnz	1b
	STOP				/* 6 */

	FORK	child			/* 4, and 2 in the child */
	mov	%r12, %rbx		/* 2 * ROUNDS + 1 */
2:	dec	%rbx
	jnz	2b
	STOP				/* 6 */

	BYTE	__NR_write, ends+4	/* 5 */
	mov	%r12, %rbx		/* 2 * ROUNDS + 1 */
3:	dec	%rbx
	jnz	3b
	WAIT				/* 6 */
	EXIT				/* 3 */

child:	BYTE	__NR_read, ends		/* 5 */
	mov	%r12, %rbx		/* 2 * ROUNDS + 1 */
4:	dec	%rbx
	jnz	4b
	EXIT				/* 3 */

	.data
ends:	.long	0, 0
