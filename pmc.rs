// SPDX-License-Identifier: GPL-2.0

//! The counters of every CPU: from when they are taken until they are given back, their PMIs, and whose
//! events they hold.
//!
//! They count up all the time that they are ours, and are never set back: where they stand is read and
//! compared with where they stood. So a switch only opens or closes the gate (`gate.rs`), as long as it
//! is the same account that comes back to a CPU. When another one comes, what was counted since is
//! settled to the account that owned it.
//!
//! Counters may also run freely, with the gate open at all times (`free.rs`). Then they are read where
//! somebody who counts comes, and where he leaves: what is in between is his.

use core::{
    cell::{
        Cell,
        UnsafeCell, //
    },
    hint::spin_loop,
    mem::MaybeUninit,
    ptr::{
        self,
        null, //
    },
    sync::atomic::{
        compiler_fence,
        Ordering::SeqCst, //
    },
};

use kernel::prelude::*;

use crate::{
    account::{
        Account,
        Sums, //
    },
    apic,
    counter::Count,
    free, gate, sched_hook,
    setup::{
        Fault,
        Found,
        Job,
        Plan,
        MOST, //
    },
    smp::{
        on_cpu,
        on_each_cpu,
        on_this_cpu,
        per_cpu,
        possible_cpus,
        CpuSet,
        NmiCell,
        NmiSafe,
        PerCpu,
        ThisCpu, //
    },
    switch,
};

per_cpu! {
    /// This CPU's [`Cpu`] while its registers are ours, as a PMI finds it, too; else null.
    static HERE: *const Cpu = null();
}

/// A CPU's counters.
struct Cpu {
    /// The events of the periods that PMIs have completed since they were programmed, as in the plan.
    completed: [NmiCell; MOST],
    /// How they are used, if they are ours.
    plan: UnsafeCell<MaybeUninit<Plan>>,
    /// What to put back.
    found: Cell<Found>,
    /// All that was counted until they were settled last, by slot.
    base: [Cell<Count>; MOST],
    /// Whose the events since then are, or null.
    owner: Cell<*const Account>,
    /// Whether the gate was left open for whoever comes in the switch that goes on.
    left_open: Cell<bool>,
    /// Whether the owner runs, where several counters run freely; [`switch::suspends()`] tells it of one.
    inside: Cell<bool>,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            completed: Default::default(),
            plan: UnsafeCell::new(MaybeUninit::uninit()),
            found: Cell::default(),
            base: Default::default(),
            owner: Cell::new(null()),
            left_open: Cell::default(),
            inside: Cell::default(),
        }
    }
}

// SAFETY: What is in a `Cell` is not touched by PMIs. `plan` is only changed while `HERE` is null, so that
// they do not look there; all else is an `NmiCell`. Accounts may be used on any CPU.
unsafe impl NmiSafe for Cpu {}
// SAFETY: As above: it is sent nowhere while a CPU uses it.
unsafe impl Send for Cpu {}

impl Cpu {
    /// From now on the counters, which have just been programmed, are used by `plan`.
    ///
    /// # Safety
    ///
    /// They must have been, on this CPU, and nobody have a reference to the plan before.
    unsafe fn take(&self, plan: Plan, cpu: &ThisCpu) {
        // SAFETY: By that plan, and nobody uses the old one.
        unsafe {
            gate::install(plan.gate(), plan.key(), cpu);
            plan.install_free(cpu);
            (*self.plan.get()).write(plan);
        }
        self.left_open.set(false);
        self.inside.set(false);
        switch::set_suspends(!plan.is_free() && plan.switches_at_once(), cpu);
        self.begin(cpu);
        // SAFETY: It was just taken.
        unsafe { self.rest(&plan, cpu) };
    }

    /// They are not used for now.
    fn leave(&self, cpu: &ThisCpu) {
        HERE::set(null(), cpu);
        compiler_fence(SeqCst);
    }

