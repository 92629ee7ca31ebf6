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
 * None of them keeps anything on the stack after its start, so threads may
 * share one.
 */
#include <asm/unistd.h>

#define SIGABRT		6
#define SIGUSR1		10
#define SIGSTOP		19

/* The decimal argument number \i, in \to, by way of %rax. For use before the stop. */
.macro NUMBER i, to=%rax
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
	.ifnc	\to, %rax
	mov	%rax, \to
	.endif
.endm

/* kill(getpid(), \signal): 6 */
.macro RAISE signal
	mov	$__NR_getpid, %eax
	syscall
	mov	%eax, %edi
	mov	$\signal, %esi
	mov	$__NR_kill, %eax
	syscall
.endm

/* The first time, nothing up to here is counted. */
.macro STOP
	RAISE	SIGSTOP
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
#define OWN_FILES	0x50b00	/* without FILES: its exit closes what it has */
.macro THREAD
	CLONE	$CLONE_FLAGS
.endm

/* Another process, which goes on at \child: 4, and 2 in it */
.macro FORK child
	mov	$__NR_fork, %eax
	syscall
	test	%eax, %eax
	jz	\child
.endm

/* This program again, with the arguments args: 5 */
.macro EXEC
	mov	$__NR_execve, %eax
	lea	self(%rip), %rdi
	lea	args(%rip), %rsi
	xor	%edx, %edx
	syscall
	ud2
.endm

/* nanosleep(2) for the time nap, so that others come as far as they can: 4 */
.macro NAP
	mov	$__NR_nanosleep, %eax
	lea	nap(%rip), %rdi
	xor	%esi, %esi
	syscall
.endm

/* A page to read and write, shared with processes made later; its address in %rax: 8 */
.macro SHARED_PAGE
	mov	$__NR_mmap, %eax
	xor	%edi, %edi
	mov	$4096, %esi
	mov	$3, %edx
	mov	$1, %r10d
	xor	%r8d, %r8d
	xor	%r9d, %r9d
	syscall
.endm

/* wait4(\who): until the child, or any, has exited, or what else options say: 6 */
.macro WAIT options=0, who=$-1
	mov	$__NR_wait4, %eax
	mov	\who, %rdi
	xor	%esi, %esi
	mov	$\options, %edx
	xor	%r10d, %r10d
	syscall
.endm

.macro PIPE ends
	mov	$__NR_pipe, %eax
	lea	\ends(%rip), %rdi
	syscall
.endm

/* read(2) or write(2) of one byte: 5 */
.macro BYTE call, end
	mov	$\call, %eax
	mov	\end(%rip), %edi
	lea	-8(%rsp), %rsi
	mov	$1, %edx
	syscall
.endm

/* write(2) of \count bytes, one for each who waits: 5 */
.macro BYTES end, count
	mov	$__NR_write, %eax
	mov	\end(%rip), %edi
	lea	bytes(%rip), %rsi
	mov	\count, %rdx
	syscall
.endm

/* The thread \who (0: this one) runs on the CPUs of the mask \where from now on: 5 */
.macro BIND who, where
	mov	$__NR_sched_setaffinity, %eax
	mov	\who, %edi
	mov	$8, %esi
	lea	\where(%rip), %rdx
	syscall
.endm

/* As many CPUs as the first argument says, for NEXT_CPU; mask is the first one. */
.macro CPUS
	NUMBER	1
	lea	-1(%rax), %ecx
	mov	$1, %ebp
	mov	%rbp, %r12
	shl	%cl, %r12
	add	%r12, %r12		/* the bit beyond the last, 0 behind the 64th */
	mov	%rbp, %r13
.endm

/* mask is the next of them, after the last the first: 4 */
.macro NEXT_CPU
	shl	%r13
	cmp	%r12, %r13
	cmove	%rbp, %r13
	mov	%r13, mask(%rip)
.endm

/* 3 */
.macro CLOSE end
	mov	$__NR_close, %eax
	mov	\end(%rip), %edi
	syscall
.endm

/* The struct kernel_sigaction \action is for \signal from now on. */
#define SA_SIGINFO	0x00000004
#define SA_RESTORER	0x04000000
.macro ACTION signal, action
	mov	$__NR_rt_sigaction, %eax
	mov	$\signal, %edi
	lea	\action(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
.endm
