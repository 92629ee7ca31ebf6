// SPDX-License-Identifier: GPL-2.0
/*
 * rings work|poll|late OPERATIONS: reads as many megabytes by io_uring, so
 * that threads of the kernel's in this process do it: those of io-wq with
 * "work", and one that polls with "poll" and "late". With "late" that one is
 * made after the process has stopped itself, with "poll" before.
 */
#include <fcntl.h>
#include <signal.h>
#include "ring.h"

#define LENGTH	(1 << 20)

int main(int argc, char **argv)
{
	static char bytes[LENGTH];
	unsigned int flags;
	long operations;
	int file;

	if (argc != 3) {
		fprintf(stderr, "usage: rings work|poll|late OPERATIONS\n");
		return 2;
	}
	operations = atol(argv[2]);
	file = open("/bin/perf", O_RDONLY);
	if (file < 0)
		die("open");
	flags = *argv[1] == 'w' ? 0 : IORING_SETUP_SQPOLL;
	if (*argv[1] != 'l')
		set_up(flags);
	raise(SIGSTOP);
	if (*argv[1] == 'l')
		set_up(flags);

	while (operations--)
		if (operate((struct io_uring_sqe) {
			.opcode = IORING_OP_READ, .flags = flags ? 0 : IOSQE_ASYNC,
			.fd = file, .addr = (unsigned long)bytes, .len = LENGTH,
		    }) != LENGTH)
			die("a short read");
	_exit(0);
}