    /// All that each counter has counted since it was programmed. It never goes back, unless somebody
    /// else writes to it.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by `plan`.
    unsafe fn counted<'a>(
        &'a self,
        plan: &'a Plan,
        cpu: &'a ThisCpu,
    ) -> impl Iterator<Item = (usize, Count)> + 'a {
        plan.placed()
            .zip(&self.completed)
            .map(|(placed, completed)| {
                // SAFETY: As the caller promises.
                let (before, value) = between_pmis(completed, || unsafe { placed.value(cpu) });
                (placed.slot, placed.preload.count(before, value))
            })
    }

    /// Closes the gates, and returns whether they were found as they are left: open or closed.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by `plan`.
    unsafe fn close(&self, plan: &Plan, open: bool, cpu: &ThisCpu) -> bool {
        // SAFETY: The registers are there, and take a 0.
        unsafe {
            // Read before they are closed: a PMI that comes in between leaves them closed, too.
            let found = plan.gate().read(cpu);
            let as_left = plan
                .further_gates()
                .all(|(msr, key)| msr.read(cpu) == if open { key } else { 0 });
            gate::close(cpu);
            set_further_gates(plan, false, cpu);
            as_left && plan.is_as_left(found, open, cpu)
        }
    }

    /// Opens the gates.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by `plan`.
    unsafe fn open(&self, plan: &Plan, cpu: &ThisCpu) {
        // The first one first: by that a PMI that comes in between leaves the others open.
        gate::open(cpu);
        // SAFETY: As the caller promises.
        unsafe { set_further_gates(plan, true, cpu) };
    }

    /// Leaves the gates, which are closed, as they are to be while nobody who counts runs.
    ///
    /// # Safety
    ///
    /// This CPU must be taken by `plan`.
    unsafe fn rest(&self, plan: &Plan, cpu: &ThisCpu) {
        if plan.is_free() {
            // SAFETY: As the caller promises.
            unsafe { self.open(plan, cpu) };
        }
    }

    /// From now on what counters that run freely count is the owner's. They must be settled.
    fn enter(&self, plan: &Plan, cpu: &ThisCpu) {
        if plan.switches_at_once() {
            while !free::begin(cpu) {}
            switch::set_suspends(true, cpu);
        } else {
            self.inside.set(true);
        }
    }

    /// From now on it is not any more. Returns whether it was.
    fn exit(&self, plan: &Plan, cpu: &ThisCpu) -> bool {
        if !plan.switches_at_once() {
            return self.inside.replace(false);
        }
        let was_inside = switch::suspends(cpu);
        if was_inside {
            while !free::end(cpu) {}
            switch::set_suspends(false, cpu);
        }
        was_inside
    }

    /// Whether the current task's account is the owner: then the gates are open.
    fn runs_owner(&self, cpu: &ThisCpu) -> bool {
        current_account(cpu).is_some_and(|current| ptr::eq(current, self.owner.get()))
    }

    /// Programs the counters anew, which are settled and stand still.
    fn renew(&self, plan: &Plan, cpu: &ThisCpu) {
        self.leave(cpu);
        // If it cannot be, that is seen at the next stop, too.
        let _ = plan.renew(cpu);
        self.begin(cpu);
    }

    /// From now on the counters, which have just been programmed, count from 0.
    fn begin(&self, cpu: &ThisCpu) {
        self.completed.iter().for_each(|completed| completed.set(0));
        self.base.iter().for_each(|base| base.set(Count::default()));
        // A PMI sees all of this or nothing.
        compiler_fence(SeqCst);
        HERE::set(self, cpu);
    }

    /// From now on what is counted is the account's. It must be settled.
    fn own(&self, plan: &Plan, account: &Account, cpu: &ThisCpu) {
        if ptr::eq(self.owner.get(), account) {
            return;
        }
        self.disown(cpu);
        self.owner.set(account);
        account.held_by(cpu);
        if plan.switches_at_once() {
            switch::set_resumes(Some(account), cpu);
        }
    }

    /// From now on what is counted is nobody's. It must be settled.
    fn disown(&self, cpu: &ThisCpu) {
        if let Some(owner) = self.owner(cpu) {
            owner.left_by(cpu);
        }
        self.owner.set(null());
        switch::set_resumes(None, cpu);
    }

    /// Whose is what was counted.
    fn owner<'a>(&self, _: &'a ThisCpu) -> Option<&'a Account> {
        // SAFETY: An account stays as long as a CPU holds a part of it.
        unsafe { self.owner.get().as_ref() }
    }
}

/// Opens or closes the gates beside the first.
///
/// # Safety
///
/// This CPU must be taken by `plan`.
unsafe fn set_further_gates(plan: &Plan, open: bool, cpu: &ThisCpu) {
    for (msr, key) in plan.further_gates() {
        // SAFETY: The register is there, and takes its key and a 0.
        unsafe { msr.write(if open { key } else { 0 }, cpu) };
    }
}

