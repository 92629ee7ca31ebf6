// SPDX-License-Identifier: GPL-2.0

//! Seeing who else writes to MSRs, as a registration that ends with its value.
//!
//! The kernel tells the tracepoint `write_msr` of each write of its own and of /dev/cpu/*/msr, but not of
//! those in this module, which do not go through it.
//!
//! C header: [`arch/x86/include/asm/msr-trace.h`](srctree/arch/x86/include/asm/msr-trace.h)

use core::ffi::{
    c_int,
    c_uint, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc, //
};

use crate::smp::{
    on_this_cpu,
    ThisCpu, //
};

/// Who is told of writes.
pub(crate) trait Observer: Send + Sync + Sized + 'static {
    /// Whether a write to the register of this address matters. Called for each write in the
    /// kernel, from any context.
    fn matters(address: u32) -> bool;

    /// The kernel has written to one that matters, on this CPU. Called from any context, NMIs
    /// included: no lock, no allocation, no printk, no panic.
    fn written(&self, cpu: &ThisCpu);
}

/// An observer that is told until this is dropped.
///
/// # Invariants
///
/// It is registered, with a reference to its object.
pub(crate) struct Registration<T: Observer>(Arc<T>);

impl<T: Observer> Registration<T> {
    /// Has `observer` told from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(observer: Arc<T>) -> Result<Self> {
        // SAFETY: The probe has the tracepoint's arguments, and its object stays until `Drop`
        // unregisters it.
        to_result(unsafe {
            bindings::tracepoint_probe_register(
                &raw mut bindings::__tracepoint_write_msr,
                probe::<T> as *mut c_void,
                data(&observer),
            )
        })?;
        // INVARIANT: As just done.
        Ok(Self(observer))
    }
}

/// What the probe is given.
fn data<T>(observer: &Arc<T>) -> *mut c_void {
    Arc::as_ptr(observer).cast_mut().cast()
}

impl<T: Observer> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Probes of this tracepoint, which cannot fault, run in
        // sections of `tracepoint_srcu`: none is called after this.
        unsafe {
            bindings::tracepoint_probe_unregister(
                &raw mut bindings::__tracepoint_write_msr,
                probe::<T> as *mut c_void,
                data(&self.0),
            );
            bindings::synchronize_srcu(&raw mut bindings::tracepoint_srcu);
        }
    }
}

/// # Safety
///
/// Only as a probe of `write_msr`, with the object of a [`Registration<T>`].
unsafe extern "C" fn probe<T: Observer>(data: *mut c_void, msr: c_uint, _: u64, failed: c_int) {
    if failed == 0 && T::matters(msr) {
        // SAFETY: As promised, the registration's object is there.
        let observer = unsafe { &*data.cast::<T>() };
        on_this_cpu(|cpu| observer.written(cpu));
    }
}
