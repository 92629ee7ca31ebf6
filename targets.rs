// SPDX-License-Identifier: GPL-2.0

//! All targets: how they come, are commanded and go, and which events the PMU counts for them.

use core::ptr::from_ref;

use kernel::{
    new_condvar,
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        CondVar,
        Mutex, //
    },
    task::Task,
    workqueue::{
        self,
        impl_has_work,
        HasWork,
        Work,
        WorkItem, //
    }, //
};

use crate::{
    account::{
        Account,
        Kind, //
    },
    bindings,
    command::{
        Command,
        Request,
        Which, //
    },
    counter::N_MIN_KERNEL,
    pid::{
        process,
        Name,
        PidRef, //
    },
    pmu::Pmu,
    refusal::{
        refuse,
        refuse_cpu, //
    },
    rights::{
        Caller,
        NoExec, //
    },
    sched_hook,
    setup::{
        Job,
        Manner,
        Wanted,
        MOST, //
    },
    slot::Slot,
    smp::{
        on_this_cpu,
        CpuSet, //
    },
    target::{
        Column,
        State,
        Target,
        Terms, //
    },
};

/// One part in so many of all targets may be a user's without rights.
const UNPRIVILEGED_SHARE: usize = 4;

/// What the module was loaded with.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Most targets at a time, those included that have exited.
    pub(crate) targets: usize,
    /// Most ended threads of a target that keep an account.
    pub(crate) threads: u64,
    /// How counters are used.
    pub(crate) manner: Manner,
}

/// An event that is counted, and by how many columns of targets.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Used {
    wanted: Wanted,
    columns: usize,
}

/// The events that are counted, each in the slot that it keeps.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Slots([Option<Used>; MOST]);

impl Slots {
    /// Finds the slot for what one more column wants, and notes it there.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the event is counted with another N, `ENOSPC` if there is no slot, after a line that
    /// says so.
    fn enter(&mut self, wanted: Wanted) -> Result<usize> {
        let event = wanted.event;
        let same = |used: &Option<Used>| used.is_some_and(|used| used.wanted.event == event);
        let found = self.0.iter().position(same);
        let free = || self.0.iter().position(Option::is_none);
        let slot = found.or_else(free).ok_or_else(|| {
            refuse(
                ENOSPC,
                fmt!("event {}: {MOST} different events are counted already, which is the most; remove a target", event.named()),
            )
        })?;
        let Some(place) = self.0.get_mut(slot) else {
            return Err(ENOSPC);
        };
        match place {
            Some(used) if wanted.n != 0 && wanted.n != used.wanted.n => {
                return Err(refuse(
                    EBUSY,
                    fmt!(
                        "event {} n={}: it is counted with n={} already: take that, or leave n out",
                        event.named(),
                        wanted.n,
                        used.wanted.n
                    ),
                ));
            }
            Some(used) => used.columns += 1,
            None => *place = Some(Used { wanted, columns: 1 }),
        }
        Ok(slot)
    }

    /// Forgets a target's columns.
    fn leave(&mut self, target: &Target) {
        for column in &target.columns {
            if let Some(place) = self.0.get_mut(column.slot) {
                *place = place
                    .take()
                    .filter(|used| used.columns > 1)
                    .map(|used| Used {
                        columns: used.columns - 1,
                        ..used
                    });
            }
        }
    }

    /// What the PMU has to do, if anything.
    fn job(&self, manner: Manner) -> Option<Job> {
        let slots = self.0.map(|used| used.map(|used| used.wanted));
        slots
            .iter()
            .any(Option::is_some)
            .then_some(Job { slots, manner })
    }
}

/// A target in the table.
struct Entry {
    target: Arc<Target>,
    /// The task by which it was named, as long as it is followed.
    followed: Option<ARef<Task>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: It is followed no more when it is taken out of the table (`Table::unfollow()`).
        unsafe { self.target.accounts.take().free() };
    }
}

/// What is behind the lock.
struct Table {
    entries: KVec<Entry>,
    /// The youngest target's.
    last_id: u64,
    slots: Slots,
    /// As long as somebody is followed.
    pmu: Option<Pmu>,
    manner: Manner,
}

impl Table {
    /// Has the PMU count what `slots` say.
    ///
    /// # Errors
    ///
    /// Why it cannot, after a line that says so; all is as it was then.
    fn fit(&mut self, slots: Slots) -> Result {
        match (slots.job(self.manner), &self.pmu) {
            (None, _) => self.pmu = None,
            (Some(job), None) => self.pmu = Some(Pmu::take(job)?),
            (Some(job), Some(pmu))
                if self
                    .slots
                    .job(self.manner)
                    .is_none_or(|old| old.slots != job.slots) =>
            {
                pmu.change(job)?;
            }
            (Some(_), Some(_)) => {}
        }
        self.slots = slots;
        Ok(())
    }

