// SPDX-License-Identifier: GPL-2.0
/*
 * load MODULE PARAMETERS...: loads a module, and prints the name of the error
 * that the kernel returned, or "loaded". (busybox insmod has words of its own.)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char parameters[512] = "";
	int i, fd;

	if (argc < 2) {
		fprintf(stderr, "usage: load MODULE PARAMETERS...\n");
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
	if (syscall(SYS_finit_module, fd, parameters, 0)) {
		printf("%s\n", strerrorname_np(errno));
		return 1;
	}
	printf("loaded\n");
	return 0;
}
