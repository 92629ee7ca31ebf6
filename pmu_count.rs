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
//! | `pmc.rs` | counter 0 of each CPU: its PMIs, its sum |
//! | `setup.rs` | how it is taken, tried out, and given back |
//! | `gate.rs` | what starts and stops it |
//! | `msr.rs`, `apic.rs` | the registers |
//! | `cpuid.rs` | what the PMU can do |
//! | `sched_hook.rs`, `nmi.rs` | who calls us: the scheduler, NMIs, ... |
//! | `cpuhp.rs`, `power.rs` | ... CPUs that come and go, a machine that sleeps or goes down, ... |
//! | `msr_trace.rs` | ... who writes to registers behind our back |
//! | `smp.rs`, `slot.rs` | being on a CPU; being found by a callback |
//! | `refusal.rs` | what the user is told when something cannot be |

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
mod gate;
mod msr;
mod msr_trace;
mod nmi;
mod pmc;
mod power;
mod refusal;
mod sched_hook;
mod setup;
mod slot;
mod smp;
mod target;

use crate::{
    event::{
        Event,
        Invalid, //
    },
    pmc::Counters,
    refusal::{
        lament_cpu,
        refuse,
        refuse_cpu, //
    },
    setup::{
        Fault,
        Job, //
    },
    slot::Slot,
    smp::{
        on_this_cpu,
        CpuSet,
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
            description: "Process to count, by the pid of any of its threads, or kernel thread; required",
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
        force: bool {
            default: false,
            description: "Take counters that firmware or a tool has left running; off by default",
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
    /// Ends counting, with the one line that a user loads the module for.
    fn report(&self, remark: &str) {
        let count = self.counters.end();
        let disturbed = Flaw("disturbed", self.counters.disturbed());
        let incomplete = Flaw("incomplete", self.counters.incomplete());
        pr_info!(
            "pid {}: {} {}, {} overflows, event {}{remark}{disturbed}{incomplete}\n",
            self.target,
            count.events,
            self.event.unit(),
            count.overflows,
            self.event
        );
    }
}

/// `, incomplete on CPU 3`: what is wrong with the count, if there is such a CPU.
struct Flaw<'a>(&'static str, &'a CpuSet);

impl fmt::Display for Flaw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(what, cpus) = self;
        match cpus.is_empty() {
            true => Ok(()),
            false => f.write_fmt(fmt!(", {what} on CPU {cpus}")),
        }
    }
}

impl sched_hook::Follower for Session {
    #[inline(always)]
    fn arrived(cpu: &ThisCpu) {
        gate::open(cpu);
    }

    #[inline(always)]
    fn left(cpu: &ThisCpu) {
        gate::close(cpu);
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
    const NAME: &'static CStr = c"pmu_count:starting";

    fn slot() -> &'static Slot<Self> {
        static SLOT: Slot<Counters> = Slot::new();
        &SLOT
    }

    fn online(&self, cpu: &ThisCpu) -> Result {
        match self.program(cpu) {
            Ok(taken) => tell_taken(cpu, taken),
            Err(fault) => return Err(refuse_cpu(cpu, self.job(), fault)),
        }
        Ok(())
    }

    fn starting(&self, cpu: &ThisCpu) {
        tell_late(cpu, self.job(), self.program_late(cpu));
    }

    fn dying(&self, cpu: &ThisCpu) {
        self.restore(cpu);
    }
}

impl power::Callbacks for Counters {
    fn sleeps(&self, cpu: &ThisCpu) {
        self.suspend(cpu);
    }

    fn wakes(&self, cpu: &ThisCpu) {
        tell_late(cpu, self.job(), self.resume(cpu));
    }

    fn goes_down(&self) {
        self.end_and_restore();
    }
}

impl msr_trace::Observer for Counters {
    fn matters(address: u32, value: u64) -> bool {
        msr::disturbs_counter0(address, value)
    }

    fn written(&self, cpu: &ThisCpu) {
        self.meddled_with(cpu);
    }
}

/// Says that somebody's counter was taken.
fn tell_taken(cpu: &ThisCpu, taken: Option<u8>) {
    if let Some(counter) = taken.map(refusal::Counter) {
        pr_warn!(
            "CPU {}: {counter} was running: taken over (force=1)\n",
            cpu.index()
        );
    }
}

/// Says what became of a CPU that came late.
fn tell_late(cpu: &ThisCpu, job: &Job, programmed: Result<Option<u8>, Fault>) {
    match programmed {
        Ok(taken) => tell_taken(cpu, taken),
        Err(fault) => lament_cpu(cpu, job, fault),
    }
}

/// The module, loaded.
///
/// The fields are dropped in this order, so that whatever uses something goes before it.
struct PmuCount {
    _hook: Pin<KBox<sched_hook::Registration<Session>>>,
    _trace: Pin<KBox<msr_trace::Registration<Counters>>>,
    _power: Pin<KBox<power::Registration<Counters>>>,
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
        let force = module_parameters::force.value();
        let scope = sched_hook::Scope {
            thread: module_parameters::thread.value(),
            inherit: module_parameters::inherit.value(),
        };

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
        let job = Job { event, n, force };
        on_this_cpu(|cpu| {
            job.plan(cpu)
                .map(|_| ())
                .map_err(|fault| refuse_cpu(cpu, &job, fault))
        })?;
        let target = Target::find(pid, scope.thread)
            .map_err(|error| refuse(error, fmt!("pid={pid}: there is no such process")))?;
        let reservation = msr::Reservation::new().map_err(|error| {
            refuse(
                error,
                fmt!("the PMU is in use, by perf or the NMI watchdog: end perf, or run `sysctl kernel.nmi_watchdog=0`"),
            )
        })?;
        let counters = Arc::new(Counters::new(job)?, GFP_KERNEL)?;
        let thread = target.thread();
        let session = Session {
            target,
            event,
            counters: counters.clone(),
        };
        let session = Arc::new(session, GFP_KERNEL)?;
        let nmi = KBox::pin_init(nmi::Registration::new(counters.clone()), GFP_KERNEL)?;
        let cpus = cpuhp::Registration::new(counters.clone())?;
        let power = KBox::pin_init(power::Registration::new(counters.clone()), GFP_KERNEL)?;
        let trace = KBox::pin_init(msr_trace::Registration::new(counters), GFP_KERNEL)?;
        let hook = sched_hook::Registration::new(session, thread, scope);
        let hook = KBox::pin_init(hook, GFP_KERNEL).inspect_err(|&error| match error {
            ESRCH => pr_err!("pid={pid}: the process is already exiting\n"),
            EBUSY => pr_err!("the scheduler hooks are taken: unload the module that has them\n"),
            _ => {}
        })?;

        Ok(Self {
            _hook: hook,
            _trace: trace,
            _power: power,
            _cpus: cpus,
            _nmi: nmi,
            _reservation: reservation,
        })
    }
}