/// What `f` reads of a counter when no PMI of it has come meanwhile, and what is `completed` then.
fn between_pmis<T>(completed: &NmiCell, f: impl Fn() -> T) -> (u64, T) {
    loop {
        let before = completed.get();
        let read = f();
        if completed.get() == before {
            return (before, read);
        }
    }
}

/// This CPU's counters and how they are used, if they are ours.
#[inline(always)]
fn here(cpu: &ThisCpu) -> Option<(&Cpu, &Plan)> {
    // SAFETY: It stays as long as it is there, and only this CPU uses it.
    let this = unsafe { HERE::get(cpu).as_ref() }?;
    // SAFETY: It was written before, and is not changed meanwhile.
    Some((this, unsafe { (*this.plan.get()).assume_init_ref() }))
}

/// The current task's account. This CPU's counters must be ours.
fn current_account(cpu: &ThisCpu) -> Option<&Account> {
    // SAFETY: `Pmu` has the hooks before the first CPU is programmed, and until all are given back.
    unsafe { sched_hook::current_mark(cpu) }
}

/// Services this CPU's PMI. Returns whether it was one of ours.
///
/// An NMI may come while the counters run, or just after a hook has stopped them.
#[inline(always)]
pub(crate) fn service_pmi(cpu: &ThisCpu) -> bool {
    let Some((this, plan)) = here(cpu) else {
        return false;
    };
    // SAFETY: The CPU is programmed, by this plan.
    if !unsafe { plan.serve(&this.completed, cpu) } {
        return was_served(plan, cpu);
    }
    // Last, as Haswell and later want it.
    plan.open_lvtpc(cpu);
    true
}

/// A PMI of ours that comes when its overflow was served already, or that of another counter: the CPU
/// has masked LVTPC when it delivered it, and that alone tells.
#[cold]
#[inline(never)]
fn was_served(plan: &Plan, cpu: &ThisCpu) -> bool {
    let ours = apic::is_masked(cpu);
    if ours {
        plan.open_lvtpc(cpu);
    }
    ours
}

/// Gives a PMI time that is on its way to this CPU, whose counters stand still: it comes soon, if it comes.
fn await_pmi(plan: &Plan, cpu: &ThisCpu) {
    for _ in 0..1_000 {
        // SAFETY: The CPU is programmed, by this plan.
        if unsafe { plan.overflowed(cpu) }.is_empty() {
            break;
        }
        spin_loop();
    }
}

/// The counters of every CPU.
pub(crate) struct Counters {
    job: UnsafeCell<Job>,
    cpus: PerCpu<Cpu>,
    /// Where somebody else has changed the registers meanwhile.
    disturbed: CpuSet,
    /// Those that could not be programmed meanwhile.
    incomplete: CpuSet,
    /// Those that are online and are not programmed.
    unusable: CpuSet,
}

// SAFETY: `job` is changed while no CPU comes or goes, and by one thread at a time (see `change()`).
unsafe impl Sync for Counters {}

