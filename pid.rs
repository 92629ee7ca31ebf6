// SPDX-License-Identifier: GPL-2.0

//! References to pids, and what is asked of tasks.
//!
//! C headers: [`include/linux/pid.h`](srctree/include/linux/pid.h),
//! [`include/linux/sched/cputime.h`](srctree/include/linux/sched/cputime.h),
//! [`include/linux/sched/clock.h`](srctree/include/linux/sched/clock.h)

use core::ptr::NonNull;

use kernel::{
    fmt::{
        self,
        Write, //
    },
    sync::aref::ARef,
    task::Task, //
};

#[cfg(not(CONFIG_SCHED_HOOK))]
use kernel::{
    ffi::c_int,
    sync::barrier::{
        self,
        smp_mb, //
    },
};

use crate::bindings;

/// A counted reference to a `struct pid`.
///
/// # Invariants
///
/// The pointer is valid, and a reference is ours.
#[derive(PartialEq, Eq)]
pub(crate) struct PidRef(NonNull<bindings::pid>);

// SAFETY: Pids are counted and used from any thread.
unsafe impl Send for PidRef {}
// SAFETY: As above.
unsafe impl Sync for PidRef {}

impl PidRef {
    /// The pid that is `number` in the pid namespace of the current process.
    pub(crate) fn find(number: i32) -> Option<Self> {
        // SAFETY: Takes any number; returns null or a reference.
        let pid = unsafe { bindings::find_get_pid(number) };
        // INVARIANT: As just said.
        NonNull::new(pid).map(Self)
    }

    /// The pid of `task` itself, or of the process that it belongs to. Does not sleep.
    pub(crate) fn of(task: &Task, process: bool) -> Option<Self> {
        let kind = match process {
            true => bindings::pid_type_PIDTYPE_TGID,
            false => bindings::pid_type_PIDTYPE_PID,
        };
        // SAFETY: `task` is a task; returns null, if it is reaped, or a reference.
        let pid = unsafe { bindings::get_task_pid(task.as_ptr(), kind) };
        // INVARIANT: As just said.
        NonNull::new(pid).map(Self)
    }

    /// The task of this pid, or the leader of the process of this pid, unless it is reaped.
    pub(crate) fn task(&self, process: bool) -> Option<ARef<Task>> {
        let kind = match process {
            true => bindings::pid_type_PIDTYPE_TGID,
            false => bindings::pid_type_PIDTYPE_PID,
        };
        // SAFETY: By the type invariant; returns null or a reference.
        let task = unsafe { bindings::get_pid_task(self.0.as_ptr(), kind) };
        // SAFETY: A `Task` is a `task_struct`, and the reference becomes ours.
        NonNull::new(task).map(|task| unsafe { ARef::from_raw(task.cast()) })
    }

    /// Its number in the pid namespace of the current process, or 0 if it is not there.
    pub(crate) fn number(&self) -> i32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::pid_vnr(self.0.as_ptr()) }
    }
}

impl Drop for PidRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours. Does not sleep.
        unsafe { bindings::put_pid(self.0.as_ptr()) };
    }
}

/// How long `task` has run, in nanoseconds, as the scheduler has it. Does not sleep.
#[cfg(CONFIG_SCHED_HOOK)]
pub(crate) fn runtime(task: &Task) -> u64 {
    // SAFETY: It is a task. No runqueue is locked where this is called.
    unsafe { bindings::task_sched_runtime(task.as_ptr()) }
}

/// How long `task` has run, in nanoseconds: what the scheduler has had at the last switch or tick, and what has gone by since, if
/// it runs. A kernel without our patch does not export what adds that (`task_sched_runtime()` in `kernel/sched/core.c`). Where
/// the scheduler's clock stands still in interrupts or in a hypervisor, nothing is added. Does not sleep.
#[cfg(not(CONFIG_SCHED_HOOK))]
pub(crate) fn runtime(task: &Task) -> u64 {
    /// `TASK_ON_RQ_QUEUED` of `kernel/sched/sched.h`: it has not been dequeued, or what it ran would be in `ran` already.
    const QUEUED: u8 = 1;
    let task = task.as_ptr();
    // SAFETY: The task is valid, and the field is a word that changes at once.
    let ran = || unsafe { (&raw const (*task).se.sum_exec_runtime).read_volatile() };
    if cfg!(any(
        CONFIG_IRQ_TIME_ACCOUNTING,
        CONFIG_PARAVIRT_TIME_ACCOUNTING
    )) {
        return ran();
    }
    // Again, if the scheduler has just added it itself. (Who comes between its writes of `exec_start` and of the sum, on
    // another CPU, has up to a tick too little.)
    for _ in 0..4 {
        let before = ran();
        smp_mb(barrier::Read);
        // SAFETY: The task is valid, and these are words that change at once. Any CPU that it was on has a clock.
        let (runs, since, now) = unsafe {
            let on_cpu = (&raw const (*task).on_cpu).read_volatile();
            let on_rq = (&raw const (*task).on_rq).read_volatile();
            let cpu = (&raw const (*task).thread_info.cpu).read_volatile();
            (
                on_cpu != 0 && on_rq == QUEUED,
                (&raw const (*task).se.exec_start).read_volatile(),
                bindings::sched_clock_cpu(cpu as c_int),
            )
        };
        smp_mb(barrier::Read);
        if !runs {
            break;
        }
        if ran() == before {
            // Clocks of two CPUs may differ.
            return before.saturating_add(now.saturating_sub(since));
        }
    }
    ran()
}

/// The address of the process that `task` belongs to, for comparison: the same for all of its threads, for
/// all its life, and nobody else's as long as there is a reference to one of them.
pub(crate) fn process(task: &Task) -> usize {
    // SAFETY: The task is valid, and the field is set before anybody finds it, and not changed again.
    unsafe { (*task.as_ptr()).signal }.addr()
}

/// A task's name.
#[derive(Clone, Copy)]
pub(crate) struct Name([u8; bindings::TASK_COMM_LEN as usize]);

impl Name {
    /// The name of `task` now.
    pub(crate) fn of(task: &Task) -> Self {
        // SAFETY: The task is valid, and the name an array of bytes; what is read while it changes is
        // a mixture at worst.
        let name = unsafe { (&raw const (*task.as_ptr()).comm).read_volatile() };
        Self(name)
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// With `?` for what does not print.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|&byte| {
            f.write_char(match byte {
                b' '..=b'~' => char::from(byte),
                _ => '?',
            })
        })
    }
}
