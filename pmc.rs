// SPDX-License-Identifier: GPL-2.0

//! Counter 0 of every CPU: programming it, its PMI, its sum.
//!
//! A switch only opens or closes the gate (`gate.rs`); [`Counters::settle`] alone looks at what the
//! counter has. Each CPU's own PMU says how it is programmed: they need not be alike.

use core::cell::Cell;

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use crate::{
    apic,
    counter::{
        Count,
        OutOfRange,
        Preload,
        Shape, //
    },
    cpuid::{
        Missing,
        Pmu, //
    },
    event::{
        self,
        Event, //
    },
    gate::Gate,
    msr, sched_hook,
    smp::{
        on_each_cpu,
        CpuSet,
        NmiCell,
        NmiSafe,
        PerCpu,
        ThisCpu, //
    },
};

/// What was in the registers before us; 0 for those that this PMU does not have.
#[derive(Clone, Copy, Default)]
struct Found {
    perfevtsel0: u64,
    pmc0: u64,
    global_ctrl: u64,
    global_status: u64,
    freeze_on_pmi: bool,
    lvtpc: u32,
}

/// How a CPU's counter 0 is used.
#[derive(Clone, Copy)]
struct Plan {
    pmu: Pmu,
    preload: Preload,
    /// IA32_A_PMC0 where it can be written, else IA32_PMC0.
    pmc0: msr::Msr,
}

/// A CPU's counter.
#[derive(Default)]
struct Cpu {
    /// Whether the registers were probed and are ours.
    programmed: NmiCell<bool>,
    /// The periods that its PMIs have completed since it was programmed.
    periods: NmiCell<u64>,
    /// Whether what it counted since then is in the sum.
    settled: NmiCell<bool>,
    /// Set before `programmed` is.
    plan: Cell<Option<Plan>>,
    /// What to put back.
    found: Cell<Found>,
    /// Whether the gate was open when the CPU was suspended.
    suspended_open: Cell<bool>,
}

// SAFETY: What is in a `Cell` is not touched by PMIs, but for `plan`, which only changes while
// `programmed` is not set, so that they do not look there; all else is an `NmiCell`.
unsafe impl NmiSafe for Cpu {}

impl Cpu {
    /// How the counter is used, if it is.
    #[inline]
    fn plan(&self) -> Option<Plan> {
        match self.programmed.get() {
            true => self.plan.get(),
            false => None,
        }
    }
}

/// Why a CPU's counter cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// There is no PMU that we can program.
    Missing(Missing),
    /// It has another gate than the CPU where the module was loaded: one has GLOBAL_CTRL.
    OtherGate,
    /// CPUID says that it does not count the event.
    NoEvent,
    /// N is not for it.
    OutOfRange(OutOfRange),
    /// A PMU register that must exist is refused (#GP).
    Refused,
    /// A PMU register does not hold what was written there.
    Swallowed,
    /// Somebody's counter of this number is running (32 and more: fixed-function counters).
    Running(u8),
    /// Counter 0 was programmed to count a known loop, and counted this.
    Implausible(u64),
    /// There is no local APIC to deliver PMIs.
    NoApic,
}

/// What is counted, and how.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    /// What is counted.
    pub(crate) event: Event,
    /// N, or 0 for the largest that each CPU takes.
    pub(crate) n: u64,
    /// Whether to take counters that somebody has left running.
    pub(crate) force: bool,
}

/// Counter 0 of every CPU, and the sum of what they counted.
pub(crate) struct Counters {
    job: Job,
    gate: Gate,
    cpus: PerCpu<Cpu>,
    /// The sum, in events and in periods.
    events: Atomic<u64>,
    overflows: Atomic<u64>,
    /// Where somebody else has changed the registers meanwhile.
    disturbed: CpuSet,
    /// Those that could not be programmed.
    incomplete: CpuSet,
}

