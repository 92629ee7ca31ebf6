/* SPDX-License-Identifier: GPL-2.0 */
/*
 * execs
 * execs thread
 *
 * Loops, execs itself, and loops again; with "thread" a second thread does it,
 * while the first waits to be killed by it. LOOPS is 100000.
 *
 * Instructions: 4 * LOOPS + 12, with "thread" 4 * LOOPS + 25
 */
#include "known.h"

#define LOOPS	100000

	.globl	_start
_start:
	cmpl	$3, (%rsp)		/* 2, after the exec */
	je	again
	cmpl	$2, (%rsp)
	je	thread
	STOP

loop:	mov	$LOOPS, %ebx		/* 2 * LOOPS + 1 */
1:	dec	%ebx
	jnz	1b
	EXEC				/* 5 */

again:	mov	$LOOPS, %ebx		/* 2 * LOOPS + 1 */
2:	dec	%ebx
	jnz	2b
	EXIT				/* 3 */

thread:	PIPE	ends
	THREAD
	test	%eax, %eax
	jz	second
	NAP				/* until the second waits in read(2) */
	STOP
	BYTE	__NR_write, ends+4	/* 5 */
	mov	$__NR_pause, %eax	/* 2 */
	syscall
	ud2

second:	BYTE	__NR_read, ends		/* 1: again, after the stop */
	NAP				/* 4: until the first waits in pause(2) */
	jmp	loop			/* 1 */

	.data
nap:	.quad	0, 200000000
ends:	.long	0, 0
self:	.asciz	"/proc/self/exe"
more:	.asciz	"again"
	.balign	8
args:	.quad	self, more, more, 0
