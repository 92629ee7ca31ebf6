/* SPDX-License-Identifier: GPL-2.0 */
/*
 * forks ROUNDS: a process with a child that does ROUNDS rounds; then it does
 * as many itself.
 *
 * Instructions: 2 * ROUNDS + 13, and those of the child, which are not its own
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1
	mov	%rax, %rbx
	STOP
	mov	$__NR_fork, %eax	/* 4 */
	syscall
	test	%eax, %eax
	jz	1f
	mov	$__NR_wait4, %eax	/* 6 */
	mov	$-1, %rdi
	xor	%esi, %esi
	xor	%edx, %edx
	xor	%r10d, %r10d
	syscall
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */
