// SPDX-License-Identifier: GPL-2.0
/*
 * hammer PROCESSES OPERATIONS SEED: so many processes, each of which does so
 * many operations on the device, while programs that they start fork, exec and
 * die, counted. When it is done all targets have been removed.
 *
 * The operations are reads of all sorts, and each command. Each has to succeed,
 * or to be refused with the error that belongs to it. Each program that was
 * never paused or reset as it ran has to count what is at the head of its source.
 *
 * Prints how many operations it were, how many programs were counted, and how
 * many of them were compared with the truth.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include "device.h"

#define MOST	4	/* targets of a process at a time */

static const struct program {
	char *words[6];
	unsigned long long truth;
} programs[] = {
	{ { "known", "20000" }, 40003 },
	{ { "forks", "5000" }, 20018 },
	{ { "execs" }, 400012 },
	{ { "tree", "2", "2", "200" }, 2 * 200 + 28 + 10 + 2 * (2 * 200 + 28 + 14) + 4 * (2 * 200 + 12) },
	{ { "shorts", "5", "3" }, (28 * 3 + 4) * 5 + 3 },
	{ { "naps", "20", "100000" }, 2007 * 20 + 3 },
	{ { "chain", "3" }, 4 * 20003 + 11 * 3 + 3 },
};

static struct target {
	const struct program *program;
	unsigned long id;
	pid_t pid;		/* 0: this place is free */
	int going, spoilt;
} targets[MOST];

static struct { unsigned long operations, counted, compared; } *sums;
static int nonblocking;

static void read_all(void)
{
	ssize_t all = look(device);
	char *line;

	if (strncmp(text, "pmu_count 1 ", 12) || text[all - 1] != '\n')
		wrong("a read is not whole: %s", text);
	for (line = text; (line = strchr(line, '\n')) && line[1]; line++)
		if (strncmp(line + 1, "id=", 3))
			wrong("a line is not whole: %.100s", line + 1);
}

/* By pieces, and closed before its end. */
static void read_some(void)
{
	int fd = open("/dev/pmu_count", O_RDONLY | O_CLOEXEC), i, pieces = below(5);

	if (fd < 0)
		wrong("open: %s", strerrorname_np(errno));
	for (i = 0; i < pieces; i++)
		if (read(fd, text, 1 + below(200)) < 0)
			wrong("a read: %s", strerrorname_np(errno));
	if (!pieces && (read(fd, (void *)-4096L, 10) >= 0 || errno != EFAULT))
		wrong("a read to nowhere: %s", strerrorname_np(errno));
	close(fd);
	operations++;
}

static struct target *any(void)
{
	return targets + below(MOST);
}

static void begin(struct target *t)
{
	int status, null;

	t->program = programs + below(sizeof(programs) / sizeof(*programs));
	t->pid = fork();
	if (t->pid < 0)
		wrong("fork: %s", strerrorname_np(errno));
	if (!t->pid) {
		null = open("/dev/null", O_RDWR);
		dup2(null, 1);
		execvp(t->program->words[0], t->program->words);
		_exit(127);
	}
	if (waitpid(t->pid, &status, WUNTRACED) != t->pid || !WIFSTOPPED(status))
		wrong("%s has not stopped itself", t->program->words[0]);
	expect(command(device, "add pid=%d event=instructions:u,cycles:u", t->pid), 0, "add");
	look(device);
	t->going = t->spoilt = 0;
	t->id = id_of(t->pid);
}

static void go(struct target *t)
{
	kill(t->pid, SIGCONT);
	t->going = 1;
}

static void end(struct target *t)
{
	unsigned long long counts[2];
	char *line = text;
	int status, i;

	if (!t->going)
		go(t);
	if (waitpid(t->pid, &status, 0) != t->pid || status)
		wrong("%s has ended with %x", t->program->words[0], status);
	expect(command(device, "wait id=%lu", t->id), 0, "wait of an exited target");
	look(device);
	line = line_of(t->id);
	for (i = 0; i < 2; i++) {
		if (!line || !strstr(line, " state=exited "))
			wrong("target %lu has no line: %.200s", t->id, line ? line : text);
		counts[i] = strtoull(strstr(line, " count=") + 7, NULL, 10);
		line = strchr(line, '\n') + 1;
	}
	sums->counted++;
	if (!t->spoilt) {
		sums->compared++;
		if (counts[0] != t->program->truth || counts[1] != 2 * t->program->truth)
			wrong("%s has %llu instructions and %llu cycles instead of %llu and %llu", t->program->words[0],
			      counts[0], counts[1], t->program->truth, 2 * t->program->truth);
	} else if (counts[0] > t->program->truth || counts[1] > 2 * t->program->truth) {
		wrong("%s, paused or reset, has %llu instructions and %llu cycles", t->program->words[0], counts[0], counts[1]);
	}
	expect(command(device, "remove id=%lu", t->id), 0, "remove of an exited target");
	*t = (struct target) { 0 };
}

