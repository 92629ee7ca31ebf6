/* SPDX-License-Identifier: GPL-2.0 */
/* io_uring for one operation at a time, as programs without a library for it use it. */
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Its result, when it is done. */
static int operate(struct io_uring_sqe operation)
{
	struct io_uring_cqe *cqes = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
	unsigned int mask = *field(params.sq_off.ring_mask), tail = *field(params.sq_off.tail), head;
	int result;

	sqes[tail & mask] = operation;
	field(params.sq_off.array)[tail & mask] = tail & mask;
	__atomic_store_n(field(params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1,
		    IORING_ENTER_GETEVENTS | (params.flags & IORING_SETUP_SQPOLL ? IORING_ENTER_SQ_WAKEUP : 0), NULL, 0) < 0)
		die("io_uring_enter");
	head = *field(params.cq_off.head);
	if (__atomic_load_n(field(params.cq_off.tail), __ATOMIC_ACQUIRE) == head)
		die("no completion");
	result = cqes[head & *field(params.cq_off.ring_mask)].res;
	__atomic_store_n(field(params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return result;
}
