/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headers of what bindings.rs has beyond the kernel's crate.
 */
#include <linux/binfmts.h>
#include <linux/reboot.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#ifdef CONFIG_SCHED_HOOK
#include <linux/sched/hook.h>
#endif
#include <linux/suspend.h>
#include <linux/syscore_ops.h>
#include <asm/apic.h>
#include <asm/nmi.h>
