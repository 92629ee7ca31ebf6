// SPDX-License-Identifier: GPL-2.0
/*
 * death DEATHS SEED [MODULE PARAMETERS]: so many processes, each counted, and
 * each killed at random in what it does (doomed.S).
 *
 * They are targets of the device or, with the module's file, of a load of it
 * each, with these parameters. Each has to have one line when it can be waited
 * for, which says that it has exited, and has counted at least what it had done
 * before by what it has noted itself, and at most what it can have done.
 *
 * Printed is how many were killed in what, and how many of them had exited by
 * themselves; or, of the first that is wrong, its number and kind.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "device.h"

#define OWN	6	/* words of the target's threads; the next is its children's, then one's pid */
#define BEFORE	100	/* more than what comes before the first round */
#define BEHIND	8	/* and than what may be missing behind what was noted */
#define EXITS	20000

enum { COMPUTES, CALLS, SLEEPS, TOUCHES, THREADS, CLONES, FORKS, VFORKS, EXECS, EXITING, STOPPED, TRACED, KINDS };

static const struct {
	const char *name;
	unsigned int own, child;	/* instructions of a round, and of a child in it */
} kinds[KINDS] = {
	{ "user", 2 }, { "system call", 4 }, { "sleep", 6 }, { "page faults", 265 }, { "threads", 2 },
	{ "clone", 11, 207 }, { "fork", 12, 207 }, { "vfork", 6, 210 }, { "exec", 16 }, { "exit", 3 },
	{ "stopped" }, { "traced" },
};

static volatile uint64_t *words;
static unsigned long deaths[KINDS], finished, number;
static const char *module, *parameters;
static int shared, log_of_kernel, kind;

#define WRONG(format, ...)	wrong("death %lu, %s: " format, number, kinds[kind].name, ##__VA_ARGS__)

static uint64_t rounds(void)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < OWN; i++)
		sum += words[i];
	return sum;
}

/* A process that has stopped itself, and goes on with what \does says. */
static pid_t doom(int does)
{
	char argument[2] = { '0' + does };
	int status;
	pid_t pid;

	memset((void *)words, 0, 4096);
	pid = fork();
	if (pid < 0)
		wrong("fork: %s", strerrorname_np(errno));
	if (!pid) {
		setpgid(0, 0);
		dup2(shared, 0);
		execl("/bin/doomed", "doomed", argument, NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		WRONG("it has not stopped itself");
	return pid;
}

/* --- By a load of the module --- */

/* The next line of the kernel's log that is about the process, or NULL. */
static char *logged(pid_t pid)
{
	char key[40], *line;
	ssize_t length;

	snprintf(key, sizeof(key), ";pmu_count: pid %d (", pid);
	for (;;) {
		length = read(log_of_kernel, text, sizeof(text) - 1);
		if (length < 0 && errno == EPIPE)
			WRONG("lines of the log were lost");
		if (length <= 0)
			return NULL;
		text[length] = '\0';
		text[strcspn(text, "\n")] = '\0';
		line = strstr(text, key);
		if (line)
			return line + 1;
	}
}

static void load(pid_t pid, int inherit)
{
	int file = open(module, O_RDONLY | O_CLOEXEC);
	char words[200];

	snprintf(words, sizeof(words), "pid=%d event=0xc0 kernel=0 inherit=%d %s", pid, inherit, parameters);
	if (file < 0 || syscall(SYS_finit_module, file, words, 0))
		WRONG("%s %s: %s", module, words, strerrorname_np(errno));
	close(file);
}

static uint64_t unload(pid_t pid)
{
	char *line = logged(pid);
	uint64_t count;

	if (!line || sscanf(line, "pmu_count: pid %*d (doomed): %" SCNu64 " counts, 0 overflows, event 0x00c0:u", &count) != 1)
		WRONG("this is not its line: '%s'", line ? line : "");
	if (line[strlen(line) - 1] != 'u')
		WRONG("its line ends in more: '%s'", line);
	if (syscall(SYS_delete_module, "pmu_count", O_NONBLOCK))
		WRONG("rmmod: %s", strerrorname_np(errno));
	line = logged(pid);
	if (line)
		WRONG("one more line: '%s'", line);
	return count;
}

/* --- By the device --- */

static unsigned long add(pid_t pid, int inherit)
{
	expect(command(device, "add pid=%d event=instructions:u inherit=%d", pid, inherit), 0, "add");
	look(device);
	return id_of(pid);
}

static uint64_t take(unsigned long id)
{
	char *line, *end;

	look(device);
	line = line_of(id);
	if (!line)
		WRONG("target %lu has no line", id);
	end = strchr(line, '\n');
	if (line_of(id + 1) || end[1])
		WRONG("more lines than one: %s", line);
	*end = '\0';
	if (!strstr(line, " state=exited event=instructions:u ") || !strstr(line, " disturbed=none incomplete=none"))
		WRONG("its line: %s", line);
	expect(command(device, "wait id=%lu", id), 0, "wait");
	expect(command(device, "remove id=%lu", id), 0, "remove");
	return strtoull(strstr(line, " count=") + 7, NULL, 10);
}

/* --- Death --- */

/* Under ptrace(2): some single steps or system calls, and the death in a stop or just behind one. */
static void trace(pid_t pid, int does)
{
	static const int ways[] = { PTRACE_SINGLESTEP, PTRACE_SYSCALL, PTRACE_CONT };
	int steps = below(20), way = ways[below(3)], status;

	/* Who only computes comes to no system call. */
	if (does == COMPUTES || does == THREADS)
		way = PTRACE_SINGLESTEP;
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL))
		WRONG("ptrace: %s", strerrorname_np(errno));
	for (; ; steps--) {
		if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
			WRONG("it has not stopped for its tracer, but %x", status);
		if (steps <= 0 || way == PTRACE_CONT)
			break;
		ptrace(way, pid, NULL, NULL);
	}
	if (below(2))
		ptrace(way, pid, NULL, NULL);
}

