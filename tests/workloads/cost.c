// SPDX-License-Identifier: GPL-2.0
/*
 * cost ROUNDS WHAT ARGUMENTS...: what a thing costs, by the time stamp counter,
 * which with QEMU's -icount shift=0 ticks once for each instruction. It stops
 * itself first. WHAT is
 *
 *   switch		a byte to another process, which has been made before the stop, and one back
 *   threads		the same with another thread, made after it
 *   crowd THREADS	as switch, with so many threads, made after the stop, all but one asleep
 *   fork		a child, and its exit (that of vfork(2): the copy of the pages costs something else each time)
 *   thread		a thread, and its exit
 *   loop		1000 instructions
 *   read FILE		all that is in a file
 *   event PID		a reading of perf's count of a process's cycles (0: of this one's)
 *   load MODULE WORDS	a module is loaded and unloaded
 *   open PID		perf counts a process, and no more
 *   add PID		the device counts a process, and no more
 *
 * In the last three what is spent waiting is left out.
 *
 * Printed are the number of rounds, the most frequent difference, how often it
 * was, the most frequent one of those that are more than that by 100, how often
 * that was, the median, and the least. Before the first round and after the last it reads
 * an MSR that nobody else reads.
 *
 * cost 0 hold PID PERIOD: has perf count a process's cycles, overflowing each PERIOD
 * of them, and then stops itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#define MARK 0x17
#define MOST 10000

static int there[2], back[2], file;
static uint64_t difference[MOST];
static volatile int awake;
static volatile uint64_t *spins;
static const char *argument, *words;
static pthread_attr_t small;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void check(int good, const char *what)
{
	if (!good)
		die(what);
}

/* --- The rounds --------------------------------------------------------------------------------------------------- */

static void toss(void)
{
	char byte = 0;

	check(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1, "pipe");
}

static void *answer(void *unused)
{
	char byte;

	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return unused;
}

static void *asleep(void *unused)
{
	awake++;
	for (;;)
		pause();
	return unused;
}

static void *nothing(void *unused)
{
	return unused;
}

static void make_child(void)
{
	pid_t child = vfork();

	if (!child)
		_exit(0);
	check(child > 0 && waitpid(child, NULL, 0) == child, "fork");
}

static void make_thread(void)
{
	pthread_t thread;

	check(!pthread_create(&thread, &small, nothing, NULL) && !pthread_join(thread, NULL), "thread");
}

static void loop(void)
{
	for (int i = 500; i; i--)
		asm volatile("");
}

static void read_file(void)
{
	static char text[65536];

	check(pread(file, text, sizeof(text), 0) > 0, argument);
}

static void read_event(void)
{
	uint64_t count;

	check(read(file, &count, sizeof(count)) == sizeof(count), "perf");
}

static void load(void)
{
	check(!syscall(SYS_finit_module, file, words, 0), "load");
	check(!syscall(SYS_delete_module, "pmu_count", O_NONBLOCK), "unload");
}

static int event(pid_t pid, uint64_t period)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.sample_period = period,
	};
	int fd = syscall(SYS_perf_event_open, &attr, pid, -1, -1, 0);

	check(fd >= 0, "perf_event_open");
	return fd;
}

static void open_event(void)
{
	close(event(atoi(argument), 0));
}

static void order(const char *verb)
{
	char text[64];
	int length = snprintf(text, sizeof(text), "%s pid=%s", verb, argument);

	check(write(file, text, length) == length, text);
}

static void add_target(void)
{
	order("add");
	order("remove");
}

/* --- What they are of --------------------------------------------------------------------------------------------- */

static void partner(void)
{
	pid_t child = fork();

	check(child >= 0, "fork");
	if (!child) {
		/* It ends with the first. */
		close(there[1]);
		answer(NULL);
		_exit(0);
	}
}

/* Runs while nobody else does, so that time that is spent waiting can be told from work: 2 instructions a turn. */
static void spin(void)
{
	struct sched_param last = { 0 };

	spins = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	check(spins != MAP_FAILED, "mmap");
	if (fork())
		return;
	check(!prctl(PR_SET_PDEATHSIG, SIGKILL) && !sched_setscheduler(0, SCHED_OTHER, &last), "spin");
	asm volatile("1: incq (%0)\n\tjmp 1b" : : "r"(spins) : "memory");
}

