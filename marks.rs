// SPDX-License-Identifier: GPL-2.0

//! Which tasks are marked, and with what, on a kernel whose `task_struct` has no field for that.
//!
//! A hash table with a list in each bucket. A context switch looks things up without a lock; whoever marks
//! and unmarks takes one.
//!
//! C header: [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)

use core::ptr::{
    from_ref,
    null_mut, //
};

use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        rcu, //
    },
    task::Task, //
};

use crate::{
    bindings,
    lock::RawLock, //
};

/// As many as make it rare that two tasks share one, as long as thousands of threads are counted.
const BUCKETS: usize = 1 << BITS;
const BITS: u32 = 12;

/// A task in the table.
#[repr(C)]
struct Entry<M> {
    /// Must be first: what frees an entry finds it by this.
    rcu: bindings::callback_head,
    /// So that no other task has its address.
    task: ARef<Task>,
    /// Null while that is not known yet, and when the mark is off.
    mark: Atomic<*mut M>,
    next: Atomic<*mut Entry<M>>,
}

/// Marks, by task.
///
/// # Invariants
///
/// The pointers of the buckets, and those of the entries there, are null or entries, which stay for a grace
/// period of RCU after they were unlinked. Only who holds the lock changes them.
pub(crate) struct Marks<M> {
    buckets: KVec<Atomic<*mut Entry<M>>>,
    lock: RawLock<()>,
}

// SAFETY: Marks are only handed out by reference, and tasks may be used from anywhere.
unsafe impl<M: Sync> Send for Marks<M> {}
// SAFETY: As above; entries change under the lock or at once.
unsafe impl<M: Sync> Sync for Marks<M> {}

/// Which bucket a task is in, by its address: Fibonacci hashing.
fn bucket_of(task: *const Task) -> usize {
    (task.addr().wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> (usize::BITS - BITS)
}

/// What `rcu_dereference()` is: whatever is read through the pointer is read after it. A load of an `Atomic` is a call, which a
/// context switch cannot afford.
#[inline(always)]
fn dereference<T>(pointer: &Atomic<*mut T>) -> *mut T {
    // SAFETY: It is valid, and a word that changes at once.
    unsafe { pointer.as_ptr().read_volatile() }
}

impl<M> Marks<M> {
    /// No marks.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let mut buckets = KVec::with_capacity(BUCKETS, GFP_KERNEL)?;
        for _ in 0..BUCKETS {
            buckets.push(Atomic::new(null_mut()), GFP_KERNEL)?;
        }
        // INVARIANT: All are null.
        Ok(Self {
            buckets,
            lock: RawLock::new(()),
        })
    }

    /// The entry of a task, and the link to it.
    ///
    /// # Safety
    ///
    /// While they are used the lock must be held, or no grace period of RCU end.
    #[inline(always)]
    unsafe fn find(&self, task: *const Task) -> Option<(&Atomic<*mut Entry<M>>, &Entry<M>)> {
        let mut link = self.buckets.get(bucket_of(task))?;
        loop {
            // SAFETY: By the type invariant, and as the caller promises.
            let entry = unsafe { dereference(link).as_ref() }?;
            if core::ptr::eq(&*entry.task, task) {
                return Some((link, entry));
            }
            link = &entry.next;
        }
    }

    /// The mark of a task.
    ///
    /// # Safety
    ///
    /// No grace period of RCU may end while it is looked up, and while it is used unless its owner says that
    /// it stays.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, task: *const Task) -> Option<&M> {
        // SAFETY: As the caller promises; marks are null or references.
        unsafe { dereference(&self.find(task)?.1.mark).as_ref() }
    }

    /// Whether a task is in the table, with a mark or about to get one.
    pub(crate) fn has(&self, task: &Task) -> bool {
        let _guard = rcu::read_lock();
        // SAFETY: As the guard says.
        unsafe { self.find(task) }.is_some()
    }

    /// Enters a task, which gets its mark later. Does not sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it is there, `ENOMEM`.
    pub(crate) fn enter(&self, task: &Task) -> Result {
        let entry = Entry {
            rcu: bindings::callback_head::default(),
            task: task.into(),
            mark: Atomic::new(null_mut()),
            next: Atomic::new(null_mut()),
        };
        let mut entry = KBox::new(entry, GFP_ATOMIC | __GFP_NOWARN)?;
        let bucket = self.buckets.get(bucket_of(task)).ok_or(EINVAL)?;
        let entry = self.lock.with(|()| {
            // SAFETY: It is held.
            if unsafe { self.find(task) }.is_some() {
                return Err(entry);
            }
            entry.next = Atomic::new(bucket.load(Acquire));
            // INVARIANT: It becomes the table's.
            bucket.store(KBox::leak(entry), Release);
            Ok(())
        });
        entry.map_err(|_| EEXIST)
    }

    /// Replaces the mark of a task if it is this one. Ordered against all before and after.
    pub(crate) fn change(&self, task: &Task, old: Option<&M>, new: Option<&M>) -> bool {
        let (old, new) = (as_pointer(old), as_pointer(new));
        // So that it is not taken out meanwhile.
        self.lock.with(|()| {
            // SAFETY: It is held.
            unsafe { self.find(task) }
                .is_some_and(|(_, entry)| entry.mark.cmpxchg(old, new, Full).is_ok())
        })
    }

    /// Takes a task out, and returns its mark, for which [`Marks::get`]'s rule holds. Does not sleep.
    pub(crate) fn remove(&self, task: &Task) -> Option<&M> {
        // Most of those that exit are not there, and need no lock for that.
        if !self.has(task) {
            return None;
        }
        let (entry, mark) = self.lock.with(|()| {
            // SAFETY: It is held.
            let (link, entry) = unsafe { self.find(task) }?;
            link.store(entry.next.load(Acquire), Release);
            Some((
                from_ref(entry).cast_mut(),
                entry.mark.xchg(null_mut(), Full),
            ))
        })?;
        // SAFETY: It was unlinked by this alone; who has found it before is done when a grace period has ended,
        // and until then its memory, and that of the task, stays.
        unsafe {
            drop((&raw const (*entry).task).read());
            bindings::kvfree_call_rcu(entry.cast(), entry.cast());
        }
        // SAFETY: Marks are null or references.
        unsafe { mark.as_ref() }
    }

    /// Calls `f` with each task that has a mark; it must not sleep.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Task, &M)) {
        let _guard = rcu::read_lock();
        for bucket in &self.buckets {
            let mut link = bucket;
            // SAFETY: By the type invariant, and no grace period ends before `_guard` does.
            while let Some(entry) = unsafe { dereference(link).as_ref() } {
                // SAFETY: As above.
                if let Some(mark) = unsafe { dereference(&entry.mark).as_ref() } {
                    f(&entry.task, mark);
                }
                link = &entry.next;
            }
        }
    }
}

impl<M> Drop for Marks<M> {
    fn drop(&mut self) {
        for bucket in &self.buckets {
            let mut entry = bucket.load(Acquire);
            while !entry.is_null() {
                // SAFETY: By the type invariant; nobody else has a reference any more.
                entry = unsafe { KBox::from_raw(entry) }.next.load(Acquire);
            }
        }
    }
}

fn as_pointer<M>(mark: Option<&M>) -> *mut M {
    mark.map_or(null_mut(), |mark| from_ref(mark).cast_mut())
}
