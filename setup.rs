// SPDX-License-Identifier: GPL-2.0

//! Taking a CPU's counters and giving them back: what its PMU can do, whether it works, who uses it.
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
    free,
    msr::{
        self,
        Msr, //
    },
    placement::{
        self,
        Place,
        Places, //
    },
    smp::{
        NmiCell,
        ThisCpu, //
    },
};

pub(crate) use crate::placement::MOST;

/// An event to be counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// What is counted.
    pub(crate) event: Event,
    /// N, or 0 for the largest that each CPU's counter takes.
    pub(crate) n: u64,
}

/// How counters are used, whatever they count.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// Whether to take counters that somebody has left running.
    pub(crate) force: bool,
    /// Whether they run freely, and not only while somebody is counted.
    pub(crate) free: bool,
}

/// What is counted, and how.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    /// What is counted, each in the slot that it has on all CPUs.
    pub(crate) slots: [Option<Wanted>; MOST],
    /// How its counters are used.
    pub(crate) manner: Manner,
}

/// Why a CPU's counters cannot be used.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// There is no PMU that we can program.
    Missing(Missing),
    /// CPUID says that it does not count this event.
    NoEvent(Event),
    /// This N is not for the counter that it would have.
    OutOfRange(Wanted, OutOfRange),
    /// There are more events than counters: it has these, general-purpose ones and of fixed function.
    ///
    /// Also if two need the same, which only [`event::REFERENCE_CYCLES`] do.
    TooMany {
        /// The general-purpose counters that we may use.
        general: u8,
        /// The fixed-function counters that we may use.
        fixed: u8,
    },
    /// A PMU register that must exist is refused (#GP).
    Refused,
    /// A PMU register does not hold what was written there.
    Swallowed,
    /// Somebody's counter of this number is running (32 and more: fixed-function counters).
    Running(u8),
    /// A counter was programmed to count a known loop, and counted this.
    Implausible(u64),
    /// There is no local APIC to deliver PMIs.
    NoApic,
}

/// What was in the registers before us; 0 for those that this PMU does not have.
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    perfevtsel: [u64; msr::PERFEVTSELS],
    /// By [`Place::index`].
    counters: [u64; MOST],
    fixed_ctr_ctrl: u64,
    global_ctrl: u64,
    global_status: u64,
    freeze_on_pmi: bool,
    lvtpc: u32,
}

/// A counter that is in use on a CPU.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    /// For which slot.
    pub(crate) slot: usize,
    place: Place,
    event: Event,
    /// Where its periods start.
    pub(crate) preload: Preload,
    /// Where the counter is written.
    counter: Msr,
    /// What RDPMC knows it by.
    rdpmc: u32,
    /// Its bit in GLOBAL_OVF_CTRL, alone.
    bit: [u32; 2],
}

/// How PMIs are served.
#[derive(Clone, Copy)]
enum Service {
    /// There is one counter, which counts the kernel, too, and GLOBAL_CTRL.
    BehindGate,
    /// There is one counter, which need not stand still, and GLOBAL_CTRL.
    Running,
    /// Whatever there is.
    Other,
}

/// How a CPU does its job.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pmu: Pmu,
    /// The counters in use, before all that are none.
    placed: [Option<Placed>; MOST],
    /// The counters in use.
    places: Places,
    gate: Msr,
    key: u64,
    lvtpc: apic::Writer,
    service: Service,
    /// Whether the gate is always open.
    free: bool,
    /// Whether general-purpose counters take full-width writes.
    full_width: bool,
}

/// Counters that have overflowed since their periods began.
#[derive(Clone, Copy)]
pub(crate) struct Overflowed(Places);

