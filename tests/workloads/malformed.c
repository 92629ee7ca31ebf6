// SPDX-License-Identifier: GPL-2.0
/*
 * malformed NUMBER SEED PID: gives the device so many commands that are not
 * commands. Each has one fault, in what would else be a command to count the
 * process PID; or it is not all in memory. It is written as a whole, in pieces,
 * at some offset. Each must be refused with the error that its fault has, after
 * one line of the log at most, and change nothing of what the device shows.
 *
 * The same seed gives the same commands. The last words that it prints are the
 * number of commands, and of those for which the module has a line.
 */
#include "hostile.h"
#include <sys/uio.h>

#define LONGEST	1023

static char before[1 << 16], after[1 << 16];
static ssize_t shown;
static int device, pid;

static void blank(void)
{
	static const char *const blanks[] = { " ", " ", " ", "  ", "\t", " \t " };

	say("%s", ONE_OF(blanks));
}

static const char *any_event(void)
{
	static const char *const events[] = {
		"cycles", "cpu-cycles", "instructions", "branches", "branch-instructions", "0x3c", "0xc0", "r13c",
		"instructions:u", "cycles:k", "0xc4:uk", "branches:ku",
	};

	return ONE_OF(events);
}

/* What add takes besides the pid, without a fault; each but \not with a chance of one in three. */
static void others(const char *not)
{
	static const char *const keys[] = { "event", "user", "kernel", "inherit", "thread", "n", "on_exec" };
	static const char *const threads[] = { "0", "1", "all" };
	unsigned int from = below(7), i;
	const char *key;

	for (i = 0; i < 7; i++) {
		key = keys[(from + i) % 7];
		if (!strcmp(key, not) || below(3))
			continue;
		blank();
		if (!strcmp(key, "event"))
			say("event=%s,0x3c:u", any_event());
		else if (!strcmp(key, "thread"))
			say("thread=%s", ONE_OF(threads));
		else if (!strcmp(key, "n"))
			say("n=%u", 100000 + below(1000000));
		else if (!strcmp(key, "user"))
			say("user=1");
		else
			say("%s=%u", key, below(2));
	}
}

/* add with the fault that the words are, of the key \key. */
__attribute__((format(printf, 2, 3)))
static void add(const char *key, const char *format, ...)
{
	char words[3 * LONGEST];
	va_list list;

	va_start(list, format);
	vsnprintf(words, sizeof(words), format, list);
	va_end(list);
	say("add");
	if (below(2)) {
		if (strcmp(key, "pid")) {
			blank();
			say("pid=%d", pid);
		}
		others(key);
		blank();
		say("%s", words);
	} else {
		blank();
		say("%s", words);
		others(key);
		if (strcmp(key, "pid")) {
			blank();
			say("pid=%d", pid);
		}
	}
}

static int some_bytes(void)
{
	size_t size = 1 + below(below(2) ? 40 : LONGEST);
	char byte;

	while (size--) {
		byte = below(256);
		put(&byte, 1);
	}
	return EINVAL;
}

static int some_letters(void)
{
	static const char letters[] = "abcdeilmnoprstuvwxy=,:0123456789 \t_-";
	size_t size = 1 + below(below(2) ? 40 : LONGEST);

	/* No command begins with an x. */
	say("x");
	while (--size)
		put(&letters[below(sizeof(letters) - 1)], 1);
	return EINVAL;
}

static int unknown_word(void)
{
	static const char *const words[] = {
		"ad", "addd", "ADD", "Add", "del", "remov", "removed", "stop", "start", "resets", "Reset", "waits", "pause=1",
		"add=", "=", "add,", "\"add\"", "add;", "#", "-add", "pid", "id", "event", "list", "help", "0", "1", "all",
	};

	say("%s", ONE_OF(words));
	blank();
	say("pid=%d", pid);
	others("");
	return EINVAL;
}

static int unknown_key(void)
{
	static const char *const keys[] = {
		"PID", "pids", "pi", "tid", "events", "even", "usr", "User", "kernel ", "name", "count", "force", "target", "threads",
		"on-exec", "onexec", "enable_on_exec", "N", "m", "period", "_", "\"pid\"", "1", "id",
	};

	add("", "%s=1", ONE_OF(keys));
	return EINVAL;
}

static int no_key(void)
{
	static const char *const words[] = { "=", "=1", "pid", "event", "user", "1", "cycles", "thread", "add", ":u", ",", "-i", "--" };

	add("", "%s", ONE_OF(words));
	return EINVAL;
}

static int key_twice(void)
{
	static const char *const twice[] = {
		"event=cycles", "user=1", "kernel=0", "inherit=0", "thread=0", "thread=all", "n=0", "n=200000", "on_exec=0",
	};
	const char *words = ONE_OF(twice);
	char key[20];

	snprintf(key, sizeof(key), "%.*s", (int)strcspn(words, "="), words);
	if (below(4))
		add(key, "%s %s", words, words);
	else
		add("", "pid=%d", pid);
	return EINVAL;
}

