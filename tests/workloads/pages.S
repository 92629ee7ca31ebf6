/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pages PAGES ROUNDS: faults on nearly each page that it touches, PAGES even.
 * Each round maps as many pages of memory, and touches them fresh in four
 * ways: one at a time to change it; to read it, and then to write it; two at
 * once; all of them by one instruction. Then it runs through HOPS pages of
 * its own text that are not there any more, by instructions that lie across
 * the end of one. An instruction that faults retires once, when it completes.
 *
 * Instructions: (11 * PAGES + 2 * HOPS + 46) * ROUNDS + 3, where HOPS is 32
 */
#include "known.h"

#define PAGE		4096
#define HOPS		32
#define MADV_DONTNEED	4

/* 5 */
.macro	DROP	start, length
	mov	$__NR_madvise, %eax
	mov	\start, %rdi
	mov	\length, %rsi
	mov	$MADV_DONTNEED, %edx
	syscall
.endm

/* 2 */
.macro	EACH	pages=%r12
	mov	%r15, %rdi
	mov	\pages, %rbx
.endm

	.globl	_start
_start:
	NUMBER	1, %r12
	mov	%rax, %r13
	shl	$12, %r13		/* bytes */
	NUMBER	2, %r14
	mov	%r12, %rbp
	shr	%rbp
	STOP
1:	mov	$__NR_mmap, %eax	/* 9 a round */
	xor	%edi, %edi
	mov	%r13, %rsi
	mov	$3, %edx		/* to read and write */
	mov	$0x22, %r10d		/* private, anonymous */
	mov	$-1, %r8
	xor	%r9d, %r9d
	syscall
	mov	%rax, %r15

	EACH				/* 2 a round */
2:	incq	(%rdi)			/* 4 a page */
	add	$PAGE, %rdi
	dec	%rbx
	jnz	2b
	DROP	%r15, %r13		/* 5 a round */

	EACH				/* 2 a round */
3:	mov	(%rdi), %rax		/* 5 a page */
	mov	%rax, (%rdi)
	add	$PAGE, %rdi
	dec	%rbx
	jnz	3b
	DROP	%r15, %r13		/* 5 a round */

	EACH	%rbp			/* 2 a round */
4:	incq	PAGE-4(%rdi)		/* 4 for two pages */
	add	$2*PAGE, %rdi
	dec	%rbx
	jnz	4b
	DROP	%r15, %r13		/* 5 a round */

	mov	%r15, %rdi		/* 3 a round */
	mov	%r13, %rcx
	rep stosb

	DROP	$hops, $HOPS*PAGE	/* 5 a round */
	jmp	hops			/* 1 a round */
back:	mov	$__NR_munmap, %eax	/* 4 a round */
	mov	%r15, %rdi
	mov	%r13, %rsi
	syscall
	dec	%r14			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */

	.balign	PAGE
hops:
	.set	i, 0
	.rept	HOPS			/* 2 a hop */
	jmp	1f
	.set	i, i + 1
	.org	hops + PAGE * i - 5
1:	movabs	$0x123456789abcdef, %rax
	.endr
	jmp	back			/* 1 a round */
