// SPDX-License-Identifier: GPL-2.0

//! Where a C callback that is given no argument finds its object.

use core::{
    ops::Deref,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full, //
        },
        Arc,
        ArcBorrow, //
    },
};

/// A place for one object at a time.
///
/// # Invariants
///
/// The pointer is null, or from [`Arc::into_raw`] and owned by the one [`Filled`] there is.
pub(crate) struct Slot<T>(Atomic<*mut T>);

impl<T: Send + Sync> Slot<T> {
    /// An empty slot, for a `static`.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::new(null_mut()))
    }

    /// Puts `object` here until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is one already.
    pub(crate) fn fill(&'static self, object: Arc<T>) -> Result<Filled<T>> {
        let object = Arc::into_raw(object).cast_mut();
        // INVARIANT: The pointer becomes `Filled`'s.
        match self.0.cmpxchg(null_mut(), object, Full) {
            Ok(_) => Ok(Filled(self)),
            Err(_) => {
                // SAFETY: From `into_raw()` above, and not stored.
                drop(unsafe { Arc::from_raw(object) });
                Err(EBUSY)
            }
        }
    }

    /// A reference to the object, if there is one.
    ///
    /// # Safety
    ///
    /// The [`Filled`] must not be dropped meanwhile.
    pub(crate) unsafe fn share(&self) -> Option<Arc<T>> {
        let object = NonNull::new(self.0.load(Acquire))?;
        // SAFETY: By the type invariant; as the caller promises, the reference of `Filled` stays meanwhile.
        Some(unsafe { ArcBorrow::from_raw(object.as_ptr()) }.into())
    }

    /// The object, if there is one.
    ///
    /// # Safety
    ///
    /// The [`Filled`] must not be dropped while the reference is used: whoever holds it has to
    /// see to it that the callbacks are over.
    #[inline]
    pub(crate) unsafe fn get<'a>(&self) -> Option<&'a T> {
        // SAFETY: By the type invariant, and as the caller promises.
        unsafe { self.0.load(Acquire).as_ref() }
    }
}

/// Owns what is in a [`Slot`]. Drop it only when no callback runs that may look there.
pub(crate) struct Filled<T: 'static>(&'static Slot<T>);

impl<T> Deref for Filled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the slot's invariant it is an object that is ours as long as `self` is.
        unsafe { &*self.0 .0.load(Acquire) }
    }
}

impl<T> Drop for Filled<T> {
    fn drop(&mut self) {
        // INVARIANT: Null.
        let object = self.0 .0.xchg(null_mut(), Full);
        // SAFETY: By the slot's invariant it is ours, and nobody can find it any more.
        drop(unsafe { Arc::from_raw(object.cast_const()) });
    }
}