/* Kills it, a while after it goes on. */
static void end(pid_t pid, int does)
{
	unsigned int wait = below(4) ? below(4000) : 0, least = EXITS / 20 * below(21);
	pid_t child;

	kill(pid, SIGCONT);
	if (kind == EXITING) {
		while (rounds() < least)
			;
	} else {
		usleep(wait);
	}
	if (kind == STOPPED) {
		kill(pid, SIGSTOP);
		usleep(below(200));
	}
	if (kind == TRACED)
		trace(pid, does);
	child = words[OWN + 1];
	/* The child that its parent waits for dies first. */
	if (does == VFORKS && child > 0 && below(2)) {
		kill(child, SIGKILL);
		usleep(below(100));
	}
}

static void die(void)
{
	uint64_t count, least, most, children;
	int does, inherit = below(2), status;
	unsigned long id = 0;
	pid_t pid;

	kind = below(KINDS);
	does = kind < STOPPED ? kind : below(EXITING);
	pid = doom(does);
	if (module)
		load(pid, inherit);
	else
		id = add(pid, inherit);
	end(pid, does);
	/* Children may outlive it, and are not counted then. */
	children = words[OWN];
	if (kill(pid, SIGKILL) || waitpid(pid, &status, __WALL) != pid)
		WRONG("it cannot be killed");
	if (WIFEXITED(status) && kind == EXITING)
		finished++;
	else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		WRONG("it has ended with %x", status);
	count = module ? unload(pid) : take(id);

	least = kinds[does].own * rounds();
	most = least + kinds[does].own + BEFORE;
	/* Its threads count in any case. */
	if (inherit || does == CLONES) {
		least += kinds[does].child * children;
		most += kinds[does].child * (rounds() + 1);
	}
	if (count + BEHIND < least || count > most)
		WRONG("%" PRIu64 " instructions, and not %" PRIu64 " to %" PRIu64, count, least, most);
	deaths[kind]++;
	/* Orphans are ours, and note in the same words what they do until they end. */
	while (waitpid(-pid, NULL, __WALL) > 0)
		;
}

int main(int argc, char **argv)
{
	unsigned long most;
	uint64_t first;
	pid_t keeper = 0;

	if (argc != 3 && argc != 5) {
		fprintf(stderr, "usage: death DEATHS SEED [MODULE PARAMETERS]\n");
		return 2;
	}
	most = strtoul(argv[1], NULL, 10);
	first = strtoull(argv[2], NULL, 0);
	module = argv[3];
	parameters = module ? argv[4] : NULL;
	shared = memfd_create("words", 0);
	if (shared < 0 || ftruncate(shared, 4096))
		wrong("memfd_create: %s", strerrorname_np(errno));
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	log_of_kernel = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (words == MAP_FAILED || log_of_kernel < 0 || lseek(log_of_kernel, 0, SEEK_END) < 0)
		wrong("no memory, or no log: %s", strerrorname_np(errno));
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!module) {
		device = open("/dev/pmu_count", O_RDWR | O_CLOEXEC);
		if (device < 0)
			wrong("open: %s", strerrorname_np(errno));
		/* One target that stays, so that the PMU is not given back at each death. */
		keeper = doom(COMPUTES);
		add(keeper, 0);
	}
	for (number = 1; number <= most; number++) {
		/* What is drawn in one does not hang on how the last has come out. */
		seed(first * 1000003 + number);
		die();
	}
	for (kind = 0; kind < KINDS; kind++)
		printf("%lu in %s%s", deaths[kind], kinds[kind].name, kind < KINDS - 1 ? ", " : "");
	printf("; %lu had exited\n", finished);
	if (!module) {
		kill(keeper, SIGKILL);
		waitpid(keeper, NULL, 0);
	}
	return 0;
}
