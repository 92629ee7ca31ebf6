// SPDX-License-Identifier: GPL-2.0

//! Following tasks across the CPUs: what is followed, and what is done there.
//!
//! Who tells of it is chosen by what the kernel offers: the hooks that our patch adds (`sched_patch.rs`), or else the
//! scheduler's tracepoints (`sched_trace.rs`).

use kernel::task::Task;

use crate::{
    bindings,
    smp::ThisCpu, //
};

#[cfg(CONFIG_SCHED_HOOK)]
pub(crate) use crate::sched_patch::{
    current_mark,
    Registration, //
};
#[cfg(not(CONFIG_SCHED_HOOK))]
pub(crate) use crate::sched_trace::{
    current_mark,
    Registration, //
};

/// What followed tasks are marked with, and what is done with it.
///
/// # Safety
///
/// What [`Registration::follow()`] is given and what these functions return must stay as long as a task has it
/// for a mark, and until a grace period of RCU after that.
pub(crate) unsafe trait Mark: Send + Sync + Sized + 'static {
    /// The current task, with this mark, has made `child`. Returns its mark. No sleep.
    fn forked(&self, child: &Task) -> Option<&Self>;

    /// Whether `child`, which the current task, with this mark, has made, is to be followed.
    #[cfg(not(CONFIG_SCHED_HOOK))]
    fn wants(&self, child: &Task) -> bool;

    /// The current task, with this mark, has made a child that cannot be followed, for want of memory or as somebody else
    /// follows it. No sleep.
    #[cfg(not(CONFIG_SCHED_HOOK))]
    fn missed(&self);

    /// The current task, with this mark, has exec'd, and may have become `privileged` by that. Returns
    /// its mark from now on. Under `rcu_read_lock()`: no sleep.
    fn execed(&self, privileged: bool) -> Option<&Self>;

    /// `task`, with this mark, exits: the current one, whose parent does not know yet, or one that has
    /// done so while it was being marked. As above.
    fn exited(&self, task: &Task);
}

/// What is done at a context switch, and at an exec or an exit, for tasks marked with an `M`.
///
/// Called with interrupts off, maybe with the raw runqueue lock held: no sleep, no wake-up, no printk, no
/// panic.
pub(crate) trait Switch<M> {
    /// This CPU runs a task with this mark from now on. It ran none with the same before.
    fn arrived(mark: &M, cpu: &ThisCpu);

    /// This CPU's task with a mark leaves, and one with the mark `next` comes, or none. If it is the same
    /// mark, nobody arrives.
    fn left(next: Option<&M>, cpu: &ThisCpu);
}

/// Waits until nobody uses a mark any more that no task has.
pub(crate) fn wait_for_users() {
    // SAFETY: May sleep, as its callers may. Expedited: somebody may be waiting for it, and the CPUs were
    // interrupted just before.
    unsafe { bindings::synchronize_rcu_expedited() };
}
