/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ticks THREADS PROCESSES: makes as many others of both (at least one), each of
 * which then adds one to a number of its own, again and again until it is
 * killed. The numbers are the 64-bit words of the file that is its standard
 * input: of the threads, of the processes, and of the first thread.
 *
 * Instructions: 2 for each that has been added, and
 *   the first thread     12 * THREADS + 7 * PROCESSES
 *   each of the others   2
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	NUMBER	2, %rbp
	SHARED_PAGE
	mov	%rax, %r15
	STOP
1:	THREAD				/* 12 a thread, and 2 in it */
	test	%eax, %eax
	jz	3f
	add	$8, %r15
	dec	%rbx
	jnz	1b
2:	FORK	3f			/* 7 a process, and 2 in it */
	add	$8, %r15
	dec	%rbp
	jnz	2b
3:	incq	(%r15)			/* 2 each time */
	jmp	3b
