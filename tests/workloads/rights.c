// SPDX-License-Identifier: GPL-2.0
/*
 * rights [nobody]: tries to count, command or see by the device what one has no
 * right to, each trick by itself. Run as root, where /dev/pmu_count has the mode
 * 0666 and no target. /tmp/doomed has to be doomed, as a program that runs as root
 * (04755). With "nobody" users may not count what is their own either.
 *
 * Printed is a line for each trick that has not worked; or what has, and the end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "device.h"
#include "ring.h"

#define A	1000
#define B	2000
#define USER	"event=instructions:u"
#define KERNEL	"event=cycles:uk"

static const char *trick;
static int own_is_allowed = 1;
static int roots;	/* the device, opened by root */

#define IS(got, wanted)	is(got, wanted, #got)

static void is(long got, long wanted, const char *what)
{
	if (got != wanted)
		wrong("%s: %s is %ld (%s), and not %ld (%s)", trick, what, got, strerrorname_np(got), wanted, strerrorname_np(wanted));
}

/* --- Who --- */

/* The user's, with no capability but these. */
static void become(uid_t uid, unsigned int capabilities)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { capabilities, capabilities } };

	prctl(PR_SET_KEEPCAPS, 1);
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid) ||
	    syscall(SYS_capset, &header, data))
		wrong("becoming %u: %s", uid, strerrorname_np(errno));
	/* As it is for a program that this user has started. */
	prctl(PR_SET_DUMPABLE, 1);
}

/* Whether this is a child, a process of that user's; otherwise that has ended well. */
static int in(uid_t uid, unsigned int capabilities)
{
	pid_t pid = fork();
	int status;

	if (pid) {
		if (waitpid(pid, &status, 0) != pid || status)
			_exit(1);
		return 0;
	}
	become(uid, capabilities);
	return 1;
}

/* Another process of that user's, which only waits; its pid is \pid, if that is not 0. */
static pid_t another(uid_t uid, unsigned int capabilities, pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD,
		.set_tid = pid ? (uintptr_t)&pid : 0, .set_tid_size = !!pid };
	int ends[2];
	char byte;

	if (pipe(ends))
		wrong("pipe");
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		wrong("clone3: %s", strerrorname_np(errno));
	if (!pid) {
		become(uid, capabilities);
		write(ends[1], "", 1);
		for (;;)
			pause();
	}
	if (read(ends[0], &byte, 1) != 1)
		wrong("another process has not come up");
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int opened(void)
{
	int fd = open("/dev/pmu_count", O_RDWR);

	if (fd < 0)
		wrong("%s: open: %s", trick, strerrorname_np(errno));
	return fd;
}

/* The device as a user without rights has opened it, got from him. */
static int opened_by(uid_t uid)
{
	int ends[2], fd, pidfd, got;
	pid_t pid;

	if (pipe(ends))
		wrong("pipe");
	pid = fork();
	if (!pid) {
		become(uid, 0);
		fd = opened();
		write(ends[1], &fd, sizeof(fd));
		for (;;)
			pause();
	}
	if (read(ends[0], &fd, sizeof(fd)) != sizeof(fd))
		wrong("%s: %u has not opened the device", trick, uid);
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	got = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	if (got < 0)
		wrong("pidfd_getfd: %s", strerrorname_np(errno));
	close(pidfd);
	close(ends[0]);
	close(ends[1]);
	end(pid);
	return got;
}

/* How many targets it shows. */
static int seen(int fd)
{
	char *line = text;
	int lines = 0;

	look(fd);
	while ((line = strchr(line, '\n')) && *++line)
		lines++;
	return lines;
}

/* --- Tricks --- */

/* Of a process of root's, of another user's, and of one's own. */
static pid_t of_root, of_b, of_a;

static void nothing_but_user_mode_of(int fd, pid_t own)
{
	IS(command(fd, "add pid=%d " USER, of_root), EPERM);
	IS(command(fd, "add pid=%d " USER, of_b), EPERM);
	IS(command(fd, "add pid=2 " USER), EPERM);
	IS(command(fd, "add pid=%d " KERNEL, own), EPERM);
	IS(command(fd, "remove id=1"), ENOENT);
	IS(command(fd, "pause pid=%d", of_root), ENOENT);
	IS(seen(fd), 0);
}