impl Overflowed {
    /// Whether there is none.
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// The event selects that lie behind one another, with the numbers of their counters.
fn perfevtsels(pmu: &Pmu) -> impl Iterator<Item = (u8, Msr)> {
    (0..pmu.counters).map_while(|counter| Some((counter, msr::perfevtsel(counter)?)))
}

/// Reads a register that may not be there.
fn read(msr: Msr, cpu: &ThisCpu) -> Result<u64, Fault> {
    msr.try_read(cpu).map_err(|_| Fault::Refused)
}

/// Writes a register that may not be there, or not work.
fn write(msr: Msr, value: u64, cpu: &ThisCpu) -> Result<(), Fault> {
    msr.try_write(value, cpu).map_err(|_| Fault::Refused)
}

/// Writes a register that must then hold what was written.
fn set(msr: Msr, value: u64, cpu: &ThisCpu) -> Result<(), Fault> {
    write(msr, value, cpu)?;
    match read(msr, cpu)? == value {
        true => Ok(()),
        false => Err(Fault::Swallowed),
    }
}

/// The part of the register [`msr::select`] that a counter has for itself: how far it is shifted, and its
/// bits there.
const fn field(place: Place) -> (u32, u64) {
    match place.as_fixed() {
        None => (0, u64::MAX),
        Some(number) => (4 * number as u32, 0b1111),
    }
}

/// What a counter counts: its part of [`msr::select`].
fn selected(place: Place, cpu: &ThisCpu) -> Result<u64, Fault> {
    let (shift, bits) = field(place);
    Ok(read(msr::select(place), cpu)? >> shift & bits)
}

/// Has a counter count this: writes its part of [`msr::select`], and leaves that of others alone.
fn select(place: Place, value: u64, cpu: &ThisCpu) -> Result<(), Fault> {
    let (shift, bits) = field(place);
    let others = match place.as_fixed() {
        None => 0,
        Some(_) => read(msr::select(place), cpu)? & !(bits << shift),
    };
    set(msr::select(place), others | value << shift, cpu)
}

/// What [`select`] has this event counted by.
fn selection(place: Place, event: Event, pmi: bool) -> u64 {
    match place.as_fixed() {
        None => event.perfevtsel(pmi),
        Some(_) => event.fixed_ctr_ctrl(pmi),
    }
}

impl Job {
    /// How this CPU would do it, as far as that can be told without a look at its registers.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn plan(&self, cpu: &ThisCpu) -> Result<Plan, Fault> {
        let pmu = Pmu::detect().map_err(Fault::Missing)?;
        for wanted in self.slots.iter().flatten() {
            if pmu.lacks(wanted.event.code()) {
                return Err(Fault::NoEvent(wanted.event));
            }
        }
        let full_width = pmu.perf_capabilities
            && msr::PERF_CAPABILITIES
                .try_read(cpu)
                .is_ok_and(|capabilities| capabilities & msr::FULL_WIDTH_WRITE != 0);
        let events = self.slots.map(|wanted| Some(wanted?.event));
        let places = placement::place(&events, pmu.places()).ok_or(Fault::TooMany {
            general: pmu.general(),
            fixed: pmu.fixed(),
        })?;

        let mut counted = events.iter().flatten();
        let service = match (counted.next(), counted.next()) {
            (Some(event), None) if pmu.has_global() => match event.counts_kernel() {
                true => Service::BehindGate,
                false => Service::Running,
            },
            _ => Service::Other,
        };
        let mut placed = [None; MOST];
        let mut plan = Plan {
            pmu,
            placed,
            lvtpc: apic::Writer::find().map_err(|_| Fault::NoApic)?,
            places: Places::NONE,
            gate: msr::NOWHERE,
            key: 0,
            service,
            free: self.manner.free,
            full_width,
        };
        let wanted = (0..).zip(self.slots).zip(places);
        let used = wanted.filter_map(|((slot, wanted), place)| Some((slot, wanted?, place?)));
        for ((slot, wanted, place), placed) in used.zip(&mut placed) {
            *placed = Some(plan.put(slot, wanted, place)?);
        }
        plan.placed = placed;
        let gate = match pmu.has_global() {
            true => Some((msr::GLOBAL_CTRL, plan.places.bits())),
            false => plan.own_gates().next(),
        };
        if let Some((gate, key)) = gate {
            (plan.gate, plan.key) = (gate, key);
        }
        Ok(plan)
    }
}

