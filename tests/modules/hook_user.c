// SPDX-License-Identifier: GPL-2.0
/* Takes the scheduler's hooks, as another user of them would, and follows nobody. */

#include <linux/module.h>
#include <linux/sched/hook.h>

static void in(void *mark)
{
}

static void out(void *next)
{
}

static const struct sched_hook hook = {
	.in = in,
	.out = out,
};

static int __init hook_user_init(void)
{
	return sched_hook_register(&hook);
}

static void __exit hook_user_exit(void)
{
	sched_hook_unregister();
}

module_init(hook_user_init);
module_exit(hook_user_exit);
MODULE_DESCRIPTION("Another user of the scheduler's hooks");
MODULE_LICENSE("GPL");
