/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree DEPTH WIDTH ROUNDS: a process makes WIDTH others, which make as many
 * each, and so on, DEPTH >= 1 generations. Each does ROUNDS rounds and waits
 * for those that it has made.
 *
 * Instructions:
 *   the first             2 * ROUNDS + 14 * WIDTH + 10
 *   each other that forks 2 * ROUNDS + 14 * WIDTH + 14
 *   each of the last      2 * ROUNDS + 12
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %r12
	NUMBER	2, %r13
	NUMBER	3, %r14
	STOP
node:	test	%r12, %r12		/* 2, and 1 if it forks */
	jz	2f
	mov	%r13, %rbx
1:	FORK	child			/* 6 a child, and 2 in the child */
	dec	%rbx
	jnz	1b
2:	mov	%r14, %rbx		/* 2 * ROUNDS + 1 */
3:	dec	%rbx
	jnz	3b
	test	%r12, %r12		/* 2, and 1 if it has forked */
	jz	5f
	mov	%r13, %rbx
4:	WAIT				/* 8 a child */
	dec	%rbx
	jnz	4b
5:	EXIT				/* 3 */

child:	dec	%r12			/* 2 */
	jmp	node
