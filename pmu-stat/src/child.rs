// SPDX-License-Identifier: GPL-2.0

//! The command that is counted: a child that waits before its exec until it is told to go on.

use crate::{
    error::{
        Error,
        Result, //
    },
    sys, //
};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    libc,
    sys::signal::{
        SigSet,
        Signal, //
    },
    unistd::{
        self,
        ForkResult,
        Pid, //
    },
};
use std::{
    ffi::{
        CString,
        OsString, //
    },
    fs::File,
    io::{
        Read as _,
        Write as _, //
    },
    os::unix::ffi::OsStringExt,
    process, //
};

/// How a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With an exit status.
    Exited(i32),
    /// By a signal.
    Killed(i32),
}

/// A command that has been forked.
pub(crate) struct Child {
    /// Its process.
    pub(crate) pid: Pid,
    /// Whoever holds this lets it wait: a byte makes it go on, the end of the file ends it.
    go: Option<File>,
    /// The errno of its exec, or nothing.
    failure: File,
    /// Whether it has been waited for.
    reaped: bool,
}

/// The arguments as exec wants them.
pub(crate) fn arguments(command: &[OsString]) -> Result<Vec<CString>> {
    let arguments = command
        .iter()
        .map(|argument| CString::new(argument.clone().into_vec()));
    arguments
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| Error::usage("an argument of the command has a NUL in it"))
}

impl Child {
    /// Forks. `mask` is the mask of signals that the command is to have.
    pub(crate) fn prepare(arguments: &[CString], mask: &SigSet) -> Result<Self> {
        let cannot =
            |errno: Errno| Error::new(format!("cannot start the command: {}", errno.desc()));
        let (mut go_on, go) = pipe().map_err(cannot)?;
        let (failure, mut fail) = pipe().map_err(cannot)?;
        match sys::fork().map_err(cannot)? {
            ForkResult::Parent { child } => Ok(Self {
                pid: child,
                go: Some(go),
                failure,
                reaped: false,
            }),
            ForkResult::Child => {
                drop((go, failure));
                if !matches!(go_on.read(&mut [0]), Ok(1)) {
                    process::exit(1);
                }
                let errno = execute(arguments, mask);
                // The parent may be gone.
                let _ = fail.write_all(&(errno as i32).to_ne_bytes());
                process::exit(1);
            }
        }
    }

    /// Lets it run the command.
    pub(crate) fn start(&mut self) -> std::result::Result<(), Errno> {
        if let Some(mut go) = self.go.take() {
            // A child that was killed while it waited is seen when it is waited for.
            let _ = go.write_all(&[1]);
        }
        let mut errno = [0; 4];
        match self.failure.read_exact(&mut errno) {
            Ok(()) => Err(Errno::from_raw(i32::from_ne_bytes(errno))),
            Err(_) => Ok(()),
        }
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<End> {
        let status = sys::wait(self.pid, true)?;
        let end = if libc::WIFSIGNALED(status) {
            End::Killed(libc::WTERMSIG(status))
        } else {
            End::Exited(libc::WEXITSTATUS(status))
        };
        self.reaped = true;
        Some(end)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has not been told to go on ends now; one that runs is left alone.
        if self.go.take().is_some() && !self.reaped {
            sys::wait(self.pid, false);
        }
    }
}

/// Two ends of a pipe, to read from and to write to, which close at an exec.
fn pipe() -> nix::Result<(File, File)> {
    let (read, write) = unistd::pipe2(OFlag::O_CLOEXEC)?;
    Ok((read.into(), write.into()))
}

/// Becomes the command, or says why not.
fn execute(arguments: &[CString], mask: &SigSet) -> Errno {
    // Rust's own start has SIGPIPE ignored, which would outlast the exec.
    if let Err(errno) = sys::set_default(Signal::SIGPIPE).and_then(|()| mask.thread_set_mask()) {
        return errno;
    }
    match arguments
        .first()
        .map(|name| unistd::execvp(name, arguments))
    {
        Some(Err(errno)) => errno,
        _ => Errno::EINVAL,
    }
}
