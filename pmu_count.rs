// SPDX-License-Identifier: GPL-2.0

//! Counts an event of one process with the CPU's performance monitoring unit, programmed directly.
//!
//! This file only composes: parameters, life cycle, what is said to the user.
//!
//! | file | its secret |
//! |---|---|
//! | `event.rs` | what is counted |
//! | `counter.rs` | the arithmetic of -N |
//! | `target.rs` | who is counted |
//! | `pmc.rs` | counter 0 of each CPU: programs, gates, services, settles |
//! | `msr.rs`, `apic.rs` | the registers |
//! | `cpuid.rs` | what the PMU can do |
//! | `sched_hook.rs`, `nmi.rs`, `cpuhp.rs` | who calls us: scheduler, NMIs, CPUs that come and go |
//! | `smp.rs`, `slot.rs` | being on a CPU; being found by a callback |

use core::ffi::CStr;

use kernel::{
    fmt,
    prelude::*,
    sync::Arc, //
};

mod apic;
mod counter;
mod cpuhp;
mod cpuid;
mod event;
mod msr;
mod nmi;
mod pmc;
mod sched_hook;
mod slot;
mod smp;
mod target;

use crate::{
    counter::Preload,
    cpuid::{
        Missing,
        Pmu, //
    },
    event::{
        Event,
        Invalid, //
    },
    pmc::{
        Counters,
        Fault, //
    },
    slot::Slot,
    smp::{
        on_this_cpu,
        ThisCpu, //
    },
    target::Target, //
};

module! {
    type: PmuCount,
    name: "pmu_count",
    authors: ["pmu_count developers"],
    description: "Counts an event of one process with the PMU, programmed directly",
    license: "GPL",
    params: {
        pid: i32 {
            default: 0,
            description: "Process to count, by the pid of any of its threads; required",
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
    },
}

/// One count: who, what, and how much of it.
struct Session {
    target: Target,
    event: Event,
    counters: Arc<Counters>,
}

impl Session {
    /// The one line that a user loads the module for. All gates must be closed.
    fn report(&self, remark: &str) {
        let count = self.counters.total();
        pr_info!(
            "pid {}: {} {}, {} overflows, event {}{remark}\n",
            self.target,
            count.events,
            self.event.unit(),
            count.overflows,
            self.event
        );
    }
}

impl sched_hook::Follower for Session {
    #[inline(always)]
    fn switched(arrived: bool, cpu: &ThisCpu) {
        // SAFETY: The hook is registered after every CPU was programmed, and a CPU that comes
        // later is programmed before it is fully online. So GLOBAL_CTRL was probed there.
        unsafe { pmc::gate(arrived, cpu) };
    }

    fn dead(&self) {
        self.report("");
    }

    fn left_alive(&self) {
        self.report(", still running");
    }
}

impl nmi::Handler for Counters {
    const NAME: &'static CStr = c"pmu_count";

    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<Counters> = Slot::new();
        &SLOT
    }

    fn handle(&self, cpu: &ThisCpu) -> nmi::Return {
        match self.service_pmi(cpu) {
            true => nmi::Return::Handled,
            false => nmi::Return::Done,
        }
    }
}

impl cpuhp::Callbacks for Counters {
    const NAME: &'static CStr = c"pmu_count:online";

    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<Counters> = Slot::new();
        &SLOT
    }

    fn online(&self) -> Result {
        let (cpu, programmed) = on_this_cpu(|cpu| (cpu.index(), self.program(cpu)));
        programmed.map_err(|fault| refuse_cpu(cpu, fault))
    }

    fn offline(&self) {
        on_this_cpu(|cpu| self.restore(cpu));
    }
}

/// Says why a CPU's PMU cannot be used.
fn refuse_cpu(cpu: usize, fault: Fault) -> Error {
    match fault {
        Fault::Differs => {
            pr_err!("CPU {cpu} has another PMU than the CPU where the module was loaded: not supported, take it offline first\n");
            ENODEV
        }
        Fault::Refused => {
            pr_err!("CPU {cpu} refuses a PMU register that CPUID announces: its hypervisor has no working vPMU, turn it on there\n");
            ENODEV
        }
        Fault::Swallowed => {
            pr_err!("CPU {cpu} drops what is written to the PMU: its hypervisor has no working vPMU, turn it on there\n");
            ENODEV
        }
        Fault::Stuck => {
            pr_err!("CPU {cpu}'s counter stands still: its hypervisor announces a vPMU that does not count, turn it on there\n");
            ENODEV
        }
        Fault::NoApic => {
            pr_err!("CPU {cpu} has no local APIC to deliver PMIs: not supported\n");
            ENODEV
        }
        Fault::Running(counter) => {
            let (kind, index) = match counter {
                0..32 => ("counter", counter),
                _ => ("fixed-function counter", counter - 32),
            };
            pr_err!("{kind} {index} of CPU {cpu} is running: stop the tool that programmed it, or write 0 to its IA32_PERFEVTSEL or IA32_FIXED_CTR_CTRL\n");
            EBUSY
        }
    }
}

/// Says why there is no PMU for us.
fn refuse_pmu(missing: Missing) -> Error {
    match missing {
        Missing::NotIntel => {
            pr_err!("this is no Intel CPU: other PMUs are not supported (in QEMU: -cpu ...,vendor=GenuineIntel)\n");
            ENODEV
        }
        Missing::NoPmu => {
            pr_err!("this CPU has no PMU: in a virtual machine, turn its vPMU on (QEMU: -cpu host,pmu=on)\n");
            ENODEV
        }
        Missing::Version(version) => {
            pr_err!("PMU version {version} is not supported, only 2 to 5 are (in QEMU: -cpu ...,pmu-version=2)\n");
            EOPNOTSUPP
        }
    }
}

/// Prints a reason that a user can mend, and gives the error back.
fn refuse(error: Error, reason: fmt::Arguments<'_>) -> Error {
    pr_err!("{reason}\n");
    error
}

/// The module, loaded.
///
/// The fields are dropped in this order, so that whatever uses something goes before it.
struct PmuCount {
    _hook: Pin<KBox<sched_hook::Registration<Session>>>,
    _cpus: cpuhp::Registration<Counters>,
    _nmi: Pin<KBox<nmi::Registration<Counters>>>,
    _reservation: msr::Reservation,
}

impl kernel::Module for PmuCount {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let pid = module_parameters::pid.value();
        let event = module_parameters::event.value();
        let user = module_parameters::user.value();
        let kernel = module_parameters::kernel.value();
        let n = module_parameters::n.value();

        let event = Event::new(event, user, kernel).map_err(|invalid| match invalid {
            Invalid::Bits(bits) => refuse(
                EINVAL,
                fmt!("event={event:#x}: bits {bits:#x} are not yours to set; event select 7:0, unit mask 15:8, EDGE 18, INV 23 and CMASK 31:24 are"),
            ),
            Invalid::NoMode => refuse(
                EINVAL,
                fmt!("user=0 kernel=0 counts nothing: leave one of them on"),
            ),
        })?;
        if pid <= 0 {
            return Err(refuse(
                EINVAL,
                fmt!("pid={pid}: give the process to count, pid=<number above 0>"),
            ));
        }
        let (pmu, full_width) =
            on_this_cpu(|cpu| Pmu::detect().map(|pmu| (pmu, pmc::full_width_writes(&pmu, cpu))))
                .map_err(refuse_pmu)?;
        if pmu.lacks(event.code()) {
            return Err(refuse(
                EOPNOTSUPP,
                fmt!("event {event}: CPUID says that this PMU does not count it; choose another"),
            ));
        }
        let preload = Preload::new(n, pmu.width.into(), full_width, event.counts_kernel())
            .map_err(|bounds| {
                refuse(
                    EINVAL,
                    fmt!(
                        "n={n}: this PMU takes {} to {} for event {event}, or 0 for the largest",
                        bounds.min,
                        bounds.max
                    ),
                )
            })?;
        let (target, thread) = Target::find(pid)
            .map_err(|error| refuse(error, fmt!("pid={pid}: there is no such process")))?;
        let reservation = msr::Reservation::new().map_err(|error| {
            refuse(
                error,
                fmt!("the PMU is in use, by perf or the NMI watchdog: end perf, or run `sysctl kernel.nmi_watchdog=0`"),
            )
        })?;
        let counters = Arc::new(Counters::new(pmu, full_width, event, preload)?, GFP_KERNEL)?;
        let session = Session {
            target,
            event,
            counters: counters.clone(),
        };
        let session = Arc::new(session, GFP_KERNEL)?;
        let nmi = KBox::pin_init(nmi::Registration::new(counters.clone()), GFP_KERNEL)?;
        let cpus = cpuhp::Registration::new(counters)?;
        let hook = KBox::pin_init(sched_hook::Registration::new(session, thread), GFP_KERNEL)
            .inspect_err(|&error| match error {
                ESRCH => pr_err!("pid={pid}: the process is already exiting\n"),
                EBUSY => {
                    pr_err!("the scheduler hooks are taken: unload the module that has them\n")
                }
                _ => {}
            })?;

        Ok(Self {
            _hook: hook,
            _cpus: cpus,
            _nmi: nmi,
            _reservation: reservation,
        })
    }
}