static void nothing_by(int fd, pid_t own)
{
	nothing_but_user_mode_of(fd, own);
	IS(command(fd, "add pid=%d " USER, own), EPERM);
}

static void no_trick(void)
{
	IS(command(roots, "add pid=%d " KERNEL, of_a), 0);
	IS(command(roots, "remove pid=%d", of_a), 0);
	if (in(A, 0)) {
		int fd = opened();

		nothing_but_user_mode_of(fd, of_a);
		if (!own_is_allowed) {
			nothing_by(fd, of_a);
			_exit(0);
		}
		IS(command(fd, "add pid=%d " USER, of_a), 0);
		IS(seen(fd), 1);
		IS(command(fd, "remove pid=%d", of_a), 0);
		_exit(0);
	}
	/* The capability for it is enough. */
	if (own_is_allowed && in(A, 1 << CAP_SYS_PTRACE)) {
		int fd = opened();

		IS(command(fd, "add pid=%d " USER, of_b), 0);
		IS(command(fd, "remove pid=%d", of_b), 0);
		_exit(0);
	}
}

static void given_by_root(void)
{
	if (in(A, 0)) {
		nothing_by(roots, of_a);
		_exit(0);
	}
}

static void taken_by_root(void)
{
	int fd = opened_by(A);

	nothing_by(fd, of_a);
	if (in(B, 0)) {
		nothing_by(fd, of_b);
		_exit(0);
	}
	close(fd);
}

static void gained_capabilities(void)
{
	int fd = opened_by(A);

	if (in(A, 1 << CAP_SYS_PTRACE)) {
		nothing_by(fd, of_a);
		_exit(0);
	}
	if (in(A, 1 << CAP_SYS_ADMIN)) {
		nothing_by(fd, of_a);
		_exit(0);
	}
	close(fd);
}

static void other_group(void)
{
	int fd = opened_by(A);
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (setgroups(0, NULL) || setresgid(A, B, B) || setresuid(A, A, A))
			wrong("setresgid");
		nothing_by(fd, getpid());
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		_exit(1);
	close(fd);
}

static void root_without_capabilities(void)
{
	if (in(0, 0)) {
		int fd = opened();

		nothing_but_user_mode_of(fd, getpid());
		IS(seen(roots), 0);
		_exit(0);
	}
}

static void own_user_namespace(void)
{
	if (in(A, 0)) {
		int before = opened(), map, fd;

		if (unshare(CLONE_NEWUSER))
			wrong("unshare: %s", strerrorname_np(errno));
		map = open("/proc/self/uid_map", O_WRONLY);
		if (write(map, "0 1000 1", 8) != 8 || setresuid(0, 0, 0))
			wrong("uid_map: %s", strerrorname_np(errno));
		prctl(PR_SET_DUMPABLE, 1);
		fd = opened();
		nothing_but_user_mode_of(fd, getpid());
		nothing_by(before, getpid());
		/* But what is his own. */
		IS(command(fd, "add pid=%d " USER, getpid()), own_is_allowed ? 0 : EPERM);
		IS(command(fd, "remove pid=%d", getpid()), own_is_allowed ? 0 : ENOENT);
		_exit(0);
	}
}

static void rest_of_roots_snapshot(void)
{
	char byte;

	IS(pread(roots, &byte, 1, 0), 1);
	if (in(A, 0)) {
		IS(pread(roots, &byte, 1, 1), -1);
		IS(errno, EPERM);
		IS(lseek(roots, 1, SEEK_SET) < 0, 1);
		IS(seen(roots), 0);
		_exit(0);
	}
	IS(pread(roots, &byte, 1, 1), -1);
	IS(seen(roots), 1);
}

static void by_proc(void)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", roots);
	if (in(A, 0)) {
		int fd = open(path, O_RDWR);

		IS(fd >= 0, 1);
		nothing_but_user_mode_of(fd, of_a);
		_exit(0);
	}
	chmod("/dev/pmu_count", 0600);
	if (in(A, 0)) {
		IS(open(path, O_RDWR), -1);
		IS(errno, EACCES);
		_exit(0);
	}
	chmod("/dev/pmu_count", 0666);
}

