// SPDX-License-Identifier: GPL-2.0

//! Counter 0 of every CPU: from when it is taken until it is given back, its PMIs, its sum.
//!
//! A switch only opens or closes the gate (`gate.rs`); [`Counters::settle`] alone looks at what the
//! counter has.

use core::{
    cell::Cell,
    hint::spin_loop,
    sync::atomic::{
        compiler_fence,
        Ordering::SeqCst, //
    }, //
};

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use crate::{
    apic,
    counter::Count,
    gate,
    msr,
    sched_hook,
    setup::{
        Fault,
        Found,
        Job,
        Plan, //
    },
    smp::{
        on_each_cpu,
        CpuSet,
        NmiCell,
        NmiSafe,
        PerCpu,
        ThisCpu, //
    }, //
};

/// A CPU's counter.
#[derive(Default)]
struct Cpu {
    /// Whether the registers were probed and are ours.
    programmed: NmiCell<bool>,
    /// The periods that its PMIs have completed since it was programmed.
    periods: NmiCell<u64>,
    /// Whether what it counted since then is in the sum.
    settled: NmiCell<bool>,
    /// What `programmed` stands for.
    plan: Cell<Option<Plan>>,
    /// What to put back.
    found: Cell<Found>,
    /// Whether the gate was open when the CPU was suspended.
    suspended_open: Cell<bool>,
}

// SAFETY: What is in a `Cell` is not touched by PMIs, but for `plan`, which only changes while
// `programmed` is not set (see `take()`), so that they do not look there; all else is an `NmiCell`.
unsafe impl NmiSafe for Cpu {}

impl Cpu {
    /// From now on the counter is used by `plan`.
    fn take(&self, plan: Plan, found: Found) {
        self.plan.set(Some(plan));
        self.found.set(found);
        self.periods.set(0);
        self.settled.set(false);
        // A PMI sees all of this or nothing.
        compiler_fence(SeqCst);
        self.programmed.set(true);
    }

    /// It is not used any more.
    fn leave(&self) {
        self.programmed.set(false);
        compiler_fence(SeqCst);
    }
}

/// Counter 0 of every CPU, and the sum of what they counted.
pub(crate) struct Counters {
    job: Job,
    cpus: PerCpu<Cpu>,
    /// Whether counting is over for good.
    ended: Atomic<bool>,
    /// The sum, in events and in periods.
    events: Atomic<u64>,
    overflows: Atomic<u64>,
    /// Where somebody else has changed the registers meanwhile.
    disturbed: CpuSet,
    /// Those that could not be programmed.
    incomplete: CpuSet,
}

