// SPDX-License-Identifier: GPL-2.0
/*
 * order [-n] [-i MS] [-o UID | -f FD] COMMAND...: gives the device a command,
 * and prints the name of the error that it returned, or "done".
 *
 * -n does not wait (O_NONBLOCK); -i lets a signal come after so many
 * milliseconds; -o opens the device as that user, but writes as who one is; -f
 * writes to what is open already.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(2);
}

/* It interrupts what waits, and else does nothing. */
static void interrupt(int signal)
{
	(void)signal;
}

static void interrupt_after(int ms)
{
	/* It comes again, should the first come too early. */
	struct itimerval timer = { { ms / 1000, ms % 1000 * 1000 }, { ms / 1000, ms % 1000 * 1000 } };
	struct sigaction action = { .sa_handler = interrupt };

	if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &timer, NULL))
		die("timer");
}

int main(int argc, char **argv)
{
	int option, flags = O_RDWR | O_CLOEXEC, fd = -1, ms = 0;
	static char command[8192];
	uid_t opener = 0;
	ssize_t length;

	while ((option = getopt(argc, argv, "+ni:o:f:")) != -1) {
		switch (option) {
		case 'n':
			flags |= O_NONBLOCK;
			break;
		case 'i':
			ms = atoi(optarg);
			break;
		case 'o':
			opener = atoi(optarg);
			break;
		case 'f':
			fd = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	for (; optind < argc; optind++) {
		if (strlen(command) + strlen(argv[optind]) + 2 > sizeof(command))
			return 2;
		if (*command)
			strcat(command, " ");
		strcat(command, argv[optind]);
	}

	if (opener && seteuid(opener))
		die("seteuid");
	if (fd < 0)
		fd = open("/dev/pmu_count", flags);
	if (fd < 0) {
		printf("%s at open\n", strerrorname_np(errno));
		return 1;
	}
	if (opener && seteuid(0))
		die("seteuid");
	if (ms)
		interrupt_after(ms);
	length = write(fd, command, strlen(command));
	if (length < 0) {
		printf("%s\n", strerrorname_np(errno));
		return 1;
	}
	if (length != (ssize_t)strlen(command)) {
		printf("%zd of %zu bytes\n", length, strlen(command));
		return 1;
	}
	printf("done\n");
	return 0;
}
