/* SPDX-License-Identifier: GPL-2.0 */
/*
 * threads OLD NEW ROUNDS: a process of 1 + OLD + NEW threads, NEW >= 1. OLD of
 * them live when it stops and wait in read(2); NEW are made after it. Each does
 * ROUNDS rounds and yields the CPU after each. They end one by one, the first
 * thread before the others have to.
 *
 * Instructions:
 *   the first thread   WORK + 5 + 11 * NEW
 *   each old one       WORK + 2: the stop makes read(2) run its SYSCALL again
 *   each new one       WORK + 2
 * where WORK = 2005 * ROUNDS + 4
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %r12
	NUMBER	2, %r13
	NUMBER	3, %r14
	PIPE	ends
	mov	%r12, %r15
1:	test	%r15, %r15
	jz	2f
	THREAD
	test	%eax, %eax
	jz	old
	dec	%r15
	jmp	1b
2:	NAP				/* until all of them wait in read(2) */
	STOP
	BYTES	ends+4, %r12		/* 5: a byte for each of the old */
3:	THREAD				/* 7 for each of the new */
	test	%eax, %eax		/* 2, and 2 in the new one */
	jz	work
	dec	%r13			/* 2 for each of the new */
	jnz	3b

work:	mov	%r14, %rbx		/* 1 */
4:	mov	$1000, %ecx		/* 2001 a round */
5:	dec	%ecx
	jnz	5b
	mov	$__NR_sched_yield, %eax	/* 4 a round */
	syscall
	dec	%rbx
	jnz	4b
	EXIT				/* 3 */

old:	BYTE	__NR_read, ends		/* 1: again, after the stop */
	jmp	work			/* 1 */

	.data
nap:	.quad	0, 200000000
ends:	.long	0, 0
bytes:	.fill	64
