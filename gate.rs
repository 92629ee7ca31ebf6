// SPDX-License-Identifier: GPL-2.0

//! The gate: the one register of a CPU whose value lets counter 0 run or stops it.
//!
//! From PMU version 2 on it is GLOBAL_CTRL, while PERFEVTSEL0 selects the event for as long as the
//! module is loaded. Version 1 has but PERFEVTSEL0, which then selects the event or nothing.
//! Closed, the counter stands still and keeps what it has.
//!
//! All gates open by one key. While it is 0 none opens, whoever comes to a CPU.

use crate::{
    event::Event,
    msr::{
        self,
        Msr, //
    },
    sched_hook::Switches,
    smp::{
        Shared,
        ThisCpu, //
    },
};

/// What is written to a gate to open it; 0 while nobody is to be counted.
static KEY: Shared<u32> = Shared::new(0);

/// Opens this CPU's gate, if there is a key. A CPU that has no such register has no gate.
#[inline(always)]
fn open(gate: Msr, cpu: &ThisCpu) {
    gate.write_if_there(KEY.get(), cpu);
}

/// Closes this CPU's gate.
#[inline(always)]
fn close(gate: Msr, cpu: &ThisCpu) {
    gate.write_if_there(0, cpu);
}

/// Which register is the gate; the same on all CPUs, so that a context switch need not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// GLOBAL_CTRL.
    GlobalCtrl,
    /// PERFEVTSEL0.
    EventSelect,
}

impl Gate {
    /// The register.
    #[inline(always)]
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

    /// Lets gates be opened to count `event`.
    pub(crate) fn hand_out_key(self, event: Event) {
        KEY.set(self.key(event, true));
    }

    /// Lets no gate be opened from now on. Those that are open stay so.
    pub(crate) fn take_key_back() {
        KEY.set(0);
    }

    /// Opens this CPU's.
    pub(crate) fn open(self, cpu: &ThisCpu) {
        open(self.msr(), cpu);
    }

    /// Closes this CPU's.
    #[inline(always)]
    pub(crate) fn close(self, cpu: &ThisCpu) {
        close(self.msr(), cpu);
    }

    /// Whether gates can be opened.
    pub(crate) fn has_key() -> bool {
        KEY.get() != 0
    }
}

/// Moves the gate that is GLOBAL_CTRL.
pub(crate) struct GlobalCtrl;

impl Switches for GlobalCtrl {
    #[inline(always)]
    fn arrived(cpu: &ThisCpu) {
        open(msr::GLOBAL_CTRL, cpu);
    }

    #[inline(always)]
    fn left(cpu: &ThisCpu) {
        close(msr::GLOBAL_CTRL, cpu);
    }
}

/// Moves the gate that is PERFEVTSEL0.
pub(crate) struct EventSelect;

impl Switches for EventSelect {
    #[inline(always)]
    fn arrived(cpu: &ThisCpu) {
        open(msr::PERFEVTSEL0, cpu);
    }

    #[inline(always)]
    fn left(cpu: &ThisCpu) {
        close(msr::PERFEVTSEL0, cpu);
    }
}
