/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rally CPUS ROUNDS
 * rally CPUS ROUNDS messenger
 *
 * Two processes that both live when the first stops itself, and wait for each other in
 * each round, by pipes. The second waits in read(2) then. In each round the first binds
 * both to the next of the CPUs 0 to CPUS - 1. A messenger, a process made before the
 * second, carries each byte from one to the other, and is on the CPU between them: the
 * three are of SCHED_BATCH, so that whoever is woken waits until the other sleeps.
 *
 * Instructions:
 *   the first    26 * ROUNDS + 9
 *   the second   12 * ROUNDS - 2
 */
#include "known.h"

	.globl	_start
_start:
	CPUS
	NUMBER	2, %rbx
	PIPE	there
	PIPE	back
	BIND	$0, mask
	cmpl	$4, (%rsp)
	jne	1f
	PIPE	onward
	PIPE	homeward
	mov	$__NR_sched_setscheduler, %eax
	xor	%edi, %edi		/* itself, and whom it makes */
	mov	$3, %esi		/* SCHED_BATCH */
	mov	$priority, %edx
	syscall
	FORK	messenger
	mov	onward, %eax
	mov	%eax, there
	mov	homeward+4, %eax
	mov	%eax, back+4
1:	FORK	second
	mov	%eax, %r15d
	STOP
1:	BIND	$0, mask		/* 5 a round */
	BIND	%r15d, mask		/* 5 a round */
	BYTE	__NR_write, there+4	/* 5 a round */
	BYTE	__NR_read, back		/* 5 a round */
	NEXT_CPU		/* 4 a round */
	dec	%rbx			/* 2 a round */
	jnz	1b
	WAIT	who=%r15		/* 6 */
	EXIT				/* 3 */

second:	BYTE	__NR_read, there	/* 5 a round, of which the first 5 are before the stop */
	BYTE	__NR_write, back+4	/* 5 a round */
	dec	%rbx			/* 2 a round */
	jnz	second
	EXIT				/* 3 */

messenger:
	BYTE	__NR_read, there
	BYTE	__NR_write, onward+4
	BYTE	__NR_read, homeward
	BYTE	__NR_write, back+4
	dec	%rbx
	jnz	messenger
	EXIT

	.data
mask:	.quad	1
there:	.long	0, 0
back:	.long	0, 0
onward:	.long	0, 0
homeward:	.long	0, 0
priority:	.long	0
