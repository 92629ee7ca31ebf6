// SPDX-License-Identifier: GPL-2.0

//! Taking a CPU's counter 0 and giving it back: what its PMU can do, whether it works, who uses it.
//!
//! The CPUs need not be alike: each has its own [`Plan`].

use crate::{
    apic,
    counter::{
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
    msr::{
        self,
        Msr, //
    },
    smp::ThisCpu, //
};

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

/// What was in the registers before us; 0 for those that this PMU does not have.
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    perfevtsel: [u64; msr::PERFEVTSELS],
    pmc0: u64,
    fixed_ctr_ctrl: u64,
    global_ctrl: u64,
    global_status: u64,
    freeze_on_pmi: bool,
    lvtpc: u32,
}

/// How a CPU does its job.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pmu: Pmu,
    event: Event,
    /// What lets the counter run.
    pub(crate) gate: Gate,
    /// Where its periods start.
    pub(crate) preload: Preload,
    /// IA32_A_PMC0 where it can be written, else IA32_PMC0.
    pmc0: Msr,
}

/// The event selects that lie behind one another, with the numbers of their counters.
fn perfevtsels(pmu: &Pmu) -> impl Iterator<Item = (u8, Msr)> {
    (0..pmu.counters).map_while(|counter| Some((counter, msr::perfevtsel(counter)?)))
}

/// Writes a register that may not be there, or not work.
fn write(msr: Msr, value: u64, cpu: &ThisCpu) -> Result<(), Fault> {
    msr.try_write(value, cpu).map_err(|_| Fault::Refused)
}

impl Job {
    /// How this CPU would do it, as far as that can be told without a look at its registers.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn plan(&self, cpu: &ThisCpu) -> Result<Plan, Fault> {
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
            event: self.event,
            gate: Gate::new(pmu.has_global()),
            preload: preload.map_err(Fault::OutOfRange)?,
            pmc0: if full_width { msr::A_PMC0 } else { msr::PMC0 },
        })
    }
}

impl Found {
    /// Reads what is there.
    fn read(pmu: &Pmu, cpu: &ThisCpu) -> Result<Self, Fault> {
        let read = |msr: Msr| msr.try_read(cpu).map_err(|_| Fault::Refused);
        let mut found = Self {
            pmc0: read(msr::PMC0)?,
            freeze_on_pmi: msr::freezes_on_pmi(cpu),
            lvtpc: apic::lvtpc(cpu).map_err(|_| Fault::NoApic)?,
            ..Self::default()
        };
        for ((_, msr), select) in perfevtsels(pmu).zip(&mut found.perfevtsel) {
            *select = read(msr)?;
        }
        if pmu.fixed {
            found.fixed_ctr_ctrl = read(msr::FIXED_CTR_CTRL)?;
        }
        if pmu.has_global() {
            found.global_ctrl = read(msr::GLOBAL_CTRL)?;
            found.global_status = read(msr::GLOBAL_STATUS)?;
        }
        Ok(found)
    }

    /// A counter that somebody left running without a reservation, firmware or a tool by
    /// /dev/cpu/*/msr: our gate would stop it, or its PMIs come where we want ours.
    fn running(&self, pmu: &Pmu) -> Option<u8> {
        let open = |counter: u8| !pmu.has_global() || self.global_ctrl >> counter & 1 != 0;
        let mut general = perfevtsels(pmu)
            .zip(self.perfevtsel)
            .filter(|&(_, select)| event::is_enabled(select))
            .map(|((counter, _), _)| counter);
        let mut fixed = (0..16u8)
            .filter(|fixed| self.fixed_ctr_ctrl >> (4 * fixed) & 0b11 != 0)
            .map(|fixed| 32 + fixed);
        general
            .find(|&counter| open(counter))
            .or_else(|| fixed.find(|&counter| open(counter)))
    }

    /// The running counters beside ours that only their own event selects stop, and those.
    fn others(&self, pmu: &Pmu) -> impl Iterator<Item = (Msr, u64)> {
        let own_gates = !pmu.has_global();
        perfevtsels(pmu)
            .map(|(_, msr)| msr)
            .zip(self.perfevtsel)
            .skip(1)
            .filter(move |&(_, select)| own_gates && event::is_enabled(select))
    }
}

impl Plan {
    /// Takes this CPU's counter 0: remembers its registers, tries whether it counts, and programs it,
    /// with the gate closed. Returns what was found, and a running counter that was taken from
    /// somebody, numbered as in [`Fault::Running`].
    ///
    /// # Errors
    ///
    /// What was changed is put back then.
    pub(crate) fn take(&self, force: bool, cpu: &ThisCpu) -> Result<(Found, Option<u8>), Fault> {
        let found = Found::read(&self.pmu, cpu)?;
        let running = found.running(&self.pmu);
        if let Some(counter) = running.filter(|_| !force) {
            return Err(Fault::Running(counter));
        }
        self.try_out(&found, cpu)
            .and_then(|()| self.start(cpu))
            .map(|()| (found, running))
            .inspect_err(|_| self.give_back(&found, cpu))
    }