impl Job {
    /// By which gate this CPU would do it.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn gate(&self, cpu: &ThisCpu) -> Result<Gate, Fault> {
        self.plan(cpu).map(|(gate, _)| gate)
    }

    /// How this CPU would do it, and by which gate.
    fn plan(&self, cpu: &ThisCpu) -> Result<(Gate, Plan), Fault> {
        let pmu = Pmu::detect().map_err(Fault::Missing)?;
        if pmu.lacks(self.event.code()) {
            return Err(Fault::NoEvent);
        }
        let full_width = pmu.perf_capabilities
            && msr::PERF_CAPABILITIES
                .try_read(cpu)
                .is_ok_and(|capabilities| capabilities & msr::FULL_WIDTH_WRITE != 0);
        let shape = Shape {
            width: pmu.width,
            full_width,
            status: pmu.has_global(),
        };
        let preload = Preload::new(self.n, shape, self.event.counts_kernel());
        let plan = Plan {
            pmu,
            preload: preload.map_err(Fault::OutOfRange)?,
            pmc0: if full_width { msr::A_PMC0 } else { msr::PMC0 },
        };
        let gate = match pmu.has_global() {
            true => Gate::GlobalCtrl,
            false => Gate::EventSelect,
        };
        Ok((gate, plan))
    }
}

