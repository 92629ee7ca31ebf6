/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clones FLAGS ROUNDS
 * clones FLAGS ROUNDS exec
 *
 * Another process, made by clone(2) with FLAGS (no CLONE_FILES), and ROUNDS
 * rounds in it; or an exec in it, and LOOPS rounds after that. When it has
 * exited, the first does ROUNDS rounds itself. LOOPS is 100000.
 *
 * Instructions:
 *   the first    2 * ROUNDS + 20
 *   the other    2 * ROUNDS + 7, with "exec" 2 * LOOPS + 15
 */
#include "known.h"

#define LOOPS	100000

	.globl	_start
_start:
	cmpl	$5, (%rsp)		/* 2, after the exec */
	je	again
	NUMBER	1, %r12
	NUMBER	2, %rbx
	mov	(%rsp), %r13
	PIPE	ends
	STOP
	CLONE	%r12d			/* 7 */
	test	%eax, %eax		/* 2, and 2 in the other */
	jz	other
	CLOSE	ends+4			/* 3: now the other alone has this end */
	BYTE	__NR_read, ends		/* 5 */
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */

other:	cmp	$4, %r13d		/* 2 */
	jne	1b
	EXEC				/* 5 */

again:	mov	$LOOPS, %ebx		/* 2 * LOOPS + 1 */
2:	dec	%ebx
	jnz	2b
	EXIT				/* 3 */

	.data
ends:	.long	0, 0
self:	.asciz	"/proc/self/exe"
	.balign	8
args:	.quad	self, self, self, self, self, 0
