/* SPDX-License-Identifier: GPL-2.0 */
/* What those programs share that use the device at random, and know what it has to say. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "random.h"

static int device;
static unsigned long operations;	/* on it, so far */
static char text[1 << 18];

/* Each number has a sequence of its own. */
static inline void seed(uint64_t number)
{
	state = number * 0x9e3779b97f4a7c15 | 1;
}

__attribute__((format(printf, 1, 2), noreturn))
static inline void wrong(const char *format, ...)
{
	char line[600];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	printf("%s\n", line);
	fflush(stdout);
	_exit(1);
}

/* The errno of a command, or 0. */
__attribute__((format(printf, 2, 3)))
static inline int command(int fd, const char *format, ...)
{
	char words[200];
	va_list list;
	ssize_t done;

	va_start(list, format);
	vsnprintf(words, sizeof(words), format, list);
	va_end(list);
	operations++;
	done = write(fd, words, strlen(words));
	if (done >= 0 && done != (ssize_t)strlen(words))
		wrong("'%s' gives %zd", words, done);
	return done < 0 ? errno : 0;
}

static inline void expect(int got, int wanted, const char *what)
{
	if (got != wanted)
		wrong("%s: %s instead of %s", what, got ? strerrorname_np(got) : "done", wanted ? strerrorname_np(wanted) : "done");
}

/* All that the device says, in \text. */
static inline ssize_t look(int fd)
{
	ssize_t all = 0, piece;

	while ((piece = pread(fd, text + all, sizeof(text) - 1 - all, all)) > 0)
		all += piece;
	if (piece < 0)
		wrong("a read: %s", strerrorname_np(errno));
	text[all] = '\0';
	operations++;
	return all;
}

/* The id of the target of this pid in what has been read: as ids grow, of several that have had it the last. */
static inline unsigned long id_of(int pid)
{
	unsigned long id, found = 0;
	char *line = text;
	int its;

	while ((line = strchr(line, '\n')) && line[1])
		if (sscanf(++line, "id=%lu pid=%d ", &id, &its) == 2 && its == pid)
			found = id;
	if (!found)
		wrong("the new target %d has no line", pid);
	return found;
}

/* The first line of a target in what has been read, at its beginning. */
static inline char *line_of(unsigned long id)
{
	char start[40], *found;

	snprintf(start, sizeof(start), "\nid=%lu ", id);
	found = strstr(text, start);
	return found ? found + 1 : NULL;
}
