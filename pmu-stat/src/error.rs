// SPDX-License-Identifier: GPL-2.0

//! What ends the program early: one line for the user, which tells the remedy, and an exit status.

use std::{
    fmt,
    io::{
        self,
        Write as _, //
    },
};

/// Says a line on standard error; if that cannot be, nobody wants to know.
pub(crate) fn tell(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The status of a misused option: perf's.
const USAGE: u8 = 129;

/// A failure as the user sees it.
#[derive(Debug)]
pub(crate) struct Error {
    /// One line, without the program's name.
    text: String,
    /// Exit status.
    pub(crate) status: u8,
}

/// The result of what can fail in front of the user.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Something went wrong.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::with_status(text, 1)
    }

    /// The command line is wrong.
    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::with_status(format!("{text}; see pmu-stat --help"), USAGE)
    }

    /// As perf ends when there is nothing to count: EINVAL.
    pub(crate) fn no_target(text: impl Into<String>) -> Self {
        Self::with_status(text, 22)
    }

    /// With a status of the caller's.
    fn with_status(text: impl Into<String>, status: u8) -> Self {
        Self {
            text: text.into(),
            status,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pmu-stat: {}", self.text)
    }
}
