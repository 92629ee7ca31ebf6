// SPDX-License-Identifier: GPL-2.0

//! The gate: the one register of a CPU whose value lets its counters run or stops them.
//!
//! From PMU version 2 on it is GLOBAL_CTRL, while the event selects stay for as long as somebody is
//! counted. Version 1 has but an event select for each counter, which then selects the event or
//! nothing; the gate is the first of them. Closed, the counters stand still and keep what they have.
//!
//! A context switch moves it with a single write: each CPU has words that say which register it is, and
//! what opens it, the *key*.

use crate::{
    msr::{
        self,
        Msr, //
    },
    smp::{
        per_cpu,
        ThisCpu, //
    },
};

per_cpu! {
    /// The address of this CPU's gate.
    static ADDRESS: u32 = msr::NOWHERE.address();
}

per_cpu! {
    /// EAX's part of the key.
    static KEY_LOW: u32 = 0;
}

per_cpu! {
    /// EDX's part of the key.
    static KEY_HIGH: u32 = 0;
}

/// Opens this CPU's gate.
#[inline(always)]
pub(crate) fn open(cpu: &ThisCpu) {
    let key = u64::from(KEY_HIGH::get(cpu)) << 32 | u64::from(KEY_LOW::get(cpu));
    // SAFETY: The register is the one of `install()`, which takes its key, or `NOWHERE`, which takes 0.
    unsafe { Msr::at(ADDRESS::get(cpu)).write(key, cpu) };
}

/// Closes this CPU's gate.
#[inline(always)]
pub(crate) fn close(cpu: &ThisCpu) {
    // SAFETY: As above; whatever is one takes 0.
    unsafe { Msr::at(ADDRESS::get(cpu)).write(0, cpu) };
}

/// Makes `msr` this CPU's gate, which `key` opens.
///
/// # Safety
///
/// This CPU must have the register, and it must take the key.
pub(crate) unsafe fn install(msr: Msr, key: u64, cpu: &ThisCpu) {
    ADDRESS::set(msr.address(), cpu);
    KEY_LOW::set(key as u32, cpu);
    KEY_HIGH::set((key >> 32) as u32, cpu);
}

/// This CPU has no gate any more.
pub(crate) fn remove(cpu: &ThisCpu) {
    // SAFETY: Every CPU has it, and it takes a 0.
    unsafe { install(msr::NOWHERE, 0, cpu) };
}
