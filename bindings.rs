// SPDX-License-Identifier: GPL-2.0

//! What the kernel declares in C: all that its crate has, and what `bindings.h` and `Kbuild` add to that.

// What is generated is as C has it.
#![allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

pub(crate) use kernel::bindings::*;
use kernel::ffi;

include!(env!("PMU_COUNT_BINDINGS"));