impl Counters {
    /// Counters for `job`, none of them programmed yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(job: Job) -> Result<Self> {
        Ok(Self {
            job: UnsafeCell::new(job),
            cpus: PerCpu::new()?,
            disturbed: CpuSet::new(GFP_KERNEL)?,
            incomplete: CpuSet::new(GFP_KERNEL)?,
            unusable: CpuSet::new(GFP_KERNEL)?,
        })
    }

    /// What is counted.
    fn job(&self) -> &Job {
        // SAFETY: It is not changed while somebody looks, as above.
        unsafe { &*self.job.get() }
    }

    /// Takes this CPU's counters, with the gate closed. Returns a running counter that was taken from
    /// somebody, numbered as in [`Fault::Running`].
    ///
    /// # Errors
    ///
    /// Why they cannot be used.
    pub(crate) fn program(&self, cpu: &ThisCpu) -> Result<Option<u8>, Fault> {
        let plan = self.job().plan(cpu)?;
        let (found, taken) = plan.take(self.job().manner.force, cpu)?;
        if let Some(this) = self.cpus.get(cpu) {
            this.found.set(found);
            // SAFETY: As just done; it was not programmed.
            unsafe { this.take(plan, cpu) };
        }
        Ok(taken)
    }

    /// The same for a CPU that comes late, which nobody can refuse: without it counts are incomplete.
    ///
    /// # Errors
    ///
    /// As for [`Counters::program`].
    pub(crate) fn program_late(&self, cpu: &ThisCpu) -> Result<Option<u8>, Fault> {
        let taken = self.program(cpu).inspect_err(|_| {
            self.incomplete.insert(cpu);
            self.unusable.insert(cpu);
        });
        self.look(cpu);
        taken
    }

    /// Programs all CPUs that are online for another job. No CPU must come or go meanwhile.
    ///
    /// # Errors
    ///
    /// Which CPU cannot do it, and why; all is as it was then.
    pub(crate) fn change(&self, job: Job) -> Result<(), (u32, Fault)> {
        let before = *self.job();
        let to = |job: Job| {
            // SAFETY: As the caller promises; those that are online get it as an argument. Nor does the last CPU
            // sleep and wake up halfway: its interrupts are off.
            on_this_cpu(|_| unsafe { *self.job.get() = job });
            possible_cpus().try_for_each(|number| {
                on_cpu(number, |cpu| self.reprogram(&job, cpu))
                    .unwrap_or(Ok(()))
                    .map_err(|fault| (number, fault))
            })
        };
        to(job).inspect_err(|_| {
            // What was done before works again.
            let _ = to(before);
        })
    }

    /// Programs this CPU for another job.
    fn reprogram(&self, job: &Job, cpu: &ThisCpu) -> Result<(), Fault> {
        let Some((this, &before)) = here(cpu) else {
            return Ok(());
        };
        let plan = job.plan(cpu)?;
        self.settle_for_good(this, &before, cpu);
        this.leave(cpu);
        let changed = plan.change(&before, cpu).inspect_err(|_| {
            let _ = before.change(&plan, cpu);
        });
        // SAFETY: By the one or the other, and nobody uses the old one.
        unsafe { this.take(if changed.is_ok() { plan } else { before }, cpu) };
        self.look(cpu);
        changed
    }

    /// Settles this CPU's counters and gives them back as they were found, with the gate closed.
    pub(crate) fn restore(&self, cpu: &ThisCpu) {
        self.unusable.remove(cpu);
        if let Some((this, plan)) = here(cpu) {
            self.settle_for_good(this, plan, cpu);
            switch::set_suspends(false, cpu);
            gate::remove(cpu);
            this.leave(cpu);
            plan.give_back(&this.found.get(), cpu);
        }
    }

    /// Gives all counters back.
    pub(crate) fn restore_all(&self) {
        on_each_cpu(|cpu| self.restore(cpu));
    }

    /// Adds what was counted since the last time to the owner's account. Counters that run freely do not
    /// count for it any more. Returns false, and notes it, if that cannot be.
    fn settle(&self, this: &Cpu, plan: &Plan, cpu: &ThisCpu) -> bool {
        let was_counted = !plan.is_free() || this.exit(plan, cpu);
        let mut counts = Sums::default();
        let mut plausible = true;
        if let Some(placed) = plan.read_freely() {
            match (free::take(cpu), counts.get_mut(placed.slot)) {
                (Some(events), Some(count)) => count.events = events,
                _ => plausible = false,
            }
        } else {
            // SAFETY: The CPU is programmed, by this plan.
            for (slot, now) in unsafe { this.counted(plan, cpu) } {
                if let (Some(base), Some(count)) = (this.base.get(slot), counts.get_mut(slot)) {
                    match now.since(&base.replace(now)) {
                        Some(since) if was_counted => *count = since,
                        Some(_) => {}
                        None => plausible = false,
                    }
                }
            }
        }
        if let Some(owner) = this.owner(cpu) {
            owner.add(&counts);
        }
        if !plausible {
            self.disturbed.insert(cpu);
        }
        plausible
    }

    /// Closes the gates, settles, and looks whether somebody else has changed what the counters depend
    /// on: then all is programmed anew. The owner remains.
    fn stop(&self, this: &Cpu, plan: &Plan, cpu: &ThisCpu) {
        if plan.is_free() && !this.runs_owner(cpu) {
            // It has lost its mark while it ran: who came then is not known.
            this.inside.set(false);
            switch::set_suspends(false, cpu);
        }
        let open = plan.is_free() || this.left_open.replace(false) || this.runs_owner(cpu);
        // SAFETY: The CPU is programmed, by this plan.
        let as_left = unsafe { this.close(plan, open, cpu) };
        let can_be = plan
            .placed()
            .zip(&this.completed)
            .all(|(placed, completed)| {
                let (_, (overflowed, value)) = between_pmis(completed, || {
                    // SAFETY: As above.
                    unsafe { (plan.overflowed(cpu), placed.value(cpu)) }
                });
                placed.preload.can_be(value, placed.is_among(overflowed))
            });
        if !(self.settle(this, plan, cpu) && as_left && can_be) {
            self.disturbed.insert(cpu);
            await_pmi(plan, cpu);
            this.renew(plan, cpu);
        }
    }

    /// The same, and nobody owns what comes after it; no PMI is on its way.
    fn settle_for_good(&self, this: &Cpu, plan: &Plan, cpu: &ThisCpu) {
        self.stop(this, plan, cpu);
        this.disown(cpu);
        await_pmi(plan, cpu);
    }

    /// Settles this CPU's counters, and has them count as they have to for the task that it runs: for
    /// whoever the hooks did not tell of, and at whatever has changed.
    pub(crate) fn look(&self, cpu: &ThisCpu) {
        let Some((this, plan)) = here(cpu) else {
            return;
        };
        self.stop(this, plan, cpu);
        match current_account(cpu).filter(|account| account.counts()) {
            Some(account) => {
                this.own(plan, account, cpu);
                if plan.is_free() {
                    this.enter(plan, cpu);
                }
                // SAFETY: The CPU is programmed, by this plan.
                unsafe { this.open(plan, cpu) };
            }
            None => {
                this.disown(cpu);
                // SAFETY: As above.
                unsafe { this.rest(plan, cpu) };
            }
        }
    }

    /// The same on every CPU. Does not sleep; must not be called with interrupts off.
    pub(crate) fn look_everywhere(&self) {
        on_each_cpu(|cpu| self.look(cpu));
    }

    /// Has those CPUs that hold a part of one of the accounts, all of `accounts`, settle. Does not sleep;
    /// must not be called with interrupts off.
    pub(crate) fn gather<'a>(&self, accounts: impl Iterator<Item = &'a Account>, holders: &CpuSet) {
        holders.clear();
        accounts.for_each(|account| holders.extend(account.holders()));
        for number in holders.iter() {
            on_cpu(number as u32, |cpu| self.look(cpu));
        }
    }

    /// A task with `account` comes to this CPU, and it is not the one whose events the counters hold. A
    /// hook's part: no panic, no printk.
    pub(crate) fn arrived(&self, account: &Account, cpu: &ThisCpu) {
        let Some((this, plan)) = here(cpu) else {
            return;
        };
        if !account.counts() {
            self.look(cpu);
            return;
        }
        if plan.is_free() {
            self.settle(this, plan, cpu);
            this.own(plan, account, cpu);
            this.enter(plan, cpu);
            return;
        }
        if !ptr::eq(this.owner.get(), account) {
            self.settle(this, plan, cpu);
            this.own(plan, account, cpu);
        }
        if !this.left_open.replace(false) {
            // SAFETY: The CPU is programmed, by this plan.
            unsafe { this.open(plan, cpu) };
        }
    }

    /// The task that is current leaves this CPU for one with the account `next`, or none, and that is not
    /// all. Between two that count the counters run on, and what they count meanwhile is nobody's: two
    /// reads of each counter, and no write. A hook's part, as above.
    pub(crate) fn left(&self, next: Option<&Account>, cpu: &ThisCpu) {
        let Some((this, plan)) = here(cpu) else {
            return;
        };
        let current = current_account(cpu);
        if next.is_some_and(|next| current.is_some_and(|current| ptr::eq(current, next))) {
            return;
        }
        if plan.is_free() {
            self.settle(this, plan, cpu);
            return;
        }
        if this.runs_owner(cpu) && next.is_some_and(|next| next.counts()) {
            self.settle(this, plan, cpu);
            this.disown(cpu);
            this.left_open.set(true);
            return;
        }
        gate::close(cpu);
        // SAFETY: The CPU is programmed, by this plan.
        unsafe { set_further_gates(plan, false, cpu) };
    }

    /// Notes that somebody else has written to a register of this CPU, if a counter depends on it.
    pub(crate) fn meddled_with(&self, address: u32, value: u64, cpu: &ThisCpu) {
        if here(cpu).is_some_and(|(_, plan)| plan.disturbed_by(address, value)) {
            self.disturbed.insert(cpu);
        }
    }

    /// Where somebody else has changed what the counters depend on, as far as it could be seen.
    pub(crate) fn disturbed(&self) -> &CpuSet {
        &self.disturbed
    }

    /// The CPUs that could not be programmed when they came.
    pub(crate) fn incomplete(&self) -> &CpuSet {
        &self.incomplete
    }

    /// Those of them that are still online, and not asleep.
    pub(crate) fn unusable(&self) -> &CpuSet {
        &self.unusable
    }
}
