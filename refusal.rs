// SPDX-License-Identifier: GPL-2.0

//! What the user is told when something cannot be: one line that says how to mend it, and an errno.

#[cfg(CONFIG_DEBUG_SPINLOCK)]
use core::ptr::without_provenance_mut;

use kernel::{
    fmt,
    prelude::*,
    types::Opaque, //
};

use crate::{
    bindings,
    cpuid::Missing,
    setup::Fault,
    smp::ThisCpu, //
};

/// The most lines in [`INTERVAL`]: more than anybody types, or a script that looks for each.
const BURST: c_int = 100;
/// In jiffies: 5 s. (The bindings' `HZ` is that of the user's interface, always 100.)
const INTERVAL: c_int = 5 * bindings::CONFIG_HZ as c_int;

/// What keeps lines that anybody can cause who may write to the device from flooding the log.
///
/// C header: [`include/linux/ratelimit_types.h`](srctree/include/linux/ratelimit_types.h)
struct Limit(Opaque<bindings::ratelimit_state>);

// SAFETY: It has a lock of its own.
unsafe impl Sync for Limit {}

/// That of this load of the module.
static LIMIT: Limit = Limit(Opaque::new(bindings::ratelimit_state {
    lock: bindings::raw_spinlock_t {
        #[cfg(CONFIG_DEBUG_SPINLOCK)]
        magic: bindings::SPINLOCK_MAGIC,
        #[cfg(CONFIG_DEBUG_SPINLOCK)]
        owner_cpu: c_uint::MAX,
        #[cfg(CONFIG_DEBUG_SPINLOCK)]
        owner: without_provenance_mut(usize::MAX),
        ..pin_init::zeroed()
    },
    interval: INTERVAL,
    burst: BURST,
    ..pin_init::zeroed()
}));

/// Whether there may be one more such line. The first that may be after some that might not says how
/// many these were.
pub(crate) fn may_tell() -> bool {
    // SAFETY: It is as RATELIMIT_STATE_INIT() makes it, and the name is there for good.
    unsafe { bindings::___ratelimit(LIMIT.0.get(), c"pmu_count".as_char_ptr()) != 0 }
}

/// Prints a reason that a user can mend, if there were not too many, and gives the error back.
pub(crate) fn refuse(error: Error, reason: fmt::Arguments<'_>) -> Error {
    if may_tell() {
        pr_err!("{reason}\n");
    }
    error
}

/// The same where a module cannot have what only one may have, or what the kernel lacks.
pub(crate) fn refuse_taken(error: Error) -> Error {
    refuse(
        error,
        match error {
            EBUSY => fmt!("the scheduler hooks are taken: unload the module that has them"),
            ENODEV => fmt!("this kernel lacks a tracepoint of the scheduler: build it with CONFIG_TRACEPOINTS=y"),
            _ => fmt!("the scheduler cannot be followed: there is no memory"),
        },
    )
}

/// Prints why the CPU of this number cannot count what it has to, and gives the errno.
pub(crate) fn refuse_cpu(number: u32, fault: Fault) -> Error {
    refuse(errno(fault), fmt!("CPU {number}: {}", Reason(fault)))
}

/// The same for a CPU that came late, and is there all the same.
pub(crate) fn lament_cpu(cpu: &ThisCpu, fault: Fault) {
    pr_warn!(
        "CPU {}: {}; what runs there is not counted\n",
        cpu.index(),
        Reason(fault)
    );
}

/// The number of a counter as the manual has it; from 32 on it is a fixed-function counter.
pub(crate) struct Counter(pub(crate) u8);

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..32 => write!(f, "counter {}", self.0),
            _ => write!(f, "fixed-function counter {}", self.0 - 32),
        }
    }
}

/// A fault, as text.
struct Reason(Fault);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self(fault) = self;
        match fault {
            Fault::Missing(Missing::NotIntel) => f.write_str("it is no Intel CPU: other PMUs are not supported (in QEMU: -cpu ...,vendor=GenuineIntel)"),
            Fault::Missing(Missing::NoPmu) => f.write_str("it has no PMU, or its hypervisor hides it: turn the vPMU on there (QEMU: -cpu host,pmu=on)"),
            Fault::Missing(Missing::Version(version)) => f.write_fmt(fmt!("PMU version {version} is not supported, only 1 to 5 are (in QEMU: -cpu ...,pmu-version=2)")),
            Fault::NoEvent(event) => f.write_fmt(fmt!("CPUID says that its PMU does not count event {}; choose another", event.named())),
            Fault::TooMany { general, fixed } => f.write_fmt(fmt!("it has {general} general-purpose and {fixed} fixed-function counters, and not one more that counts this: ask for fewer different events, or remove a target")),
            Fault::OutOfRange(wanted, bounds) => f.write_fmt(fmt!("n={}: its PMU takes {} to {} for event {}, or 0 for the largest", wanted.n, bounds.min, bounds.max, wanted.event.named())),
            Fault::Refused => f.write_str("it refuses a PMU register that CPUID announces: its hypervisor has no working vPMU, turn it on there"),
            Fault::Swallowed => f.write_str("it drops what is written to the PMU: its hypervisor has no working vPMU, turn it on there"),
            Fault::Implausible(count) => f.write_fmt(fmt!("its counter counts {count} in a loop of some thousand instructions: its hypervisor announces a vPMU that does not work, turn it on there")),
            Fault::NoApic => f.write_str("it has no local APIC to deliver PMIs: not supported"),
            Fault::Running(counter) => f.write_fmt(fmt!("{} is running: stop the tool that programmed it, write 0 to its IA32_PERFEVTSEL or IA32_FIXED_CTR_CTRL, or load with force=1 to take it over", Counter(counter))),
        }
    }
}

/// The errno that fits.
fn errno(fault: Fault) -> Error {
    match fault {
        Fault::Running(_) => EBUSY,
        Fault::OutOfRange(..) => EINVAL,
        Fault::TooMany { .. } => ENOSPC,
        Fault::NoEvent(_) | Fault::Missing(Missing::Version(_)) => EOPNOTSUPP,
        _ => ENODEV,
    }
}
