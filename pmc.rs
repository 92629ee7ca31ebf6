// SPDX-License-Identifier: GPL-2.0

//! Counter 0 of every CPU: programming it, opening and closing its gate, its PMI, its sum.
//!
//! PERFEVTSEL0 selects the event for as long as the module is loaded; what starts and stops the
//! counter is GLOBAL_CTRL, the *gate*. Closed, the counter stands still and keeps what it has, so
//! that a switch writes one MSR and reads none; only [`Counters::settle`] looks at it.

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
        Preload, //
    },
    cpuid::Pmu,
    event::{
        self,
        Event, //
    },
    msr,
    smp::{
        on_each_cpu,
        NmiCell,
        NmiSafe,
        PerCpu,
        ThisCpu, //
    },
};

/// What was in the registers before us.
#[derive(Clone, Copy, Default)]
struct Found {
    perfevtsel0: u64,
    pmc0: u64,
    global_ctrl: u64,
    freeze_on_pmi: bool,
    lvtpc: u32,
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
    /// What to put back.
    found: Cell<Found>,
}

// SAFETY: `found` is not touched by PMIs; all else is an `NmiCell`.
unsafe impl NmiSafe for Cpu {}

/// Why a CPU's counter cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// This CPU's PMU is not like that of the CPU where the module was loaded.
    Differs,
    /// A PMU register that must exist is refused (#GP).
    Refused,
    /// A PMU register does not hold what was written there.
    Swallowed,
    /// Somebody's counter of this number is running (32 and more: fixed-function counters).
    Running(u8),
    /// Counter 0 was programmed, and did not move.
    Stuck,
    /// There is no local APIC to deliver PMIs.
    NoApic,
}

/// Counter 0 of every CPU, and the sum of what they counted.
pub(crate) struct Counters {
    pmu: Pmu,
    event: Event,
    preload: Preload,
    full_width: bool,
    /// IA32_A_PMC0 if `full_width`, else IA32_PMC0.
    pmc0: msr::Msr,
    cpus: PerCpu<Cpu>,
    /// The sum, in events and in periods.
    events: Atomic<u64>,
    overflows: Atomic<u64>,
}

/// Opens this CPU's gate, so that counter 0 runs, or closes it, so that none does.
///
/// # Safety
///
/// The CPU must have GLOBAL_CTRL.
#[inline(always)]
pub(crate) unsafe fn gate(open: bool, cpu: &ThisCpu) {
    // Counter 0's bit is bit 0: no branch, no shift.
    const { assert!(msr::COUNTER0 == true as u64) };
    // SAFETY: The register exists, and counter 0 too.
    unsafe { msr::GLOBAL_CTRL.write(u64::from(open), cpu) };
}

/// Whether this CPU, with `pmu`, lets counters be written at their full width.
pub(crate) fn full_width_writes(pmu: &Pmu, cpu: &ThisCpu) -> bool {
    pmu.perf_capabilities
        && msr::PERF_CAPABILITIES
            .try_read(cpu)
            .is_ok_and(|capabilities| capabilities & msr::FULL_WIDTH_WRITE != 0)
}

