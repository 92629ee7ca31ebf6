// SPDX-License-Identifier: GPL-2.0
/* as UID PROGRAM ARGUMENTS...: runs a program as a user without any right. */
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	uid_t uid;

	if (argc < 3) {
		fprintf(stderr, "usage: as UID PROGRAM ARGUMENTS...\n");
		return 2;
	}
	uid = atoi(argv[1]);
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) {
		perror("as");
		return 1;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 1;
}
