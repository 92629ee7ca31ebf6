// SPDX-License-Identifier: GPL-2.0

//! The two hooks of a context switch, where next to nothing is to be done: the gate is moved, or the
//! counter that runs freely is read.
//!
//! Each CPU has two words that say for whom that is all. Whatever is more goes to `pmu.rs`.

use core::ptr::{
    from_ref,
    null, //
};

use crate::{
    account::Account,
    free, gate, pmu,
    sched_hook::Switch,
    smp::{
        per_cpu,
        ThisCpu, //
    },
};

/// Nobody's address, null's neither: -1.
const NOBODY: usize = usize::MAX;

per_cpu! {
    /// Who may come, and that is all: the address of an account, which is only compared, or [`NOBODY`].
    static RESUMES: usize = NOBODY;
}

per_cpu! {
    /// Who may follow on who leaves, and that is all: null, which stands for all who are not counted, or
    /// [`NOBODY`].
    static SUSPENDS: usize = NOBODY;
}

/// From now on it is all if `whom` comes.
pub(crate) fn set_resumes(whom: Option<&Account>, cpu: &ThisCpu) {
    RESUMES::set(whom.map_or(NOBODY, |whom| from_ref(whom).addr()), cpu);
}

/// Whether it is all, from now on, if somebody leaves and nobody comes.
#[inline(always)]
pub(crate) fn set_suspends(suspends: bool, cpu: &ThisCpu) {
    match suspends {
        true => SUSPENDS::set_to::<0>(cpu),
        false => SUSPENDS::set_to::<-1>(cpu),
    }
}

/// Whether it is.
pub(crate) fn suspends(cpu: &ThisCpu) -> bool {
    SUSPENDS::is(0, cpu)
}

/// Calls `f` if that is all there is to do when `account` comes.
#[inline(always)]
fn arrived(account: &Account, cpu: &ThisCpu, f: impl FnOnce()) {
    match RESUMES::is(from_ref(account).addr(), cpu) {
        true => f(),
        false => pmu::arrived(account, cpu),
    }
}

/// Calls `f` if that is all there is to do when somebody leaves for `next`, or nothing if it is the same.
#[inline(always)]
fn left(next: Option<&Account>, cpu: &ThisCpu, f: impl FnOnce()) {
    let address = next.map_or(null(), from_ref).addr();
    if SUSPENDS::is(address, cpu) {
        f();
    } else if !RESUMES::is(address, cpu) {
        pmu::left(next, cpu);
    }
}

/// By the gate.
pub(crate) struct Gated;

impl Switch<Account> for Gated {
    #[inline(always)]
    fn arrived(account: &Account, cpu: &ThisCpu) {
        arrived(account, cpu, || gate::open(cpu));
    }

    #[inline(always)]
    fn left(next: Option<&Account>, cpu: &ThisCpu) {
        left(next, cpu, || gate::close(cpu));
    }
}

/// By reading. Nothing but [`set_suspends()`] tells that the target has come: whoever leaves without is not
/// known yet, and another's events are not his.
pub(crate) struct Free;

impl Switch<Account> for Free {
    #[inline(always)]
    fn arrived(account: &Account, cpu: &ThisCpu) {
        arrived(account, cpu, || match free::begin(cpu) {
            true => set_suspends(true, cpu),
            false => arrived_again(account, cpu),
        });
    }

    #[inline(always)]
    fn left(next: Option<&Account>, cpu: &ThisCpu) {
        left(next, cpu, || match free::end(cpu) {
            true => set_suspends(false, cpu),
            false => left_again(next, cpu),
        });
    }
}

/// After a PMI; apart, so that it costs the others nothing.
#[cold]
#[inline(never)]
fn arrived_again(account: &Account, cpu: &ThisCpu) {
    Free::arrived(account, cpu);
}

/// After a PMI, as above.
#[cold]
#[inline(never)]
fn left_again(next: Option<&Account>, cpu: &ThisCpu) {
    Free::left(next, cpu);
}
