// SPDX-License-Identifier: GPL-2.0
/*
 * rings work|poll|late OPERATIONS: reads as many megabytes by io_uring, so
 * that threads of the kernel's in this process do it: those of io-wq with
 * "work", and one that polls with "poll" and "late". With "late" that one is
 * made after the process has stopped itself, with "poll" before.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH	(1 << 20)
#define ENTRIES	4

static struct io_uring_params params;
static struct io_uring_sqe *sqes;
static char *rings;
static int ring;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void set_up(unsigned int flags)
{
	params.flags = flags;
	params.sq_thread_idle = 1;
	ring = syscall(SYS_io_uring_setup, ENTRIES, &params);
	if (ring < 0)
		die("io_uring_setup");
	rings = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	sqes = mmap(NULL, ENTRIES * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	if (rings == MAP_FAILED || sqes == MAP_FAILED)
		die("mmap");
}

static unsigned int *field(unsigned int offset)
{
	return (unsigned int *)(rings + offset);
}

int main(int argc, char **argv)
{
	static char bytes[LENGTH];
	struct io_uring_cqe *cqes;
	unsigned int mask, tail, head, flags;
	long operations;
	int file;

	if (argc != 3) {
		fprintf(stderr, "usage: rings work|poll|late OPERATIONS\n");
		return 2;
	}
	operations = atol(argv[2]);
	file = open("/bin/perf", O_RDONLY);
	if (file < 0)
		die("open");
	flags = *argv[1] == 'w' ? 0 : IORING_SETUP_SQPOLL;
	if (*argv[1] != 'l')
		set_up(flags);
	raise(SIGSTOP);
	if (*argv[1] == 'l')
		set_up(flags);

	mask = *field(params.sq_off.ring_mask);
	cqes = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
	while (operations--) {
		tail = *field(params.sq_off.tail);
		sqes[tail & mask] = (struct io_uring_sqe) {
			.opcode = IORING_OP_READ, .flags = flags ? 0 : IOSQE_ASYNC,
			.fd = file, .addr = (unsigned long)bytes, .len = LENGTH,
		};
		field(params.sq_off.array)[tail & mask] = tail & mask;
		__atomic_store_n(field(params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
		if (syscall(SYS_io_uring_enter, ring, 1, 1,
			    IORING_ENTER_GETEVENTS | (flags ? IORING_ENTER_SQ_WAKEUP : 0), NULL, 0) < 0)
			die("io_uring_enter");
		head = *field(params.cq_off.head);
		if (__atomic_load_n(field(params.cq_off.tail), __ATOMIC_ACQUIRE) == head)
			die("no completion");
		if (cqes[head & *field(params.cq_off.ring_mask)].res != LENGTH)
			die("a short read");
		__atomic_store_n(field(params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	}
	_exit(0);
}
