/* SPDX-License-Identifier: GPL-2.0 */
/*
 * doomed KIND: does one thing again and again, until it is killed. Each time it
 * adds one to the first 64-bit word of the file that is its standard input, its
 * threads to the next ones, and each child, at its end, to word 6.
 *
 * KIND  what it does                     instructions   and a child
 *   0   computes                         2
 *   1   calls the system, getppid(2)     4
 *   2   sleeps for 50 us                 6
 *   3   touches 64 pages that it gives back   265
 *   4   computes in six threads          2
 *   5   makes a thread, and waits for it (vfork)   11    2 + CHILD
 *   6   makes a process, and waits for it   12           2 + CHILD
 *   7   the same by vfork(2); word 7 is the child's pid   6   5 + CHILD
 *   8   execs                            16
 *   9   computes 20000 times, and exits  3
 *
 * CHILD is 205. Before the first round there are less than 100.
 */
#include "known.h"

#define ROUNDS	100
#define PAGES	64

	.globl	_start
_start:
	cmpl	$3, (%rsp)		/* 2, after an exec */
	je	again
	NUMBER	1, %rbx
	SHARED_PAGE
	mov	%rax, %r15
	mov	$__NR_mmap, %eax
	xor	%edi, %edi
	mov	$4096 * PAGES, %esi
	mov	$3, %edx
	mov	$0x22, %r10d		/* private, anonymous */
	mov	$-1, %r8
	xor	%r9d, %r9d
	syscall
	mov	%rax, %r14
	STOP
	jmp	*kinds(, %rbx, 8)

computes:
	incq	(%r15)
	jmp	computes

calls:
	mov	$__NR_getppid, %eax
	syscall
	incq	(%r15)
	jmp	calls

sleeps:
	NAP
	incq	(%r15)
	jmp	sleeps

touches:
	mov	%r14, %rbx
	mov	$PAGES, %ebp
1:	incb	(%rbx)			/* 4 * PAGES */
	add	$4096, %rbx
	dec	%ebp
	jnz	1b
	mov	$__NR_madvise, %eax
	mov	%r14, %rdi
	mov	$4096 * PAGES, %esi
	mov	$4, %edx		/* MADV_DONTNEED */
	syscall
	incq	(%r15)
	jmp	touches

threads:
	mov	$5, %ebx
1:	THREAD
	test	%eax, %eax
	jz	computes
	add	$8, %r15
	dec	%ebx
	jnz	1b
	jmp	computes

clones:
	CLONE	$CLONE_FLAGS | 0x4000	/* 7; VFORK */
	test	%eax, %eax
	jz	child
	incq	(%r15)
	jmp	clones

forks:
	FORK	child			/* 4 */
	WAIT				/* 6 */
	incq	(%r15)
	jmp	forks

vforks:
	mov	$__NR_vfork, %eax
	syscall
	test	%eax, %eax
	jz	1f
	incq	(%r15)
	jmp	vforks
1:	mov	$__NR_getpid, %eax
	syscall
	mov	%rax, 56(%r15)

child:
	mov	$ROUNDS, %ecx
1:	dec	%ecx			/* 2 * ROUNDS */
	jnz	1b
	lock incq 48(%r15)
	EXIT				/* 3 */

execs:
	EXEC
again:
	SHARED_PAGE			/* 8 */
	incq	(%rax)
	EXEC				/* 5 */

exits:
	mov	$20000, %ebx
1:	incq	(%r15)
	dec	%ebx
	jnz	1b
	mov	$__NR_exit_group, %eax
	xor	%edi, %edi
	syscall

kinds:	.quad	computes, calls, sleeps, touches, threads, clones, forks, vforks, execs, exits
nap:	.quad	0, 50000
self:	.asciz	"/bin/doomed"
	.balign	8
args:	.quad	self, self, self, 0
