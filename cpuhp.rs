// SPDX-License-Identifier: GPL-2.0

//! CPUs that come and go, as a registration that ends with its value.
//!
//! C header: [`include/linux/cpuhotplug.h`](srctree/include/linux/cpuhotplug.h)

use core::ffi::{
    c_int,
    c_uint,
    CStr, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc, //
};

use crate::slot::{
    Filled,
    Slot, //
};

/// What is done on a CPU while it is online.
pub(crate) trait Callbacks: Send + Sync + Sized + 'static {
    /// The state's name in sysfs.
    const NAME: &'static CStr;

    /// Where the registered object stands.
    fn slot() -> &'static Slot<Self>;

    /// Called on each CPU that is online and on each that comes online, before user tasks run
    /// there; interrupts are on.
    ///
    /// # Errors
    ///
    /// The registration fails, or the CPU does not come online.
    fn online(&self) -> Result;

    /// Called on each CPU that goes offline, while user tasks may still run there for a moment,
    /// and on all when the registration ends; interrupts are on.
    fn offline(&self);
}

/// Callbacks that are called until this is dropped.
///
/// # Invariants
///
/// `state` was returned by `__cpuhp_setup_state()`.
pub(crate) struct Registration<T: Callbacks> {
    state: bindings::cpuhp_state,
    // Dropped after `Drop` has called the last callback.
    _callbacks: Filled<T>,
}

impl<T: Callbacks> Registration<T> {
    /// Calls `online()` on each CPU, and from now on both as they come and go.
    ///
    /// # Errors
    ///
    /// What `online()` returned on some CPU; `offline()` was called on the others then. `EBUSY`
    /// if there is a registration already, `ENOSPC` if the kernel has no state left.
    pub(crate) fn new(callbacks: Arc<T>) -> Result<Self> {
        let filled = T::slot().fill(callbacks)?;
        // SAFETY: The callbacks stay until `Drop` removes the state.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                bindings::cpuhp_state_CPUHP_AP_ONLINE_DYN,
                T::NAME.as_char_ptr(),
                true,
                Some(startup::<T>),
                Some(teardown::<T>),
                false,
            )
        };
        to_result(state)?;
        // INVARIANT: As just returned, and not negative.
        Ok(Self {
            state,
            _callbacks: filled,
        })
    }
}

impl<T: Callbacks> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the state is ours. No callback runs after this.
        unsafe { bindings::__cpuhp_remove_state(self.state, true) };
    }
}

/// # Safety
///
/// Only as a cpuhp callback, while `T::slot()` is filled.
unsafe extern "C" fn startup<T: Callbacks>(_: c_uint) -> c_int {
    // SAFETY: `Registration` empties the slot only after the last call.
    match unsafe { T::slot().get() }.map_or(Err(ENODEV), T::online) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// # Safety
///
/// As for [`startup`].
unsafe extern "C" fn teardown<T: Callbacks>(_: c_uint) -> c_int {
    // SAFETY: As above.
    if let Some(callbacks) = unsafe { T::slot().get() } {
        callbacks.offline();
    }
    0
}