impl Counters {
    /// Counters for `job`, behind `gate`, none of them programmed yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(job: Job, gate: Gate) -> Result<Self> {
        Ok(Self {
            job,
            gate,
            cpus: PerCpu::new()?,
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

    /// Takes this CPU's counter 0: probes and remembers its registers, tries whether it counts,
    /// and programs it, with the gate closed. Returns a running counter that was taken from
    /// somebody, numbered as in [`Fault::Running`].
    ///
    /// # Errors
    ///
    /// What was changed is put back then.
    pub(crate) fn program(&self, cpu: &ThisCpu) -> Result<Option<u8>, Fault> {
        let (gate, plan) = self.job.plan(cpu)?;
        let Some(this) = self.cpus.get(cpu).filter(|_| gate == self.gate) else {
            return Err(Fault::OtherGate);
        };
        let found = self.find(&plan.pmu, cpu)?;
        let running = running(&plan.pmu, found.global_ctrl, cpu)?;
        if let Some(counter) = running.filter(|_| !self.job.force) {
            return Err(Fault::Running(counter));
        }
        this.plan.set(Some(plan));
        this.found.set(found);

        let programmed = self
            .try_out(&plan, cpu)
            .and_then(|()| self.start(&plan, cpu));
        match programmed {
            Ok(()) => {
                this.periods.set(0);
                this.settled.set(false);
                this.programmed.set(true);
            }
            Err(_) => put_back(&plan, found, cpu),
        }
        programmed.map(|()| running)
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

    /// Reads what is there before us.
    fn find(&self, pmu: &Pmu, cpu: &ThisCpu) -> Result<Found, Fault> {
        let read = |msr: msr::Msr| msr.try_read(cpu).map_err(|_| Fault::Refused);
        let mut found = Found {
            perfevtsel0: read(msr::PERFEVTSEL0)?,
            pmc0: read(msr::PMC0)?,
            global_ctrl: 0,
            global_status: 0,
            freeze_on_pmi: msr::freezes_on_pmi(cpu),
            lvtpc: apic::lvtpc(cpu).map_err(|_| Fault::NoApic)?,
        };
        if pmu.has_global() {
            found.global_ctrl = read(msr::GLOBAL_CTRL)?;
            found.global_status = read(msr::GLOBAL_STATUS)?;
        }
        Ok(found)
    }

    /// Counts a known loop, in kernel mode: some emulators and clouds announce a PMU that stands
    /// still.
    fn try_out(&self, plan: &Plan, cpu: &ThisCpu) -> Result<(), Fault> {
        let write = |msr: msr::Msr, value| msr.try_write(value, cpu).map_err(|_| Fault::Refused);
        let event = plan.pmu.certain_event();
        let gate = self.gate.msr();

        // Frozen by a PMI, the gate would look closed to our handler, and stay so.
        msr::set_freeze_on_pmi(false, cpu).map_err(|_| Fault::Refused)?;
        write(gate, 0)?;
        if plan.pmu.has_freeze_status() {
            write(msr::GLOBAL_OVF_CTRL, msr::CTR_FRZ)?;
        }
        write(msr::PERFEVTSEL0, event.perfevtsel(false))?;
        if msr::PERFEVTSEL0.try_read(cpu) != Ok(event.perfevtsel(false)) {
            return Err(Fault::Swallowed);
        }
        write(plan.pmc0, 0)?;
        write(gate, self.gate.key(event, false).into())?;
        for round in 0..1_000u32 {
            core::hint::black_box(round);
        }
        write(gate, 0)?;
        // Each round executes an instruction at least, and takes a cycle; not even what may come
        // in between, an NMI or firmware, takes ten million.
        match msr::PMC0.try_read(cpu) {
            Ok(1_000..10_000_000) => Ok(()),
            counted => Err(Fault::Implausible(counted.unwrap_or(0))),
        }
    }

    /// Programs the counter and checks that it took what it was given.
    fn start(&self, plan: &Plan, cpu: &ThisCpu) -> Result<(), Fault> {
        let write = |msr: msr::Msr, value| msr.try_write(value, cpu).map_err(|_| Fault::Refused);

        write(plan.pmc0, plan.preload.start())?;
        if plan.pmu.has_global() {
            write(msr::PERFEVTSEL0, self.select())?;
            // No PMI of ours is behind an overflow that was there before.
            write(msr::GLOBAL_OVF_CTRL, msr::COUNTER0)?;
        }
        if msr::PERFEVTSEL0.try_read(cpu) != Ok(self.select())
            || msr::PMC0.try_read(cpu) != Ok(plan.preload.start())
        {
            return Err(Fault::Swallowed);
        }
        apic::set_lvtpc(apic::NMI, cpu);
        Ok(())
    }

    /// What PERFEVTSEL0 holds while the gate is closed.
    fn select(&self) -> u64 {
        match self.gate {
            Gate::GlobalCtrl => self.job.event.perfevtsel(true),
            Gate::EventSelect => 0,
        }
    }

    /// Settles this CPU's counter and gives it back as it was found, with the gate closed.
    pub(crate) fn restore(&self, cpu: &ThisCpu) {
        let Some(this) = self.cpus.get(cpu) else {
            return;
        };
        if let Some(plan) = this.plan() {
            self.settle(cpu);
            this.programmed.set(false);
            put_back(&plan, this.found.get(), cpu);
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
            self.gate.open(cpu);
        }
        Ok(taken)
    }

    /// Services this CPU's PMI. Returns whether it was one of ours.
    ///
    /// An NMI may come while the counter runs, or just after a hook has stopped it.
    #[inline]
    pub(crate) fn service_pmi(&self, cpu: &ThisCpu) -> bool {
        let Some(this) = self.cpus.get(cpu) else {
            return false;
        };
        let Some(plan) = this.plan() else {
            return false;
        };
        // SAFETY: The CPU is programmed: all these registers exist and take these values.
        unsafe {
            // Stopped first, so that what follows is not counted and cannot overflow.
            let found = self.gate.msr().read(cpu);
            self.gate.close(cpu);

            let ours = self.overflowed(&plan, cpu);
            if ours {
                // Acknowledged before the counter is touched: an overflow that a write causes
                // must not be lost with this one.
                if plan.pmu.has_global() {
                    msr::GLOBAL_OVF_CTRL.write(msr::COUNTER0, cpu);
                }
                let (periods, value) = plan.preload.reload(msr::rdpmc0(cpu));
                this.periods.set(this.periods.get().wrapping_add(periods));
                plan.pmc0.write(value, cpu);
            }
            // As the hooks had set it: the target may have been switched out before this NMI came.
            if found != 0 {
                self.gate.msr().write(found, cpu);
            }
            // The CPU has masked the entry when it delivered the PMI. Last, as Haswell and later
            // want it.
            if ours {
                apic::set_lvtpc(apic::NMI, cpu);
            }
            ours
        }
    }

    /// Whether the counter has overflowed since its period began.
    ///
    /// # Safety
    ///
    /// The CPU must be programmed by `plan`.
    #[inline]
    unsafe fn overflowed(&self, plan: &Plan, cpu: &ThisCpu) -> bool {
        // SAFETY: By `plan`'s PMU the registers exist.
        unsafe {
            match self.gate {
                Gate::GlobalCtrl => msr::GLOBAL_STATUS.read(cpu) & msr::COUNTER0 != 0,
                Gate::EventSelect => plan.preload.top_bit_gone(msr::rdpmc0(cpu)),
            }
        }
    }

    /// Closes this CPU's gate and adds what it has counted to the sum, once.
    fn settle(&self, cpu: &ThisCpu) {
        let Some(this) = self.cpus.get(cpu).filter(|this| !this.settled.get()) else {
            return;
        };
        let Some(plan) = this.plan() else {
            return;
        };
        // SAFETY: The CPU is programmed, so it has the register.
        let found = unsafe { self.gate.msr().read(cpu) };
        self.gate.close(cpu);
        // The PMI of a counter that was stopped meanwhile may still be on its way: it must not
        // come between these reads.
        let (count, overflowed, value) = loop {
            let periods = this.periods.get();
            // SAFETY: As above, by this plan.
            let (overflowed, value) = unsafe { (self.overflowed(&plan, cpu), msr::rdpmc0(cpu)) };
            if this.periods.get() == periods {
                let count = plan.preload.count(periods, value, overflowed);
                break (count, overflowed, value);
            }
        };
        this.settled.set(true);
        self.events.fetch_add(count.events, Relaxed);
        self.overflows.fetch_add(count.overflows, Relaxed);

        let as_left = self.may_hold(found)
            && msr::PERFEVTSEL0.try_read(cpu) == Ok(self.select())
            && (overflowed || plan.preload.within_period(value))
            // A PMI that is on its way has masked the entry.
            && (overflowed || apic::delivers_nmis(cpu))
            && !msr::freezes_on_pmi(cpu);
        if !as_left {
            self.disturbed.insert(cpu);
        }
    }

    /// Whether the hooks leave this in this CPU's gate.
    fn may_hold(&self, found: u64) -> bool {
        let key = self.gate.key(self.job.event, true).into();
        match sched_hook::current_is_followed() {
            // Who came when the key was gone is there behind a closed gate.
            true => found == key || found == 0 && !Gate::has_key(),
            false => found == 0,
        }
    }

    /// Notes that somebody else has written to a register of this CPU that counter 0 depends on.
    pub(crate) fn meddled_with(&self, cpu: &ThisCpu) {
        if self.cpus.get(cpu).is_some_and(|this| this.programmed.get()) {
            self.disturbed.insert(cpu);
        }
    }

    /// Lets the hooks open the gates.
    pub(crate) fn begin(&self) {
        self.gate.hand_out_key(self.job.event);
    }

    /// Ends counting for good, on all CPUs, and says what was counted, on those too that are no
    /// more online. Does not sleep; must not be called with interrupts off.
    pub(crate) fn end(&self) -> Count {
        Gate::take_key_back();
        on_each_cpu(|cpu| self.settle(cpu));
        Count {
            events: self.events.load(Relaxed),
            overflows: self.overflows.load(Relaxed),
        }
    }

    /// Ends counting and gives all counters back.
    pub(crate) fn end_and_restore(&self) {
        Gate::take_key_back();
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

/// Looks for a counter that somebody left running without a reservation, firmware or a tool by
/// /dev/cpu/*/msr: GLOBAL_CTRL as our gate would stop it.
fn running(pmu: &Pmu, global_ctrl: u64, cpu: &ThisCpu) -> Result<Option<u8>, Fault> {
    let open = |counter: u8| !pmu.has_global() || global_ctrl >> counter & 1 != 0;
    let selects = (0..pmu.counters).map_while(|i| Some((i, msr::perfevtsel(i)?)));
    for (counter, select) in selects.filter(|&(counter, _)| open(counter)) {
        let select = select.try_read(cpu).map_err(|_| Fault::Refused)?;
        if event::is_enabled(select) {
            return Ok(Some(counter));
        }
    }
    if pmu.fixed {
        let ctrl = msr::FIXED_CTR_CTRL.try_read(cpu);
        let ctrl = ctrl.map_err(|_| Fault::Refused)?;
        let fixed = (0..16u8).filter(|&fixed| ctrl >> (4 * fixed) & 0b11 != 0);
        let mut fixed = fixed.map(|fixed| 32 + fixed);
        return Ok(fixed.find(|&counter| open(counter)));
    }
    Ok(None)
}

/// Writes what was found, as far as the CPU takes it (a legacy write of PMC0 has 32 bits): there is
/// nobody to tell.
fn put_back(plan: &Plan, found: Found, cpu: &ThisCpu) {
    let _ = plan.pmc0.try_write(found.pmc0, cpu);
    apic::set_lvtpc(found.lvtpc, cpu);
    let _ = msr::set_freeze_on_pmi(found.freeze_on_pmi, cpu);
    if plan.pmu.has_freeze_status() {
        let ours = msr::COUNTER0 | msr::CTR_FRZ;
        let _ = msr::GLOBAL_STATUS_SET.try_write(found.global_status & ours, cpu);
    }
    let _ = msr::PERFEVTSEL0.try_write(found.perfevtsel0, cpu);
    if plan.pmu.has_global() {
        let _ = msr::GLOBAL_CTRL.try_write(found.global_ctrl, cpu);
    }
}
