// SPDX-License-Identifier: GPL-2.0

//! Following tasks across the CPUs, as a registration that ends with its value.
//!
//! C header: [`include/linux/sched/hook.h`](srctree/include/linux/sched/hook.h), which our kernel
//! patch adds.

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc,
    task::Task, //
};

use crate::smp::{
    on_each_cpu,
    ThisCpu, //
};

/// What is told of the followed tasks.
pub(crate) trait Follower: Send + Sync + Sized + 'static {
    /// A followed task starts on this CPU, after one that is not followed. May be called again
    /// without [`Self::switched_out`] in between. The runqueue is not locked any more, but this
    /// is a switch still: no sleep, no wake-up, no printk, no panic.
    fn switched_in(cpu: &ThisCpu);

    /// A followed task leaves this CPU, for one that is not followed, or for good. May be called
    /// again, or first. The raw runqueue lock is held: as above.
    fn switched_out(cpu: &ThisCpu);

    /// One more task is followed. Called under a spinlock, with interrupts off.
    fn joined(&self);

    /// A followed task exits; it was switched out for the last time. Called in this task, before
    /// its parent can learn of it, under `rcu_read_lock()`: no sleep.
    fn left(&self);
}

/// The hooks, until this is dropped.
///
/// # Invariants
///
/// The kernel's hooks are registered to `T`'s, and the only mark on tasks is `follower`'s address.
pub(crate) struct Registration<T: Follower> {
    follower: Arc<T>,
}

impl<T: Follower> Registration<T> {
    /// What the kernel calls.
    const OPS: bindings::sched_hook_ops = bindings::sched_hook_ops {
        in_: Some(switched_in::<T>),
        out: Some(switched_out::<T>),
        join: Some(joined::<T>),
        leave: Some(left::<T>),
    };

    /// Takes the hooks; nobody is followed yet.
    ///
    /// # Errors
    ///
    /// `EBUSY` if somebody else has them.
    pub(crate) fn new(follower: Arc<T>) -> Result<Self> {
        // SAFETY: The operations are constant. `Drop` unregisters them before the module goes.
        to_result(unsafe { bindings::sched_hook_register(&Self::OPS) })?;
        // INVARIANT: As just done, and no task is marked.
        Ok(Self { follower })
    }

    /// The mark that is put on tasks.
    fn mark(&self) -> *mut c_void {
        Arc::as_ptr(&self.follower).cast_mut().cast()
    }

    /// Follows all threads of `task`'s process that do not exit yet, and those that they make
    /// later. Returns the number of the former.
    pub(crate) fn follow(&self, task: &Task) -> u32 {
        let mark = self.mark();
        // SAFETY: `task` is a task, and the mark is valid until `Drop` has taken it off.
        let threads = unsafe { bindings::sched_hook_attach(task.as_ptr(), mark) };
        // Those that run right now will not be switched in.
        on_each_cpu(|cpu| {
            // SAFETY: The current task stays, as interrupts are off.
            let current = unsafe { (*Task::current_raw()).sched_hook };
            if current.cast_const() == Arc::as_ptr(&self.follower).cast() {
                T::switched_in(cpu);
            }
        });
        threads
    }
}

impl<T: Follower> Drop for Registration<T> {
    fn drop(&mut self) {
        // In this order: nobody is switched in any more; those that are in are switched out; the
        // hooks go. Without hooks nobody would be there to switch them out.
        //
        // SAFETY: By the type invariant the marks are ours.
        unsafe { bindings::sched_hook_detach(self.mark()) };
        on_each_cpu(T::switched_out);
        // SAFETY: By the type invariant the hooks are ours. None runs after this.
        unsafe { bindings::sched_hook_unregister() };
    }
}

/// # Safety
///
/// Only as `sched_hook_ops.in`: interrupts are off.
unsafe extern "C" fn switched_in<T: Follower>(_: *mut bindings::task_struct) {
    // SAFETY: As promised.
    T::switched_in(&unsafe { ThisCpu::assume() });
}

/// # Safety
///
/// Only as `sched_hook_ops.out`: interrupts are off.
unsafe extern "C" fn switched_out<T: Follower>(_: *mut bindings::task_struct) {
    // SAFETY: As promised.
    T::switched_out(&unsafe { ThisCpu::assume() });
}

/// # Safety
///
/// Only as `sched_hook_ops.join`: `follower` is the mark.
unsafe extern "C" fn joined<T: Follower>(follower: *mut c_void) {
    // SAFETY: The mark is the address of an object that lives as long as the hooks.
    unsafe { &*follower.cast_const().cast::<T>() }.joined();
}

/// # Safety
///
/// Only as `sched_hook_ops.leave`: `follower` is the mark.
unsafe extern "C" fn left<T: Follower>(follower: *mut c_void) {
    // SAFETY: As above.
    unsafe { &*follower.cast_const().cast::<T>() }.left();
}