impl Counters {
    /// Counters for `job`, none of them programmed yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(job: Job) -> Result<Self> {
        Ok(Self {
            job,
            cpus: PerCpu::new()?,
            ended: Atomic::new(false),
            events: Atomic::new(0),
            overflows: Atomic::new(0),
            disturbed: CpuSet::new()?,
            incomplete: CpuSet::new()?,
        })
    }

    /// What is counted, and how.
    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// This CPU's counter and how it is used, if it is.
    #[inline]
    fn programmed<'a>(&'a self, cpu: &'a ThisCpu) -> Option<(&'a Cpu, Plan)> {
        let this = self.cpus.get(cpu).filter(|this| this.programmed.get())?;
        Some((this, this.plan.get()?))
    }

    /// Takes this CPU's counter 0, with the gate closed. Returns a running counter that was taken
    /// from somebody, numbered as in [`Fault::Running`].
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub(crate) fn program(&self, cpu: &ThisCpu) -> Result<Option<u8>, Fault> {
        let plan = self.job.plan(cpu)?;
        let (found, taken) = plan.take(self.job.force, cpu)?;
        if let Some(this) = self.cpus.get(cpu) {
            this.take(plan, found);
            if !self.ended.load(Relaxed) {
                // SAFETY: It was taken just now.
                unsafe { plan.install_gate(cpu) };
            }
        }
        Ok(taken)
    }

    /// The same for a CPU that comes late, which nobody can refuse: without it the count is
    /// incomplete.
    ///
    /// # Errors
    ///
    /// As for [`Counters::program`].
    pub(crate) fn program_late(&self, cpu: &ThisCpu) -> Result<Option<u8>, Fault> {
        self.program(cpu)
            .inspect_err(|_| self.incomplete.insert(cpu))
    }

    /// Settles this CPU's counter and gives it back as it was found, with the gate closed.
    pub(crate) fn restore(&self, cpu: &ThisCpu) {
        if let Some((this, plan)) = self.programmed(cpu) {
            self.settle(cpu);
            gate::remove(cpu);
            this.leave();
            plan.give_back(&this.found.get(), cpu);
        }
    }

    /// Restores the last CPU before the machine sleeps, maybe by the target's own hand.
    pub(crate) fn suspend(&self, cpu: &ThisCpu) {
        if let Some(this) = self.cpus.get(cpu) {
            this.suspended_open.set(sched_hook::current_is_followed());
        }
        self.restore(cpu);
    }

    /// Programs that CPU again: its registers are lost.
    ///
    /// # Errors
    ///
    /// As for [`Counters::program`]; the count is incomplete then.
    pub(crate) fn resume(&self, cpu: &ThisCpu) -> Result<Option<u8>, Fault> {
        let taken = self.program_late(cpu)?;
        let this = self.cpus.get(cpu);
        if this.is_some_and(|this| this.suspended_open.get()) {
            gate::open(cpu);
        }
        Ok(taken)
    }

    /// Services this CPU's PMI. Returns whether it was one of ours.
    ///
    /// An NMI may come while the counter runs, or just after a hook has stopped it.
    #[inline]
    pub(crate) fn service_pmi(&self, cpu: &ThisCpu) -> bool {
        let Some((this, plan)) = self.programmed(cpu) else {
            return false;
        };
        // SAFETY: The CPU is programmed: all these registers exist and take these values.
        unsafe {
            let gate = plan.gate.msr();
            // Stopped first, so that what follows is not counted and cannot overflow.
            let found = gate.read(cpu);
            gate.write(0, cpu);

            let overflowed = plan.overflowed(cpu);
            if overflowed {
                let periods = plan.reload(cpu);
                this.periods.set(this.periods.get().wrapping_add(periods));
            }
            // As the hooks had set it: the target may have been switched out before this NMI came.
            if found != 0 {
                gate.write(found, cpu);
            }
            // The CPU has masked the entry when it delivered the PMI: one that comes when its
            // overflow was served already, or that of another counter, is known by that alone.
            // Opened last, as Haswell and later want it.
            let ours = overflowed || apic::is_masked(cpu);
            if ours {
                apic::set_lvtpc(apic::NMI, cpu);
            }
            ours
        }
    }

    /// Closes this CPU's gate and adds what it has counted to the sum, once.
    fn settle(&self, cpu: &ThisCpu) {
        let Some((this, plan)) = self.programmed(cpu).filter(|(this, _)| !this.settled.get())
        else {
            return;
        };
        // SAFETY: The CPU is programmed, so it has the register.
        let found = unsafe { plan.gate.msr().read(cpu) };
        gate::close(cpu);
        // The PMI of a counter that was stopped meanwhile may still be on its way. It comes soon,
        // if it comes, and it must not come between these reads.
        let mut patience = 1_000;
        let (count, within_period) = loop {
            let periods = this.periods.get();
            // SAFETY: As above, by this plan.
            let (overflowed, value) = unsafe { (plan.overflowed(cpu), msr::rdpmc0(cpu)) };
            if overflowed && patience > 0 {
                patience -= 1;
                spin_loop();
            } else if this.periods.get() == periods {
                break (
                    plan.preload.count(periods, value, overflowed),
                    overflowed || plan.preload.within_period(value),
                );
            }
        };
        this.settled.set(true);
        self.events.fetch_add(count.events, Relaxed);
        self.overflows.fetch_add(count.overflows, Relaxed);

        let followed = sched_hook::current_is_followed();
        if !(within_period && plan.is_as_left(found, followed, cpu)) {
            self.disturbed.insert(cpu);
        }
    }

    /// Notes that somebody else has written to a register of this CPU that counter 0 depends on.
    pub(crate) fn meddled_with(&self, cpu: &ThisCpu) {
        if self.programmed(cpu).is_some() {
            self.disturbed.insert(cpu);
        }
    }

    /// Ends counting for good, on all CPUs, and says what was counted, on those too that are no
    /// more online. Does not sleep; must not be called with interrupts off.
    pub(crate) fn end(&self) -> Count {
        self.ended.store(true, Relaxed);
        on_each_cpu(|cpu| {
            self.settle(cpu);
            gate::lock(cpu);
        });
        Count {
            events: self.events.load(Relaxed),
            overflows: self.overflows.load(Relaxed),
        }
    }

    /// Ends counting for good and gives all counters back.
    pub(crate) fn end_and_restore(&self) {
        self.ended.store(true, Relaxed);
        on_each_cpu(|cpu| self.restore(cpu));
    }

    /// Where somebody else has changed what the counter depends on, as far as it could be seen.
    pub(crate) fn disturbed(&self) -> &CpuSet {
        &self.disturbed
    }

    /// The CPUs that could not be programmed.
    pub(crate) fn incomplete(&self) -> &CpuSet {
        &self.incomplete
    }
}
