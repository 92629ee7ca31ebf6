/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compute ROUNDS: arithmetic in registers, ten instructions a round; a random
 * number generator of the xorshift kind.
 *
 * Instructions: 10 * ROUNDS + 4
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	STOP
	mov	$1, %rax		/* 1 */
1:	mov	%rax, %rdx		/* 10 a round */
	shl	$13, %rdx
	xor	%rdx, %rax
	mov	%rax, %rdx
	shr	$7, %rdx
	xor	%rdx, %rax
	lea	(%rax, %rax, 4), %rdx
	xor	%rdx, %rax
	sub	$1, %rbx
	jnz	1b
	EXIT				/* 3 */