impl Counters {
    /// Counters for `event`, none of them programmed yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pmu: Pmu, full_width: bool, event: Event, preload: Preload) -> Result<Self> {
        Ok(Self {
            pmu,
            event,
            preload,
            full_width,
            pmc0: if full_width { msr::A_PMC0 } else { msr::PMC0 },
            cpus: PerCpu::new()?,
            events: Atomic::new(0),
            overflows: Atomic::new(0),
        })
    }

    /// Takes this CPU's counter 0: probes and remembers its registers, tries whether it moves,
    /// and programs it, with the gate closed.
    ///
    /// # Errors
    ///
    /// What was changed is put back then.
    pub(crate) fn program(&self, cpu: &ThisCpu) -> Result<(), Fault> {
        if Pmu::detect() != Ok(self.pmu) || full_width_writes(&self.pmu, cpu) != self.full_width {
            return Err(Fault::Differs);
        }
        let Some(this) = self.cpus.get(cpu) else {
            return Err(Fault::Differs);
        };
        let read = |msr: msr::Msr| msr.try_read(cpu).map_err(|_| Fault::Refused);
        let mut found = Found {
            freeze_on_pmi: false,
            perfevtsel0: read(msr::PERFEVTSEL0)?,
            pmc0: read(msr::PMC0)?,
            global_ctrl: read(msr::GLOBAL_CTRL)?,
            lvtpc: apic::lvtpc(cpu).map_err(|_| Fault::NoApic)?,
        };
        self.nobody_counts(found.global_ctrl, cpu)?;
        // Frozen, the gate would look closed to our handler, and stay so.
        found.freeze_on_pmi = msr::set_freeze_on_pmi(false, cpu).map_err(|_| Fault::Refused)?;
        this.found.set(found);

        let programmed = self.try_out(cpu).and_then(|()| self.start(cpu));
        match programmed {
            Ok(()) => {
                this.periods.set(0);
                this.settled.set(false);
                this.programmed.set(true);
            }
            Err(_) => self.put_back(found, cpu),
        }
        programmed
    }

    /// Looks for a counter that somebody left running without a reservation, by /dev/cpu/*/msr
    /// say: the gate would stop it.
    fn nobody_counts(&self, global_ctrl: u64, cpu: &ThisCpu) -> Result<(), Fault> {
        let open = |counter: u8| global_ctrl >> counter & 1 != 0;
        let selects = (0..self.pmu.counters).map_while(|i| Some((i, msr::perfevtsel(i)?)));
        for (counter, select) in selects.filter(|&(counter, _)| open(counter)) {
            let select = select.try_read(cpu).map_err(|_| Fault::Refused)?;
            if select & event::EN != 0 {
                return Err(Fault::Running(counter));
            }
        }
        if self.pmu.fixed {
            let ctrl = msr::FIXED_CTR_CTRL.try_read(cpu);
            let ctrl = ctrl.map_err(|_| Fault::Refused)?;
            for fixed in (0..8).filter(|&fixed| open(32 + fixed)) {
                if ctrl >> (4 * fixed) & 0b11 != 0 {
                    return Err(Fault::Running(32 + fixed));
                }
            }
        }
        Ok(())
    }

    /// Counts a known loop, in kernel mode: some emulators and clouds announce a PMU that stands
    /// still.
    fn try_out(&self, cpu: &ThisCpu) -> Result<(), Fault> {
        let write = |msr: msr::Msr, value| msr.try_write(value, cpu).map_err(|_| Fault::Refused);
        let kernel = Event::new(self.pmu.certain_event(), false, true);
        let kernel = kernel.map_err(|_| Fault::Stuck)?;

        write(msr::GLOBAL_CTRL, 0)?;
        write(msr::PERFEVTSEL0, kernel.perfevtsel(false))?;
        write(self.pmc0, 0)?;
        write(msr::GLOBAL_CTRL, msr::COUNTER0)?;
        for round in 0..1_000u32 {
            core::hint::black_box(round);
        }
        write(msr::GLOBAL_CTRL, 0)?;
        // Each round executes an instruction at least, and takes a cycle.
        match msr::PMC0.try_read(cpu) {
            Ok(1_000..) => Ok(()),
            _ => Err(Fault::Stuck),
        }
    }

    /// Programs the counter and checks that it took what it was given.
    fn start(&self, cpu: &ThisCpu) -> Result<(), Fault> {
        let write = |msr: msr::Msr, value| msr.try_write(value, cpu).map_err(|_| Fault::Refused);
        let select = self.event.perfevtsel(true);

        write(msr::PERFEVTSEL0, select)?;
        write(self.pmc0, self.preload.start())?;
        // No PMI of ours is behind an overflow that was there before.
        write(msr::GLOBAL_OVF_CTRL, msr::COUNTER0)?;
        if msr::PERFEVTSEL0.try_read(cpu) != Ok(select)
            || msr::PMC0.try_read(cpu) != Ok(self.preload.start())
        {
            return Err(Fault::Swallowed);
        }
        apic::set_lvtpc(apic::NMI, cpu);
        Ok(())
    }

    /// Gives this CPU's counter back as it was found, and settles it. The gate must be closed for
    /// good.
    pub(crate) fn restore(&self, cpu: &ThisCpu) {
        let Some(this) = self.cpus.get(cpu).filter(|this| this.programmed.get()) else {
            return;
        };
        // SAFETY: The CPU is programmed, so it has the register.
        unsafe { gate(false, cpu) };
        self.settle(cpu);
        this.programmed.set(false);
        self.put_back(this.found.get(), cpu);
    }

    /// Writes what was found, as far as the CPU takes it (a legacy write of PMC0 has 32 bits): there
    /// is nobody to tell.
    fn put_back(&self, found: Found, cpu: &ThisCpu) {
        let _ = msr::PERFEVTSEL0.try_write(found.perfevtsel0, cpu);
        let _ = self.pmc0.try_write(found.pmc0, cpu);
        apic::set_lvtpc(found.lvtpc, cpu);
        let _ = msr::set_freeze_on_pmi(found.freeze_on_pmi, cpu);
        let _ = msr::GLOBAL_CTRL.try_write(found.global_ctrl, cpu);
    }

    /// Services this CPU's PMI. Returns whether it was one of ours.
    ///
    /// An NMI may come while the counter runs, or just after a hook has stopped it.
    #[inline]
    pub(crate) fn service_pmi(&self, cpu: &ThisCpu) -> bool {
        let Some(this) = self.cpus.get(cpu).filter(|this| this.programmed.get()) else {
            return false;
        };
        // SAFETY: The CPU is programmed: all these registers exist and take these values.
        unsafe {
            // Stopped first, so that what follows is not counted and cannot overflow.
            let found = msr::GLOBAL_CTRL.read(cpu);
            gate(false, cpu);

            let ours = msr::GLOBAL_STATUS.read(cpu) & msr::COUNTER0 != 0;
            if ours {
                // Acknowledged before the counter is touched: an overflow that a write causes
                // must not be lost with this one.
                msr::GLOBAL_OVF_CTRL.write(msr::COUNTER0, cpu);

                let (periods, value) = self.preload.reload(msr::rdpmc0(cpu));
                this.periods.set(this.periods.get().wrapping_add(periods));
                self.pmc0.write(value, cpu);
            }
            // As the hooks had set it: the target may have been switched out before this NMI came.
            if found != 0 {
                msr::GLOBAL_CTRL.write(found, cpu);
            }
            // The CPU has masked the entry when it delivered the PMI. Last, as Haswell and later
            // want it.
            if ours {
                apic::set_lvtpc(apic::NMI, cpu);
            }
            ours
        }
    }

    /// Adds what this CPU has counted to the sum, once. The gate must be closed for good.
    fn settle(&self, cpu: &ThisCpu) {
        let Some(this) = self.cpus.get(cpu).filter(|this| this.programmed.get()) else {
            return;
        };
        if this.settled.get() {
            return;
        }
        // The PMI of a counter that was stopped meanwhile may still be on its way: it must not
        // come between these reads.
        let count = loop {
            let periods = this.periods.get();
            // SAFETY: The CPU is programmed, so it has these registers.
            let (status, value) = unsafe { (msr::GLOBAL_STATUS.read(cpu), msr::rdpmc0(cpu)) };
            if this.periods.get() == periods {
                let overflowed = status & msr::COUNTER0 != 0;
                break self.preload.count(periods, value, overflowed);
            }
        };
        this.settled.set(true);
        self.events.fetch_add(count.events, Relaxed);
        self.overflows.fetch_add(count.overflows, Relaxed);
    }

    /// All that was counted, on CPUs that are online and on those that were. All gates must be
    /// closed. Does not sleep; must not be called with interrupts off.
    pub(crate) fn total(&self) -> Count {
        on_each_cpu(|cpu| self.settle(cpu));
        Count {
            events: self.events.load(Relaxed),
            overflows: self.overflows.load(Relaxed),
        }
    }
}
