// SPDX-License-Identifier: GPL-2.0

//! Who is counted: a process or a thread, what it makes, and what becomes of it.

use core::ptr::null_mut;

use kernel::{
    current, fmt,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        SetOnce, //
    },
    task::{
        Kuid,
        Task, //
    },
};

use crate::{
    account::{
        add,
        Account,
        Accounts,
        Kind,
        Sums, //
    },
    command::Threads,
    counter::Count,
    event::Event,
    pid::{
        process,
        runtime,
        Name,
        PidRef, //
    },
    pmc::Counters,
    sched_hook,
    smp::CpuSet, //
};

/// One thread of a target that has a line for each.
pub(crate) struct Thread {
    pid: PidRef,
    /// Its place among those that have ended, and its name then.
    ended: SetOnce<(u64, Name)>,
}

impl Thread {
    fn new(task: &Task) -> Result<Self> {
        Ok(Self {
            pid: PidRef::of(task, false).ok_or(ESRCH)?,
            ended: SetOnce::new(),
        })
    }

    /// Whether it is `task`.
    fn is(&self, task: &Task) -> bool {
        PidRef::of(task, false).is_some_and(|pid| pid == self.pid)
    }

    /// Its id in the pid namespace of the current process.
    pub(crate) fn number(&self) -> i32 {
        self.pid.number()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.as_ref().is_some()
    }

    /// Its name, now or at its end.
    pub(crate) fn name(&self) -> Option<Name> {
        let now = || self.pid.task(false).map(|task| Name::of(&task));
        self.ended.copy().map(|(_, name)| name).or_else(now)
    }
}

/// An event of a target.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    /// What is counted.
    pub(crate) event: Event,
    /// In which slot.
    pub(crate) slot: usize,
    /// The events of a period on the CPU where it was asked for.
    pub(crate) n: u64,
}

/// What is asked of a target beside who it is.
pub(crate) struct Terms {
    /// One thread, all, or all with an account for each.
    pub(crate) threads: Threads,
    /// Whether what it makes counts.
    pub(crate) inherit: bool,
    /// Whether each task counts from its next exec on.
    pub(crate) on_exec: bool,
    /// Whether its line goes to dmesg.
    pub(crate) told: bool,
    /// Who asked for it.
    pub(crate) owner: Kuid,
    /// Whether that was somebody who may count anything.
    pub(crate) privileged: bool,
    /// How many ended threads keep an account.
    pub(crate) most_ended: u64,
    /// Whether the counters run freely.
    pub(crate) free: bool,
}

impl Terms {
    /// Whether it is one thread alone.
    pub(crate) fn is_one(&self) -> bool {
        self.threads == Threads::One
    }
}

/// A target.
pub(crate) struct Target {
    /// Its number, never used again.
    pub(crate) id: u64,
    /// What was asked.
    pub(crate) terms: Terms,
    /// Its events, in the order in which they were asked for.
    pub(crate) columns: KVec<Column>,
    /// Its accounts.
    pub(crate) accounts: Accounts,
    /// Of the process.
    process_pid: PidRef,
    /// What names it: of the process, or of the thread alone.
    pid: PidRef,
    /// That one's number for the one who asked.
    number: i32,
    /// The addresses of the task and the process that are meant, for comparison.
    task: usize,
    process: usize,
    /// The accounts [`Kind::All`] and [`Kind::Waiting`].
    all: Atomic<*mut Account>,
    waiting: Atomic<*mut Account>,
    /// Tasks that are meant and have not exited; far more while the first are still being marked.
    meant: Atomic<i64>,
    /// Threads with an account that have ended, and those of them that have none any more.
    ended: Atomic<u64>,
    folded: Atomic<u64>,
    /// Whether some task counts: all but those that wait for an exec.
    begun: Atomic<bool>,
    paused: Atomic<bool>,
    over: Atomic<bool>,
    exited: Atomic<bool>,
    /// Its name at its end.
    name: SetOnce<Name>,
    /// Where somebody else has changed the registers while it was counted.
    pub(crate) disturbed: CpuSet,
    /// Where it could not be counted.
    pub(crate) incomplete: CpuSet,
}

/// `, incomplete on CPU 3`: what is wrong with a count, if there is such a CPU.
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

/// What a target is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It counts whenever it runs.
    Running,
    /// None of its tasks has exec'd yet.
    Waiting,
    /// It does not count for now.
    Paused,
    /// The last of those that were meant has exited.
    Exited,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Exited => "exited",
        })
    }
}

/// More tasks than there can be.
const MANY: i64 = 1 << 40;

