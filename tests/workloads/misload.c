// SPDX-License-Identifier: GPL-2.0
/*
 * misload NUMBER SEED MODULE: loads the module so many times with random
 * parameters, most of which cannot be. Each load either succeeds, and the module
 * is unloaded again, or fails with the error that its parameters have, after one
 * line of the module's own at most, and leaves nothing behind: no module, no
 * device, and perf counts.
 *
 * The same seed gives the same loads. The last words that it prints are how many
 * loads were refused by the kernel that reads the parameters, how many by the
 * module, how many had no certain end, and how many succeeded.
 */
#include "hostile.h"
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define UNSET	INT64_MIN

/* What the parameters are, as the module's `params` names them, in an order of our own. */
enum { PID, EVENT, USER, KERNEL, N, TARGETS, INHERIT, THREAD, GATE, FORCE, THREADS, ALL };
static const char *const names[ALL] = {
	"pid", "event", "user", "kernel", "n", "targets", "inherit", "thread", "gate", "force", "threads",
};
static const uint64_t defaults[ALL] = { 0, 0x3c, 1, 1, 0, 64, 1, 0, 1, 0, 1024 };

/* What may be written for one, and what it then is. */
struct word { const char *text; bool bad; uint64_t value; };
static const struct word of_pid[] = {
	{ "0", 0, 0 }, { "\"0\"", 0, 0 }, { "0x0", 0, 0 }, { "2", 0, 2 }, { "-1", 0, -1 }, { "2147483647", 0, 2147483647 },
	{ "0x7ffffffe", 0, 0x7ffffffe }, { "-2147483648", 0, INT32_MIN }, { "2147483648", 1 }, { "-2147483649", 1 }, { "4294967297", 1 },
	{ "18446744073709551617", 1 }, { "", 1 }, { "\"\"", 1 }, { "self", 1 }, { "\"0 0\"", 1 }, { "\"0\n\"", 1 }, { "1,2", 1 }, { "\xff\xfe", 1 },
	{ "0\xc3\xa4", 1 }, { "%d", 1 }, { "==1", 1 },
};
static const struct word of_event[] = {
	{ "0x3c", 0, 0x3c }, { "60", 0, 60 }, { "0xC0", 0, 0xc0 }, { "0x13c", 0, 0x13c }, { "0", 0, 0 }, { "0xff84ffff", 0, 0xff84ffff },
	{ "0xc5", 0, 0xc5 }, { "0x412e", 0, 0x412e }, { "0x1003c", 0, 0x1003c }, { "0x40003c", 0, 0x40003c }, { "4294967296", 0, 1ULL << 32 },
	{ "18446744073709551615", 0, UINT64_MAX }, { "18446744073709551616", 1 }, { "-1", 1 }, { "cycles", 1 }, { "r3c", 1 }, { "0x", 1 },
	{ "", 1 }, { "0x3c:u", 1 }, { "\"0x3c \"", 1 }, { "\x80", 1 },
};
static const struct word of_bool[] = {
	{ "0", 0, 0 }, { "1", 0, 1 }, { "N", 0, 0 }, { "y", 0, 1 }, { "off", 0, 0 }, { "on", 0, 1 }, { "0 \xff", 0, 0 }, { "\"1 2\"", 0, 1 },
	{ "", 1 }, { "2", 1 }, { "-1", 1 }, { "o", 1 }, { "all", 1 }, { "\xc3\xa4", 1 }, { "\" 1\"", 1 },
};
static const struct word of_n[] = {
	{ "0", 0, 0 }, { "1", 0, 1 }, { "2", 0, 2 }, { "99999", 0, 99999 }, { "100000", 0, 100000 }, { "140737488355328", 0, 1ULL << 47 },
	{ "140737488355329", 0, (1ULL << 47) + 1 }, { "0xffffffffffffffff", 0, UINT64_MAX }, { "18446744073709551616", 1 }, { "-1", 1 },
	{ "-0", 0, 0 }, { "1e6", 1 }, { "", 1 }, { "08", 1 },
};
static const struct word of_most[] = {
	{ "0", 0, 0 }, { "1", 0, 1 }, { "4294967295", 0, UINT32_MAX }, { "4294967296", 1 }, { "-1", 1 }, { "", 1 }, { "many", 1 }, { "1 1", 0, 1 },
};
#define WORDS(list) { list, sizeof(list) / sizeof(*(list)) }
static const struct { const struct word *words; unsigned int number; } kinds[ALL] = {
	WORDS(of_pid), WORDS(of_event), WORDS(of_bool), WORDS(of_bool), WORDS(of_n), WORDS(of_most),
	WORDS(of_bool), WORDS(of_bool), WORDS(of_bool), WORDS(of_bool), WORDS(of_most),
};

