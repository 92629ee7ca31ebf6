/* SPDX-License-Identifier: GPL-2.0 */
/*
 * signals ROUNDS: nine signals a round. One that it sends itself; five that
 * its instructions raise; two at once, which it had blocked. The handlers skip
 * the instruction that raised one, if it did not complete: it did not retire.
 *
 * Instructions: 55 * ROUNDS + 3
 */
#include "known.h"

#define SIGILL		4
#define SIGTRAP		5
#define SIGFPE		8
#define SIGSEGV		11
#define SIGUSR2		12

#define SA_NODEFER	0x40000000	/* or single steps in it take it away */
#define RIP		168		/* in the context that a handler gets */

/* 6 */
.macro	MASK	how
	mov	$__NR_rt_sigprocmask, %eax
	mov	$\how, %edi
	lea	both(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
.endm

/* 4 */
.macro	SEND	signal
	mov	$__NR_kill, %eax
	mov	%r12d, %edi
	mov	$\signal, %esi
	syscall
.endm

	.globl	_start
_start:
	NUMBER	1, %rbx
	ACTION	SIGUSR1, return
	ACTION	SIGUSR2, return
	ACTION	SIGTRAP, return
	ACTION	SIGILL, skip2
	ACTION	SIGSEGV, skip3
	ACTION	SIGFPE, skip3
	mov	$__NR_getpid, %eax
	syscall
	mov	%eax, %r12d
	lea	_start(%rip), %r14
	xor	%r15d, %r15d
	STOP
1:	SEND	SIGUSR1			/* 4, and 3 in the handler */
	ud2				/* 0, and 4 in the handler */
	mov	(%r15), %eax		/* 0, and 4 in the handler */
	mov	%eax, (%r14)		/* 0, and 4 in the handler */
	int3				/* 1, and 3 in the handler */
	div	%r15d			/* 0, and 4 in the handler */
	MASK	0			/* 6 */
	SEND	SIGUSR1			/* 4 */
	SEND	SIGUSR2			/* 4 */
	MASK	1			/* 6, and 3 in each handler */
	dec	%rbx			/* 2 */
	jnz	1b
	EXIT				/* 3 */

	/* 3 with what restores */
to_return:
	ret
	/* 4 with what restores */
to_skip2:
	addq	$2, RIP(%rdx)
	ret
	/* 4 with what restores */
to_skip3:
	addq	$3, RIP(%rdx)
	ret
restore:
	mov	$__NR_rt_sigreturn, %eax
	syscall

	.data
both:	.quad	1 << (SIGUSR1 - 1) | 1 << (SIGUSR2 - 1)
return:	.quad	to_return, SA_SIGINFO | SA_RESTORER | SA_NODEFER, restore, 0
skip2:	.quad	to_skip2, SA_SIGINFO | SA_RESTORER, restore, 0
skip3:	.quad	to_skip3, SA_SIGINFO | SA_RESTORER, restore, 0