static int no_pid(void)
{
	say("add");
	others("");
	return EINVAL;
}

static int bad_pid(void)
{
	static const char *const values[] = {
		"", "0", "-1", "+1", "one", "self", "1x", "x1", "0x1", "1.0", "1e3", "1,2", "4294967297", "2147483648",
		"18446744073709551617", "99999999999999999999999", "\"1\"", "1:u", "all", "0b1", "1_000", "%d", "=1",
	};

	add("pid", "pid=%s", ONE_OF(values));
	return EINVAL;
}

static int no_process(void)
{
	add("pid", "pid=%u", 4000000 + below(100000));
	return ESRCH;
}

static int bad_bool(void)
{
	static const char *const keys[] = { "user", "kernel", "inherit", "thread", "on_exec" };
	static const char *const values[] = {
		"", "2", "-1", "Y", "N", "y", "n", "yes", "on", "true", "01", "10", "0x1", "+1", "ALL", "al", "alll", "1,0", "=1", "1=",
	};
	const char *key = ONE_OF(keys);

	add(key, "%s=%s", key, ONE_OF(values));
	return EINVAL;
}

static int bad_event(void)
{
	static const char *const values[] = {
		"", ",", "cycle", "Cycles", "cycles,", ",cycles", "cycles,,instructions", "cycles:", "cycles:x", "cycles:uu", "cycles:kk",
		"cycles:uku", "cycles:ukk", "cycles:u:k", "cycles::u", "cycles:U", "cycles:p", "cycles:G", "cpu/cycles/", ":u", "60", "3c",
		"0x", "r", "0xg", "rg", "r0x3c", "0x3c0x3c", "-0x3c", "0x3c-", "0x3c;0xc0", "cycles instructions", "idle-cycles-frontend",
		"0x1ffffffffffffffff", "r10000000000000000", "faults", "page-faults", "{cycles}", "cycles=1", "0x3c.u", "*",
	};

	add("event", "event=%s", ONE_OF(values));
	return EINVAL;
}

/* USR, OS, INT, EN and what is reserved. */
static int foreign_bits(void)
{
	static const unsigned int bits[] = { 16, 17, 20, 21, 22, 32, 35, 47, 63 };
	unsigned long long code = 0x3c | 1ULL << ONE_OF(bits);

	add("event", below(2) ? "event=0x%llx" : "event=cycles,r%llx:u", code);
	return EINVAL;
}

static int not_counted(void)
{
	static const char *const events[] = { "cache-misses", "cache-references", "branch-misses", "0x412e", "r4f2e", "0xc5:u", "cycles,cache-misses" };

	add("event", "event=%s", ONE_OF(events));
	return EOPNOTSUPP;
}

static int no_mode(void)
{
	say("add pid=%d user=0 kernel=0", pid);
	if (below(2))
		say(" event=cycles");
	return EINVAL;
}

static int too_many_events(void)
{
	char list[3 * LONGEST];
	int i, more = 17 + below(20);

	*list = '\0';
	for (i = 0; i < more; i++)
		sprintf(list + strlen(list), "%scycles", i ? "," : "");
	add("event", "event=%s", list);
	return EINVAL;
}

static int bad_n(void)
{
	static const char *const values[] = {
		"", "1", "-1", "-100000", "+200000", "0x", "0xg", "many", "1e6", "281474976710656", "0xffffffffffffffff",
		"18446744073709551616", "18446744073709651616", "200000,", "200000 200000", "140737488355329", "0x800000000001",
	};
	/* Of what these count: one less than the least, one more than the most. */
	static const char *const bounds[] = { "99999", "99999 user=0", "1 kernel=0", "140737488355329 kernel=0" };

	if (below(4))
		add("n", "n=%s", ONE_OF(values));
	else
		say("add pid=%d n=%s", pid, ONE_OF(bounds));
	return EINVAL;
}

/* NUL, line breaks and what is no ASCII, somewhere in a command. */
static int bad_byte(void)
{
	static const char bytes[] = { 0, '\n', '\r', '\v', '\f', 1, 27, 127, (char)0x80, (char)0xa0, (char)0xc0, (char)0xc3, (char)0xed, (char)0xff };
	char byte = ONE_OF(bytes);
	size_t where;

	add("", "user=1");
	/* At the end a line break is allowed. */
	where = below(length - 1);
	input[where] = byte;
	return EINVAL;
}

static int too_long(void)
{
	size_t i, more = LONGEST + 1 + below(2) * below(LONGEST);

	add("", "user=1");
	for (i = length; i < more; i++)
		put(below(2) ? " " : "\t", 1);
	return E2BIG;
}