static int64_t set[ALL];
static bool readable, over, spoilt;
static int reading, somebody;

static uint64_t get(int parameter)
{
	return set[parameter] == UNSET ? defaults[parameter] : (uint64_t)set[parameter];
}

/* \parameter has a value now, if the kernel has read so far. It reads on behind an error, and the last one counts. */
static void now(int parameter, bool bad, uint64_t value)
{
	if (over)
		return;
	if (bad)
		reading = EINVAL;
	else if (set[parameter] != UNSET)
		reading = EEXIST;
	else
		set[parameter] = value;
}

static void parameter(void)
{
	/* The first ones have more to be wrong with. */
	int which = below(below(2) ? TARGETS + 1 : ALL);
	const struct word *word;

	if (readable && set[which] != UNSET)
		return;
	do
		word = &kinds[which].words[below(kinds[which].number)];
	while (word->bad && (readable || below(2)));
	switch (which == PID || which == N ? below(20) : 20) {
	case 0:
		/* By so many zeroes it is octal. */
		say("%s=%0*d", names[which], 1 + below(5000), 0);
		now(which, false, 0);
		break;
	case 1:
		if (readable)
			break;
		say("%s=1%0*d", names[which], 25 + below(5000), 0);
		now(which, true, 0);
		break;
	case 2:
		if (readable)
			break;
		/* No value at all. */
		say("%s", names[which]);
		now(which, true, 0);
		break;
	default:
		if (which == PID && below(2)) {
			say("pid=%d", somebody);
			now(which, false, somebody);
			break;
		}
		/* Quotes may stand around all of it. */
		say(!strpbrk(word->text, "\" ") && !below(10) ? "\"%s=%s\"" : "%s=%s", names[which], word->text);
		now(which, word->bad, word->value);
	}
}

/* What is no parameter, and does not matter. */
static void stranger(void)
{
	static const char *const words[] = { "nosuch=1", "PID=1", "pid2=1", "=1", "=", "n.x=2", "\"\"", "\"a b\"=1", "\xc3\xa4=\xff", "debug" };
	unsigned int size = 1 + below(below(5) ? 40 : 3000);
	char byte;

	if (below(2)) {
		say("%s", ONE_OF(words));
		return;
	}
	say("x");
	while (size--) {
		/* No NUL, no quote, which would reach into what follows, and no n, which would be one between two blanks. */
		do byte = below(256); while (!byte || byte == '"' || byte == 'n');
		put(&byte, 1);
	}
}

/* The error of the parameters that the kernel could read, or 0. */
static int judged(void)
{
	uint64_t event = get(EVENT), n = get(N);
	int pid = get(PID);

	if (event & ~0xff84ffffULL || !(get(USER) || get(KERNEL)) || pid < 0)
		return EINVAL;
	if (!pid)
		return 0;
	if (pid != somebody && pid != 2)
		return ESRCH;
	if (!get(TARGETS))
		return ENOSPC;
	if (event == 0xc5 || event == 0x412e)
		return EOPNOTSUPP;
	if (n && (n < (get(KERNEL) ? 100000 : 2) || n > 1ULL << 47))
		return EINVAL;
	return 0;
}

/* Some byte is another, is too much, or is missing. */
static void spoil(void)
{
	static const char bytes[] = { 0, '"', ' ', '\n', '=', '-', '0', '9', (char)0xa0, (char)0xff };
	size_t where = below(length);

	spoilt = true;
	switch (below(3)) {
	case 0:
		input[where] = ONE_OF(bytes);
		break;
	case 1:
		length = where;
		break;
	default:
		memmove(input + where, input + where + 1, --length - where);
	}
}

