// SPDX-License-Identifier: GPL-2.0

//! Where counts go: an account is what tasks are marked with, and what a CPU's counters are settled to.

use core::ptr::{
    null_mut,
    NonNull, //
};

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
    task::Task, //
};

use crate::{
    counter::Count,
    lock::RawLock,
    pid::runtime,
    setup::MOST,
    smp::{
        CpuSet,
        ThisCpu, //
    },
    target::{
        Target,
        Thread, //
    },
};

/// What was counted, by slot.
pub(crate) type Sums = [Count; MOST];

/// Adds `more` to `sums`.
pub(crate) fn add(sums: &mut Sums, more: &Sums) {
    for (sum, count) in sums.iter_mut().zip(more) {
        sum.add(count);
    }
}

/// Whose account it is.
pub(crate) enum Kind {
    /// All that the target counts, but for what goes to accounts of threads.
    All,
    /// Tasks that wait for their next exec: it stays empty.
    Waiting,
    /// One thread.
    Thread(Thread),
}

/// An account.
pub(crate) struct Account {
    target: Arc<Target>,
    kind: Kind,
    sums: RawLock<Sums>,
    /// The CPUs whose counters hold a part that is not in `sums`, maybe an empty one.
    holders: CpuSet,
    /// The CPUs that have counted for it.
    cpus: CpuSet,
    /// How long its tasks ran.
    pub(crate) clock: Clock,
    /// Whether it was a thread that had ended when that was noted last.
    had_ended: Atomic<bool>,
    next: Atomic<*mut Account>,
}

impl Account {
    /// An empty account. Does not sleep if `flags` do not.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(target: Arc<Target>, kind: Kind, flags: Flags) -> Result<KBox<Self>> {
        let account = Self {
            target,
            kind,
            sums: RawLock::new(Sums::default()),
            holders: CpuSet::new(flags)?,
            cpus: CpuSet::new(flags)?,
            clock: Clock::new(),
            had_ended: Atomic::new(false),
            next: Atomic::new(null_mut()),
        };
        Ok(KBox::new(account, flags)?)
    }

    /// Whose it is.
    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether its tasks wait for an exec, and nothing that they do counts.
    fn is_waiting(&self) -> bool {
        matches!(self.kind, Kind::Waiting)
    }

    /// Whether what its tasks do is counted now.
    pub(crate) fn counts(&self) -> bool {
        !self.is_waiting() && self.target.counts()
    }

    /// `task` has it, and lives.
    pub(crate) fn see(&self, task: &Task) {
        if !self.is_waiting() {
            self.clock.see(runtime(task));
        }
    }

    /// `task` has it no more.
    pub(crate) fn end(&self, task: &Task) {
        if !self.is_waiting() {
            self.clock.end(runtime(task));
        }
    }

    /// This CPU counts for it from now on.
    pub(crate) fn held_by(&self, cpu: &ThisCpu) {
        self.holders.insert(cpu);
        self.cpus.insert(cpu);
    }

    /// This CPU does not any more, and all that it has counted is in the sums.
    pub(crate) fn left_by(&self, cpu: &ThisCpu) {
        self.holders.remove(cpu);
    }

    /// Adds what a CPU has counted.
    pub(crate) fn add(&self, counts: &Sums) {
        self.sums.with(|sums| add(sums, counts));
    }

    /// What was counted, but for what its holders hold.
    pub(crate) fn sums(&self) -> Sums {
        self.sums.with(|sums| *sums)
    }

    /// The CPUs that may hold a part that is not in the sums.
    pub(crate) fn holders(&self) -> &CpuSet {
        &self.holders
    }

    /// The CPUs that have counted for it.
    pub(crate) fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Begins anew; what its holders hold comes in later.
    pub(crate) fn reset(&self) {
        self.sums.with(|sums| *sums = Sums::default());
        self.cpus.clear();
        self.cpus.extend(&self.holders);
        self.clock.reset();
    }

    /// Notes whether it is a thread that has ended.
    pub(crate) fn note_end(&self) {
        let has_ended = matches!(&self.kind, Kind::Thread(thread) if thread.has_ended());
        self.had_ended.store(has_ended, Relaxed);
    }

    /// What was noted.
    pub(crate) fn had_ended(&self) -> bool {
        self.had_ended.load(Relaxed)
    }

    /// Whether it is an account of `target`.
    pub(crate) fn is_of(&self, target: &Target) -> bool {
        core::ptr::eq(&*self.target, target)
    }

    /// Takes over all that is in `other`, which is not added to any more.
    pub(crate) fn absorb(&self, other: &Self) {
        self.add(&other.sums());
        self.cpus.extend(&other.cpus);
        self.clock.absorb(&other.clock);
    }
}

/// How long tasks ran while they were counted, in nanoseconds, as the scheduler has it.
///
/// It is read and changed under the table's lock, but for `begun` and `ended`.
pub(crate) struct Clock {
    /// What the tasks had at their beginning here.
    begun: Atomic<u64>,
    /// What they had at their end.
    ended: Atomic<u64>,
    /// What those that live had when they were looked at last, and `ended` was this.
    live: Atomic<u64>,
    past: Atomic<u64>,
    /// What does not count: before a reset, while paused.
    skipped: Atomic<u64>,
    /// What it showed when it was paused.
    paused: Atomic<u64>,
    /// The most that it showed: a task that is just ending may be in none of these.
    shown: Atomic<u64>,
}

impl Clock {
    /// One that stands at 0.
    fn new() -> Self {
        Self {
            begun: Atomic::new(0),
            ended: Atomic::new(0),
            live: Atomic::new(0),
            past: Atomic::new(0),
            skipped: Atomic::new(0),
            paused: Atomic::new(0),
            shown: Atomic::new(0),
        }
    }

