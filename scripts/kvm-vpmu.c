// SPDX-License-Identifier: GPL-2.0
/*
 * Asks KVM whether it gives guests a PMU: prints the version of the architectural PMU in the CPUID leaves that KVM supports
 * (leaf 0AH, EAX[7:0]; 0 is none), or says on stderr why it cannot be asked, with exit status 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

int main(void)
{
	const unsigned int max = 512;
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + max * sizeof(cpuid->entries[0]));
	unsigned int version = 0;
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		fprintf(stderr, "/dev/kvm: %s\n", strerror(errno));
		return 1;
	}
	if (!cpuid)
		return 1;
	cpuid->nent = max;
	if (ioctl(fd, KVM_GET_SUPPORTED_CPUID, cpuid) < 0) {
		fprintf(stderr, "KVM_GET_SUPPORTED_CPUID: %s\n", strerror(errno));
		return 1;
	}
	for (unsigned int i = 0; i < cpuid->nent; i++)
		if (cpuid->entries[i].function == 0x0a)
			version = cpuid->entries[i].eax & 0xff;
	printf("%u\n", version);
	return 0;
}
