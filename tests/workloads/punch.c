// SPDX-License-Identifier: GPL-2.0
/*
 * punch FILE MEGABYTES: fills a file in tmpfs, stops itself, and then punches a
 * hole as large as the file. Until that is done, a fault on a mapping of the
 * file waits. It works at the lowest priority, so that neighbours can hold it
 * up.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	off_t length;
	struct sched_param none = { 0 };
	int file;

	if (argc != 3) {
		fprintf(stderr, "usage: punch FILE MEGABYTES\n");
		return 2;
	}
	length = atol(argv[2]) << 20;
	file = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || fallocate(file, 0, 0, length)) {
		perror(argv[1]);
		return 1;
	}
	if (sched_setscheduler(0, SCHED_IDLE, &none)) {
		perror("SCHED_IDLE");
		return 1;
	}
	raise(SIGSTOP);
	if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, length)) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
