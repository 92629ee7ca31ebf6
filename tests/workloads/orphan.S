/* SPDX-License-Identifier: GPL-2.0 */
/*
 * orphan ROUNDS: a process makes a second, which makes a third and exits. Only
 * then does the third do ROUNDS rounds, and the first lives until it has.
 *
 * Instructions:
 *   the first    26
 *   the second   9
 *   the third    2 * ROUNDS + 10
 */
#include "known.h"

	.globl	_start
_start:
	NUMBER	1, %rbx
	PIPE	begin
	PIPE	end
	STOP
	FORK	second			/* 4, and 2 in the second */
	WAIT				/* 6 */
	CLOSE	end+4			/* 3: now the third alone has this end */
	BYTE	__NR_write, begin+4	/* 5 */
	BYTE	__NR_read, end		/* 5 */
	EXIT				/* 3 */

second:	FORK	third			/* 4, and 2 in the third */
	EXIT				/* 3 */

third:	BYTE	__NR_read, begin	/* 5 */
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */

	.data
begin:	.long	0, 0
end:	.long	0, 0
