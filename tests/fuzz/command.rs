// SPDX-License-Identifier: GPL-2.0

//! What is written to the device, made by libFuzzer: it looks for inputs that take new ways through the same source files.

#![no_main]
#![allow(dead_code)]

use std::fmt;

use libfuzzer_sys::fuzz_target;

#[path = "../../architectural.rs"]
mod architectural;
#[path = "../../command.rs"]
mod command;
#[path = "../../counter.rs"]
mod counter;
#[path = "../../event.rs"]
mod event;
#[path = "../host/judge.rs"]
mod judge;

fuzz_target!(|text: &[u8]| {
    judge::write(text);
});
