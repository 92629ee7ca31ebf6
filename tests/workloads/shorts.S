/* SPDX-License-Identifier: GPL-2.0 */
/*
 * shorts ROUNDS ABREAST: threads that end as soon as they have begun, ABREAST
 * of them in each round.
 *
 * Instructions: (28 * ABREAST + 4) * ROUNDS + 3
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %r12
	NUMBER	2, %r13
	PIPE	ends
	STOP
1:	mov	%r13, %rbx		/* 1 a round */
2:	THREAD				/* 7 a thread */
	test	%eax, %eax		/* 2 a thread, and 2 in it */
	jz	thread
	dec	%rbx			/* 2 a thread */
	jnz	2b
	mov	%r13, %rbx		/* 1 a round */
3:	BYTE	__NR_read, ends		/* 7 a thread */
	dec	%rbx
	jnz	3b
	dec	%r12			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */

thread:	BYTE	__NR_write, ends+4	/* 8 in each thread */
	EXIT

	.data
ends:	.long	0, 0