static uint64_t spent(void)
{
	return __rdtsc() - (spins ? 2 * *spins : 0);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Of those that are at least that much. The differences are sorted. */
static uint64_t most_frequent(int rounds, uint64_t least, int *times)
{
	uint64_t mode = 0;

	*times = 0;
	for (int i = 0, n; i < rounds; i += n) {
		for (n = 1; i + n < rounds && difference[i + n] == difference[i]; n++)
			;
		if (difference[i] >= least && n > *times) {
			mode = difference[i];
			*times = n;
		}
	}
	return mode;
}

static void mark(void)
{
	int msr = open("/dev/cpu/0/msr", O_RDONLY);
	uint64_t value;

	check(msr >= 0 && pread(msr, &value, sizeof(value), MARK) == sizeof(value), "msr");
	close(msr);
}

static void run(int rounds, void (*round)(void))
{
	uint64_t mode, other, before;
	int i, times, other_times;

	/* The scheduler has other ways while somebody else wants the CPU: the shell that has let it go on, say. */
	usleep(200000);
	/* What it does the first time is something else: pages, caches. */
	round();
	mark();
	for (i = 0; i < rounds; i++) {
		before = spent();
		round();
		difference[i] = spent() - before;
	}
	mark();
	qsort(difference, rounds, sizeof(*difference), compare);
	mode = most_frequent(rounds, 0, &times);
	other = most_frequent(rounds, mode + 100, &other_times);
	printf("%d\t%lu\t%d\t%lu\t%d\t%lu\t%lu\n", rounds, mode, times, other, other_times,
	       difference[rounds / 2], difference[0]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : -1, threads;
	struct sched_param first = { .sched_priority = 1 };
	const char *what = argv[2];
	pthread_t thread;
	cpu_set_t cpu;

	if (rounds < 0 || rounds > MOST)
		return 2;
	argument = argc > 3 ? argv[3] : "";
	words = argc > 4 ? argv[4] : "";
	if (!strcmp(what, "hold")) {
		event(atoi(argument), atoi(words));
		raise(SIGSTOP);
		return 0;
	}
	/* In fork() and at a page's first use there would be other differences. */
	memset(difference, 1, sizeof(difference));
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	check(!sched_setaffinity(0, sizeof(cpu), &cpu), "affinity");
	check(!sched_setscheduler(0, SCHED_FIFO, &first), "scheduler");
	check(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 16384), "attributes");
	check(!pipe(there) && !pipe(back), "pipe");
	if (!strcmp(what, "switch") || !strcmp(what, "crowd"))
		partner();
	if (!strcmp(what, "load") || !strcmp(what, "open") || !strcmp(what, "add"))
		spin();
	raise(SIGSTOP);

	if (!strcmp(what, "threads"))
		check(!pthread_create(&thread, &small, answer, NULL), "thread");
	if (!strcmp(what, "crowd")) {
		for (threads = atoi(argument); awake < threads - 1; ) {
			int before = awake;

			check(!pthread_create(&thread, &small, asleep, NULL), "thread");
			while (awake == before)
				sched_yield();
		}
	}
	if (!strcmp(what, "switch") || !strcmp(what, "threads") || !strcmp(what, "crowd")) {
		run(rounds, toss);
	} else if (!strcmp(what, "fork")) {
		run(rounds, make_child);
	} else if (!strcmp(what, "thread")) {
		run(rounds, make_thread);
	} else if (!strcmp(what, "loop")) {
		run(rounds, loop);
	} else if (!strcmp(what, "read")) {
		file = open(argument, O_RDONLY);
		check(file >= 0, argument);
		run(rounds, read_file);
	} else if (!strcmp(what, "event")) {
		file = event(atoi(argument), 0);
		run(rounds, read_event);
	} else if (!strcmp(what, "load")) {
		file = open(argument, O_RDONLY);
		check(file >= 0, argument);
		run(rounds, load);
	} else if (!strcmp(what, "open")) {
		run(rounds, open_event);
	} else if (!strcmp(what, "add")) {
		file = open("/dev/pmu_count", O_RDWR);
		check(file >= 0, "/dev/pmu_count");
		run(rounds, add_target);
	} else {
		return 2;
	}
	/* Threads and the other process end with it. */
	close(there[1]);
	exit(0);
}