    /// A task that has run for `runtime` comes in, and nothing of that counts.
    pub(crate) fn begin(&self, runtime: u64) {
        self.begun.fetch_add(runtime, Relaxed);
    }

    /// A task that has run for `runtime` goes out.
    fn end(&self, runtime: u64) {
        self.ended.fetch_add(runtime, Full);
    }

    /// Begins to look at those that live. Who ends from here on may be seen or not, but not twice.
    pub(crate) fn look(&self) {
        self.live.store(0, Relaxed);
        // A task's mark is taken off before it ends here: who is in this is not seen any more.
        self.past.store(self.ended.load(Acquire), Relaxed);
    }

    /// One of them has run for `runtime`.
    fn see(&self, runtime: u64) {
        self.live.fetch_add(runtime, Relaxed);
    }

    /// Whether none has ended since.
    pub(crate) fn has_seen_all(&self) -> bool {
        self.past.load(Relaxed) == self.ended.load(Relaxed)
    }

    fn raw(&self) -> u64 {
        self.past
            .load(Relaxed)
            .wrapping_add(self.live.load(Relaxed))
            .wrapping_sub(self.begun.load(Relaxed))
    }

    fn elapsed(&self) -> u64 {
        let elapsed = self.raw().wrapping_sub(self.skipped.load(Relaxed));
        // Of one that is just ending only what it had before is there.
        (elapsed as i64).max(0) as u64
    }

    /// What it shows, as seen last.
    pub(crate) fn nanoseconds(&self, paused: bool) -> u64 {
        let now = match paused {
            true => self.paused.load(Relaxed),
            false => self.elapsed(),
        };
        let shown = self.shown.load(Relaxed).max(now);
        self.shown.store(shown, Relaxed);
        shown
    }

    /// Stands still.
    pub(crate) fn pause(&self) {
        self.paused.store(self.elapsed(), Relaxed);
    }

    /// Goes on.
    pub(crate) fn resume(&self) {
        self.skipped
            .store(self.raw().wrapping_sub(self.paused.load(Relaxed)), Relaxed);
    }

    fn reset(&self) {
        self.skipped.store(self.raw(), Relaxed);
        self.paused.store(0, Relaxed);
        self.shown.store(0, Relaxed);
    }

    fn absorb(&self, other: &Self) {
        other.look();
        self.ended.fetch_add(other.elapsed(), Relaxed);
        self.paused.fetch_add(other.paused.load(Relaxed), Relaxed);
    }
}

/// A target's accounts, the youngest first.
///
/// Whoever cannot sleep may add some; the table's lock is needed to remove some, and to go through them
/// where threads may have some.
///
/// # Invariants
///
/// The pointers are null or boxes that are the list's own.
pub(crate) struct Accounts(Atomic<*mut Account>);

impl Accounts {
    /// No account.
    pub(crate) fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::new(null_mut()))
    }

    /// Adds one, which stays until it is folded or all are freed.
    pub(crate) fn push(&self, account: KBox<Account>) -> NonNull<Account> {
        let account = NonNull::from(KBox::leak(account));
        let mut head = self.0.load(Relaxed);
        loop {
            // SAFETY: It was leaked just now.
            unsafe { account.as_ref() }.next.store(head, Relaxed);
            // INVARIANT: The box becomes the list's.
            match self.0.cmpxchg(head, account.as_ptr(), Full) {
                Ok(_) => return account,
                Err(other) => head = other,
            }
        }
    }

    /// All of them; the table's lock must be held for as long as they are used. A hook needs none where threads
    /// have no accounts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Account> {
        let follow = |link: &Atomic<*mut Account>| {
            // SAFETY: By the invariant; who holds the table's lock is the only one to remove some, and those that
            // are no threads' stay until no hook uses them.
            unsafe { link.load(Acquire).as_ref() }
        };
        core::iter::successors(follow(&self.0), move |account| follow(&account.next))
    }

    /// Unlinks those that `which` says. The table's lock must be held.
    pub(crate) fn unlink(&self, mut which: impl FnMut(&Account) -> bool) -> Chain {
        let mut chain = Chain(null_mut());
        let mut link = &self.0;
        while let Some(account) = NonNull::new(link.load(Acquire)) {
            // SAFETY: By the invariant, and the lock is held.
            let this = unsafe { account.as_ref() };
            let next = this.next.load(Relaxed);
            // Only the first link changes meanwhile: then that one is kept until the next time.
            if which(this) && link.cmpxchg(account.as_ptr(), next, Full).is_ok() {
                this.next.store(chain.0, Relaxed);
                chain.0 = account.as_ptr();
            } else {
                link = &this.next;
            }
        }
        chain
    }

    /// Unlinks all.
    pub(crate) fn take(&self) -> Chain {
        Chain(self.0.xchg(null_mut(), Full))
    }
}

/// Accounts that are in no list any more.
#[must_use]
pub(crate) struct Chain(*mut Account);

impl Chain {
    /// They.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Account> {
        // SAFETY: They were a list's, which has given them to this chain; `free()` takes it.
        let follow = |account: *mut Account| unsafe { account.as_ref() };
        core::iter::successors(follow(self.0), move |account| {
            follow(account.next.load(Relaxed))
        })
    }

    /// Frees them.
    ///
    /// # Safety
    ///
    /// No task must be marked with them, no CPU hold a part of them, and no hook use them any more.
    pub(crate) unsafe fn free(mut self) {
        while !self.0.is_null() {
            // SAFETY: It was a list's, which has leaked it, and as the caller promises nobody uses it.
            let account = unsafe { KBox::from_raw(self.0) };
            self.0 = account.next.load(Relaxed);
        }
    }
}
