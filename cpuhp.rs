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
    error::to_result,
    prelude::*,
    sync::Arc,
    types::NotThreadSafe, //
};

use crate::{
    bindings,
    refusal::refuse_taken,
    slot::{
        Filled,
        Slot, //
    },
    smp::{
        on_cpu,
        on_each_cpu,
        possible_cpus,
        ThisCpu, //
    }, //
};

/// The state in which the callbacks are called; our kernel patch adds it.
#[cfg(CONFIG_SCHED_HOOK)]
const STATE: bindings::cpuhp_state = bindings::cpuhp_state_CPUHP_AP_SCHED_HOOK_STARTING;
/// The state in which the callbacks are called: its neighbour, another architecture's, that nobody takes here. Modules
/// can get none of their own that is as early and as late.
#[cfg(not(CONFIG_SCHED_HOOK))]
const STATE: bindings::cpuhp_state = bindings::cpuhp_state_CPUHP_AP_ARM64_ISNDEP_STARTING;

/// What is done on a CPU while it is online.
pub(crate) trait Callbacks: Send + Sync + Sized + 'static {
    /// The state's name in sysfs.
    const NAME: &'static CStr;

    /// Where the registered object stands.
    fn slot() -> &'static Slot<Self>;

    /// Called on each CPU that is online when the registration begins.
    ///
    /// # Errors
    ///
    /// There is no registration then; it says itself why.
    fn online(&self, cpu: &ThisCpu) -> Result;

    /// Called on each CPU that comes online, before any task but the kernel's for this CPU can
    /// run there.
    fn starting(&self, cpu: &ThisCpu);

    /// Called on each CPU that goes offline, when all tasks have left it, and on all when the
    /// registration ends.
    fn dying(&self, cpu: &ThisCpu);
}

/// No CPU comes or goes while it exists.
pub(crate) struct Hold(NotThreadSafe);

impl Hold {
    /// Waits for those that do. May sleep.
    pub(crate) fn new() -> Self {
        // SAFETY: May sleep, as its callers may.
        unsafe { bindings::cpus_read_lock() };
        Self(NotThreadSafe)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // SAFETY: It was locked by `new()`, in the same task, as the value cannot be sent elsewhere.
        unsafe { bindings::cpus_read_unlock() };
    }
}

/// Callbacks that are called until this is dropped.
///
/// # Invariants
///
/// The callbacks of [`STATE`] are ours.
pub(crate) struct Registration<T: Callbacks> {
    // Dropped after `Drop` has called the last callback.
    callbacks: Filled<T>,
}

impl<T: Callbacks> Registration<T> {
    /// Calls `online()` on each CPU, and from now on the others as they come and go.
    ///
    /// # Errors
    ///
    /// What `online()` returned on some CPU; `dying()` was called on all then. `EBUSY`, and a line
    /// that says so, if another module has the state.
    pub(crate) fn new(callbacks: Arc<T>) -> Result<Self> {
        let filled = T::slot().fill(callbacks.clone())?;
        let _hold = Hold::new();
        let online = possible_cpus()
            .try_for_each(|number| on_cpu(number, |cpu| callbacks.online(cpu)).unwrap_or(Ok(())));
        let registered = online.and_then(|()| {
            // SAFETY: The callbacks stay until `Drop` removes the state, and the hold is ours.
            to_result(unsafe {
                bindings::__cpuhp_setup_state_cpuslocked(
                    STATE,
                    T::NAME.as_char_ptr(),
                    false,
                    Some(starting::<T>),
                    Some(dying::<T>),
                    false,
                )
            })
            .map_err(refuse_taken)
        });
        if registered.is_err() {
            on_each_cpu(|cpu| callbacks.dying(cpu));
        }
        // INVARIANT: As just done.
        registered.map(|()| Self { callbacks: filled })
    }
}

impl<T: Callbacks> Drop for Registration<T> {
    fn drop(&mut self) {
        let _hold = Hold::new();
        // SAFETY: By the type invariant the state is ours, and the hold, too. The kernel calls no
        // callback after this.
        unsafe { bindings::__cpuhp_remove_state_cpuslocked(STATE, false) };
        on_each_cpu(|cpu| self.callbacks.dying(cpu));
    }
}

/// # Safety
///
/// Only as [`STATE`]'s callback, while `T::slot()` is filled: interrupts are off.
unsafe extern "C" fn starting<T: Callbacks>(_: c_uint) -> c_int {
    // SAFETY: `Registration` empties the slot only after the last call; interrupts are off.
    let (callbacks, cpu) = unsafe { (T::slot().get(), ThisCpu::assume()) };
    if let Some(callbacks) = callbacks {
        callbacks.starting(cpu);
    }
    0
}

/// # Safety
///
/// As for [`starting`].
unsafe extern "C" fn dying<T: Callbacks>(_: c_uint) -> c_int {
    // SAFETY: As above.
    let (callbacks, cpu) = unsafe { (T::slot().get(), ThisCpu::assume()) };
    if let Some(callbacks) = callbacks {
        callbacks.dying(cpu);
    }
    0
}