    /// Has a target followed, whose events the PMU counts.
    fn follow(&self, target: &Target, named: &Task) -> Result {
        let pmu = self.pmu.as_ref().ok_or(ENODEV)?;
        target.follow(pmu.hook(), named)?;
        pmu.counters().look_everywhere();
        Ok(())
    }

    /// Stops counting a target for good. On return no task is marked with an account of it, no CPU holds
    /// a part, and no hook uses one.
    fn unfollow(&self, target: &Target) {
        let Some(pmu) = &self.pmu else {
            return;
        };
        // From here on no gate is opened for it, and who is marked may lose the mark while it runs.
        target.set_over();
        pmu.counters().look_everywhere();
        // Who has just exec'd may have got another mark meanwhile: until none is left.
        let mut is_left = true;
        while is_left {
            is_left = false;
            pmu.hook().for_each(|task, account| {
                if account.is_of(target) {
                    is_left = true;
                    if pmu.hook().forget(task, account) {
                        account.end(task);
                    }
                }
            });
        }
        // A switch may have left a gate open for one that has lost its mark.
        pmu.counters().look_everywhere();
        sched_hook::wait_for_users();
        target.note_flaws(pmu.counters());
    }

    /// Tells all who are followed where counts may be wrong since the last time, and where they cannot be
    /// right.
    fn spread_flaws(&self) {
        let Some(pmu) = &self.pmu else {
            return;
        };
        let followed = || self.entries.iter().filter(|entry| entry.followed.is_some());
        let counters = pmu.counters();
        // Who exits just then has it from here, or finds it with the target.
        counters
            .disturbed()
            .drain(|number| followed().for_each(|entry| entry.target.disturbed.add(number)));
        counters
            .incomplete()
            .drain(|number| followed().for_each(|entry| entry.target.incomplete.add(number)));
        followed().for_each(|entry| entry.target.incomplete.extend(counters.unusable()));
    }

    /// Gives back all that a target holds.
    fn retire(&mut self, entry: &mut Entry) {
        let Some(task) = entry.followed.take() else {
            return;
        };
        self.unfollow(&entry.target);
        entry.target.keep_name(&task);
        let mut slots = self.slots;
        slots.leave(&entry.target);
        self.fit_less(slots);
    }

    /// Has the PMU count less. Where a CPU refuses even that, all goes on counting what it did: for nobody.
    fn fit_less(&mut self, slots: Slots) {
        if self.fit(slots).is_err() {
            self.slots = slots;
        }
    }

    /// Retires those that have exited, and folds accounts of ended threads where there are too many.
    /// Returns whether any was retired.
    fn tidy(&mut self) -> bool {
        let mut has_retired = false;
        let mut entries = core::mem::take(&mut self.entries);
        for entry in &mut entries {
            if entry.followed.is_some() && entry.target.state() == State::Exited {
                self.retire(entry);
                has_retired = true;
            }
            if entry.target.has_too_many_ended() {
                self.fold(&entry.target);
            }
        }
        self.entries = entries;
        has_retired
    }

    /// Sums the accounts of the oldest ended threads up, so that no more are left than may be.
    fn fold(&self, target: &Target) {
        let Ok(holders) = CpuSet::new(GFP_KERNEL) else {
            return;
        };
        let chain = target.accounts.unlink(
            |account| matches!(account.kind(), Kind::Thread(thread) if target.is_past(thread)),
        );
        target.has_folded(chain.iter().count() as u64);
        sched_hook::wait_for_users();
        if let Some(pmu) = &self.pmu {
            pmu.counters().gather(chain.iter(), &holders);
        }
        chain
            .iter()
            .for_each(|account| target.all().absorb(account));
        // SAFETY: Their threads have exited, and no hook uses them after that; what CPUs held is gathered.
        unsafe { chain.free() };
    }

