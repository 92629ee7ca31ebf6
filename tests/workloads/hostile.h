/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What programs share that give the module input that it has to refuse: the
 * input, random numbers that come again with the seed, and what the log says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "random.h"

#define ROOM	(8 << 20)
#define PAGE	4096

static char input[ROOM];
static size_t length;
static long turn;
static int kmsg;

/* Ends with what is wrong, the input, and its number. */
__attribute__((format(printf, 1, 2), noreturn))
static void wrong(const char *format, ...)
{
	va_list list;
	size_t i;

	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf(": '");
	for (i = 0; i < length && i < 2000; i++)
		printf(input[i] >= ' ' && input[i] < 127 ? "%c" : "\\x%02x", (unsigned char)input[i]);
	printf("', %zu bytes, number %ld\n", length, turn);
	exit(1);
}

#define ONE_OF(list) ((list)[below(sizeof(list) / sizeof(*(list)))])

static void put(const char *bytes, size_t size)
{
	if (length + size > ROOM)
		abort();
	memcpy(input + length, bytes, size);
	length += size;
}

__attribute__((format(printf, 1, 2)))
static void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	length += vsnprintf(input + length, ROOM - length, format, list);
	va_end(list);
	if (length >= ROOM)
		abort();
}

/* The end of a page behind which nothing is mapped. */
static char *edge(void)
{
	static char *pages;

	if (!pages)
		pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE))
		abort();
	return pages + PAGE;
}

/* The file, which has to be there. */
static int opened(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static void open_log(void)
{
	kmsg = opened("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	if (lseek(kmsg, 0, SEEK_END) < 0)
		wrong("/dev/kmsg: %s", strerrorname_np(errno));
}

/* The next line of the log that begins with the module's name, without that; NULL if there is none. The kernel must not complain. */
static const char *next_line(void)
{
	static const char *const complaints[] = { "WARNING", "BUG", "Oops", "Call Trace", "general protection", "refcount_t", "panicked", "UBSAN" };
	static const char name[] = "pmu_count: ";
	static char record[10000];
	ssize_t size;
	unsigned int i;
	char *text;

	while ((size = read(kmsg, record, sizeof(record) - 1)) > 0) {
		record[size] = '\0';
		text = strchr(record, ';') + 1;
		text[strcspn(text, "\n")] = '\0';
		if (!strncmp(text, name, strlen(name)))
			return text + strlen(name);
		for (i = 0; i < sizeof(complaints) / sizeof(*complaints); i++)
			if (strstr(text, complaints[i]))
				wrong("the kernel complains, %s", text);
	}
	if (errno != EAGAIN)
		wrong("/dev/kmsg: %s", strerrorname_np(errno));
	return NULL;
}
