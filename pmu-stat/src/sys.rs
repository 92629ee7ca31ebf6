// SPDX-License-Identifier: GPL-2.0

//! Calls of the C library that nix does not wrap, and the only unsafe code.
#![expect(unsafe_code)]

use nix::{
    errno::Errno,
    libc,
    sys::signal::{
        self,
        SigHandler,
        Signal, //
    },
    unistd::{
        self,
        ForkResult,
        Pid, //
    }, //
};
use std::{
    ffi::CStr,
    os::fd::{
        FromRawFd,
        OwnedFd, //
    },
};

/// fork(2).
pub(crate) fn fork() -> nix::Result<ForkResult> {
    // SAFETY: The program has one thread, so the child may do what its parent may.
    unsafe { unistd::fork() }
}

/// The status with which the child has ended, if it has; unless it is to be polled this waits.
pub(crate) fn wait(child: Pid, poll: bool) -> Option<i32> {
    let mut status = 0;
    let flags = if poll { libc::WNOHANG } else { 0 };
    // nix has an error in place of the status if the signal was a real-time one.
    // SAFETY: `status` can be written.
    let ended = unsafe { libc::waitpid(child.as_raw(), &mut status, flags) };
    (ended == child.as_raw()).then_some(status)
}

/// Has the signal do what it does by default.
pub(crate) fn set_default(signal: Signal) -> nix::Result<()> {
    // SAFETY: No handler is installed.
    unsafe { signal::signal(signal, SigHandler::SigDfl) }.map(|_| ())
}

/// A file that can be read as soon as the process, or with `thread` that one thread, has exited.
pub(crate) fn pidfd(pid: i32, thread: bool) -> nix::Result<OwnedFd> {
    // PIDFD_THREAD is O_EXCL.
    let flags = if thread { libc::O_EXCL } else { 0 };
    // SAFETY: The call takes two numbers.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) })?;
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: The descriptor is new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the C library calls a signal, as in "Terminated".
pub(crate) fn describe(signal: i32) -> String {
    // SAFETY: The text is static or, there being one thread, stands until the next call.
    let text = unsafe {
        let text = libc::strsignal(signal);
        if text.is_null() {
            return format!("signal {signal}");
        }
        CStr::from_ptr(text)
    };
    text.to_string_lossy().into_owned()
}

/// Date and time here and now, as ctime(3) writes them.
pub(crate) fn now() -> String {
    // ctime_r(3) asks for 26 bytes.
    let mut text = [0; 32];
    // SAFETY: The buffer is large enough, and zero behind what is written.
    let text = unsafe {
        let now = libc::time(std::ptr::null_mut());
        if libc::ctime_r(&now, text.as_mut_ptr()).is_null() {
            return String::new();
        }
        CStr::from_ptr(text.as_ptr())
    };
    text.to_string_lossy().trim_end().to_owned()
}

/// What the user's locale puts between groups of three digits; mostly nothing, "," or ".".
pub(crate) fn thousands_separator() -> String {
    // SAFETY: There is one thread; the strings stand until the next call of either function.
    let separator = unsafe {
        libc::setlocale(libc::LC_ALL, c"".as_ptr());
        let conventions = libc::localeconv();
        if conventions.is_null() || (*conventions).thousands_sep.is_null() {
            return String::new();
        }
        CStr::from_ptr((*conventions).thousands_sep)
    };
    // A locale in another encoding than UTF-8.
    separator.to_str().map(str::to_owned).unwrap_or_default()
}
