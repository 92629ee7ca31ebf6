/* SPDX-License-Identifier: GPL-2.0 */
/*
 * migrate CPUS ROUNDS LOOPS: goes round the CPUs 0 to CPUS - 1, one a round,
 * and loops LOOPS times on each. There may be 64. It is bound to CPU 0 when it stops.
 *
 * Instructions: (2 * LOOPS + 12) * ROUNDS + 3
 *
 * Of these each round retires 2 * LOOPS + 12 on its CPU, which is number
 * (round modulo CPUS): 2 * LOOPS + 7 of its own, and the 5 by which the next
 * round leaves. The first round's 5 retire on CPU 0, and in place of the next
 * round's 5 the last round has the 3 of the exit.
 */
#include "known.h"

	.globl	_start
_start:
	CPUS
	NUMBER	2, %rbx
	NUMBER	3, %r14
	BIND	$0, mask
	STOP
1:	BIND	$0, mask		/* 5 a round */
	mov	%r14, %rcx		/* 2 * LOOPS + 1 a round */
2:	dec	%rcx
	jnz	2b
	NEXT_CPU		/* 4 a round */
	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */

	.data
mask:	.quad	1
