/* SPDX-License-Identifier: GPL-2.0 */
/*
 * makers ROUNDS: a process of two threads, the second of which waits in read(2)
 * when it stops. After that the second makes a third and another process, and
 * lives until both have exited. Each of the four does ROUNDS rounds.
 *
 * Instructions:
 *   the first thread    2 * ROUNDS + 8
 *   the second          2 * ROUNDS + 32: the stop makes read(2) run its SYSCALL again
 *   the third           2 * ROUNDS + 5
 *   the other process   2 * ROUNDS + 5
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	PIPE	begin
	PIPE	end
	THREAD
	test	%eax, %eax
	jz	second
	NAP				/* until the second waits */
	STOP
	BYTE	__NR_write, begin+4	/* 5 */
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */

second:	BYTE	__NR_read, begin	/* 1: again, after the stop */
	CLONE	$OWN_FILES		/* 7 */
	test	%eax, %eax		/* 2, and 2 in the third */
	jz	1b
	CLOSE	end+4			/* 3: now the third alone has this end */
	FORK	1b			/* 4, and 2 in the other process */
	WAIT				/* 6 */
	BYTE	__NR_read, end		/* 5 */
	jmp	1b			/* 1 */

	.data
nap:	.quad	0, 200000000
begin:	.long	0, 0
end:	.long	0, 0
