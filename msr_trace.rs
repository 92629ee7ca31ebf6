// SPDX-License-Identifier: GPL-2.0

//! Seeing who else writes to MSRs, as a registration that ends with its value.
//!
//! The kernel tells the tracepoint `write_msr` of each write of its own and of /dev/cpu/*/msr, but not
//! of those in this module, which do not go through it.
//!
//! A CPU that wakes up writes MSRs before it has its per-CPU base, which the tracepoint needs: so
//! there must be no probe while the machine sleeps.
//!
//! C headers: [`arch/x86/include/asm/msr-trace.h`](srctree/arch/x86/include/asm/msr-trace.h),
//! [`include/linux/suspend.h`](srctree/include/linux/suspend.h)

use core::ptr::null_mut;

use kernel::{
    container_of,
    error::to_result,
    ffi::{
        c_int,
        c_uint,
        c_ulong, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    types::Opaque, //
};

use crate::{
    bindings,
    smp::{
        on_this_cpu,
        ThisCpu, //
    },
    tracepoint::{
        Probes,
        Tracepoint, //
    },
};

/// Who is told of writes.
pub(crate) trait Observer: Send + Sync + Sized + 'static {
    /// Whether it matters that `value` is written to the register of this address. Called for
    /// each write in the kernel, from any context.
    fn matters(address: u32, value: u64) -> bool;

    /// The kernel has written that, and it matters, on this CPU. Called from any context, NMIs
    /// included: no lock, no allocation, no printk, no panic.
    fn written(&self, address: u32, value: u64, cpu: &ThisCpu);
}

/// A probe that tells an observer.
struct Told<T: Observer> {
    // Dropped before what it uses.
    _probes: Probes,
    _observer: Arc<T>,
}

impl<T: Observer> Told<T> {
    fn new(observer: Arc<T>) -> Result<Self> {
        let mut probes = Probes::new();
        // SAFETY: The probe has the tracepoint's arguments, and its object stays as long as it is registered.
        unsafe {
            probes.add(
                Tracepoint::write_msr(),
                probe::<T> as *mut c_void,
                data(&observer),
            )
        }?;
        Ok(Self {
            _probes: probes,
            _observer: observer,
        })
    }
}

/// What the probe is given.
fn data<T>(observer: &Arc<T>) -> *mut c_void {
    Arc::as_ptr(observer).cast_mut().cast()
}

/// # Safety
///
/// Only as a probe of `write_msr`, with the object of a [`Told<T>`].
unsafe extern "C" fn probe<T: Observer>(data: *mut c_void, msr: c_uint, value: u64, failed: c_int) {
    if failed == 0 && T::matters(msr, value) {
        // SAFETY: As promised, the object is there.
        let observer = unsafe { &*data.cast::<T>() };
        on_this_cpu(|cpu| observer.written(msr, value, cpu));
    }
}

/// An observer that is told until this is dropped, but for the time when the machine sleeps.
///
/// # Invariants
///
/// `sleep` is registered.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: Observer> {
    observer: Arc<T>,
    /// `None` while the machine sleeps.
    #[pin]
    probe: Mutex<Option<Told<T>>>,
    #[pin]
    sleep: Opaque<bindings::notifier_block>,
}

// SAFETY: The kernel's list of notifiers has a lock of its own.
unsafe impl<T: Observer> Send for Registration<T> {}
// SAFETY: As above; `probe` has a lock.
unsafe impl<T: Observer> Sync for Registration<T> {}

impl<T: Observer> Registration<T> {
    /// Has `observer` told from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(observer: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            probe <- new_mutex!(Some(Told::new(observer.clone())?)),
            observer,
            // INVARIANT: It is registered when this has succeeded.
            sleep <- Opaque::try_ffi_init(|sleep: *mut bindings::notifier_block| {
                // SAFETY: The memory is ours, pinned, and stays until `PinnedDrop`, which
                // unregisters it.
                unsafe {
                    sleep.write(bindings::notifier_block {
                        notifier_call: Some(sleep_changes::<T>),
                        next: null_mut(),
                        priority: 0,
                    });
                    to_result(bindings::register_pm_notifier(sleep))
                }
            }),
        }? Error)
    }

    /// Looks away before the machine sleeps.
    fn look_away(&self) {
        *self.probe.lock() = None;
    }

    /// Looks again when it has woken up.
    fn look_again(&self) {
        let probe = Told::new(self.observer.clone()).inspect_err(|_| {
            pr_warn!("no memory to see others' writes to the PMU after the machine has slept\n")
        });
        *self.probe.lock() = probe.ok();
    }
}

#[pinned_drop]
impl<T: Observer> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant; it waits for running callbacks.
        unsafe { bindings::unregister_pm_notifier(self.sleep.get()) };
    }
}

/// # Safety
///
/// Only as `notifier_call` of a [`Registration<T>`] among those of power management.
unsafe extern "C" fn sleep_changes<T: Observer>(
    sleep: *mut bindings::notifier_block,
    event: c_ulong,
    _: *mut c_void,
) -> c_int {
    // SAFETY: As promised, it is within a registration.
    let this = unsafe { &*container_of!(Opaque::cast_from(sleep), Registration<T>, sleep) };
    match event as u32 {
        bindings::PM_SUSPEND_PREPARE | bindings::PM_HIBERNATION_PREPARE => this.look_away(),
        bindings::PM_POST_SUSPEND | bindings::PM_POST_HIBERNATION => this.look_again(),
        _ => {}
    }
    bindings::NOTIFY_DONE as c_int
}