impl Found {
    /// Reads what is there.
    fn read(pmu: &Pmu, cpu: &ThisCpu) -> Result<Self, Fault> {
        let mut found = Self {
            freeze_on_pmi: msr::freezes_on_pmi(cpu),
            lvtpc: apic::lvtpc(cpu).map_err(|_| Fault::NoApic)?,
            ..Self::default()
        };
        for ((_, msr), select) in perfevtsels(pmu).zip(&mut found.perfevtsel) {
            *select = read(msr, cpu)?;
        }
        for place in pmu.places().iter() {
            if let Some(counter) = found.counters.get_mut(place.index()) {
                // Any of its addresses reads all bits.
                *counter = read(msr::counter(place, false), cpu)?;
            }
        }
        if pmu.has_fixed() {
            found.fixed_ctr_ctrl = read(msr::FIXED_CTR_CTRL, cpu)?;
        }
        if pmu.has_global() {
            found.global_ctrl = read(msr::GLOBAL_CTRL, cpu)?;
            found.global_status = read(msr::GLOBAL_STATUS, cpu)?;
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
}

impl Placed {
    /// Where it stands.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by its plan.
    #[inline(always)]
    pub(crate) unsafe fn value(&self, cpu: &ThisCpu) -> u64 {
        // SAFETY: So it has the counter.
        unsafe { msr::rdpmc(self.rdpmc, cpu) }
    }

    /// If it has overflowed: acknowledges that, starts its next period, and adds the events of those that
    /// are complete to `completed`. Returns whether it had. It must stand still if it counts the kernel.
    ///
    /// That it has overflowed is read off its value, which is needed anyway, and not GLOBAL_STATUS.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by its plan, and have `GLOBAL` registers or not.
    #[inline(always)]
    unsafe fn serve<const GLOBAL: bool>(&self, completed: &NmiCell, cpu: &ThisCpu) -> bool {
        // SAFETY: As promised.
        let value = unsafe { self.value(cpu) };
        if !self.preload.overflowed(value) {
            return false;
        }
        if GLOBAL {
            // Before the counter is touched: an overflow that the write causes must not be lost with
            // this one.
            // SAFETY: As promised.
            unsafe { msr::GLOBAL_OVF_CTRL.write_halves(self.bit, cpu) };
        }
        let (events, value) = self.preload.reload(value);
        // SAFETY: It takes what its periods start with, and what lies behind.
        unsafe { self.counter.write(value, cpu) };
        completed.set(completed.get().wrapping_add(events));
        free::set_back(events, cpu);
        true
    }

    /// Whether it is one of these.
    pub(crate) fn is_among(&self, overflowed: Overflowed) -> bool {
        overflowed.0.contains(self.place)
    }
}

impl Plan {
    /// Puts an event on a counter.
    fn put(&mut self, slot: usize, wanted: Wanted, place: Place) -> Result<Placed, Fault> {
        let shape = match place.as_fixed() {
            None => Shape {
                width: self.pmu.width,
                full_width: self.full_width,
            },
            // There is no other way to write it.
            Some(_) => Shape {
                width: self.pmu.fixed_width,
                full_width: true,
            },
        };
        let preload = Preload::new(wanted.n, shape, wanted.event.counts_kernel())
            .map_err(|bounds| Fault::OutOfRange(wanted, bounds))?;
        self.places = self.places.with(place);
        Ok(Placed {
            slot,
            place,
            event: wanted.event,
            preload,
            counter: msr::counter(place, self.full_width),
            rdpmc: place.rdpmc(),
            bit: msr::halves(place.mask()),
        })
    }

    /// Takes this CPU's counters: remembers its registers, tries whether those that it needs count, and
    /// programs them, with the gates closed. Returns what was found, and a running counter that was taken
    /// from somebody, numbered as in [`Fault::Running`].
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
        self.stop_all(&found, cpu)
            .and_then(|()| self.try_out(self.places, cpu))
            .and_then(|()| self.program(cpu))
            .and_then(|()| {
                self.lvtpc.set_lvtpc(apic::NMI, cpu);
                match apic::lvtpc(cpu) {
                    Ok(apic::NMI) => Ok((found, running)),
                    _ => Err(Fault::NoApic),
                }
            })
            .inspect_err(|_| self.give_back(&found, cpu))
    }

    /// Does this CPU's job anew, from the start of each period. It was done by `from` (of the same CPU)
    /// up to now; the gates are closed, and whatever was counted is known.
    ///
    /// # Errors
    ///
    /// Counters are programmed for neither then: change back.
    pub(crate) fn change(&self, from: &Plan, cpu: &ThisCpu) -> Result<(), Fault> {
        for place in from.places.without(self.places).iter() {
            select(place, 0, cpu)?;
        }
        from.acknowledge_all(cpu)?;
        self.try_out(self.places.without(from.places), cpu)?;
        self.program(cpu)
    }

    /// Programs all anew, after somebody else has changed it. The gates are closed.
    ///
    /// # Errors
    ///
    /// As for [`Plan::change`].
    pub(crate) fn renew(&self, cpu: &ThisCpu) -> Result<(), Fault> {
        msr::set_freeze_on_pmi(false, cpu).map_err(|_| Fault::Refused)?;
        self.lvtpc.set_lvtpc(apic::NMI, cpu);
        self.change(self, cpu)
    }

    /// Stops all counters, those of others, too.
    fn stop_all(&self, found: &Found, cpu: &ThisCpu) -> Result<(), Fault> {
        // Frozen by a PMI, the gate would look closed to our handler, and stay so.
        msr::set_freeze_on_pmi(false, cpu).map_err(|_| Fault::Refused)?;
        if self.pmu.has_global() {
            write(msr::GLOBAL_CTRL, 0, cpu)?;
        } else {
            for ((_, msr), select) in perfevtsels(&self.pmu).zip(found.perfevtsel) {
                if event::is_enabled(select) {
                    write(msr, event::disabled(select), cpu)?;
                }
            }
        }
        if self.pmu.has_freeze_status() {
            write(msr::GLOBAL_OVF_CTRL, msr::CTR_FRZ, cpu)?;
        }
        Ok(())
    }

    /// Has these counters, which are stopped, count a known loop, in kernel mode: some emulators and
    /// clouds announce a PMU that stands still.
    fn try_out(&self, places: Places, cpu: &ThisCpu) -> Result<(), Fault> {
        let event = self.pmu.certain_event();
        // Without GLOBAL_CTRL they run from here on.
        for place in places.iter() {
            select(place, selection(place, event, false), cpu)?;
            write(msr::counter(place, self.full_width), 0, cpu)?;
        }
        if self.pmu.has_global() {
            write(msr::GLOBAL_CTRL, places.bits(), cpu)?;
        }
        for round in 0..1_000u32 {
            core::hint::black_box(round);
        }
        if self.pmu.has_global() {
            write(msr::GLOBAL_CTRL, 0, cpu)?;
        }
        for place in places.iter() {
            select(place, 0, cpu)?;
        }
        for place in places.iter() {
            // A CPU may do some rounds in a cycle, but not many; and not even what may come in
            // between, an NMI or firmware, takes ten million.
            match read(msr::counter(place, self.full_width), cpu)? {
                100..10_000_000 => {}
                counted => return Err(Fault::Implausible(counted)),
            }
        }
        Ok(())
    }

    /// Programs the counters and checks that they took what they were given.
    fn program(&self, cpu: &ThisCpu) -> Result<(), Fault> {
        for placed in self.placed() {
            set(placed.counter, placed.preload.start(), cpu)?;
        }
        // No PMI of ours is behind an overflow that was there before.
        self.acknowledge_all(cpu)?;
        for placed in self.placed() {
            select(placed.place, self.behind_gate(placed), cpu)?;
        }
        Ok(())
    }

    /// Acknowledges whatever our counters have left.
    fn acknowledge_all(&self, cpu: &ThisCpu) -> Result<(), Fault> {
        match self.pmu.has_global() {
            true => write(msr::GLOBAL_OVF_CTRL, self.places.bits(), cpu),
            false => Ok(()),
        }
    }

    /// What is selected for a slot behind a closed gate.
    fn behind_gate(&self, placed: &Placed) -> u64 {
        match self.pmu.has_global() {
            true => selection(placed.place, placed.event, true),
            false => 0,
        }
    }

    /// The gates of a PMU where each counter has its own, and what opens them.
    #[inline]
    fn own_gates(&self) -> impl Iterator<Item = (Msr, u64)> + '_ {
        self.placed()
            .filter(|_| !self.pmu.has_global())
            .map(|placed| (msr::select(placed.place), placed.event.perfevtsel(true)))
    }