    /// Brings all up to date that is said of these accounts and their targets.
    fn gather<'a>(&self, accounts: impl Iterator<Item = &'a Account>, holders: &CpuSet) {
        if let Some(pmu) = &self.pmu {
            pmu.counters().gather(accounts, holders);
        }
        self.spread_flaws();
        self.see_runtimes();
    }

    /// Notes how long all that live have run.
    fn see_runtimes(&self) {
        let accounts = || {
            self.entries
                .iter()
                .flat_map(|entry| entry.target.accounts.iter())
        };
        // Again, if some end meanwhile: they may have been missed. But not for ever.
        for _ in 0..8 {
            accounts().for_each(|account| account.clock.look());
            if let Some(pmu) = &self.pmu {
                pmu.hook().for_each(|task, account| account.see(task));
            }
            if accounts().all(|account| account.clock.has_seen_all()) {
                break;
            }
        }
    }

    /// What the caller may see and command.
    fn used_by<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Entry> {
        let entries = self.entries.iter();
        entries.filter(|entry| caller.may_use(&entry.target.terms))
    }

    /// The entry that is meant and that the caller may use: one that runs before one that has exited,
    /// then the youngest.
    ///
    /// # Errors
    ///
    /// `ENOENT`, after a line that says so.
    fn find(&self, which: Which, caller: &Caller) -> Result<usize> {
        let is_meant = |target: &Target| match which {
            Which::Id(id) => target.id == id,
            Which::Pid(pid) => target.number() == pid,
        };
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| is_meant(&entry.target) && caller.may_use(&entry.target.terms))
            .max_by_key(|(_, entry)| (entry.target.state() != State::Exited, entry.target.id))
            .map(|(index, _)| index)
            .ok_or_else(|| match which {
                Which::Id(id) => refuse(ENOENT, fmt!("id={id}: there is no such target of yours: read the device to see which there are")),
                Which::Pid(pid) => refuse(ENOENT, fmt!("pid={pid}: it is no target of yours: read the device to see which there are")),
            })
    }

    /// The target that is meant, which must not have exited.
    ///
    /// # Errors
    ///
    /// `ENOENT` and `ESRCH`, after a line that says so.
    fn find_alive(&self, which: Which, caller: &Caller) -> Result<&Target> {
        let index = self.find(which, caller)?;
        let target = &self.entries.get(index).ok_or(ENOENT)?.target;
        match target.state() {
            State::Exited => Err(refuse(
                ESRCH,
                fmt!(
                    "target id={} has exited: there is nothing to pause or resume; remove it",
                    target.id
                ),
            )),
            _ => Ok(target),
        }
    }

    /// Which target counts `named`, or another thread of its process, already; 0 if that is none that the
    /// caller may know of.
    fn whose(&self, named: &Task, caller: &Caller) -> u64 {
        let mut id = 0;
        if let Some(pmu) = &self.pmu {
            pmu.hook().for_each(|task, account| {
                let target = account.target();
                if process(task) == process(named) && caller.may_use(&target.terms) {
                    id = target.id;
                }
            });
        }
        id
    }
}

/// All targets.
#[pin_data]
pub(crate) struct Targets {
    #[pin]
    table: Mutex<Table>,
    /// A target has exited, or was removed.
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Self>,
    limits: Limits,
}

impl_has_work! {
    impl HasWork<Self> for Targets { self.work }
}

impl WorkItem for Targets {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.tidy();
    }
}

/// Where hooks and the device find them.
pub(crate) fn slot() -> &'static Slot<Targets> {
    static SLOT: Slot<Targets> = Slot::new();
    &SLOT
}

/// A target has exited, or has accounts of too many ended threads: tidies up as soon as that may sleep.
/// For hooks.
pub(crate) fn tidy_soon() {
    // SAFETY: When the slot is emptied nobody is followed any more, and the last hook is over.
    if let Some(targets) = unsafe { slot().share() } {
        // SAFETY: It is there for good. The one that `workqueue::system()` gives warns of its use.
        let queue = unsafe { workqueue::Queue::from_raw(bindings::system_dfl_wq) };
        // If it is queued already, that is soon enough.
        let _ = queue.enqueue(targets);
    }
}

