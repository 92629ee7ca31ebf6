// SPDX-License-Identifier: GPL-2.0
/*
 * kexec KERNEL INITRD PARAMETERS: boots another kernel, an ELF file for
 * x86-64 or a bzImage, from this one, without a reset of the machine. KERNEL
 * may be a pipe.
 *
 * An ELF kernel is placed elsewhere in memory, and does not use where it would
 * have been: QEMU writes its -kernel there again at each reset, which the
 * wake-up from suspend to RAM is too.
 */
#define _GNU_SOURCE
#include <asm/bootparam.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where things go, and how far up the kernel. The guest has memory there. */
#define SETUP	0x90000
#define INITRD	0x8000000
#define UP	0x3000000

#define PAGES(size) (((size) + 4095) & ~4095UL)

/* What the other kernel finds at SETUP, and the code that leads to it. */
static struct {
	struct boot_params params;
	char parameters[2048];
	uint8_t code[16];
} setup;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static char *contents(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY);
	char *data = NULL;
	ssize_t length;

	if (fd < 0)
		die(path);
	for (*size = 0;; *size += length) {
		data = realloc(data, *size + (1 << 20));
		if (!data)
			die(path);
		length = read(fd, data + *size, 1 << 20);
		if (length < 0)
			die(path);
		if (!length)
			break;
	}
	close(fd);
	return data;
}

static void memory(uint64_t start, uint64_t end, int type)
{
	struct boot_params *params = &setup.params;

	if (params->e820_entries < E820_MAX_ENTRIES_ZEROPAGE)
		params->e820_table[params->e820_entries++] = (struct boot_e820_entry) { start, end - start, type };
}

/* The machine's memory as this kernel shows it. */
static void all_memory(void)
{
	FILE *map = fopen("/proc/iomem", "r");
	unsigned long start, end;
	char line[200], *what;

	if (!map)
		die("/proc/iomem");
	while (fgets(line, sizeof(line), map)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || line[0] == ' ')
			continue;
		what = strstr(line, " : ");
		if (what)
			memory(start, end + 1, strcmp(what, " : System RAM\n") ? 2 : 1);
	}
	fclose(map);
}

/* A file that the kernel reads it from. */
static int file_of(const char *data, size_t size)
{
	int fd = memfd_create("kexec", 0);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		die("memory");
	return fd;
}

static void boot(void)
{
	sync();
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_KEXEC, NULL);
	die("reboot");
}

int main(int argc, char **argv)
{
	struct kexec_segment segments[3];
	uint64_t low = UINT64_MAX, high = 0;
	size_t kernel_size, initrd_size;
	char *kernel, *initrd, *image;
	uint32_t where = SETUP;
	const Elf64_Ehdr *elf;
	const Elf64_Phdr *part;
	int i;

	if (argc != 4 || strlen(argv[3]) >= sizeof(setup.parameters)) {
		fprintf(stderr, "usage: kexec KERNEL INITRD PARAMETERS\n");
		return 2;
	}
	kernel = contents(argv[1], &kernel_size);
	initrd = contents(argv[2], &initrd_size);

	elf = (const void *)kernel;
	if (kernel_size < sizeof(*elf) || memcmp(kernel, ELFMAG, SELFMAG)) {
		if (syscall(SYS_kexec_file_load, file_of(kernel, kernel_size), file_of(initrd, initrd_size),
			    strlen(argv[3]) + 1, argv[3], 0))
			die("kexec_file_load");
		boot();
	}
	part = (const void *)(kernel + elf->e_phoff);
	for (i = 0; i < elf->e_phnum; i++) {
		if (part[i].p_type != PT_LOAD)
			continue;
		if (part[i].p_paddr < low)
			low = part[i].p_paddr;
		if (part[i].p_paddr + part[i].p_memsz > high)
			high = part[i].p_paddr + part[i].p_memsz;
	}
	image = calloc(1, PAGES(high - low));
	if (!image)
		die("memory");
	for (i = 0; i < elf->e_phnum; i++)
		if (part[i].p_type == PT_LOAD)
			memcpy(image + part[i].p_paddr - low, kernel + part[i].p_offset, part[i].p_filesz);

	all_memory();
	memory(low, high, 2);
	strcpy(setup.parameters, argv[3]);
	setup.params.hdr.boot_flag = 0xaa55;
	memcpy(&setup.params.hdr.header, "HdrS", 4);
	setup.params.hdr.version = 0x20f;
	setup.params.hdr.type_of_loader = 0xff;
	setup.params.hdr.cmd_line_ptr = SETUP + offsetof(typeof(setup), parameters);
	setup.params.hdr.ramdisk_image = INITRD;
	setup.params.hdr.ramdisk_size = initrd_size;

	/* mov $SETUP, %esi; mov $entry, %eax; jmp *%rax */
	memcpy(setup.code, "\xbe....\xb8....\xff\xe0", 12);
	memcpy(setup.code + 1, &where, 4);
	where = elf->e_entry + UP;
	memcpy(setup.code + 6, &where, 4);

	segments[0] = (struct kexec_segment) { &setup, sizeof(setup), (void *)SETUP, PAGES(sizeof(setup)) };
	segments[1] = (struct kexec_segment) { image, high - low, (void *)low + UP, PAGES(high - low) };
	segments[2] = (struct kexec_segment) { initrd, initrd_size, (void *)INITRD, PAGES(initrd_size) };
	if (syscall(SYS_kexec_load, SETUP + offsetof(typeof(setup), code), 3, segments, KEXEC_ARCH_DEFAULT))
		die("kexec_load");
	boot();
}