    /// The register that lets our counters run, or, where each has its own, the first that is in use.
    /// 0 closes it. [`msr::NOWHERE`] where there is nothing to count, if that is so.
    #[inline]
    pub(crate) const fn gate(&self) -> Msr {
        self.gate
    }

    /// What opens the gate.
    #[inline]
    pub(crate) const fn key(&self) -> u64 {
        self.key
    }

    /// Further registers that let one of our counters run each, and what opens them; 0 closes them.
    /// There are none but on version 1.
    #[inline]
    pub(crate) fn further_gates(&self) -> impl Iterator<Item = (Msr, u64)> + '_ {
        self.own_gates().skip(1)
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn has_further_gates(&self) -> bool {
        self.further_gates().next().is_some()
    }

    /// Whether the gates are open at all times.
    #[inline]
    pub(crate) const fn is_free(&self) -> bool {
        self.free
    }

    /// Whether a switch is done at once, if it is the owner that comes or leaves: there is one gate to
    /// move, or one counter to read.
    pub(crate) fn switches_at_once(&self) -> bool {
        match self.free {
            true => self.read_freely().is_some(),
            false => !self.has_further_gates(),
        }
    }

    /// The counter that `free.rs` reads, if it does.
    pub(crate) fn read_freely(&self) -> Option<&Placed> {
        let mut placed = self.placed();
        match (self.free, placed.next(), placed.next()) {
            (true, Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// Tells `free.rs` which counter it is.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by this plan.
    pub(crate) unsafe fn install_free(&self, cpu: &ThisCpu) {
        if let Some(placed) = self.read_freely() {
            // SAFETY: As the caller promises.
            unsafe { free::install(placed.rdpmc, placed.preload.top(), cpu) };
        }
    }

    /// Whether the registers are as they were left, and as the hooks leave the gate, which was found
    /// like this while it should have been `open` or not. All gates are closed by now; what the
    /// further ones were found like is for the caller to look at.
    pub(crate) fn is_as_left(&self, gate: u64, open: bool, cpu: &ThisCpu) -> bool {
        gate == if open { self.key } else { 0 }
            && self.placed().all(|placed| {
                selected(placed.place, cpu).is_ok_and(|value| value == self.behind_gate(placed))
            })
            && apic::delivers_nmis(cpu)
            && !msr::freezes_on_pmi(cpu)
    }

    /// Whether it may change what is counted that somebody else writes `value` to the register of this
    /// address. From any context.
    pub(crate) fn disturbed_by(&self, address: u32, value: u64) -> bool {
        self.places
            .iter()
            .any(|place| msr::of_counter(address, place))
            || !self.places.is_empty() && msr::of_all_counters(address, value)
    }

    /// Serves all counters that have overflowed, as [`Placed::serve`] does, and adds to `completed` of each
    /// the events of the periods that are. Returns whether there was any.
    ///
    /// If the kernel is counted it does so behind the gates, lest it is counted itself. They are left as
    /// the hooks had set them: the target may have been switched out before this NMI came.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by this plan.
    #[inline(always)]
    pub(crate) unsafe fn serve(&self, completed: &[NmiCell; MOST], cpu: &ThisCpu) -> bool {
        let ([Some(placed), ..], [completed_of_it, ..]) = (&self.placed, completed) else {
            return false;
        };
        // SAFETY: As promised; GLOBAL_CTRL takes 0 and what it had.
        unsafe {
            match self.service {
                Service::BehindGate => {
                    let found = msr::GLOBAL_CTRL.read_halves(cpu);
                    msr::GLOBAL_CTRL.write(0, cpu);
                    let overflowed = placed.serve::<true>(completed_of_it, cpu);
                    msr::GLOBAL_CTRL.write_halves(found, cpu);
                    overflowed
                }
                Service::Running => placed.serve::<true>(completed_of_it, cpu),
                Service::Other => self.serve_all(completed, cpu),
            }
        }
    }

    /// The same for any number of counters, and also without GLOBAL_CTRL.
    ///
    /// # Safety
    ///
    /// As above.
    #[cold]
    #[inline(never)]
    unsafe fn serve_all(&self, completed: &[NmiCell; MOST], cpu: &ThisCpu) -> bool {
        let mut overflowed = false;
        // SAFETY: As promised; the gates take 0, what was found there, and their keys.
        unsafe {
            let found = self.gate.read(cpu);
            self.gate.write(0, cpu);
            self.further_gates().for_each(|(msr, _)| msr.write(0, cpu));
            for (placed, completed) in self.placed().zip(completed) {
                overflowed |= match self.pmu.has_global() {
                    true => placed.serve::<true>(completed, cpu),
                    false => placed.serve::<false>(completed, cpu),
                };
            }
            if found != 0 {
                self.further_gates()
                    .for_each(|(msr, key)| msr.write(key, cpu));
            }
            self.gate.write(found, cpu);
        }
        overflowed
    }

    /// Opens LVTPC again, which the CPU has masked when it delivered a PMI.
    #[inline(always)]
    pub(crate) fn open_lvtpc(&self, cpu: &ThisCpu) {
        self.lvtpc.set_lvtpc(apic::NMI, cpu);
    }

    /// The counters in use, each once.
    #[inline(always)]
    pub(crate) fn placed(&self) -> impl Iterator<Item = &Placed> {
        self.placed.iter().map_while(Option::as_ref)
    }

    /// Where a slot's periods start, if it is in use.
    pub(crate) fn preload(&self, slot: usize) -> Option<&Preload> {
        let mut placed = self.placed();
        Some(&placed.find(|placed| placed.slot == slot)?.preload)
    }

    /// Which of our counters have overflowed since their periods began.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by this plan.
    #[inline]
    pub(crate) unsafe fn overflowed(&self, cpu: &ThisCpu) -> Overflowed {
        Overflowed(match self.pmu.has_global() {
            // SAFETY: So it exists.
            true => self.places.among(unsafe { msr::GLOBAL_STATUS.read(cpu) }),
            // SAFETY: As promised.
            false => unsafe { self.without_top_bit(cpu) },
        })
    }

    /// Those whose values say that they have.
    ///
    /// # Safety
    ///
    /// As for [`Plan::overflowed`].
    unsafe fn without_top_bit(&self, cpu: &ThisCpu) -> Places {
        let mut overflowed = Places::NONE;
        for placed in self.placed() {
            // SAFETY: As promised.
            let value = unsafe { placed.value(cpu) };
            if placed.preload.overflowed(value) {
                overflowed = overflowed.with(placed.place);
            }
        }
        overflowed
    }

    /// Writes what was found, as far as the CPU takes it (a legacy write of a counter has 32 bits): there
    /// is nobody to tell. What is as it was found is not written, so that no more is lost than must be.
    ///
    /// It may be given back by another plan of this CPU than took it.
    pub(crate) fn give_back(&self, found: &Found, cpu: &ThisCpu) {
        let put = |msr: Msr, value| {
            let _ = set_if_other(msr, value, cpu);
        };
        // Nothing of ours runs on what was not ours.
        if self.pmu.has_global() {
            put(msr::GLOBAL_CTRL, 0);
        } else {
            for place in self.places.iter() {
                put(msr::select(place), 0);
            }
        }
        for place in self.pmu.places().iter() {
            if let Some(&counter) = found.counters.get(place.index()) {
                put(msr::counter(place, self.full_width), counter);
            }
        }
        self.lvtpc.set_lvtpc(found.lvtpc, cpu);
        let _ = msr::set_freeze_on_pmi(found.freeze_on_pmi, cpu);
        if self.pmu.has_global() {
            let ours = self.pmu.places().bits();
            let status = msr::GLOBAL_STATUS.try_read(cpu).unwrap_or(0);
            let _ = write(
                msr::GLOBAL_OVF_CTRL,
                status & !found.global_status & ours,
                cpu,
            );
            if self.pmu.has_freeze_status() {
                let lost = found.global_status & !status & (ours | msr::CTR_FRZ);
                let _ = write(msr::GLOBAL_STATUS_SET, lost, cpu);
            }
        }
        if self.pmu.has_fixed() {
            put(msr::FIXED_CTR_CTRL, found.fixed_ctr_ctrl);
        }
        for ((_, msr), select) in perfevtsels(&self.pmu).zip(found.perfevtsel) {
            put(msr, select);
        }
        if self.pmu.has_global() {
            put(msr::GLOBAL_CTRL, found.global_ctrl);
        }
    }
}

/// Writes a register that does not hold `value` yet.
fn set_if_other(msr: Msr, value: u64, cpu: &ThisCpu) -> Result<(), Fault> {
    match read(msr, cpu)? == value {
        true => Ok(()),
        false => write(msr, value, cpu),
    }
}
