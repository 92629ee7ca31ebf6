/* SPDX-License-Identifier: GPL-2.0 */
/*
 * headless ROUNDS: the first thread makes another and exits. When it has, the
 * other stops the process, and then does ROUNDS rounds.
 *
 * Instructions:
 *   the first thread      12
 *   the other             16 until it stops, and then 2 * ROUNDS + 3
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	PIPE	ends
	STOP
	CLONE	$OWN_FILES		/* 7 */
	test	%eax, %eax		/* 2, and 2 in the other */
	jz	other
	EXIT				/* 3 */

other:	CLOSE	ends+4			/* 3: now the first alone has this end */
	BYTE	__NR_read, ends		/* 5 */
	STOP				/* 6 */
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */

	.data
ends:	.long	0, 0
