// SPDX-License-Identifier: GPL-2.0
/* Takes the scheduler's hooks, as another user of them would, and does nothing with them. */

#include <linux/module.h>
#include <linux/sched/hook.h>
#include <linux/sched/task.h>

static void nothing(void)
{
}

static const struct sched_hook hook = {
	.in = nothing,
	.out = nothing,
};
static struct sched_mark mark;
static struct task_struct *loader;

static int __init hook_user_init(void)
{
	int err = sched_hook_register(&hook, &mark, current, PIDTYPE_PID);

	if (!err)
		loader = get_task_struct(current);
	return err;
}

static void __exit hook_user_exit(void)
{
	sched_hook_unregister(&hook, &mark);
	put_task_struct(loader);
}

module_init(hook_user_init);
module_exit(hook_user_exit);
MODULE_DESCRIPTION("Another user of the scheduler's hooks");
MODULE_LICENSE("GPL");
