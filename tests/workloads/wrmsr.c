// SPDX-License-Identifier: GPL-2.0
/* wrmsr CPU MSR VALUE: writes an MSR of this CPU, as tools that own a PMU without asking do. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char path[40];
	uint64_t value;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: wrmsr CPU MSR VALUE\n");
		return 2;
	}
	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", atoi(argv[1]));
	value = strtoull(argv[3], NULL, 0);
	fd = open(path, O_WRONLY);
	if (fd < 0 || pwrite(fd, &value, sizeof(value), strtoul(argv[2], NULL, 0)) != sizeof(value)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	return 0;
}