static void not_dumpable(void)
{
	pid_t pid = fork();

	if (!pid) {
		become(A, 0);
		prctl(PR_SET_DUMPABLE, 0);
		for (;;)
			pause();
	}
	usleep(20000);
	if (in(A, 0)) {
		IS(command(opened(), "add pid=%d " USER, pid), EPERM);
		_exit(0);
	}
	end(pid);
}

/* Who may change his user later is nobody's to count who may not. */
static void may_change_its_user(void)
{
	pid_t pid = another(A, 1 << CAP_SETUID, 0);

	if (in(A, 0)) {
		IS(command(opened(), "add pid=%d " USER, pid), EPERM);
		_exit(0);
	}
	end(pid);
}

static pid_t tid;

static void *thread(void *unused)
{
	__atomic_store_n(&tid, gettid(), __ATOMIC_RELEASE);
	for (;;)
		pause();
	return unused;
}

static void thread_of_another(void)
{
	pthread_t new;
	pid_t its;

	if (pthread_create(&new, NULL, thread, NULL))
		wrong("pthread_create");
	while (!(its = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)))
		usleep(1000);
	if (in(A, 0)) {
		int fd = opened();

		IS(command(fd, "add pid=%d " USER, its), EPERM);
		IS(command(fd, "add pid=%d thread=1 " USER, its), EPERM);
		_exit(0);
	}
	pthread_cancel(new);
}

/* Of a pid that is another's by now there is what was counted of the one who had it. */
static void reused_pid(void)
{
	pid_t pid = another(A, 0, 0);
	char before[400];

	if (in(A, 0)) {
		IS(command(opened(), "add pid=%d " USER, pid), 0);
		_exit(0);
	}
	end(pid);
	if (in(A, 0)) {
		int fd = opened();

		IS(command(fd, "wait pid=%d", pid), 0);
		IS(seen(fd), 1);
		_exit(0);
	}
	look(roots);
	strcpy(before, line_of(id_of(pid)));
	IS(another(B, 0, pid), pid);
	if (in(A, 0)) {
		int fd = opened();

		IS(command(fd, "add pid=%d " USER, pid), EPERM);
		IS(command(fd, "resume pid=%d", pid), ESRCH);
		IS(command(fd, "pause pid=%d", pid), ESRCH);
		IS(command(fd, "wait pid=%d", pid), 0);
		IS(seen(fd), 1);
		if (strcmp(line_of(id_of(pid)), before))
			wrong("%s: the line is another: %s", trick, text);
		IS(command(fd, "remove pid=%d", pid), 0);
		IS(command(fd, "remove pid=%d", pid), ENOENT);
		_exit(0);
	}
	end(pid);
}

static void written(int fd, int personality, const char *words, int wanted)
{
	is(-operate((struct io_uring_sqe) {
		.opcode = IORING_OP_WRITE, .fd = fd, .personality = personality, .off = -1,
		.addr = (uintptr_t)words, .len = strlen(words),
	}), wanted ? wanted : -(long)strlen(words), words);
}

/* With the rights of who asks for the operation, whoever has made the ring. */
static void io_uring(void)
{
	int fd = opened_by(A), root, user, got;
	char kernel[100], bytes[4096];

	snprintf(kernel, sizeof(kernel), "add pid=%d " KERNEL, of_a);
	set_up(0);
	root = syscall(SYS_io_uring_register, ring, IORING_REGISTER_PERSONALITY, NULL, 0);
	if (setresgid(-1, A, -1) || setresuid(-1, A, -1))
		wrong("setresuid");
	user = syscall(SYS_io_uring_register, ring, IORING_REGISTER_PERSONALITY, NULL, 0);
	written(roots, 0, kernel, EPERM);
	if (setresuid(-1, 0, -1) || setresgid(-1, 0, -1) || root < 0 || user < 0)
		wrong("setresuid, or a personality");
	written(roots, user, kernel, EPERM);
	written(fd, 0, kernel, EPERM);
	written(fd, root, kernel, EPERM);
	written(fd, root, "remove id=1", ENOENT);
	got = operate((struct io_uring_sqe) {
		.opcode = IORING_OP_READ, .fd = roots, .personality = user, .addr = (uintptr_t)bytes, .len = sizeof(bytes),
	});
	is(got > 0 && memchr(bytes, '\n', got) == bytes + got - 1, 1, "no line in a read as the user");
	/* That was not because nothing works. */
	written(roots, root, kernel, 0);
	IS(command(roots, "remove pid=%d", of_a), 0);
	close(fd);
	close(ring);
}

