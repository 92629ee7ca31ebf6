// SPDX-License-Identifier: GPL-2.0

//! Who is counted: a process, that is all of its threads, or one thread.
//!
//! A process is held by its `struct pid` and never by a number or a task: numbers are used again,
//! and an exec from another thread than the leader swaps the tasks.
//!
//! C header: [`include/linux/pid.h`](srctree/include/linux/pid.h)

use core::ptr::NonNull;

use kernel::{
    bindings,
    fmt::{
        self,
        Write, //
    },
    prelude::*,
    sync::aref::ARef,
    task::Task, //
};

/// A reference to a `struct pid`.
///
/// # Invariants
///
/// The pointer is valid, and this owns a reference.
struct PidRef(NonNull<bindings::pid>);

// SAFETY: `struct pid` is counted and locked by the kernel, whoever refers to it.
unsafe impl Send for PidRef {}
// SAFETY: As above.
unsafe impl Sync for PidRef {}

impl PidRef {
    /// The pid that is `number` in the pid namespace of the current process.
    fn find(number: i32) -> Option<Self> {
        // SAFETY: Takes any number; returns null or a reference.
        let pid = unsafe { bindings::find_get_pid(number) };
        // INVARIANT: As just said.
        NonNull::new(pid).map(Self)
    }

    /// The pid of the process that `task` belongs to.
    fn of_process(task: &Task) -> Option<Self> {
        // SAFETY: `task` is a task; returns null, if it is reaped, or a reference.
        let pid = unsafe { bindings::get_task_pid(task.as_ptr(), bindings::pid_type_PIDTYPE_TGID) };
        // INVARIANT: As just said.
        NonNull::new(pid).map(Self)
    }

    /// The task that has this pid in the role of `kind`, unless it is reaped.
    fn task(&self, kind: bindings::pid_type) -> Option<ARef<Task>> {
        // SAFETY: By the type invariant; returns null or a reference.
        let task = unsafe { bindings::get_pid_task(self.0.as_ptr(), kind) };
        // SAFETY: A `Task` is a `task_struct`, and the reference becomes ours.
        NonNull::new(task).map(|task| unsafe { ARef::from_raw(task.cast()) })
    }

    /// Its number in the pid namespace of the current process.
    fn number(&self) -> i32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::pid_vnr(self.0.as_ptr()) }
    }
}

impl Drop for PidRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours.
        unsafe { bindings::put_pid(self.0.as_ptr()) };
    }
}

/// The process or the thread that is counted.
pub(crate) struct Target {
    /// Of the process, or none: then it is the thread alone.
    process: Option<PidRef>,
    /// The thread by which it was named.
    thread: ARef<Task>,
    /// Its number for the user, in the pid namespace of the process that loads the module.
    number: i32,
}

impl Target {
    /// The process of which `number` names a thread, in the pid namespace of the current process,
    /// or, if `thread` is set, that thread alone.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is none.
    pub(crate) fn find(number: i32, thread: bool) -> Result<Self> {
        let named = PidRef::find(number).ok_or(ESRCH)?;
        let task = named.task(bindings::pid_type_PIDTYPE_PID).ok_or(ESRCH)?;
        let process = match thread {
            true => None,
            false => Some(PidRef::of_process(&task).ok_or(ESRCH)?),
        };
        Ok(Self {
            number: process.as_ref().unwrap_or(&named).number(),
            process,
            thread: task,
        })
    }

    /// The thread by which it was named.
    pub(crate) fn thread(&self) -> ARef<Task> {
        self.thread.clone()
    }

    /// The task whose name is the target's. A process that is gone has no leader any more.
    fn leader(&self) -> ARef<Task> {
        let leader = match &self.process {
            Some(process) => process.task(bindings::pid_type_PIDTYPE_TGID),
            None => None,
        };
        leader.unwrap_or_else(|| self.thread())
    }
}

/// `1234 (name)`; the name is the leader's or the thread's of now, with `?` for what would not print
/// on a line.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.number)?;
        let leader = self.leader();
        // SAFETY: The task is valid, and the name an array of bytes; what is read while it changes is
        // a mixture at worst.
        let name = unsafe { (&raw const (*leader.as_ptr()).comm).read_volatile() };
        for byte in name.into_iter().take_while(|&byte| byte != 0) {
            f.write_char(match byte {
                b' '..=b'~' => char::from(byte),
                _ => '?',
            })?;
        }
        f.write_char(')')
    }
}
