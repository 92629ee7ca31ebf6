// SPDX-License-Identifier: GPL-2.0

//! The files of the module that are pure, as an ordinary program, so that their tests run on the host.

#![allow(dead_code)]

// The kernel's crate root brings the kernel's.
use std::fmt;

#[path = "../../architectural.rs"]
mod architectural;
#[path = "../../command.rs"]
mod command;
#[path = "../../counter.rs"]
mod counter;
#[path = "../../cpuid.rs"]
mod cpuid;
#[path = "../../event.rs"]
mod event;
#[path = "../../placement.rs"]
mod placement;

#[cfg(test)]
mod judge;
#[cfg(test)]
mod random;
