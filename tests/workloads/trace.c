// SPDX-License-Identifier: GPL-2.0
/*
 * trace step|calls|halt PID: traces a stopped process until it exits, and
 * prints how often it has stopped. "step" lets it stop at each instruction,
 * "calls" as it enters and leaves each system call, "halt" now and then.
 *
 * It stops itself as soon as the process is traced.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	int status, signal = 0, request;
	siginfo_t info;
	long stops = 0;
	pid_t pid;

	if (argc != 3) {
		fprintf(stderr, "usage: trace step|calls|halt PID\n");
		return 2;
	}
	pid = atoi(argv[2]);
	request = !strcmp(argv[1], "step") ? PTRACE_SINGLESTEP :
		  !strcmp(argv[1], "calls") ? PTRACE_SYSCALL : PTRACE_CONT;
	if (ptrace(PTRACE_ATTACH, pid, 0, 0))
		die("PTRACE_ATTACH");
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	raise(SIGSTOP);

	while (WIFSTOPPED(status)) {
		if (ptrace(request, pid, 0, signal))
			die("ptrace");
		/* Attached to a stopped process, ptrace first gives a stop of its own. */
		if (request == PTRACE_CONT && stops) {
			usleep(2000);
			/* It may have exited meanwhile. */
			if (kill(pid, SIGSTOP) && errno != ESRCH)
				die("kill");
		}
		if (waitpid(pid, &status, 0) != pid)
			die("waitpid");
		if (!WIFSTOPPED(status))
			break;
		stops++;
		/* What ptrace itself makes is not for the process, but INT3 is. */
		signal = WSTOPSIG(status);
		if (signal == SIGTRAP && !ptrace(PTRACE_GETSIGINFO, pid, 0, &info) && info.si_code == SI_KERNEL)
			continue;
		if (signal == SIGTRAP || signal == SIGSTOP || signal == SIGCONT)
			signal = 0;
	}
	printf("%ld\n", stops);
	return 0;
}
