// SPDX-License-Identifier: GPL-2.0
/*
 * reads: reads the device in all the ways that there are. Each has to give the
 * same text, so nothing may run meanwhile that is counted. Says what is wrong,
 * and else how long the text is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST	(1 << 20)

static char text[MOST], again[MOST];
static ssize_t length;

__attribute__((format(printf, 1, 2), noreturn))
static void wrong(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
	exit(1);
}

static int device(void)
{
	int fd = open("/dev/pmu_count", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		wrong("open: %s", strerrorname_np(errno));
	return fd;
}

/* What remains, in pieces of this size. */
static ssize_t rest(int fd, char *to, size_t size)
{
	ssize_t all = 0, piece;

	while ((piece = read(fd, to + all, size)) > 0) {
		if ((size_t)piece > size)
			wrong("a read of %zu gives %zd", size, piece);
		all += piece;
		if (all + size > MOST)
			wrong("reads of %zu have no end", size);
	}
	if (piece < 0)
		wrong("a read of %zu: %s", size, strerrorname_np(errno));
	if (read(fd, to + all, size))
		wrong("there is more behind the end");
	return all;
}

static void same(const char *how, const char *got, ssize_t size, ssize_t from)
{
	if (size != length - from || memcmp(got, text + from, size))
		wrong("%s gives %zd bytes that differ from these %zd:\n%.*s\n%.*s", how, size,
		      length - from, (int)size, got, (int)(length - from), text + from);
}

static void refused(const char *what, ssize_t result, int error)
{
	if (result >= 0)
		wrong("%s: %zd", what, result);
	if (errno != error)
		wrong("%s: %s", what, strerrorname_np(errno));
}

static void pieces(void)
{
	static const size_t sizes[] = { 1, 2, 3, 7, 61, 80, 511, 4096, 65536 };
	char how[40];
	size_t i;
	int fd;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		fd = device();
		snprintf(how, sizeof(how), "reading %zu by %zu", sizes[i], sizes[i]);
		same(how, again, rest(fd, again, sizes[i]), 0);
		close(fd);
	}
}

/* Each open file goes on by itself. */
static void apart(void)
{
	int one = device(), other = device();
	static char more[MOST];

	if (read(one, again, 5) != 5 || read(other, more, 9) != 9)
		wrong("the first line is short");
	same("one of two open files", again, 5 + rest(one, again + 5, 3), 0);
	same("the other", more, 9 + rest(other, more + 9, 11), 0);
	close(one);
	close(other);
}

static void offsets(void)
{
	int fd = device(), i;

	for (i = 0; i < 3; i++)
		same("pread at 0", again, pread(fd, again, MOST, 0), 0);
	same("pread at 4", again, pread(fd, again, MOST, 4), 4);
	if (pread(fd, again, MOST, length))
		wrong("pread at the end gives something");
	if (pread(fd, again, MOST, length + 4096L * 4096 * 4096))
		wrong("pread beyond the end gives something");
	refused("pread at -1", pread(fd, again, MOST, -1), EINVAL);
	/* None of them moves the file's own place. */
	same("reading after pread", again, rest(fd, again, 100), 0);
	refused("SEEK_SET", lseek(fd, 0, SEEK_SET), ESPIPE);
	refused("SEEK_CUR", lseek(fd, 0, SEEK_CUR), ESPIPE);
	refused("SEEK_CUR by 10", lseek(fd, 10, SEEK_CUR), ESPIPE);
	refused("SEEK_END", lseek(fd, 0, SEEK_END), ESPIPE);
	close(fd);
}

/* A bad address gives EFAULT, or what fits in front of it, and loses nothing. */
static void addresses(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *reading = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *bad[] = { NULL, (void *)0xffff888000000000, (void *)0x800000000000, (void *)-1, reading };
	int fd = device(), last;
	ssize_t got, all = 0;
	size_t i;

	if (page == MAP_FAILED || reading == MAP_FAILED || munmap(page + 4096, 4096))
		wrong("mmap");
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		refused("reading to a bad address", read(fd, bad[i], 20), EFAULT);
		got = read(fd, again + all, 7);
		if (got != 7)
			wrong("the first line is short");
		all += got;
		if (bad[i] != reading)
			refused("writing from a bad address", write(fd, bad[i], 20), EFAULT);
	}
	for (last = 0; last < 2; last++) {
		got = read(fd, page + 4096 - 5, 10);
		if (got < 0 && errno != EFAULT)
			wrong("reading across the end of memory: %s", strerrorname_np(errno));
		if (got > 5)
			wrong("reading across the end of memory: %zd", got);
		if (got > 0) {
			memcpy(again + all, page + 4096 - 5, got);
			all += got;
		}
	}
	same("reading after bad addresses", again, all + rest(fd, again + all, 50), 0);
	memcpy(page + 4096 - 7, "add pid", 7);
	refused("writing across the end of memory", write(fd, page + 4096 - 7, 9), EFAULT);
	close(fd);
}

static void vectors(void)
{
	struct iovec parts[] = { { again, 3 }, { again + 3, 0 }, { again + 3, 10 }, { again + 13, 1000 } };
	ssize_t got;
	int fd = device();

	got = readv(fd, parts, 4);
	if (got <= 0)
		wrong("readv: %s", strerrorname_np(errno));
	same("readv", again, got + rest(fd, again + got, 1000), 0);
	close(fd);
}

static void early(void)
{
	int i, fd;

	for (i = 0; i < 1000; i++) {
		fd = device();
		if (i % 4 && read(fd, again, i % 4 == 1 ? 1 : 30) < 0)
			wrong("read: %s", strerrorname_np(errno));
		close(fd);
	}
}

int main(void)
{
	int fd = device();

	length = read(fd, text, MOST);
	if (length <= 0)
		wrong("read: %s", strerrorname_np(errno));
	length += rest(fd, text + length, 4096);
	close(fd);
	pieces();
	apart();
	offsets();
	addresses();
	vectors();
	early();
	fd = device();
	same("reading at last", again, rest(fd, again, 4096), 0);
	printf("%zd\n", length);
	return 0;
}