    /// Stops all counters, and has this one count a known loop, in kernel mode: some emulators and
    /// clouds announce a PMU that stands still.
    fn try_out(&self, found: &Found, cpu: &ThisCpu) -> Result<(), Fault> {
        let event = self.pmu.certain_event();
        let gate = self.gate.msr();

        // Frozen by a PMI, the gate would look closed to our handler, and stay so.
        msr::set_freeze_on_pmi(false, cpu).map_err(|_| Fault::Refused)?;
        write(gate, 0, cpu)?;
        for (msr, select) in found.others(&self.pmu) {
            write(msr, event::disabled(select), cpu)?;
        }
        if self.pmu.has_freeze_status() {
            write(msr::GLOBAL_OVF_CTRL, msr::CTR_FRZ, cpu)?;
        }
        write(msr::PERFEVTSEL0, event.perfevtsel(false), cpu)?;
        if msr::PERFEVTSEL0.try_read(cpu) != Ok(event.perfevtsel(false)) {
            return Err(Fault::Swallowed);
        }
        write(self.pmc0, 0, cpu)?;
        write(gate, self.gate.key(event, false).into(), cpu)?;
        for round in 0..1_000u32 {
            core::hint::black_box(round);
        }
        write(gate, 0, cpu)?;
        // A CPU may do some rounds in a cycle, but not many; and not even what may come in between,
        // an NMI or firmware, takes ten million.
        match msr::PMC0.try_read(cpu) {
            Ok(100..10_000_000) => Ok(()),
            counted => Err(Fault::Implausible(counted.unwrap_or(0))),
        }
    }

    /// Programs the counter and checks that it took what it was given.
    fn start(&self, cpu: &ThisCpu) -> Result<(), Fault> {
        write(self.pmc0, self.preload.start(), cpu)?;
        if self.pmu.has_global() {
            // No PMI of ours is behind an overflow that was there before.
            write(msr::GLOBAL_OVF_CTRL, msr::COUNTER0, cpu)?;
        }
        write(msr::PERFEVTSEL0, self.select(), cpu)?;
        if msr::PERFEVTSEL0.try_read(cpu) != Ok(self.select())
            || msr::PMC0.try_read(cpu) != Ok(self.preload.start())
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
    fn select(&self) -> u64 {
        match self.gate {
            Gate::GlobalCtrl => self.event.perfevtsel(true),
            Gate::EventSelect => 0,
        }
    }

    /// Makes the gate this CPU's, for the hooks to open.
    ///
    /// # Safety
    ///
    /// It must have been taken by this plan.
    pub(crate) unsafe fn install_gate(&self, cpu: &ThisCpu) {
        // SAFETY: So the register is there, and takes the key: that of another event was tried.
        unsafe { self.gate.install(self.event, cpu) };
    }

    /// Whether the registers are as they were left, and as the hooks leave the gate, which was found
    /// like this while a followed task ran or not.
    pub(crate) fn is_as_left(&self, gate: u64, followed: bool, cpu: &ThisCpu) -> bool {
        let key = self.gate.key(self.event, true).into();
        gate == if followed { key } else { 0 }
            && msr::PERFEVTSEL0.try_read(cpu) == Ok(self.select())
            && apic::delivers_nmis(cpu)
            && !msr::freezes_on_pmi(cpu)
    }

    /// Whether the counter has overflowed since its period began.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by this plan.
    #[inline]
    pub(crate) unsafe fn overflowed(&self, cpu: &ThisCpu) -> bool {
        // SAFETY: The registers exist where they are asked.
        unsafe {
            match self.gate {
                Gate::GlobalCtrl => msr::GLOBAL_STATUS.read(cpu) & msr::COUNTER0 != 0,
                Gate::EventSelect => self.preload.top_bit_gone(msr::rdpmc0(cpu)),
            }
        }
    }

    /// Acknowledges an overflow, starts the next period, and returns how many are complete.
    ///
    /// # Safety
    ///
    /// As for [`Plan::overflowed`].
    #[inline]
    pub(crate) unsafe fn reload(&self, cpu: &ThisCpu) -> u64 {
        // SAFETY: The registers exist where they are asked, and take these values.
        unsafe {
            // Before the counter is touched: an overflow that a write causes must not be lost with
            // this one.
            if self.pmu.has_global() {
                msr::GLOBAL_OVF_CTRL.write(msr::COUNTER0, cpu);
            }
            let (periods, value) = self.preload.reload(msr::rdpmc0(cpu));
            self.pmc0.write(value, cpu);
            periods
        }
    }

    /// Writes what was found, as far as the CPU takes it (a legacy write of PMC0 has 32 bits): there
    /// is nobody to tell. The gate must be closed.
    pub(crate) fn give_back(&self, found: &Found, cpu: &ThisCpu) {
        let put = |msr: Msr, value| {
            let _ = write(msr, value, cpu);
        };
        put(self.pmc0, found.pmc0);
        apic::set_lvtpc(found.lvtpc, cpu);
        let _ = msr::set_freeze_on_pmi(found.freeze_on_pmi, cpu);
        if self.pmu.has_global() {
            put(msr::GLOBAL_OVF_CTRL, msr::COUNTER0);
        }
        if self.pmu.has_freeze_status() {
            let ours = msr::COUNTER0 | msr::CTR_FRZ;
            put(msr::GLOBAL_STATUS_SET, found.global_status & ours);
        }
        for (msr, select) in found.others(&self.pmu) {
            put(msr, select);
        }
        put(msr::PERFEVTSEL0, found.perfevtsel[0]);
        if self.pmu.has_global() {
            put(msr::GLOBAL_CTRL, found.global_ctrl);
        }
    }
}
