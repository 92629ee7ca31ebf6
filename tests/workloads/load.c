// SPDX-License-Identifier: GPL-2.0
/*
 * load [-f NTH] MODULE PARAMETERS...: loads a module, and prints the name of the
 * error that the kernel returned, or "loaded". (busybox insmod has words of its
 * own.)
 *
 * -f has the NTH allocation fail, in a kernel that can have that, and prints to
 * stderr how many were left until then: "0 allocation" if it has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char parameters[512] = "", left[16] = "";
	int i, fd, faults = -1, error;

	if (argc > 3 && !strcmp(argv[1], "-f")) {
		faults = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
		if (faults < 0) {
			perror("/proc/self/fail-nth");
			return 2;
		}
		strncat(left, argv[2], sizeof(left) - 1);
		argv += 2;
		argc -= 2;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: load [-f NTH] MODULE PARAMETERS...\n");
		return 2;
	}
	for (i = 2; i < argc; i++) {
		if (strlen(parameters) + strlen(argv[i]) + 2 > sizeof(parameters))
			return 2;
		strcat(strcat(parameters, argv[i]), " ");
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		perror(argv[1]);
		return 2;
	}
	if (*left && write(faults, left, strlen(left)) < 0) {
		perror("/proc/self/fail-nth");
		return 2;
	}
	error = syscall(SYS_finit_module, fd, parameters, 0) ? errno : 0;
	if (*left) {
		memset(left, 0, sizeof(left));
		if (pread(faults, left, sizeof(left) - 1, 0) < 1 || write(faults, "0", 1) != 1)
			return 2;
		fprintf(stderr, "%d allocation\n", atoi(left));
	}
	if (error) {
		printf("%s\n", strerrorname_np(error));
		return 1;
	}
	printf("loaded\n");
	return 0;
}
