/* SPDX-License-Identifier: GPL-2.0 */
/*
 * chain LINKS: loops and execs itself, 1 to 1000 times, and loops once more.
 * LOOPS is 10000. How many execs are still to come is in the number of
 * arguments, so that no image has to read them.
 *
 * Instructions: (LINKS + 1) * (2 * LOOPS + 3) + 11 * LINKS + 3
 */
#include "known.h"

#define LOOPS	10000

	.globl	_start
_start:
	mov	(%rsp), %r12		/* 3, after an exec */
	sub	$3, %r12
	jns	loop
	NUMBER	1, %r12
	STOP
loop:	mov	$LOOPS, %ebx		/* 2 * LOOPS + 1 */
1:	dec	%ebx
	jnz	1b
	test	%r12, %r12		/* 2 */
	jz	2f
	mov	%r12, %rcx		/* 8 */
	shl	$3, %rcx
	lea	end-16(%rip), %rsi
	sub	%rcx, %rsi
	mov	$__NR_execve, %eax
	lea	self(%rip), %rdi
	xor	%edx, %edx
	syscall
	ud2
2:	EXIT				/* 3 */

	.data
self:	.asciz	"/proc/self/exe"
	.balign	8
	.rept	1002
	.quad	self
	.endr
end:	.quad	0
