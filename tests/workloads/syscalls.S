/* SPDX-License-Identifier: GPL-2.0 */
/*
 * syscalls ROUNDS: calls the kernel, and does next to nothing else.
 *
 * Instructions: 4 * ROUNDS + 3
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	STOP
1:	mov	$__NR_getppid, %eax	/* 4 a round */
	syscall
	dec	%rbx
	jnz	1b
	EXIT				/* 3 */
