/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of known length share.
 *
 * Each of them stops itself (STOP), so that a counter can be attached before
 * the first instruction that is to be counted. What a program retires in user
 * mode from there to its end stands in a formula at its head: that number is
 * derived from the text, not measured, and it is what a counter has to show.
 *
 * A number beside an instruction or a macro is how many instructions retire
 * there after the stop. The SYSCALL that stops has retired before it.
 *
 * None of them uses the stack after its start, so threads may share one.
 */
#include <asm/unistd.h>

#define SIGSTOP		19

/* The decimal argument number \i, in %rax. For use before the stop. */
.macro NUMBER i
	mov	8+8*\i(%rsp), %rsi
	xor	%eax, %eax
1:	movzbl	(%rsi), %ecx
	sub	$'0', %ecx
	jc	2f
	imul	$10, %rax, %rax
	add	%rcx, %rax
	inc	%rsi
	jmp	1b
2:
.endm

/* kill(getpid(), SIGSTOP): nothing up to here is counted. */
.macro STOP
	mov	$__NR_getpid, %eax
	syscall
	mov	%eax, %edi
	mov	$SIGSTOP, %esi
	mov	$__NR_kill, %eax
	syscall
.endm

/* exit(0), of this thread alone: 3 */
.macro EXIT
	mov	$__NR_exit, %eax
	xor	%edi, %edi
	syscall
.endm

/* Another thread or process; %eax is 0 in it: 7 */
.macro CLONE flags
	mov	$__NR_clone, %eax
	mov	\flags, %edi
	mov	%rsp, %rsi
	xor	%edx, %edx
	xor	%r10d, %r10d
	xor	%r8d, %r8d
	syscall
.endm

/* A thread of this process: 7 */
#define CLONE_FLAGS	0x50f00	/* VM, FS, FILES, SIGHAND, THREAD, SYSVSEM */
.macro THREAD
	CLONE	$CLONE_FLAGS
.endm

/* wait4(-1): until a child has exited: 6 */
.macro WAIT
	mov	$__NR_wait4, %eax
	mov	$-1, %rdi
	xor	%esi, %esi
	xor	%edx, %edx
	xor	%r10d, %r10d
	syscall
.endm
