// SPDX-License-Identifier: GPL-2.0
/* Takes the scheduler's hooks, and does nothing with them, so that nobody else can have them. */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/sched/hook.h>
#include <linux/sched/task.h>

static void switched(bool in)
{
}

static void dead(struct sched_hook *hook)
{
}

static struct sched_hook hook = {
	.switched = switched,
	.stop = switched,
	.dead = dead,
};
static struct task_struct *loader;

static int __init hook_user_init(void)
{
	int err = sched_hook_register(&hook, current);

	if (!err)
		loader = get_task_struct(current);
	return err;
}

static void __exit hook_user_exit(void)
{
	sched_hook_unregister(&hook, loader);
	put_task_struct(loader);
}

module_init(hook_user_init);
module_exit(hook_user_exit);
MODULE_DESCRIPTION("Takes the scheduler's hooks");
MODULE_LICENSE("GPL");
