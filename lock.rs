// SPDX-License-Identifier: GPL-2.0

//! A lock for what is touched within a context switch, where no other may be taken.
//!
//! The kernel's crate has none that stays a spinlock on PREEMPT_RT.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use core::cell::UnsafeCell;

#[cfg(CONFIG_DEBUG_SPINLOCK)]
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::bindings;

/// A value behind a `raw_spinlock_t`, which is held for a few instructions with interrupts off.
pub(crate) struct RawLock<T> {
    lock: Opaque<bindings::raw_spinlock_t>,
    value: UnsafeCell<T>,
}

// SAFETY: The lock lets one CPU at a time get at the value.
unsafe impl<T: Send> Sync for RawLock<T> {}
// SAFETY: An unlocked lock does not care where it stands.
unsafe impl<T: Send> Send for RawLock<T> {}

impl<T> RawLock<T> {
    /// Puts `value` behind a lock.
    pub(crate) fn new(value: T) -> Self {
        let lock = Opaque::new(bindings::raw_spinlock_t::default());
        #[cfg(CONFIG_DEBUG_SPINLOCK)]
        // SAFETY: The memory is ours, and name and class are there for good.
        unsafe {
            bindings::__raw_spin_lock_init(
                lock.get(),
                c"pmu_count".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
                bindings::lockdep_wait_type_LD_WAIT_SPIN as i16,
            )
        };
        Self {
            lock,
            value: UnsafeCell::new(value),
        }
    }

    /// Calls `f` with the value. Not from NMIs; `f` must not lock anything.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: It was initialised.
        let flags = unsafe { bindings::_raw_spin_lock_irqsave(self.lock.get()) };
        // SAFETY: The lock is held: nobody else has a reference.
        let returned = f(unsafe { &mut *self.value.get() });
        // SAFETY: It is held, and the flags are those that it gave.
        unsafe { bindings::_raw_spin_unlock_irqrestore(self.lock.get(), flags) };
        returned
    }
}
