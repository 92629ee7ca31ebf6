// SPDX-License-Identifier: GPL-2.0

//! Counter 0 of every CPU: programming it, its PMI, its sum.
//!
//! A switch only opens or closes the gate (`gate.rs`); [`Counters::settle`] alone looks at what the
//! counter has. Each CPU's own PMU says how it is programmed: they need not be alike.

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
    gate::{
        self,
        Gate, //
    },
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
    perfevtsel: [u64; msr::PERFEVTSELS],
    pmc0: u64,
    global_ctrl: u64,
    global_status: u64,
    fixed_ctr_ctrl: u64,
    freeze_on_pmi: bool,
    lvtpc: u32,
}

/// How a CPU's counter 0 is used.
#[derive(Clone, Copy)]
struct Plan {
    pmu: Pmu,
    gate: Gate,
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

impl Plan {
    /// Whether the counter has overflowed since its period began.
    ///
    /// # Safety
    ///
    /// This CPU must be programmed so.
    #[inline]
    unsafe fn overflowed(&self, cpu: &ThisCpu) -> bool {
        // SAFETY: The registers exist where they are asked.
        unsafe {
            match self.gate {
                Gate::GlobalCtrl => msr::GLOBAL_STATUS.read(cpu) & msr::COUNTER0 != 0,
                Gate::EventSelect => self.preload.top_bit_gone(msr::rdpmc0(cpu)),
            }
        }
    }
}

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

impl Job {
    /// Says whether this CPU could do it, without a look at its registers.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn check(&self, cpu: &ThisCpu) -> Result<(), Fault> {
        self.plan(cpu).map(|_| ())
    }

    /// How this CPU would do it.
    fn plan(&self, cpu: &ThisCpu) -> Result<Plan, Fault> {
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
        Ok(Plan {
            pmu,
            gate: Gate::new(pmu.has_global()),
            preload: preload.map_err(Fault::OutOfRange)?,
            pmc0: if full_width { msr::A_PMC0 } else { msr::PMC0 },
        })
    }
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