static const char *verb(void)
{
	static const char *const verbs[] = { "remove", "reset", "pause", "resume", "wait" };

	return ONE_OF(verbs);
}

static int no_target(void)
{
	say("%s", verb());
	blank();
	if (below(2))
		say("id=%u", 1000000000 + below(1000000));
	else
		say("pid=%d", pid);
	if (below(4) == 0)
		say("\n");
	return ENOENT;
}

static int which_target(void)
{
	static const char *const values[] = {
		"", "id=", "pid=", "id=0 pid=1", "id=1 pid=1", "id=1 id=1", "pid=1 pid=1", "id=-1", "id=0x1", "id=1x", "1", "id", "pid",
		"all", "id=1,2", "id=1 2", "id=18446744073709551617", "id=99999999999999999999999999", "pid=-1", "id=1 user=1", "pid=1 event=cycles",
		"id=1 n=0", "ID=1", "tid=1", "id==1", "id=+1",
	};

	say("%s", verb());
	blank();
	say("%s", ONE_OF(values));
	return EINVAL;
}

static int (*const faults[])(void) = {
	some_bytes, some_letters, unknown_word, unknown_key, no_key, key_twice, no_pid, bad_pid, no_process, bad_bool, bad_event,
	foreign_bits, not_counted, no_mode, too_many_events, bad_n, bad_byte, too_long, no_target, which_target,
};

static ssize_t look(char *to, size_t size)
{
	ssize_t all = 0, piece;

	while ((piece = pread(device, to + all, size - all, all)) > 0)
		all += piece;
	if (piece < 0) {
		perror("reading the device");
		exit(1);
	}
	return all;
}

/* So many pieces, the last of which reaches to the end; empty ones are among them. */
static ssize_t write_pieces(char *bytes)
{
	struct iovec pieces[8];
	int i, number = 1 + below(8);
	size_t from = 0;

	for (i = 0; i < number; i++) {
		pieces[i].iov_base = bytes + from;
		pieces[i].iov_len = i < number - 1 ? below(length - from + 1) : length - from;
		from += pieces[i].iov_len;
	}
	return writev(device, pieces, number);
}

/* Writes the command in one way or another, and corrects what is expected of it where there is more wrong. */
static ssize_t give(int *expected)
{
	static const size_t sizes[] = { 1UL << 31, (1UL << 31) + 1, (1UL << 32) + 9, 1UL << 40, 1UL << 63, -1UL };
	size_t size, lacks;

	switch (below(16)) {
	case 0:
		return pwrite(device, input, length, (uint64_t)below(1 << 30) << below(33));
	case 1 ... 3:
		return write_pieces(input);
	case 4:
		/* What is behind its end is not looked at. */
		return write(device, memcpy(edge() - length, input, length), length);
	case 5:
		/* What lacks is looked at, if so much of it is. */
		lacks = 1 + below(length);
		if (length - lacks <= LONGEST)
			*expected = EFAULT;
		memcpy(edge() - (length - lacks), input, length - lacks);
		return below(2) ? write(device, edge() - (length - lacks), length) : write_pieces(edge() - (length - lacks));
	case 6:
		*expected = EFAULT;
		return write(device, below(2) ? NULL : edge(), length);
	case 7:
		*expected = EINVAL;
		return write(device, below(2) ? input : edge(), 0);
	case 8:
		size = ONE_OF(sizes);
		*expected = size >> 62 ? EFAULT : E2BIG;
		return write(device, input, size);
	default:
		return write(device, input, length);
	}
}

int main(int argc, char **argv)
{
	int expected, got, lines;
	long turns, reasons = 0;
	const char *line;
	ssize_t now;

	if (argc != 4) {
		fprintf(stderr, "usage: malformed NUMBER SEED PID\n");
		return 2;
	}
	turns = atol(argv[1]);
	state = strtoull(argv[2], NULL, 0) | 1ULL << 63;
	pid = atoi(argv[3]);
	device = opened("/dev/pmu_count", O_RDWR | O_NONBLOCK);
	open_log();
	shown = look(before, sizeof(before));
	for (turn = 0; turn < turns; turn++) {
		length = 0;
		expected = ONE_OF(faults)();
		got = give(&expected) < 0 ? errno : 0;
		if (got != expected)
			wrong("%s instead of %s", got ? strerrorname_np(got) : "done", strerrorname_np(expected));
		reasons += expected != EFAULT;
		for (lines = 0; (line = next_line());)
			lines += !strstr(line, " callbacks suppressed");
		if (lines > 1)
			wrong("%d lines", lines);
		now = look(after, sizeof(after));
		if (now != shown || memcmp(before, after, now))
			wrong("it has changed something");
	}
	printf("%ld %ld\n", turns, reasons);
	return 0;
}
