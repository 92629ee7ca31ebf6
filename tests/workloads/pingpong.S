/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pingpong CPUS ROUNDS
 * pingpong CPUS ROUNDS process
 *
 * Two threads, or two processes, that wait for each other in each round, by
 * pipes. In each round the first binds itself to the next of the CPUs 0 to
 * CPUS - 1, and the second to that where it was itself.
 *
 * Instructions:
 *   the first    27 * ROUNDS + 19
 *   the second   12 * ROUNDS + 5
 */
#include "known.h"

#define SIGCHLD		17

	.globl	_start
_start:
	CPUS
	NUMBER	2, %rbx
	mov	$SIGCHLD, %r14d
	cmpl	$4, (%rsp)
	je	1f
	mov	$CLONE_FLAGS, %r14d
1:	PIPE	there
	PIPE	back
	STOP
	CLONE	%r14d			/* 7 */
	test	%eax, %eax		/* 2, and 2 in the second */
	jz	second
	mov	%eax, %r15d		/* 1 */
2:	BIND	$0, mask		/* 5 a round */
	BIND	%r15d, other		/* 5 a round */
	BYTE	__NR_write, there+4	/* 5 a round */
	BYTE	__NR_read, back		/* 5 a round */
	mov	%r13, other(%rip)	/* 1 a round */
	NEXT_CPU		/* 4 a round */
	dec	%rbx			/* 2 a round */
	jnz	2b
	WAIT				/* 6 */
	EXIT				/* 3 */

second:	BYTE	__NR_read, there	/* 5 a round */
	BYTE	__NR_write, back+4	/* 5 a round */
	dec	%rbx			/* 2 a round */
	jnz	second
	EXIT				/* 3 */

	.data
mask:	.quad	1
other:	.quad	1
there:	.long	0, 0
back:	.long	0, 0
