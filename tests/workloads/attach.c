// SPDX-License-Identifier: GPL-2.0
/*
 * attach BEFORE AFTER PROGRAM ARGUMENTS...: runs a program with a counter on
 * it from its first instruction.
 *
 * The program stops itself at the point from which it is to be counted. Then
 * the shell command BEFORE runs, which attaches the counter; the program goes
 * on and ends, and the shell command AFTER runs. Both find the program's pid
 * in $PID. What BEFORE has left behind must end before attach does.
 *
 * Printed are, one a line: the pid; the wait status (0: exited with 0); the
 * number of times that the program was switched out; and each line about this
 * pid that stood in the kernel's log as soon as wait() could return.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Prints the new lines of the kernel's log that are about the process. */
static void print_log(int log, pid_t pid)
{
	char record[2048], key[40], *text;
	ssize_t length;

	snprintf(key, sizeof(key), ": pid %d (", (int)pid);
	for (;;) {
		length = read(log, record, sizeof(record) - 1);
		if (length < 0 && errno == EPIPE)
			continue;	/* records were lost: go on */
		if (length <= 0)
			return;
		record[length] = '\0';
		record[strcspn(record, "\n")] = '\0';
		text = strchr(record, ';');
		if (text && strstr(text, key))
			printf("line %s\n", text + 1);
	}
}

int main(int argc, char **argv)
{
	struct rusage usage;
	char number[20];
	int log, status;
	pid_t pid;

	if (argc < 4) {
		fprintf(stderr, "usage: attach BEFORE AFTER PROGRAM ARGUMENTS...\n");
		return 2;
	}
	log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (log < 0 || lseek(log, 0, SEEK_END) < 0)
		die("/dev/kmsg");
	/* What BEFORE starts in the background becomes a child of ours. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);

	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		execvp(argv[3], argv + 3);
		die(argv[3]);
	}
	if (waitpid(pid, &status, WUNTRACED) != pid)
		die("waitpid");
	if (!WIFSTOPPED(status)) {
		fprintf(stderr, "attach: %s did not stop itself\n", argv[3]);
		return 1;
	}
	snprintf(number, sizeof(number), "%d", (int)pid);
	setenv("PID", number, 1);
	if (system(argv[1])) {
		kill(pid, SIGKILL);
		fprintf(stderr, "attach: failed: %s\n", argv[1]);
		return 1;
	}

	kill(pid, SIGCONT);
	if (wait4(pid, &status, 0, &usage) != pid)
		die("wait4");
	printf("pid %d\nstatus %d\nswitches %ld\n", (int)pid, status,
	       usage.ru_nvcsw + usage.ru_nivcsw);
	print_log(log, pid);
	fflush(stdout);

	status = system(argv[2]);
	while (wait(NULL) > 0)
		;
	return status != 0;
}
