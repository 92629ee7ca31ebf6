// SPDX-License-Identifier: GPL-2.0
/*
 * terminal WORD PROGRAM ARGUMENTS...: runs a program on a terminal of its own,
 * without echo, copies what it writes, and types Ctrl-C as soon as WORD is in that. The
 * last line that it prints is "exit N" or "signal N", as the program ended.
 */
#define _GNU_SOURCE
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char said[65536] = "";
	size_t length = 0;
	int terminal, status, typed = 0;
	struct termios settings;
	ssize_t n;
	pid_t pid;

	if (argc < 3) {
		fprintf(stderr, "usage: terminal WORD PROGRAM ARGUMENTS...\n");
		return 2;
	}
	pid = forkpty(&terminal, NULL, NULL, NULL);
	if (pid < 0) {
		perror("forkpty");
		return 2;
	}
	if (!pid) {
		/* Lest a ^C stand before what the program writes. */
		if (tcgetattr(0, &settings) == 0) {
			settings.c_lflag &= ~ECHO;
			tcsetattr(0, TCSANOW, &settings);
		}
		/* A shell that starts this in the background has it ignored. */
		signal(SIGINT, SIG_DFL);
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	/* At its end there is an error, as nobody has the terminal open. */
	while (length < sizeof(said) - 1 &&
	       (n = read(terminal, said + length, sizeof(said) - 1 - length)) > 0) {
		fwrite(said + length, 1, n, stdout);
		length += n;
		said[length] = '\0';
		if (!typed && strstr(said, argv[1])) {
			typed = 1;
			if (write(terminal, "\003", 1) != 1)
				perror("write");
		}
	}
	if (waitpid(pid, &status, 0) != pid) {
		perror("waitpid");
		return 2;
	}
	if (WIFSIGNALED(status))
		printf("signal %d\n", WTERMSIG(status));
	else
		printf("exit %d\n", WEXITSTATUS(status));
	return 0;
}
