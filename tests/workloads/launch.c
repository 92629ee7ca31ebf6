// SPDX-License-Identifier: GPL-2.0
/*
 * launch PROGRAM ARGUMENTS...: runs a program that is the same in each run.
 *
 * Its addresses are not randomised and its environment is empty. It stops
 * itself first, so that a counter can be attached.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/personality.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char *nothing[] = { NULL };

	if (argc < 2) {
		fprintf(stderr, "usage: launch PROGRAM ARGUMENTS...\n");
		return 2;
	}
	if (personality(ADDR_NO_RANDOMIZE) < 0) {
		perror("launch: personality");
		return 1;
	}
	raise(SIGSTOP);
	execve(argv[1], argv + 1, nothing);
	perror(argv[1]);
	return 1;
}