/* There is no other way in or out than read and write. */
static void other_calls(void)
{
	static const char words[] = "remove id=1";
	struct pollfd poll_it = { roots, POLLIN | POLLOUT };
	int ends[2], file = open("/tmp/file", O_RDWR | O_CREAT | O_TRUNC, 0600), before;

	if (pipe(ends) || write(ends[1], words, sizeof(words) - 1) < 0 || write(file, words, sizeof(words) - 1) < 0)
		wrong("pipe");
	lseek(file, 0, SEEK_SET);
	if (in(A, 0)) {
		IS(sendfile(ends[1], roots, NULL, 100), -1);
		IS(errno, EINVAL);
		IS(sendfile(roots, file, NULL, 11), -1);
		IS(errno, EINVAL);
		IS(splice(roots, NULL, ends[1], NULL, 100, 0), -1);
		IS(errno, EINVAL);
		IS(splice(ends[0], NULL, roots, NULL, 11, 0), -1);
		IS(errno, EINVAL);
		IS(copy_file_range(file, NULL, roots, NULL, 11, 0), -1);
		IS(errno, EINVAL);
		IS(mmap(NULL, 4096, PROT_READ, MAP_SHARED, roots, 0) == MAP_FAILED, 1);
		IS(errno, ENODEV);
		IS(ioctl(roots, 0), -1);
		IS(errno, ENOTTY);
		IS(ftruncate(roots, 0), -1);
		IS(fallocate(roots, 0, 0, 1), -1);
		before = poll(&poll_it, 1, 0);
		IS(before, 1);
		IS(poll_it.revents, POLLIN | POLLOUT);
		_exit(0);
	}
	unlink("/tmp/file");
	close(file);
	close(ends[0]);
	close(ends[1]);
}

/* Nobody keeps others out by what he may have himself. */
static void all_of_the_targets(void)
{
	pid_t own[17];
	int i;

	for (i = 0; i < 17; i++)
		own[i] = another(A, 0, 0);
	if (in(A, 0)) {
		int fd = opened();

		for (i = 0; i < 16; i++)
			IS(command(fd, "add pid=%d " USER, own[i]), 0);
		IS(command(fd, "add pid=%d " USER, own[i]), ENOSPC);
		IS(seen(fd), 16);
		_exit(0);
	}
	if (in(B, 0)) {
		int fd = opened();

		IS(command(fd, "add pid=%d " USER, of_b), 0);
		IS(seen(fd), 1);
		IS(command(fd, "remove pid=%d", of_b), 0);
		_exit(0);
	}
	IS(command(roots, "add pid=%d " USER, own[16]), 0);
	for (i = 0; i < 17; i++) {
		IS(command(roots, "remove pid=%d", own[i]), 0);
		end(own[i]);
	}
}

static void small_n(void)
{
	if (in(A, 0)) {
		int fd = opened();

		IS(command(fd, "add pid=%d n=2 " USER, of_a), EPERM);
		IS(command(fd, "add pid=%d n=99999 event=branches:u", of_a), EPERM);
		IS(command(fd, "add pid=%d n=100000 event=branches:u", of_a), 0);
		IS(command(fd, "remove pid=%d", of_a), 0);
		_exit(0);
	}
	IS(command(roots, "add pid=%d n=2 event=branches:u", of_a), 0);
	IS(command(roots, "remove pid=%d", of_a), 0);
}

/* What an errno tells of a process is what kill(2) tells as well; and of a target nothing. */
static void errors_that_tell(void)
{
	if (in(A, 0)) {
		int fd = opened();

		IS(kill(of_b, 0), -1);
		IS(errno, EPERM);
		IS(command(fd, "add pid=%d " USER, of_b), EPERM);
		IS(kill(4100000, 0), -1);
		IS(errno, ESRCH);
		IS(command(fd, "add pid=4100000 " USER), ESRCH);
		IS(command(fd, "remove id=1"), command(fd, "remove id=1000000"));
		IS(command(fd, "remove pid=%d", of_root), command(fd, "remove pid=4100000"));
		_exit(0);
	}
}