impl Target {
    /// A target that nobody follows yet, with its accounts.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        id: u64,
        named: &Task,
        terms: Terms,
        columns: KVec<Column>,
    ) -> Result<Arc<Self>> {
        let on_exec = terms.on_exec;
        let pid = PidRef::of(named, !terms.is_one()).ok_or(ESRCH)?;
        let target = Self {
            id,
            terms,
            columns,
            accounts: Accounts::new(),
            number: pid.number(),
            process_pid: PidRef::of(named, true).ok_or(ESRCH)?,
            pid,
            task: named.as_ptr().addr(),
            process: process(named),
            all: Atomic::new(null_mut()),
            waiting: Atomic::new(null_mut()),
            meant: Atomic::new(MANY),
            ended: Atomic::new(0),
            folded: Atomic::new(0),
            begun: Atomic::new(!on_exec),
            paused: Atomic::new(false),
            over: Atomic::new(false),
            exited: Atomic::new(false),
            name: SetOnce::new(),
            disturbed: CpuSet::new(GFP_KERNEL)?,
            incomplete: CpuSet::new(GFP_KERNEL)?,
        };
        let target = Arc::new(target, GFP_KERNEL)?;
        let account = |kind| Account::new(target.clone(), kind, GFP_KERNEL);
        let (all, waiting) = (account(Kind::All)?, account(Kind::Waiting)?);
        target
            .all
            .store(target.accounts.push(all).as_ptr(), Release);
        target
            .waiting
            .store(target.accounts.push(waiting).as_ptr(), Release);
        Ok(target)
    }

    /// The account of all that has none of its own.
    pub(crate) fn all(&self) -> &Account {
        // SAFETY: It is there since `new()`, and is freed with the target only.
        unsafe { &*self.all.load(Acquire) }
    }

    fn waiting(&self) -> &Account {
        // SAFETY: As above.
        unsafe { &*self.waiting.load(Acquire) }
    }

    /// What names it, its process's or thread's number in the pid namespace of the current process, or 0.
    pub(crate) fn number(&self) -> i32 {
        self.pid.number()
    }

    /// The same of its process.
    pub(crate) fn process_number(&self) -> i32 {
        self.process_pid.number()
    }

    /// Its name, now or at its end.
    pub(crate) fn name(&self) -> Option<Name> {
        let now = || {
            let task = self.pid.task(!self.terms.is_one())?;
            Some(Name::of(&task))
        };
        self.name.copy().or_else(now)
    }

    /// Whether what its tasks do is counted now.
    pub(crate) fn counts(&self) -> bool {
        !self.paused.load(Relaxed) && !self.over.load(Relaxed)
    }

    /// What it is now.
    pub(crate) fn state(&self) -> State {
        if self.exited.load(Acquire) {
            State::Exited
        } else if self.paused.load(Relaxed) {
            State::Paused
        } else if !self.begun.load(Relaxed) {
            State::Waiting
        } else {
            State::Running
        }
    }

    /// Whether more threads have ended than may keep an account.
    pub(crate) fn has_too_many_ended(&self) -> bool {
        let left = self
            .ended
            .load(Relaxed)
            .wrapping_sub(self.folded.load(Relaxed));
        left > self.terms.most_ended
    }

    /// Whether so many have ended after that thread that it may not keep its account.
    pub(crate) fn is_past(&self, thread: &Thread) -> bool {
        let first = self
            .ended
            .load(Relaxed)
            .saturating_sub(self.terms.most_ended);
        thread.ended.as_ref().is_some_and(|&(turn, _)| turn < first)
    }

    /// That many accounts of ended threads are gone.
    pub(crate) fn has_folded(&self, accounts: u64) {
        self.folded.fetch_add(accounts, Relaxed);
    }

    /// Stops counting for now, or goes on. The CPUs have to be told.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
    }

    /// Whether it does not count for now.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Relaxed)
    }

    /// Stops counting for good, and returns whether it was not yet over. The CPUs have to be told.
    pub(crate) fn set_over(&self) -> bool {
        !self.over.xchg(true, Full)
    }

    /// Has all tasks followed that are meant and live.
    ///
    /// # Errors
    ///
    /// `EEXIST` if one of them is counted already, `ESRCH` if all of them are exiting.
    pub(crate) fn follow(&self, hook: &sched_hook::Registration<Account>, named: &Task) -> Result {
        let followed = hook.follow(named, self.terms.is_one(), |task| {
            match self.terms.on_exec {
                true => self.waiting(),
                false => self.account_of(task),
            }
        })?;
        // Those that have exited meanwhile are in here.
        let all = i64::from(followed);
        let others = MANY.wrapping_sub(all);
        match self.meant.fetch_sub(others, Full) == others {
            true => Err(ESRCH),
            false => Ok(()),
        }
    }

    /// Where what `task` does goes from now on, and nothing of what it did before.
    fn account_of(&self, task: &Task) -> &Account {
        let account = match self.terms.threads {
            Threads::Each => self.own_account(task).unwrap_or(self.all()),
            Threads::Together | Threads::One => self.all(),
        };
        account.clock.begin(runtime(task));
        account
    }

    /// A new account for one thread.
    fn own_account(&self, task: &Task) -> Result<&Account> {
        let flags = GFP_ATOMIC | __GFP_NOWARN;
        let thread = Kind::Thread(Thread::new(task)?);
        let account = Account::new(self.all().target().clone(), thread, flags)?;
        // SAFETY: It stays until nobody uses it any more.
        Ok(unsafe { self.accounts.push(account).as_ref() })
    }

    /// Whether `task` is one of those that are meant, and not only made by one.
    fn means(&self, task: &Task) -> bool {
        match self.terms.is_one() {
            true => task.as_ptr().addr() == self.task,
            false => process(task) == self.process,
        }
    }

    /// Whether `child`, which one of its tasks has made, is one, too.
    pub(crate) fn wants(&self, child: &Task) -> bool {
        self.terms.inherit || self.means(child)
    }

    /// A task with `account` has made `child`. Returns where what that does goes.
    pub(crate) fn forked<'a>(&'a self, account: &'a Account, child: &Task) -> Option<&'a Account> {
        if !self.wants(child) {
            return None;
        }
        if self.means(child) {
            self.meant.fetch_add(1, Relaxed);
        }
        Some(match account.kind() {
            Kind::Waiting => account,
            Kind::All | Kind::Thread(_) => match self.terms.threads {
                Threads::Each => self.own_account(child).unwrap_or(self.all()),
                Threads::Together | Threads::One => account,
            },
        })
    }

    /// The current task, with `account`, has exec'd, and the new program may be `privileged`. Returns
    /// where what it does goes from now on.
    pub(crate) fn execed<'a>(
        &'a self,
        account: &'a Account,
        privileged: bool,
    ) -> Option<&'a Account> {
        if privileged && !self.terms.privileged {
            return None;
        }
        Some(match account.kind() {
            Kind::Waiting => {
                self.begun.store(true, Relaxed);
                self.account_of(current!())
            }
            // It has taken over the id of the process, whose first thread is gone.
            Kind::Thread(thread) if !thread.is(current!()) => {
                account.end(current!());
                self.note_end(thread, current!());
                self.account_of(current!())
            }
            Kind::All | Kind::Thread(_) => account,
        })
    }

    /// The thread, `task`, has ended, or is another one from now on.
    fn note_end(&self, thread: &Thread, task: &Task) {
        let turn = self.ended.fetch_add(1, Relaxed);
        thread.ended.populate((turn, Name::of(task)));
    }

    /// `task`, with `account`, counts no more. Returns whether it was the last of those that were meant.
    pub(crate) fn left(&self, account: &Account, task: &Task) -> bool {
        account.end(task);
        if let Kind::Thread(thread) = account.kind() {
            self.note_end(thread, task);
        }
        self.means(task) && self.meant.fetch_sub(1, Full) == 1
    }

    /// Notes where its counts may be wrong.
    pub(crate) fn note_flaws(&self, counters: &Counters) {
        self.disturbed.extend(counters.disturbed());
        self.incomplete.extend(counters.incomplete());
    }

    /// The lines in dmesg, one an event, for what is settled of it.
    pub(crate) fn report(&self, remark: &str) {
        let disturbed = Flaw("disturbed", &self.disturbed);
        let incomplete = Flaw("incomplete", &self.incomplete);
        let mut sums = Sums::default();
        self.accounts
            .iter()
            .for_each(|account| add(&mut sums, &account.sums()));
        for (&Column { event, .. }, Count { events, overflows }) in self.counts_of(&sums) {
            let unit = event.unit();
            pr_info!("pid {self}: {events} {unit}, {overflows} overflows, event {event}{remark}{disturbed}{incomplete}\n");
        }
    }

    /// Its events, each with its part of `sums`.
    pub(crate) fn counts_of<'a>(
        &'a self,
        sums: &'a Sums,
    ) -> impl Iterator<Item = (&'a Column, Count)> {
        self.columns.iter().map(move |column| {
            let mut count = sums.get(column.slot).copied().unwrap_or_default();
            if self.terms.free {
                // The counter's own are of whatever ran.
                count.overflows = count.events.checked_div(column.n).unwrap_or(0);
            }
            (column, count)
        })
    }

    /// The last of those that were meant, `task`, has exited, and all that they did is counted.
    pub(crate) fn finish(&self, task: &Task) {
        self.keep_name(task);
        self.exited.store(true, Release);
    }

    /// Keeps its name, or that of `task` if it is gone already.
    pub(crate) fn keep_name(&self, task: &Task) {
        let name = self.name().unwrap_or_else(|| Name::of(task));
        self.name.populate(name);
    }
}

/// As in the line for dmesg: its number where it was asked for, and its name.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.number)?;
        if let Some(name) = self.name() {
            name.fmt(f)?;
        }
        f.write_str(")")
    }
}
