// SPDX-License-Identifier: GPL-2.0

//! The other way to count at a switch: the counter runs freely, and is read where the target comes and
//! where it leaves.
//!
//! Here for a CPU that has but one counter to read; what is done for several is in `pmc.rs`. Between two
//! reads a PMI may set the counter back. It then sets the first read back by as much, and says so: a
//! read that it may have interrupted is done again.

use crate::{
    msr,
    smp::{
        per_cpu,
        ThisCpu, //
    },
};

per_cpu! {
    /// What RDPMC knows this CPU's counter by.
    static COUNTER: u32 = 0;
}

per_cpu! {
    /// Its top bit, alone, which is gone from an overflow to its PMI. Inverted, it lets the counter go on
    /// over the overflow.
    static TOP: u64 = 0;
}

per_cpu! {
    /// Where it stood when the target came, its top bit inverted, less what PMIs have set it back by.
    static SINCE: u64 = 0;
}

per_cpu! {
    /// What was counted for those who have left.
    static SUM: u64 = 0;
}

per_cpu! {
    /// How often a PMI has set it back.
    static PMIS: u64 = 0;
}

/// What `f` makes of where the counter stands, its top bit inverted, unless a PMI has come meanwhile.
#[inline(always)]
fn read<T>(cpu: &ThisCpu, f: impl Fn(u64) -> T) -> Option<T> {
    let pmis = PMIS::get(cpu);
    // SAFETY: As `install()` was promised.
    let value = unsafe { msr::rdpmc(COUNTER::get(cpu), cpu) };
    let made = f(TOP::inverted_in(value, cpu));
    PMIS::is(pmis, cpu).then_some(made)
}

/// The target comes. Returns false if it must be tried again.
#[inline(always)]
#[must_use]
pub(crate) fn begin(cpu: &ThisCpu) -> bool {
    read(cpu, |value| SINCE::set(value, cpu)).is_some()
}

/// The target, for which was begun, leaves. Returns false if it must be tried again.
#[inline(always)]
#[must_use]
pub(crate) fn end(cpu: &ThisCpu) -> bool {
    let counted = read(cpu, |value| SINCE::taken_from(value, cpu));
    if let Some(counted) = counted {
        SUM::add(counted, cpu);
    }
    counted.is_some()
}

/// What was counted since the last time, for those who have left. `None` if somebody else must have set
/// the counter back.
pub(crate) fn take(cpu: &ThisCpu) -> Option<u64> {
    // Nothing comes in between: PMIs do not touch it.
    let sum = SUM::get(cpu);
    SUM::set(0, cpu);
    ((sum as i64) >= 0).then_some(sum)
}

/// A PMI has set the counter back by `events`; if it is another that it has set back, this does no harm.
#[inline(always)]
pub(crate) fn set_back(events: u64, cpu: &ThisCpu) {
    SINCE::subtract(events, cpu);
    PMIS::increment(cpu);
}

/// From now on it is this counter that is read, whose top bit is `top`.
///
/// # Safety
///
/// This CPU must have the counter.
pub(crate) unsafe fn install(rdpmc: u32, top: u64, cpu: &ThisCpu) {
    COUNTER::set(rdpmc, cpu);
    TOP::set(top, cpu);
    SUM::set(0, cpu);
}
