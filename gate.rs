// SPDX-License-Identifier: GPL-2.0

//! The gate: the one register of a CPU whose value lets counter 0 run or stops it.
//!
//! From PMU version 2 on it is GLOBAL_CTRL, while PERFEVTSEL0 selects the event for as long as the
//! module is loaded. Version 1 has but PERFEVTSEL0, which then selects the event or nothing.
//! Closed, the counter stands still and keeps what it has.
//!
//! A context switch moves it with a single write and no question: each CPU has a word that says
//! which register that is, and one that says what opens it, the *key*. On a CPU whose PMU is not ours
//! the key is 0 and the register one where a 0 does nothing.

use crate::{
    event::Event,
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
    /// What opens it; 0 while nobody is to be counted here.
    static KEY: u32 = 0;
}

/// Opens this CPU's gate, if it has a key.
#[inline(always)]
pub(crate) fn open(cpu: &ThisCpu) {
    // SAFETY: The address is the one below or `NOWHERE`, and takes this.
    unsafe { Msr::at(ADDRESS::get(cpu)).write(KEY::get(cpu).into(), cpu) };
}

/// Closes this CPU's gate.
#[inline(always)]
pub(crate) fn close(cpu: &ThisCpu) {
    // SAFETY: As above.
    unsafe { Msr::at(ADDRESS::get(cpu)).write(0, cpu) };
}

/// Takes the key away: this CPU's gate does not open any more.
pub(crate) fn lock(cpu: &ThisCpu) {
    KEY::set(0, cpu);
}

/// Takes key and gate away.
pub(crate) fn remove(cpu: &ThisCpu) {
    lock(cpu);
    ADDRESS::set(msr::NOWHERE.address(), cpu);
}

/// Which register is a CPU's gate.
#[derive(Clone, Copy)]
pub(crate) enum Gate {
    /// GLOBAL_CTRL.
    GlobalCtrl,
    /// PERFEVTSEL0.
    EventSelect,
}

impl Gate {
    /// The gate of a PMU with GLOBAL_CTRL or without.
    pub(crate) const fn new(has_global: bool) -> Self {
        match has_global {
            true => Self::GlobalCtrl,
            false => Self::EventSelect,
        }
    }

    /// The register.
    #[inline]
    pub(crate) const fn msr(self) -> Msr {
        match self {
            Self::GlobalCtrl => msr::GLOBAL_CTRL,
            Self::EventSelect => msr::PERFEVTSEL0,
        }
    }

    /// What opens it to count `event`, with a PMI at each overflow or not.
    pub(crate) const fn key(self, event: Event, pmi: bool) -> u32 {
        match self {
            Self::GlobalCtrl => msr::COUNTER0 as u32,
            Self::EventSelect => event.perfevtsel(pmi) as u32,
        }
    }

    /// Makes it this CPU's, closed, with a key to count `event`.
    ///
    /// # Safety
    ///
    /// This CPU must have the register, and it must take the key.
    pub(crate) unsafe fn install(self, event: Event, cpu: &ThisCpu) {
        ADDRESS::set(self.msr().address(), cpu);
        KEY::set(self.key(event, true), cpu);
    }
}
