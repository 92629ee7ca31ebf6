// SPDX-License-Identifier: GPL-2.0
/*
 * Has functions of the kernel fail that pmu_count calls, itself or by what it calls. In /sys/module/fault/parameters:
 *
 *   functions   written "NAME VALUE": one more that can fail, by returning VALUE at once; written "": none
 *   nth         written N: the Nth such call from now on fails, whichever function it is of; read: how many calls are left
 *               until then, 0 or less if it has been, and the function that has failed
 *
 * Whoever calls for others does not matter, nor on which CPU: pmu_count is on the stack. A reallocation to 0 bytes frees,
 * and is no call. To be loaded before pmu_count.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/stacktrace.h>

struct fault {
	struct kprobe probe;
	char name[64];
	unsigned long value;
	bool allocates;
};

static struct module *module;
static struct fault faults[32];
static unsigned int count;
static atomic_t left;
static struct fault *failed = faults;

static bool is_called(struct pt_regs *regs)
{
	struct module *m = READ_ONCE(module);
	unsigned long calls[64];
	unsigned int i, depth;

	if (!m)
		return false;
	/* Behind the breakpoint the first instruction, if it is a push, would have moved the stack. */
	regs->ip--;
	depth = stack_trace_save(calls, ARRAY_SIZE(calls), 0);
	regs->ip++;
	for (i = 0; i < depth; i++)
		if (within_module(calls[i], m))
			return true;
	return false;
}

/* Before its first instruction: what is on top of the stack is where it returns to. */
static int enter(struct kprobe *probe, struct pt_regs *regs)
{
	struct fault *fault = container_of(probe, struct fault, probe);

	if ((fault->allocates && !regs->si) || !is_called(regs) || atomic_dec_return(&left))
		return 0;
	failed = fault;
	regs->ax = fault->value;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += sizeof(unsigned long);
	return 1;
}

/* With one the probe is not optimized to a jump, from which one cannot return elsewhere. */
static void after(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static void forget(void)
{
	while (count)
		unregister_kprobe(&faults[--count].probe);
}

static int set_functions(const char *text, const struct kernel_param *param)
{
	struct fault *fault = &faults[count];
	long value;
	int error;

	if (!*skip_spaces(text)) {
		forget();
		return 0;
	}
	if (count == ARRAY_SIZE(faults))
		return -ENOSPC;
	if (sscanf(text, "%63s %li", fault->name, &value) != 2)
		return -EINVAL;
	fault->value = value;
	fault->allocates = strstr(fault->name, "realloc");
	fault->probe = (struct kprobe){ .symbol_name = fault->name, .pre_handler = enter, .post_handler = after };
	error = register_kprobe(&fault->probe);
	if (!error)
		count++;
	return error;
}

static int set_nth(const char *text, const struct kernel_param *param)
{
	int nth, error = kstrtoint(text, 0, &nth);

	if (!error)
		atomic_set(&left, nth);
	return error;
}

static int get_nth(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%d %s\n", atomic_read(&left), failed->name);
}

static const struct kernel_param_ops functions_ops = { .set = set_functions };
static const struct kernel_param_ops nth_ops = { .set = set_nth, .get = get_nth };

module_param_cb(functions, &functions_ops, NULL, 0200);
module_param_cb(nth, &nth_ops, NULL, 0600);

static int notice(struct notifier_block *block, unsigned long state, void *m)
{
	if (!strcmp(((struct module *)m)->name, "pmu_count"))
		WRITE_ONCE(module, state == MODULE_STATE_GOING ? NULL : m);
	return NOTIFY_DONE;
}

static struct notifier_block notifier = { .notifier_call = notice };

static int __init fault_init(void)
{
	return register_module_notifier(&notifier);
}

static void __exit fault_exit(void)
{
	forget();
	unregister_module_notifier(&notifier);
}

module_init(fault_init);
module_exit(fault_exit);
MODULE_DESCRIPTION("Has functions fail that pmu_count calls");
MODULE_LICENSE("GPL");