    /// Takes this CPU's counter 0: probes and remembers its registers, tries whether it counts,
    /// and programs it, with the gate closed. Returns a running counter that was taken from
    /// somebody, numbered as in [`Fault::Running`].
    ///
    /// # Errors
    ///
    /// What was changed is put back then.
    pub(crate) fn program(&self, cpu: &ThisCpu) -> Result<Option<u8>, Fault> {
        let plan = self.job.plan(cpu)?;
        let Some(this) = self.cpus.get(cpu) else {
            return Err(Fault::NoApic);
        };
        let found = find(&plan.pmu, cpu)?;
        let running = running(&plan.pmu, &found);
        if let Some(counter) = running.filter(|_| !self.job.force) {
            return Err(Fault::Running(counter));
        }
        let programmed = try_out(&plan, &found, cpu).and_then(|()| self.start(&plan, cpu));
        match programmed {
            Ok(()) => {
                this.take(plan, found);
                if !self.ended.load(Relaxed) {
                    // SAFETY: The register was written just now, with a key for another event.
                    unsafe { plan.gate.install(self.job.event, cpu) };
                }
            }
            Err(_) => put_back(&plan, &found, cpu),
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

    /// Programs the counter and checks that it took what it was given.
    fn start(&self, plan: &Plan, cpu: &ThisCpu) -> Result<(), Fault> {
        let write = |msr: msr::Msr, value| msr.try_write(value, cpu).map_err(|_| Fault::Refused);

        write(plan.pmc0, plan.preload.start())?;
        if plan.pmu.has_global() {
            // No PMI of ours is behind an overflow that was there before.
            write(msr::GLOBAL_OVF_CTRL, msr::COUNTER0)?;
        }
        write(msr::PERFEVTSEL0, self.select(plan.gate))?;
        if msr::PERFEVTSEL0.try_read(cpu) != Ok(self.select(plan.gate))
            || msr::PMC0.try_read(cpu) != Ok(plan.preload.start())
        {
            return Err(Fault::Swallowed);
        }
        apic::set_lvtpc(apic::NMI, cpu);
        match apic::lvtpc(cpu) {
            Ok(apic::NMI) => Ok(()),
            _ => Err(Fault::NoApic),
        }
    }

    /// What PERFEVTSEL0 holds behind a closed gate.
    fn select(&self, gate: Gate) -> u64 {
        match gate {
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
            gate::remove(cpu);
            this.leave();
            put_back(&plan, &this.found.get(), cpu);
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
        let Some(this) = self.cpus.get(cpu) else {
            return false;
        };
        let Some(plan) = this.plan() else {
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
        let Some(this) = self.cpus.get(cpu).filter(|this| !this.settled.get()) else {
            return;
        };
        let Some(plan) = this.plan() else {
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

        let opened = plan.gate.key(self.job.event, true);
        let as_left = found
            == if sched_hook::current_is_followed() {
                opened.into()
            } else {
                0
            }
            && msr::PERFEVTSEL0.try_read(cpu) == Ok(self.select(plan.gate))
            && within_period
            && apic::delivers_nmis(cpu)
            && !msr::freezes_on_pmi(cpu);
        if !as_left {
            self.disturbed.insert(cpu);
        }
    }

    /// Notes that somebody else has written to a register of this CPU that counter 0 depends on.
    pub(crate) fn meddled_with(&self, cpu: &ThisCpu) {
        if self.cpus.get(cpu).is_some_and(|this| this.programmed.get()) {
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

/// The event selects that lie behind one another, with the numbers of their counters.
fn perfevtsels(pmu: &Pmu) -> impl Iterator<Item = (u8, msr::Msr)> {
    (0..pmu.counters).map_while(|counter| Some((counter, msr::perfevtsel(counter)?)))
}

/// Reads what is there before us.
fn find(pmu: &Pmu, cpu: &ThisCpu) -> Result<Found, Fault> {
    let read = |msr: msr::Msr| msr.try_read(cpu).map_err(|_| Fault::Refused);
    let mut found = Found {
        pmc0: read(msr::PMC0)?,
        freeze_on_pmi: msr::freezes_on_pmi(cpu),
        lvtpc: apic::lvtpc(cpu).map_err(|_| Fault::NoApic)?,
        ..Found::default()
    };
    for ((_, msr), select) in perfevtsels(pmu).zip(&mut found.perfevtsel) {
        *select = read(msr)?;
    }
    if pmu.has_global() {
        found.global_ctrl = read(msr::GLOBAL_CTRL)?;
        found.global_status = read(msr::GLOBAL_STATUS)?;
    }
    if pmu.fixed {
        found.fixed_ctr_ctrl = read(msr::FIXED_CTR_CTRL)?;
    }
    Ok(found)
}

/// Looks for a counter that somebody left running without a reservation, firmware or a tool by
/// /dev/cpu/*/msr: our gate would stop it, or its PMIs come where we want ours.
fn running(pmu: &Pmu, found: &Found) -> Option<u8> {
    let open = |counter: u8| !pmu.has_global() || found.global_ctrl >> counter & 1 != 0;
    let mut general = perfevtsels(pmu)
        .zip(found.perfevtsel)
        .filter(|&(_, select)| event::is_enabled(select))
        .map(|((counter, _), _)| counter);
    let mut fixed = (0..16u8)
        .filter(|fixed| found.fixed_ctr_ctrl >> (4 * fixed) & 0b11 != 0)
        .map(|fixed| 32 + fixed);
    general
        .find(|&counter| open(counter))
        .or_else(|| fixed.find(|&counter| open(counter)))
}

/// Stops all counters, and has this one count a known loop, in kernel mode: some emulators and clouds
/// announce a PMU that stands still.
fn try_out(plan: &Plan, found: &Found, cpu: &ThisCpu) -> Result<(), Fault> {
    let write = |msr: msr::Msr, value| msr.try_write(value, cpu).map_err(|_| Fault::Refused);
    let event = plan.pmu.certain_event();
    let gate = plan.gate.msr();

    // Frozen by a PMI, the gate would look closed to our handler, and stay so.
    msr::set_freeze_on_pmi(false, cpu).map_err(|_| Fault::Refused)?;
    write(gate, 0)?;
    for (msr, select) in others(plan, found) {
        write(msr, event::disabled(select))?;
    }
    if plan.pmu.has_freeze_status() {
        write(msr::GLOBAL_OVF_CTRL, msr::CTR_FRZ)?;
    }
    write(msr::PERFEVTSEL0, event.perfevtsel(false))?;
    if msr::PERFEVTSEL0.try_read(cpu) != Ok(event.perfevtsel(false)) {
        return Err(Fault::Swallowed);
    }
    write(plan.pmc0, 0)?;
    write(gate, plan.gate.key(event, false).into())?;
    for round in 0..1_000u32 {
        core::hint::black_box(round);
    }
    write(gate, 0)?;
    // A CPU may do some rounds in a cycle, but not many; and not even what may come in between, an
    // NMI or firmware, takes ten million.
    match msr::PMC0.try_read(cpu) {
        Ok(100..10_000_000) => Ok(()),
        counted => Err(Fault::Implausible(counted.unwrap_or(0))),
    }
}

/// The running counters that only their own event selects stop, with what was found there.
fn others<'a>(plan: &Plan, found: &'a Found) -> impl Iterator<Item = (msr::Msr, u64)> + use<'a> {
    let own_gates = !plan.pmu.has_global();
    perfevtsels(&plan.pmu)
        .map(|(_, msr)| msr)
        .zip(found.perfevtsel)
        .skip(1)
        .filter(move |&(_, select)| own_gates && event::is_enabled(select))
}

/// Writes what was found, as far as the CPU takes it (a legacy write of PMC0 has 32 bits): there is
/// nobody to tell.
fn put_back(plan: &Plan, found: &Found, cpu: &ThisCpu) {
    let write = |msr: msr::Msr, value| {
        let _ = msr.try_write(value, cpu);
    };
    write(plan.pmc0, found.pmc0);
    apic::set_lvtpc(found.lvtpc, cpu);
    let _ = msr::set_freeze_on_pmi(found.freeze_on_pmi, cpu);
    if plan.pmu.has_global() {
        write(msr::GLOBAL_OVF_CTRL, msr::COUNTER0);
    }
    if plan.pmu.has_freeze_status() {
        let ours = msr::COUNTER0 | msr::CTR_FRZ;
        write(msr::GLOBAL_STATUS_SET, found.global_status & ours);
    }
    write(msr::PERFEVTSEL0, found.perfevtsel[0]);
    for (msr, select) in others(plan, found) {
        write(msr, select);
    }
    if plan.pmu.has_global() {
        write(msr::GLOBAL_CTRL, found.global_ctrl);
    }
}
