// SPDX-License-Identifier: GPL-2.0

//! The PMU, as long as somebody is counted: taken from perf, with all that calls us about it.

use core::ffi::CStr;

use kernel::{
    current,
    prelude::*,
    sync::Arc,
    task::Task, //
};

use crate::{
    account::Account,
    cpuhp,
    msr,
    msr_trace,
    nmi,
    pmc::{
        self,
        Counters, //
    },
    power,
    refusal::{
        self,
        lament_cpu,
        may_tell,
        refuse,
        refuse_cpu,
        refuse_taken, //
    },
    sched_hook,
    setup::{
        Fault,
        Job, //
    },
    slot::{
        Filled,
        Slot, //
    },
    smp::ThisCpu,
    switch::{
        Free,
        Gated, //
    },
    targets, //
};

/// The PMU, taken.
///
/// The fields are dropped in this order, so that whatever uses something goes before it.
pub(crate) struct Pmu {
    _trace: Pin<KBox<msr_trace::Registration<Counters>>>,
    _power: Pin<KBox<power::Registration<Counters>>>,
    _cpus: cpuhp::Registration<Counters>,
    // As long as CPUs are programmed all marks are ours: see `current_account()` in `pmc.rs`.
    hook: sched_hook::Registration<Account>,
    _nmi: Pin<KBox<nmi::Registration<Counters>>>,
    counters: Filled<Counters>,
    _reservation: msr::Reservation,
}

impl Pmu {
    /// Takes the PMU of every CPU for a job. Nobody is followed yet.
    ///
    /// # Errors
    ///
    /// Why it cannot be, after a line that says so.
    pub(crate) fn take(job: Job) -> Result<Self> {
        let reservation = msr::Reservation::new().map_err(|error| {
            refuse(
                error,
                fmt!("the PMU is in use, by perf or the NMI watchdog: end perf, or run `sysctl kernel.nmi_watchdog=0`"),
            )
        })?;
        let counters = Arc::new(Counters::new(job)?, GFP_KERNEL)?;
        let filled = hooks().fill(counters.clone())?;
        let nmi = KBox::pin_init(nmi::Registration::new(), GFP_KERNEL)?;
        let hook = match job.manner.free {
            true => sched_hook::Registration::new::<Free>(),
            false => sched_hook::Registration::new::<Gated>(),
        }
        .map_err(refuse_taken)?;
        let cpus = cpuhp::Registration::new(counters.clone())?;
        let power = KBox::pin_init(power::Registration::new(counters.clone()), GFP_KERNEL)?;
        let trace = KBox::pin_init(msr_trace::Registration::new(counters), GFP_KERNEL)?;
        Ok(Self {
            _trace: trace,
            _power: power,
            _cpus: cpus,
            hook,
            _nmi: nmi,
            counters: filled,
            _reservation: reservation,
        })
    }

    /// Has all CPUs do another job.
    ///
    /// # Errors
    ///
    /// Why one cannot, after a line that says so; all is as it was then.
    pub(crate) fn change(&self, job: Job) -> Result {
        let _hold = cpuhp::Hold::new();
        self.counters
            .change(job)
            .map_err(|(number, fault)| refuse_cpu(number, fault))
    }

    /// The hooks.
    pub(crate) fn hook(&self) -> &sched_hook::Registration<Account> {
        &self.hook
    }

    /// The counters.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Where hooks find the counters.
fn hooks() -> &'static Slot<Counters> {
    static SLOT: Slot<Counters> = Slot::new();
    &SLOT
}

/// The counters, for a hook.
fn counters<'a>() -> Option<&'a Counters> {
    // SAFETY: `Pmu` empties the slot only after the last call.
    unsafe { hooks().get() }
}

/// Somebody comes, where there is more to do than `switch.rs` does; apart, so that it costs the others
/// nothing.
#[cold]
#[inline(never)]
pub(crate) fn arrived(account: &Account, cpu: &ThisCpu) {
    if let Some(counters) = counters() {
        counters.arrived(account, cpu);
    }
}

/// Somebody leaves, as above.
#[cold]
#[inline(never)]
pub(crate) fn left(next: Option<&Account>, cpu: &ThisCpu) {
    if let Some(counters) = counters() {
        counters.left(next, cpu);
    }
}

// SAFETY: Accounts are their target's. They are freed after `wait_for_users()`: those of threads that have ended
// by `fold()`, all when nobody is followed any more, after `unfollow()`.
unsafe impl sched_hook::Mark for Account {
    fn forked(&self, child: &Task) -> Option<&Self> {
        self.target().forked(self, child)
    }

    #[cfg(not(CONFIG_SCHED_HOOK))]
    fn wants(&self, child: &Task) -> bool {
        self.target().wants(child)
    }

    #[cfg(not(CONFIG_SCHED_HOOK))]
    fn missed(&self) {
        crate::smp::on_this_cpu(|cpu| self.target().incomplete.insert(cpu));
    }

    fn execed(&self, privileged: bool) -> Option<&Self> {
        let account = self.target().execed(self, privileged);
        if account.is_none() {
            self.exited(current!());
        }
        account
    }

    fn exited(&self, task: &Task) {
        let target = self.target();
        // Otherwise it is being removed while it lives. Nobody is the last one as long as tasks are being marked:
        // under `tasklist_lock`, which our patch takes for that, no CPU could be waited for.
        let has_died = target.left(self, task) && target.set_over();
        if has_died {
            if let Some(counters) = counters() {
                counters.look_everywhere();
                target.note_flaws(counters);
            }
            target.finish(task);
            if target.terms.told {
                target.report("");
            }
        }
        if has_died || target.has_too_many_ended() {
            targets::tidy_soon();
        }
    }
}

impl nmi::Handler for Counters {
    const NAME: &'static CStr = c"pmu_count";

    #[inline(always)]
    fn handle(cpu: &ThisCpu) -> nmi::Return {
        match pmc::service_pmi(cpu) {
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
            Err(fault) => return Err(refuse_cpu(cpu.index() as u32, fault)),
        }
        Ok(())
    }

    fn starting(&self, cpu: &ThisCpu) {
        tell_late(cpu, self.program_late(cpu));
    }

    fn dying(&self, cpu: &ThisCpu) {
        self.restore(cpu);
    }
}

impl power::Callbacks for Counters {
    fn sleeps(&self, cpu: &ThisCpu) {
        self.restore(cpu);
    }

    fn wakes(&self, cpu: &ThisCpu) {
        tell_late(cpu, self.program_late(cpu));
    }

    fn goes_down(&self) {
        self.restore_all();
    }
}

impl msr_trace::Observer for Counters {
    fn matters(address: u32, value: u64) -> bool {
        msr::of_pmu(address, value)
    }

    fn written(&self, address: u32, value: u64, cpu: &ThisCpu) {
        self.meddled_with(address, value, cpu);
    }
}

/// Says that somebody's counter was taken.
fn tell_taken(cpu: &ThisCpu, taken: Option<u8>) {
    if let Some(counter) = taken.map(refusal::Counter).filter(|_| may_tell()) {
        pr_warn!(
            "CPU {}: {counter} was running: taken over (force=1)\n",
            cpu.index()
        );
    }
}

/// Says what became of a CPU that came late.
fn tell_late(cpu: &ThisCpu, programmed: Result<Option<u8>, Fault>) {
    match programmed {
        Ok(taken) => tell_taken(cpu, taken),
        Err(fault) => lament_cpu(cpu, fault),
    }
}