/* Gives a target up while it runs. */
static void abandon(struct target *t)
{
	expect(command(device, "remove id=%lu", t->id), 0, "remove");
	if (!t->going)
		go(t);
	if (waitpid(t->pid, NULL, 0) != t->pid)
		wrong("waitpid");
	*t = (struct target) { 0 };
}

static void pause_it(struct target *t)
{
	int got = command(device, "pause id=%lu", t->id);

	/* It may have exited. */
	if (got != ESRCH || !t->going)
		expect(got, 0, "pause");
	if (t->going)
		t->spoilt = 1;
	if (below(2))
		look(device);
	got = command(device, "resume pid=%d", t->pid);
	if (got != ESRCH || !t->going)
		expect(got, 0, "resume");
}

static void reset(struct target *t)
{
	expect(command(device, "reset id=%lu", t->id), 0, "reset");
	if (t->going)
		t->spoilt = 1;
}

/* Interrupted by a signal, unless it ends first. */
static void wait_for(struct target *t)
{
	struct itimerval soon = { { 0, 5000 }, { 0, 1 + below(3000) } }, never = { 0 };
	int got;

	if (below(2)) {
		got = command(nonblocking, "wait id=%lu", t->id);
		if (got && got != EAGAIN)
			expect(got, EAGAIN, "wait that must not");
		return;
	}
	setitimer(ITIMER_REAL, &soon, NULL);
	got = command(device, "wait id=%lu", t->id);
	setitimer(ITIMER_REAL, &never, NULL);
	if (got && got != EINTR)
		expect(got, EINTR, "wait");
	if (!got && !t->going)
		wrong("wait for one that has not begun returns");
}

static void refused(struct target *t)
{
	int got;

	switch (below(6)) {
	case 0:
		/* A process that is gone cannot be added. */
		got = command(device, "add pid=%d", t->pid);
		if (got != ESRCH || !t->going)
			expect(got, EEXIST, "add of what is counted");
		break;
	case 1:
		expect(command(device, "remove id=4000000000"), ENOENT, "remove of nothing");
		break;
	case 2:
		expect(command(device, "add pid=%d event=", getpid()), EINVAL, "an event without a name");
		break;
	case 3:
		expect(command(device, "add pid=4100000"), ESRCH, "add of nobody");
		break;
	case 4:
		expect(command(device, "reset id=%lu pid=%d", t->id, t->pid), EINVAL, "two names");
		break;
	case 5:
		expect(command(device, "add pid=%d event=cache-misses", getpid()), EOPNOTSUPP, "an event that is not counted");
		break;
	}
}

static void nothing(int signal)
{
	(void)signal;
}

static void work(unsigned long most)
{
	struct sigaction action = { .sa_handler = nothing };
	struct target *t;
	int i;

	sigaction(SIGALRM, &action, NULL);
	device = open("/dev/pmu_count", O_RDWR | O_CLOEXEC);
	nonblocking = open("/dev/pmu_count", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (device < 0 || nonblocking < 0)
		wrong("open: %s", strerrorname_np(errno));
	while (operations < most) {
		t = any();
		i = below(100);
		if (i < 30)
			read_all();
		else if (i < 45)
			read_some();
		else if (!t->pid)
			begin(t);
		else if (i < 60)
			refused(t);
		else if (i < 70)
			pause_it(t);
		else if (i < 75)
			reset(t);
		else if (i < 85)
			wait_for(t);
		else if (!t->going)
			go(t);
		else if (i < 97)
			end(t);
		else
			abandon(t);
	}
	for (t = targets; t < targets + MOST; t++)
		if (t->pid)
			end(t);
	__atomic_add_fetch(&sums->operations, operations, __ATOMIC_RELAXED);
	_exit(0);
}

int main(int argc, char **argv)
{
	int processes, status, failed = 0, i;
	pid_t *pids;

	if (argc != 4) {
		fprintf(stderr, "usage: hammer PROCESSES OPERATIONS SEED\n");
		return 2;
	}
	processes = atoi(argv[1]);
	pids = calloc(processes, sizeof(*pids));
	sums = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!pids || sums == MAP_FAILED)
		wrong("no memory");
	for (i = 0; i < processes; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			wrong("fork");
		if (!pids[i]) {
			seed(strtoull(argv[3], NULL, 0) + i);
			work(strtoul(argv[2], NULL, 10));
		}
	}
	for (i = 0; i < processes; i++) {
		if (waitpid(pids[i], &status, 0) != pids[i] || status)
			failed = 1;
	}
	if (failed)
		return 1;
	printf("%lu %lu %lu\n", sums->operations, sums->counted, sums->compared);
	return 0;
}
