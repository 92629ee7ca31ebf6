// SPDX-License-Identifier: GPL-2.0
/* rdmsr CPU MSR...: prints each MSR's value on this CPU, one a line. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char path[40];
	uint64_t value;
	int i, fd;

	if (argc < 3) {
		fprintf(stderr, "usage: rdmsr CPU MSR...\n");
		return 2;
	}
	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", atoi(argv[1]));
	fd = open(path, O_RDONLY);
	if (fd < 0) {
		perror(path);
		return 1;
	}
	for (i = 2; i < argc; i++) {
		if (pread(fd, &value, sizeof(value), strtoul(argv[i], NULL, 0)) == sizeof(value))
			printf("cpu %s msr %s: 0x%016" PRIx64 "\n", argv[1], argv[i], value);
		else
			printf("cpu %s msr %s: %s\n", argv[1], argv[i], strerror(errno));
	}
	return 0;
}
