// SPDX-License-Identifier: GPL-2.0
/*
 * move CPUS MICROSECONDS TASK...: binds each of the tasks to one of the CPUs 0
 * to CPUS - 1, and after each so many microseconds to the next, until all are
 * gone. What is late is made up for. CPUs that are offline are passed over.
 *
 * Prints how often it has moved one, and how many milliseconds that took.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
	long cpus, turn = 0, moved = 0;
	long long start = now(), next = start;
	struct timespec time;
	cpu_set_t cpu;
	int i, left;

	if (argc < 4) {
		fprintf(stderr, "usage: move CPUS MICROSECONDS TASK...\n");
		return 2;
	}
	cpus = atol(argv[1]);
	do {
		left = 0;
		for (i = 3; i < argc; i++) {
			CPU_ZERO(&cpu);
			CPU_SET((turn + i) % cpus, &cpu);
			if (!sched_setaffinity(atoi(argv[i]), sizeof(cpu), &cpu)) {
				moved++;
			} else if (errno == ESRCH) {
				continue;
			} else if (errno != EINVAL) {
				perror("sched_setaffinity");
				return 1;
			}
			left++;
		}
		turn++;
		next += atol(argv[2]) * 1000;
		time = (struct timespec) { next / 1000000000, next % 1000000000 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
	} while (left);
	printf("%ld %lld\n", moved, (now() - start) / 1000000);
	return 0;
}
