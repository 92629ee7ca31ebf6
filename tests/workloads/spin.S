/* SPDX-License-Identifier: GPL-2.0 */
/* spin: a neighbour that never rests, in user and in kernel mode by turns. */
#include "known.h"

	.globl	_start
_start:
	mov	$1000, %ecx
1:	dec	%ecx
	jnz	1b
	mov	$__NR_getppid, %eax
	syscall
	jmp	_start
