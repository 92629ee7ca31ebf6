// SPDX-License-Identifier: GPL-2.0

//! Who may count whom.
//!
//! C headers: [`include/linux/capability.h`](srctree/include/linux/capability.h),
//! [`include/linux/ptrace.h`](srctree/include/linux/ptrace.h)

use kernel::{
    bindings,
    fs::File,
    prelude::*,
    task::{
        Kuid,
        Task, //
    },
};

use crate::target::Terms;

/// Who asks, now.
pub(crate) struct Caller {
    /// On whose behalf.
    pub(crate) uid: Kuid,
    /// Whether any task may be counted, in any mode, and any target seen.
    pub(crate) privileged: bool,
    /// Whether the one who opened the device and the one who uses it now are the same user.
    alone: bool,
}

impl Caller {
    /// The current task, which uses `file`. An open file may have been passed on: so both it and who
    /// has opened it must have a right.
    pub(crate) fn of(file: &File) -> Self {
        let uid = Kuid::current_euid();
        Self {
            privileged: is_capable(Some(file)) && is_capable(None),
            alone: file.cred().euid() == uid,
            uid,
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

    /// Whether a target may be seen and commanded: by who may count anything, and by who asked for it.
    pub(crate) fn may_use(&self, terms: &Terms) -> bool {
        self.privileged || self.alone && self.uid == terms.owner
    }

    /// Whether `task` may be counted in user mode, by perf's rule.
    pub(crate) fn may_count(&self, task: &Task) -> bool {
        let mode = bindings::PTRACE_MODE_READ_REALCREDS;
        // SAFETY: `task` is a task; may sleep, as its callers may.
        self.privileged || self.alone && unsafe { bindings::ptrace_may_access(task.as_ptr(), mode) }
    }
}

/// Whether the opener of `file`, or the current task, may watch the whole system's performance.
fn is_capable(file: Option<&File>) -> bool {
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