/* Sets what will be loaded with, and returns the error that it has. */
static int parameters(void)
{
	static const char *const blanks[] = { " ", " ", "  ", "\t", "\n", " \r\v\f" };
	unsigned int words = below(below(4) ? 6 : 20), i;

	length = 0;
	over = spoilt = false;
	/* As often as not the kernel can read all of it. */
	readable = below(2);
	reading = 0;
	for (i = 0; i < ALL; i++)
		set[i] = UNSET;
	for (i = 0; i < words; i++) {
		switch (below(40)) {
		case 0:
			/* What is behind a NUL is not there. */
			put("", 1);
			over = true;
			break;
		case 1:
			say("--");
			over = true;
			break;
		case 2 ... 9:
			stranger();
			break;
		default:
			parameter();
		}
		say("%s", ONE_OF(blanks));
	}
	if (length && !below(8))
		spoil();
	put("", 1);
	return reading ?: judged();
}

/* Whether it was the kernel, reading the parameters, that has said so. */
static bool of_kernel(const char *line)
{
	return *line == '`' || !strncmp(line, "unknown parameter '", 19) || !strncmp(line, "parameters '", 12);
}

/* How many lines the module has said. */
static int own_lines(void)
{
	const char *line;
	int lines = 0;

	while ((line = next_line()))
		lines += !of_kernel(line);
	return lines;
}

/* perf can count an event of hardware. */
static void perf_counts(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1 };
	uint64_t counted = 0;
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 || read(fd, &counted, sizeof(counted)) != sizeof(counted) || !counted)
		wrong("perf does not count afterwards");
	close(fd);
}

static int load(int module, const char *text)
{
	return syscall(SYS_finit_module, module, text, 0) ? errno : 0;
}

int main(int argc, char **argv)
{
	unsigned long by_kernel = 0, by_module = 0, uncertain = 0, loaded = 0;
	int module, expected, got, lines;
	char *text;
	long turns;

	if (argc != 4) {
		fprintf(stderr, "usage: misload NUMBER SEED MODULE\n");
		return 2;
	}
	turns = atol(argv[1]);
	state = strtoull(argv[2], NULL, 0) | 1ULL << 63;
	module = opened(argv[3], O_RDONLY);
	somebody = fork();
	if (!somebody) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	open_log();
	for (turn = 0; turn < turns; turn++) {
		expected = parameters();
		text = input;
		switch (below(100)) {
		case 0:
			/* Longer than any memory that the kernel has in one piece. */
			length = ROOM;
			memset(input, 'x', length - 1);
			expected = ENOMEM;
			break;
		case 1:
			/* No NUL before the end of what is mapped, or nothing mapped at all. */
			text = edge() - below(PAGE);
			memset(edge() - PAGE, 'x', PAGE);
			expected = EFAULT;
			break;
		case 2:
			text = NULL;
			expected = EFAULT;
			break;
		case 3:
			/* All just fits. */
			if (length <= PAGE)
				text = memcpy(edge() - length, input, length);
			break;
		}
		got = load(module, text);
		lines = own_lines();
		if (spoilt && expected != ENOMEM && expected != EFAULT) {
			uncertain++;
			if (got && got != EINVAL && got != EEXIST && got != ENOSPC && got != ESRCH && got != EOPNOTSUPP)
				wrong("%s", strerrorname_np(got));
			expected = got;
			if (lines > 1)
				wrong("%d lines", lines);
		} else {
			if (got != expected)
				wrong("%s instead of %s", got ? strerrorname_np(got) : "loaded", expected ? strerrorname_np(expected) : "loaded");
			if (lines != (got && got != ENOMEM && got != EFAULT && !reading))
				wrong("%d lines", lines);
			by_kernel += got && reading;
			by_module += got && !reading;
		}
		if (!access("/sys/module/pmu_count", F_OK) != !got || !access("/dev/pmu_count", F_OK) != !got)
			wrong("the module is there, or is not, though the load gave %s", got ? strerrorname_np(got) : "none");
		if (!got) {
			loaded++;
			if (syscall(SYS_delete_module, "pmu_count", O_NONBLOCK))
				wrong("%s at unloading", strerrorname_np(errno));
			lines = own_lines();
			/* Of a target the line that it still runs. */
			if (lines > 1 || (!spoilt && lines != !!get(PID)))
				wrong("%d lines at unloading", lines);
		}
		if (turn % 16 == 0)
			perf_counts();
	}
	kill(somebody, SIGKILL);
	printf("%lu %lu %lu %lu\n", by_kernel, by_module, uncertain, loaded);
	return 0;
}
