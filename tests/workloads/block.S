/* SPDX-License-Identifier: GPL-2.0 */
/*
 * block KIND ROUNDS: waits in the kernel, and then does ROUNDS rounds. KIND
 * says where: 0 is read(2) of the standard input; 1 futex(2); 2 nanosleep(2);
 * 3 vfork(2), whose child waits in pause(2); 4 a fault on the standard input,
 * mapped. SIGUSR1 ends the wait in 0 to 2.
 *
 * Instructions after the wait: 2 * ROUNDS + 5, with SIGUSR1 2 * ROUNDS + 8
 */
#include "known.h"

	.globl	_start
_start:
	ACTION	SIGUSR1, action
	NUMBER	2, %rbx
	NUMBER	1
	cmp	$1, %eax
	jb	read
	je	futex
	cmp	$3, %eax
	jb	sleep
	ja	fault
	mov	$__NR_vfork, %eax
	jmp	wait
read:	xor	%edi, %edi		/* %eax is __NR_read */
	lea	byte(%rip), %rsi
	mov	$1, %edx
	jmp	wait
futex:	mov	$__NR_futex, %eax
	lea	byte(%rip), %rdi
	xor	%esi, %esi		/* FUTEX_WAIT */
	xor	%edx, %edx
	xor	%r10d, %r10d
	jmp	wait
sleep:	mov	$__NR_nanosleep, %eax
	lea	nap(%rip), %rdi
	xor	%esi, %esi
	jmp	wait
fault:	SHARED_PAGE
	incl	(%rax)			/* 2 */
	jmp	1f
wait:	syscall
	test	%eax, %eax		/* 2 */
	jz	child
1:	dec	%rbx			/* 2 a round */
	jnz	1b
	EXIT				/* 3 */
child:	mov	$__NR_pause, %eax
	syscall
	ud2

	/* 3 */
handler:
	ret
restore:
	mov	$__NR_rt_sigreturn, %eax
	syscall

	.data
byte:	.quad	0
nap:	.quad	1000, 0
action:	.quad	handler, SA_SIGINFO | SA_RESTORER, restore, 0
