// SPDX-License-Identifier: GPL-2.0
/*
 * What others in the kernel may do to a CPU's PMU and its NMIs without asking. In /sys/module/stranger/parameters:
 *
 *   wrmsr   written "CPU MSR VALUE": writes the MSR with a bare instruction, of which no tracepoint tells
 *   lvtpc   written "CPU VALUE": writes the local APIC's entry; read: that of each CPU online
 *   nmi     written "COUNT MICROSECONDS": each CPU online sends itself this many NMIs at this distance, from a timer's
 *           interrupt; read: for each CPU online how many it has sent so far, and how many have come to it for which Linux
 *           found no reason. They are claimed here, so that Linux does not say so.
 *
 * It is as if such an NMI came from a device: nobody expects it.
 */
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <asm/apic.h>
#include <asm/nmi.h>

struct source {
	struct hrtimer timer;
	unsigned long left;
	unsigned long sent;
	unsigned long unknown;
};

static DEFINE_PER_CPU(struct source, source);
static ktime_t distance;

struct write {
	u32 where;
	u64 value;
};

static void write_msr(void *write)
{
	struct write *w = write;

	asm volatile("wrmsr" : : "c" (w->where), "a" ((u32)w->value), "d" ((u32)(w->value >> 32)) : "memory");
}

static int set_wrmsr(const char *text, const struct kernel_param *param)
{
	struct write write;
	int cpu;

	if (sscanf(text, "%d %i %lli", &cpu, &write.where, &write.value) != 3)
		return -EINVAL;
	return smp_call_function_single(cpu, write_msr, &write, true);
}

static const struct kernel_param_ops wrmsr_ops = { .set = set_wrmsr };

static void write_lvtpc(void *write)
{
	struct write *w = write;

	apic->write(APIC_LVTPC, w->value);
}

static int set_lvtpc(const char *text, const struct kernel_param *param)
{
	struct write write;
	int cpu;

	if (sscanf(text, "%d %lli", &cpu, &write.value) != 2)
		return -EINVAL;
	return smp_call_function_single(cpu, write_lvtpc, &write, true);
}

static void read_lvtpc(void *value)
{
	*(u32 *)value = apic->read(APIC_LVTPC);
}

static int get_lvtpc(char *text, const struct kernel_param *param)
{
	int cpu, length = 0;
	u32 value;

	for_each_online_cpu(cpu) {
		smp_call_function_single(cpu, read_lvtpc, &value, true);
		length += sysfs_emit_at(text, length, "cpu %d lvtpc: %#x\n", cpu, value);
	}
	return length;
}

static const struct kernel_param_ops lvtpc_ops = { .set = set_lvtpc, .get = get_lvtpc };

static enum hrtimer_restart send(struct hrtimer *timer)
{
	struct source *s = this_cpu_ptr(&source);

	if (!s->left)
		return HRTIMER_NORESTART;
	s->left--;
	s->sent++;
	apic->send_IPI(smp_processor_id(), NMI_VECTOR);
	hrtimer_forward_now(timer, distance);
	return HRTIMER_RESTART;
}

static void start(void *count)
{
	struct source *s = this_cpu_ptr(&source);

	s->left = *(unsigned long *)count;
	hrtimer_start(&s->timer, distance, HRTIMER_MODE_REL_PINNED_HARD);
}

static int set_nmi(const char *text, const struct kernel_param *param)
{
	unsigned long count, microseconds;

	if (sscanf(text, "%lu %lu", &count, &microseconds) != 2 || !microseconds)
		return -EINVAL;
	distance = us_to_ktime(microseconds);
	on_each_cpu(start, &count, true);
	return 0;
}

static int get_nmi(char *text, const struct kernel_param *param)
{
	int cpu, length = 0;

	for_each_online_cpu(cpu) {
		struct source *s = per_cpu_ptr(&source, cpu);

		length += sysfs_emit_at(text, length, "cpu %d sent %lu unknown %lu\n", cpu, READ_ONCE(s->sent),
					READ_ONCE(s->unknown));
	}
	return length;
}

static const struct kernel_param_ops nmi_ops = { .set = set_nmi, .get = get_nmi };

module_param_cb(wrmsr, &wrmsr_ops, NULL, 0200);
module_param_cb(lvtpc, &lvtpc_ops, NULL, 0600);
module_param_cb(nmi, &nmi_ops, NULL, 0600);

static int count_unknown(unsigned int type, struct pt_regs *regs)
{
	this_cpu_inc(source.unknown);
	return NMI_HANDLED;
}

static int __init stranger_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		hrtimer_setup(&per_cpu_ptr(&source, cpu)->timer, send, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	return register_nmi_handler(NMI_UNKNOWN, count_unknown, 0, "stranger");
}

static void __exit stranger_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu_ptr(&source, cpu)->timer);
	unregister_nmi_handler(NMI_UNKNOWN, "stranger");
}

module_init(stranger_init);
module_exit(stranger_exit);
MODULE_DESCRIPTION("Disturbs a CPU's PMU and sends NMIs");
MODULE_LICENSE("GPL");
