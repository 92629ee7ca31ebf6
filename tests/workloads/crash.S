/* SPDX-License-Identifier: GPL-2.0 */
/*
 * crash ROUNDS
 * crash ROUNDS abort
 *
 * Loops, and is killed by a load from nowhere, or by the signal that abort(3)
 * sends. A second thread is in write(2) then.
 *
 * Instructions:
 *   the first thread   2 * ROUNDS + 16, with "abort" 2 * ROUNDS + 22
 *   the second         7
 */
#include "known.h"

#define MORE		131072		/* than a pipe takes */

	.globl	_start
_start:
	NUMBER	1, %rbx
	PIPE	ends
	STOP
	THREAD				/* 7 */
	test	%eax, %eax		/* 2, and 2 in the second */
	jz	second
	BYTE	__NR_read, ends		/* 5: the second goes on to write */
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	cmpl	$3, (%rsp)		/* 2 */
	je	abort
	mov	0, %eax			/* 0 */
abort:	RAISE	SIGABRT			/* 6 */

second:	mov	$__NR_write, %eax	/* 5 */
	mov	ends+4(%rip), %edi
	lea	bytes(%rip), %rsi
	mov	$MORE, %edx
	syscall
	ud2

	.data
ends:	.long	0, 0
	.bss
bytes:	.fill	MORE
