// SPDX-License-Identifier: GPL-2.0

//! Who may count whom.
//!
//! C headers: [`include/linux/capability.h`](srctree/include/linux/capability.h),
//! [`include/linux/ptrace.h`](srctree/include/linux/ptrace.h)

use kernel::{
    cred::Credential,
    current,
    error::to_result,
    fs::LocalFile,
    prelude::*,
    task::{
        Kuid,
        Task, //
    },
    types::NotThreadSafe, //
};

use crate::{
    bindings,
    target::Terms, //
};

/// Who asks, now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// On whose behalf.
    pub(crate) uid: Kuid,
    /// Whether any task may be counted, in any mode, and any target seen.
    pub(crate) privileged: bool,
    /// Whether that is who has opened the device, with no more rights than then.
    alone: bool,
}

impl Caller {
    /// The current task, which uses `file`. An open file may have been passed on: so both it and who
    /// has opened it must have a right.
    pub(crate) fn of(file: &LocalFile) -> Self {
        // SAFETY: Its credentials stay as they are, as it does nothing else meanwhile.
        let own = unsafe { Credential::from_ptr((*current!().as_ptr()).cred) };
        Self {
            privileged: is_capable(Some(file)) && is_capable(None),
            alone: has_no_more(own, file.cred()),
            uid: own.euid(),
        }
    }

    /// Who loads the module.
    pub(crate) fn loader() -> Self {
        Self {
            uid: Kuid::current_euid(),
            privileged: true,
            alone: true,
        }
    }

    /// Whether a target may be seen and commanded: by who may count anything, and by who asked for it, if
    /// he could not have asked for more.
    pub(crate) fn may_use(&self, terms: &Terms) -> bool {
        self.privileged || self.alone && self.uid == terms.owner && !terms.privileged
    }

    /// Whether `task`, and with it the other threads of its process, may be counted in user mode, by perf's
    /// rule.
    pub(crate) fn may_count(&self, task: &Task) -> bool {
        self.privileged || self.alone && may_access(task)
    }
}

/// Whether the current task may look into `task`.
#[cfg(CONFIG_SCHED_HOOK)]
fn may_access(task: &Task) -> bool {
    let mode = bindings::PTRACE_MODE_READ_REALCREDS;
    // SAFETY: `task` is a task; may sleep, as its callers may.
    unsafe { bindings::ptrace_may_access(task.as_ptr(), mode) }
}

/// Nobody without rights: a kernel without our patch does not tell a module who may look into whom.
#[cfg(not(CONFIG_SCHED_HOOK))]
fn may_access(_: &Task) -> bool {
    false
}

/// A process that does not become another program, with other rights, while this exists.
pub(crate) struct NoExec<'a>(&'a Task, NotThreadSafe);

impl<'a> NoExec<'a> {
    /// Waits for an exec of `task` that goes on.
    ///
    /// # Errors
    ///
    /// `EINTR` if the current task is being killed.
    pub(crate) fn new(task: &'a Task) -> Result<Self> {
        // SAFETY: The lock is there as long as the task.
        to_result(unsafe { bindings::down_read_killable(exec_lock(task)) })?;
        Ok(Self(task, NotThreadSafe))
    }
}

/// What an exec of `task` holds for writing.
fn exec_lock(task: &Task) -> *mut bindings::rw_semaphore {
    // SAFETY: The task is valid, and so is its process.
    unsafe { &raw mut (*(*task.as_ptr()).signal).exec_update_lock }
}

impl Drop for NoExec<'_> {
    fn drop(&mut self) {
        // SAFETY: It was locked by `new()`, in the same task, as the value cannot be sent elsewhere.
        unsafe { bindings::up_read(exec_lock(self.0)) };
    }
}

/// Whether who has `own` is the same user as who has `other`, and may do no more: a program that got
/// rights when it was started must not use them in what somebody has it print, into a file of his.
fn has_no_more(own: &Credential, other: &Credential) -> bool {
    let of = |cred: &Credential| {
        let cred = cred.as_ptr();
        // SAFETY: They are credentials, of which these do not change.
        unsafe { ((*cred).user_ns, (*cred).cap_permitted.val, (*cred).egid.val) }
    };
    let ((own_ns, own_caps, own_egid), (ns, caps, egid)) = (of(own), of(other));
    let more = match own_ns == ns {
        true => own_caps & !caps,
        false => own_caps,
    };
    own.euid() == other.euid() && own_egid == egid && more == 0
}

/// Whether the opener of `file`, or the current task, may watch the whole system's performance.
fn is_capable(file: Option<&LocalFile>) -> bool {
    [bindings::CAP_PERFMON, bindings::CAP_SYS_ADMIN]
        .into_iter()
        .any(|capability| {
            // SAFETY: The file is open, and the namespace is the initial one.
            unsafe {
                match file {
                    Some(file) => bindings::file_ns_capable(
                        file.as_ptr(),
                        &raw mut bindings::init_user_ns,
                        capability as c_int,
                    ),
                    None => bindings::capable(capability as c_int),
                }
            }
        })
}
