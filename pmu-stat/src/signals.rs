// SPDX-License-Identifier: GPL-2.0

//! Signals as something to wait for beside others, so that none ends the program before it has
//! tidied up.

use crate::{
    error::{
        Error,
        Result, //
    },
    sys, //
};
use nix::{
    sys::{
        signal::{
            self,
            SigSet,
            SigmaskHow,
            Signal, //
        },
        signalfd::{
            SfdFlags,
            SignalFd, //
        },
    },
    unistd::Pid,
};

/// The signals that are waited for.
const AWAITED: [Signal; 5] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// The awaited signals, blocked.
pub(crate) struct Signals {
    /// Readable when one has come.
    pub(crate) file: SignalFd,
    /// The mask before, which is a command's.
    pub(crate) before: SigSet,
}

impl Signals {
    /// Blocks them.
    pub(crate) fn block() -> Result<Self> {
        let cannot = |errno: nix::Error| Error::new(format!("cannot wait for signals: {errno}"));
        let mut awaited = SigSet::empty();
        awaited.extend(AWAITED);
        let mut before = SigSet::empty();
        signal::sigprocmask(SigmaskHow::SIG_BLOCK, Some(&awaited), Some(&mut before))
            .map_err(cannot)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let file = SignalFd::with_flags(&awaited, flags).map_err(cannot)?;
        Ok(Self { file, before })
    }

    /// The next one that has come.
    pub(crate) fn next(&self) -> Option<Signal> {
        let info = self.file.read_signal().ok()??;
        Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()
    }
}

/// Ends as the signal ends programs. Returns if it does not.
pub(crate) fn die_of(signal: Signal) {
    let mut only = SigSet::empty();
    only.add(signal);
    // Whatever fails, the caller ends in another way.
    let _ = sys::set_default(signal);
    let _ = signal::kill(Pid::this(), signal);
    let _ = only.thread_unblock();
}
