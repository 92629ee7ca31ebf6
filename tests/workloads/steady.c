// SPDX-License-Identifier: GPL-2.0
/*
 * steady READS: reads the device so many times, or until all targets have exited
 * if that is sooner, and looks whether each line's count, times and overflows
 * only grow, ids keep their order, and who has a line keeps it.
 *
 * Prints how many reads it were, and in how many a count had grown.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES	4096

struct line {
	unsigned long id;
	char tid[24], event[24], state[16];
	unsigned long long count, enabled, running, overflows;
	int seen;
};

static struct line lines[LINES];
static int known;
static char text[1 << 20], *at_fault;

__attribute__((noreturn))
static void wrong(const char *what)
{
	printf("%s: %s\n", what, at_fault);
	exit(1);
}

/* The value behind " KEY=" of a line whose name has been taken out. */
static const char *value(const char *line, const char *key)
{
	char pattern[40];
	const char *found;

	snprintf(pattern, sizeof(pattern), " %s=", key);
	found = strstr(line, pattern);
	if (!found)
		wrong(key);
	return found + strlen(pattern);
}

static unsigned long long number(const char *line, const char *key)
{
	const char *from = value(line, key);
	char *end;
	unsigned long long n = strtoull(from, &end, 10);

	if (*from < '0' || *from > '9' || *end != ' ')
		wrong(key);
	return n;
}

static void word(const char *line, const char *key, char *to, size_t size)
{
	const char *from = value(line, key);
	size_t length = strcspn(from, " ");

	if (!length || length >= size)
		wrong(key);
	memcpy(to, from, length);
	to[length] = '\0';
}

/* The quoted name, which may look like anything else, is taken out. */
static void without_name(const char *from, char *to)
{
	const char *name = strstr(from, " name=\""), *end;

	if (!name)
		wrong("no name");
	for (end = name + 7; *end != '"'; end++) {
		if (*end == '\\')
			end++;
		if (!*end)
			wrong("the name has no end");
	}
	memcpy(to, from, name - from);
	strcpy(to + (name - from), end + 1);
}

static void take(const char *from, struct line *to)
{
	char line[4096] = " ";

	if (strlen(from) > sizeof(line) - 2)
		wrong("too long");
	without_name(from, line + 1);
	to->id = number(line, "id");
	word(line, "tid", to->tid, sizeof(to->tid));
	word(line, "event", to->event, sizeof(to->event));
	word(line, "state", to->state, sizeof(to->state));
	to->count = number(line, "count");
	to->enabled = number(line, "enabled");
	to->running = number(line, "running");
	to->overflows = number(line, "overflows");
	if (to->enabled != to->running)
		wrong("enabled is not running");
}

/* Lines come in the same order each time, so that of the one before is near. */
static struct line *find(const struct line *now, int near)
{
	int i, where;

	for (i = 0; i < known; i++) {
		where = (near + i) % known;
		if (lines[where].id == now->id && !strcmp(lines[where].tid, now->tid) &&
		    !strcmp(lines[where].event, now->event))
			return lines + where;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long reads, turn, grew = 0;
	unsigned long last;
	int fd, running = 1, grown, near, i;
	char *line, *next;
	struct line now, *before;
	ssize_t length, piece;

	if (argc != 2) {
		fprintf(stderr, "usage: steady READS\n");
		return 2;
	}
	reads = atol(argv[1]);
	fd = open("/dev/pmu_count", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		perror("/dev/pmu_count");
		return 1;
	}
	for (turn = 0; turn < reads && running; turn++) {
		at_fault = text;
		for (length = 0; (piece = pread(fd, text + length, sizeof(text) - 1 - length, length)) > 0; )
			length += piece;
		if (piece || !length || text[length - 1] != '\n')
			wrong("a read is not whole");
		text[length] = '\0';
		if (strncmp(text, "pmu_count 1 ", 12))
			wrong("the first line");
		grown = near = running = 0;
		last = 0;
		for (line = strchr(text, '\n') + 1; *line; line = next) {
			at_fault = line;
			next = strchr(line, '\n');
			*next++ = '\0';
			take(line, &now);
			if (now.id < last)
				wrong("ids are not in order");
			last = now.id;
			running |= strcmp(now.state, "exited") != 0;
			before = find(&now, near);
			if (!before) {
				if (known == LINES)
					wrong("too many lines");
				now.seen = turn;
				near = known;
				lines[known++] = now;
				continue;
			}
			near = before - lines + 1;
			if (now.count < before->count)
				printf("count was %llu\n", before->count), wrong("it goes back");
			if (now.enabled < before->enabled)
				printf("enabled was %llu\n", before->enabled), wrong("it goes back");
			if (now.overflows < before->overflows)
				printf("overflows was %llu\n", before->overflows), wrong("it goes back");
			if (!strcmp(before->state, "exited") &&
			    (strcmp(now.state, "exited") || now.count != before->count))
				printf("count was %llu\n", before->count), wrong("it has exited and goes on");
			grown |= now.count > before->count;
			now.seen = turn;
			*before = now;
		}
		grew += grown;
		for (i = 0; i < known; i++) {
			if (lines[i].seen != turn) {
				at_fault = lines[i].event;
				printf("id %lu, tid %s: ", lines[i].id, lines[i].tid);
				wrong("the line has gone");
			}
		}
	}
	printf("%ld %ld\n", turn, grew);
	return 0;
}