impl Targets {
    /// No targets.
    pub(crate) fn new(limits: Limits) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            table <- new_mutex!(Table {
                entries: KVec::new(),
                last_id: 0,
                slots: Slots::default(),
                pmu: None,
                manner: limits.manner,
            }),
            changed <- new_condvar!(),
            work <- new_work!("pmu_count:tidy"),
            limits,
        })
    }

    /// Carries out a command; `wait` says whether one may.
    ///
    /// # Errors
    ///
    /// The errno that fits, after a line that says why and how to mend it; nothing was done then.
    pub(crate) fn execute(&self, command: &Command, caller: &Caller, wait: bool) -> Result {
        // What an exited target holds would stand in the way, if the work has not come to it yet.
        self.tidy();
        match *command {
            Command::Add(ref request) => self.add(request, caller, false),
            Command::Remove(which) => self.remove(which, caller),
            Command::Reset(which) => self.reset(which, caller),
            Command::Pause(which) => self.set_paused(which, caller, true),
            Command::Resume(which) => self.set_paused(which, caller, false),
            Command::Wait(which) => self.wait(which, caller, wait),
        }
    }

    /// Counts somebody more, whose line goes to dmesg if it is `told`.
    ///
    /// # Errors
    ///
    /// As for [`Targets::execute`].
    pub(crate) fn add(&self, request: &Request, caller: &Caller, told: bool) -> Result {
        let pid = request.pid;
        let named = PidRef::find(pid)
            .and_then(|pid| pid.task(false))
            .ok_or_else(|| refuse(ESRCH, fmt!("pid={pid}: there is no such process")))?;
        // Until it is followed: from then on it is told of. An exec can take as long as who does it likes,
        // so that the table is not locked yet.
        let _same = match caller.privileged {
            true => None,
            false => Some(NoExec::new(&named)?),
        };
        if !caller.may_count(&named) {
            return Err(refuse(
                EPERM,
                fmt!("pid={pid}: it is not yours to count: that takes CAP_PERFMON, and one who has opened the device with it"),
            ));
        }
        if !caller.privileged && (1..N_MIN_KERNEL).contains(&request.n) {
            return Err(refuse(
                EPERM,
                fmt!("n={}: less than {N_MIN_KERNEL} takes CAP_PERFMON, as all who count that event are interrupted so often: leave n out", request.n),
            ));
        }
        let mut table = self.table.lock();
        if table.entries.len() >= self.limits.targets {
            return Err(refuse(
                ENOSPC,
                fmt!("there are {} targets, which is the most: remove one, or load the module with targets=<more>", self.limits.targets),
            ));
        }
        let share = self.limits.targets.div_ceil(UNPRIVILEGED_SHARE);
        if !caller.privileged && table.used_by(caller).count() >= share {
            return Err(refuse(
                ENOSPC,
                fmt!("you have {share} targets, which is the most without CAP_PERFMON: remove one, or load the module with targets=<more>"),
            ));
        }
        let mut slots = table.slots;
        let mut columns = KVec::new();
        for event in request.events.iter() {
            if event.counts_kernel() && !caller.privileged {
                return Err(refuse(
                    EPERM,
                    fmt!("event {}: counting the kernel takes CAP_PERFMON: leave it out with kernel=0 or :u", event.named()),
                ));
            }
            let n = request.n;
            let slot = slots.enter(Wanted { event, n })?;
            columns.push(Column { event, slot, n }, GFP_KERNEL)?;
        }
        // What this CPU says of it, without a look at its registers.
        if let Some(job) = slots.job(table.manner) {
            on_this_cpu(|cpu| {
                let plan = job
                    .plan(cpu)
                    .map_err(|fault| refuse_cpu(cpu.index() as u32, fault))?;
                for column in &mut columns {
                    column.n = plan.preload(column.slot).map_or(0, |preload| preload.n());
                }
                Ok::<(), Error>(())
            })?;
        }
        let terms = Terms {
            threads: request.threads,
            inherit: request.inherit,
            on_exec: request.on_exec,
            told,
            owner: caller.uid,
            privileged: caller.privileged,
            most_ended: self.limits.threads,
            free: self.limits.manner.free,
        };
        table.entries.reserve(1, GFP_KERNEL)?;
        let id = table.last_id.wrapping_add(1);
        let entry = Entry {
            target: Target::new(id, &named, terms, columns).map_err(|error| {
                refuse(error, fmt!("pid={pid}: it is gone, or there is no memory"))
            })?,
            followed: Some(named.clone()),
        };
        let before = table.slots;
        table.fit(slots)?;
        if let Err(error) = table.follow(&entry.target, &named) {
            let told = match (error, table.whose(&named, caller)) {
                (EEXIST, 0) => refuse(error, fmt!("pid={pid}: somebody else counts it already")),
                (EEXIST, id) => refuse(
                    error,
                    fmt!("pid={pid}: it is counted already, as target id={id}: remove that first"),
                ),
                (ESRCH, _) => refuse(error, fmt!("pid={pid}: the process is already exiting")),
                (ENOMEM, _) => refuse(error, fmt!("pid={pid}: there is no memory to follow it")),
                _ => error,
            };
            table.unfollow(&entry.target);
            table.fit_less(before);
            return Err(told);
        }
        // What was before does not concern it, what is does.
        table.spread_flaws();
        table.last_id = id;
        table.entries.push(entry, GFP_KERNEL)?;
        table.spread_flaws();
        Ok(())
    }

    /// Stops counting a target, and forgets it.
    fn remove(&self, which: Which, caller: &Caller) -> Result {
        let mut table = self.table.lock();
        let index = table.find(which, caller)?;
        let mut entry = table.entries.remove(index).map_err(|_| ENOENT)?;
        table.retire(&mut entry);
        self.changed.notify_all();
        Ok(())
    }

    /// Begins anew to count a target.
    fn reset(&self, which: Which, caller: &Caller) -> Result {
        let holders = CpuSet::new(GFP_KERNEL)?;
        let table = self.table.lock();
        let index = table.find(which, caller)?;
        let target = &table.entries.get(index).ok_or(ENOENT)?.target;
        table.gather(target.accounts.iter(), &holders);
        target.accounts.iter().for_each(Account::reset);
        target.disturbed.clear();
        target.incomplete.clear();
        table.spread_flaws();
        Ok(())
    }

    /// Stops counting a target for now, or goes on.
    fn set_paused(&self, which: Which, caller: &Caller, paused: bool) -> Result {
        let table = self.table.lock();
        let target = table.find_alive(which, caller)?;
        if target.is_paused() == paused {
            return Ok(());
        }
        table.see_runtimes();
        for account in target.accounts.iter() {
            match paused {
                true => account.clock.pause(),
                false => account.clock.resume(),
            }
        }
        target.set_paused(paused);
        if let Some(pmu) = &table.pmu {
            pmu.counters().look_everywhere();
        }
        Ok(())
    }

    /// Waits until a target has exited.
    fn wait(&self, which: Which, caller: &Caller, may_wait: bool) -> Result {
        let mut table = self.table.lock();
        let index = table.find(which, caller)?;
        let id = table.entries.get(index).ok_or(ENOENT)?.target.id;
        loop {
            let entry = table.entries.iter().find(|entry| entry.target.id == id);
            let Some(entry) = entry else {
                return Err(refuse(
                    ENOENT,
                    fmt!("id={id}: it was removed while it was waited for"),
                ));
            };
            // And all that it held is free.
            if entry.followed.is_none() {
                return Ok(());
            }
            if !may_wait {
                return Err(EAGAIN);
            }
            if self.changed.wait_interruptible(&mut table) {
                return Err(ERESTARTSYS);
            }
        }
    }

    /// Calls `f` with each target that the caller may see, its state and its name, by when all of its
    /// events are counted.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what `f` returns.
    pub(crate) fn look(
        &self,
        caller: &Caller,
        mut f: impl FnMut(&Target, State, Option<Name>) -> Result,
    ) -> Result {
        let holders = CpuSet::new(GFP_KERNEL)?;
        let table = self.table.lock();
        let seen = || table.used_by(caller);
        let accounts = || seen().flat_map(|entry| entry.target.accounts.iter());
        // Before the rest: of who exits meanwhile not all may be counted.
        let mut states = KVec::new();
        for entry in seen() {
            states.push(entry.target.state(), GFP_KERNEL)?;
        }
        accounts().for_each(Account::note_end);
        table.gather(accounts(), &holders);
        for (entry, state) in seen().zip(states) {
            let task = || entry.followed.as_ref().map(|task| Name::of(task));
            f(&entry.target, state, entry.target.name().or_else(task))?;
        }
        Ok(())
    }

    /// Gives back what those hold that have exited, and tells who waits for it.
    fn tidy(&self) {
        let mut table = self.table.lock();
        if table.tidy() {
            self.changed.notify_all();
        }
    }

    /// Ends all counting, with the lines of those that still run.
    pub(crate) fn end(&self) {
        let mut table = self.table.lock();
        while let Some(mut entry) = table.entries.pop() {
            table.retire(&mut entry);
            // The log is read by others as well: it has nothing that a user counted for himself.
            if entry.target.state() != State::Exited && entry.target.terms.privileged {
                entry.target.report(", still running");
            }
        }
        drop(table);
        // Nobody is followed, so that it is not queued again.
        let this = from_ref(self).cast_mut();
        // SAFETY: The object is there, and so is its work.
        unsafe { bindings::flush_work(Work::raw_get(<Self as HasWork<Self>>::raw_get_work(this))) };
    }
}
