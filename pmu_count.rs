// SPDX-License-Identifier: GPL-2.0

//! Counts events of processes with the CPU's performance monitoring unit, programmed directly.
//!
//! This file only composes: parameters, life cycle, what is said to the user.
//!
//! | file | its secret |
//! |---|---|
//! | `device.rs` | the device: what is read, ... |
//! | `command.rs`, `event.rs`, `architectural.rs` | ... what may be written; events, and their names |
//! | `rights.rs`, `refusal.rs` | who may; what the user is told when something cannot be |
//! | `targets.rs` | all targets, and the events that are counted for them |
//! | `target.rs`, `pid.rs` | who is counted: processes, threads, what they make |
//! | `account.rs` | where counts go |
//! | `pmu.rs` | the PMU, taken, with all who call us about it |
//! | `pmc.rs` | the counters of each CPU, their PMIs, whose events they hold |
//! | `switch.rs`, `gate.rs`, `free.rs` | a context switch, as short as can be: starting and stopping the counters, or reading them |
//! | `counter.rs`, `placement.rs` | the arithmetic of -N; which counter counts what |
//! | `setup.rs` | how counters are taken, tried out, and given back |
//! | `msr.rs`, `apic.rs`, `cpuid.rs` | the registers, and what the PMU can do |
//! | `sched_hook.rs`, `nmi.rs` | who calls us: the scheduler, NMIs, ... |
//! | `sched_patch.rs`, `sched_trace.rs` | ... the former by our kernel patch, or by tracepoints, ... |
//! | `marks.rs`, `tracepoint.rs` | ... and what that takes |
//! | `cpuhp.rs`, `power.rs` | ... CPUs that come and go, a machine that sleeps or goes down, ... |
//! | `msr_trace.rs` | ... who writes to registers behind our back |
//! | `smp.rs`, `lock.rs`, `slot.rs` | being on a CPU; a lock within a switch; being found by a callback |

use kernel::{
    fmt,
    miscdevice::MiscDeviceRegistration,
    prelude::*,
    sync::Arc, //
};

mod account;
mod apic;
mod architectural;
mod bindings;
mod command;
mod counter;
mod cpuhp;
mod cpuid;
mod device;
mod event;
mod free;
mod gate;
mod lock;
#[cfg(not(CONFIG_SCHED_HOOK))]
mod marks;
mod msr;
mod msr_trace;
mod nmi;
mod pid;
mod placement;
mod pmc;
mod pmu;
mod power;
mod refusal;
mod rights;
mod sched_hook;
#[cfg(CONFIG_SCHED_HOOK)]
mod sched_patch;
#[cfg(not(CONFIG_SCHED_HOOK))]
mod sched_trace;
mod setup;
mod slot;
mod smp;
mod switch;
mod target;
mod targets;
mod tracepoint;

use crate::{
    command::{
        Events,
        Request,
        Threads, //
    },
    cpuid::Pmu,
    device::Device,
    event::Event,
    refusal::{
        refuse,
        refuse_cpu, //
    },
    rights::Caller,
    setup::{
        Fault,
        Manner, //
    },
    slot::Filled,
    smp::on_this_cpu,
    targets::{
        Limits,
        Targets, //
    },
};

module! {
    type: PmuCount,
    name: "pmu_count",
    authors: ["pmu_count developers"],
    description: "Counts events of processes with the PMU, programmed directly",
    license: "GPL",
    params: {
        pid: i32 {
            default: 0,
            description: "Process to count from now on, by the pid of any of its threads; none by default: see /dev/pmu_count",
        },
        event: u64 {
            default: 0x3c,
            description: "Event as perf's rUUEE, with EDGE, INV and CMASK; 0x3c, core cycles, by default",
        },
        user: bool {
            default: true,
            description: "Count in user mode; on by default",
        },
        kernel: bool {
            default: true,
            description: "Count in kernel mode; on by default",
        },
        n: u64 {
            default: 0,
            description: "Events per overflow; 0, the largest that the PMU takes, by default",
        },
        inherit: bool {
            default: true,
            description: "Count what the target makes from now on, too, its children and theirs; on by default",
        },
        thread: bool {
            default: false,
            description: "Count only the thread that pid names, not all of its process; off by default",
        },
        gate: bool {
            default: true,
            description: "Have counters run only while a target does, by GLOBAL_CTRL; on by default. Off: they run freely, and are read at each switch",
        },
        force: bool {
            default: false,
            description: "Take counters that firmware or a tool has left running; off by default",
        },
        targets: u32 {
            default: 64,
            description: "Most targets at a time, with those that have exited and were not removed; 64 by default",
        },
        threads: u32 {
            default: 1024,
            description: "Most ended threads of a target that keep a line of their own; 1024 by default",
        },
    },
}

/// The targets, whose counting ends when this is dropped.
struct Counting(Filled<Targets>);

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The module, loaded.
///
/// The fields are dropped in this order: nobody has the device open when the module goes.
struct PmuCount {
    _device: Pin<KBox<MiscDeviceRegistration<Device>>>,
    _counting: Counting,
}

/// The target of the parameters, if there is one.
fn first_target() -> Result<Option<Request>> {
    let pid = module_parameters::pid.value();
    let code = module_parameters::event.value();
    let user = module_parameters::user.value();
    let kernel = module_parameters::kernel.value();

    let event = Event::new(code, user, kernel)
        .map_err(|invalid| refuse(EINVAL, fmt!("event={code:#x}: {invalid}")))?;
    if pid < 0 {
        return Err(refuse(
            EINVAL,
            fmt!("pid={pid}: give the process to count, pid=<number above 0>"),
        ));
    }
    Ok((pid > 0).then(|| Request {
        pid,
        events: Events::of(event),
        inherit: module_parameters::inherit.value(),
        threads: match module_parameters::thread.value() {
            true => Threads::One,
            false => Threads::Together,
        },
        n: module_parameters::n.value(),
        on_exec: false,
    }))
}

impl kernel::Module for PmuCount {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let limits = Limits {
            targets: module_parameters::targets.value() as usize,
            threads: module_parameters::threads.value().into(),
            manner: Manner {
                force: module_parameters::force.value(),
                free: !module_parameters::gate.value(),
            },
        };
        let request = first_target()?;
        on_this_cpu(|cpu| {
            Pmu::detect()
                .map(|_| ())
                .map_err(|missing| refuse_cpu(cpu.index() as u32, Fault::Missing(missing)))
        })?;
        let targets = Arc::pin_init(Targets::new(limits), GFP_KERNEL)?;
        let counting = Counting(targets::slot().fill(targets)?);
        if let Some(request) = request {
            counting.0.add(&request, &Caller::loader(), true)?;
        }
        Ok(Self {
            _device: KBox::pin_init(Device::register(), GFP_KERNEL)?,
            _counting: counting,
        })
    }
}