/* A process that becomes root by an exec, just as it is added: none of what it does then is counted. */
static void exec_while_added(void)
{
	volatile uint64_t *words;
	int shared = memfd_create("words", 0), i, got, counted = 0, delay, status;
	unsigned long long count;
	pid_t pid, adder;
	char *line;

	ftruncate(shared, 4096);
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	for (i = 0; i < 100; i++) {
		words[0] = words[6] = 0;
		delay = below(2000);
		pid = fork();
		if (!pid) {
			become(A, 0);
			dup2(shared, 0);
			while (!words[6])
				;
			execl("/tmp/doomed", "doomed", "0", NULL);
			_exit(127);
		}
		adder = fork();
		if (!adder) {
			become(A, 0);
			device = opened();
			words[6] = 1;
			usleep(delay);
			got = command(device, "add pid=%d " USER, pid);
			if (got && got != EPERM)
				IS(got, EPERM);
			_exit(!got);
		}
		waitpid(adder, &status, 0);
		if (waitpid(pid, NULL, WUNTRACED) != pid || !WIFEXITED(status))
			_exit(1);
		kill(pid, SIGCONT);
		while (words[0] < 100000)
			;
		end(pid);
		if (WEXITSTATUS(status)) {
			look(roots);
			line = line_of(id_of(pid));
			count = strtoull(strstr(line, " count=") + 7, NULL, 10);
			if (count >= 100000)
				wrong("%s: %llu were counted of a program that runs as root", trick, count);
			IS(command(roots, "remove pid=%d", pid), 0);
			counted++;
		}
	}
	printf("(added before the exec: %d of 100)\n", counted);
	close(shared);
}

/* Those with what is one's own go with users who may count that. */
static const struct { const char *name; void (*try)(void); int with_own; } tricks[] = {
	{ "none", no_trick },
	{ "a file that root has opened", given_by_root },
	{ "a file that a user has opened, written by root", taken_by_root },
	{ "a file that a user has opened, written by who has gained capabilities", gained_capabilities },
	{ "a file that a user has opened, written by who is of another group", other_group },
	{ "the uid 0 without capabilities", root_without_capabilities },
	{ "all capabilities in a user namespace", own_user_namespace },
	{ "the rest of a snapshot of root's", rest_of_roots_snapshot },
	{ "a file opened anew by /proc/self/fd", by_proc },
	{ "a process that is not dumpable", not_dumpable },
	{ "a process that may change its user", may_change_its_user },
	{ "a thread of another's process", thread_of_another },
	{ "a pid that is another's by now", reused_pid, 1 },
	{ "io_uring with other credentials", io_uring },
	{ "sendfile, splice, copy_file_range, mmap, ioctl, poll", other_calls },
	{ "all targets of the machine", all_of_the_targets, 1 },
	{ "an interrupt each few events", small_n, 1 },
	{ "what errors tell", errors_that_tell },
	{ "an exec as root while it is added", exec_while_added, 1 },
};

int main(int argc, char **argv)
{
	unsigned int i;

	if (argc > 2 || (argc == 2 && strcmp(argv[1], "nobody"))) {
		fprintf(stderr, "usage: rights [nobody]\n");
		return 2;
	}
	own_is_allowed = argc == 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	seed(1);
	trick = "start";
	roots = opened();
	of_root = another(0, ~0u, 0);
	of_b = another(B, 0, 0);
	of_a = another(A, 0, 0);
	/* What nobody else may see or command. */
	IS(command(roots, "add pid=%d event=instructions:u", of_root), 0);
	for (i = 0; i < sizeof(tricks) / sizeof(*tricks); i++) {
		if (tricks[i].with_own && !own_is_allowed)
			continue;
		trick = tricks[i].name;
		tricks[i].try();
		IS(seen(roots), 1);
		printf("%s\n", trick);
	}
	IS(command(roots, "remove pid=%d", of_root), 0);
	end(of_root);
	end(of_b);
	end(of_a);
	return 0;
}
