// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of the kernel, and probes there, as registrations that end with their value.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)

use core::{
    ffi::CStr,
    ptr::{
        from_mut,
        NonNull, //
    },
};

use kernel::{
    error::to_result,
    prelude::*, //
};

use crate::bindings;

/// A tracepoint of the kernel proper, which cannot fault and is there for good.
#[derive(Clone, Copy)]
pub(crate) struct Tracepoint(NonNull<bindings::tracepoint>);

impl Tracepoint {
    /// `write_msr`, which the kernel exports.
    pub(crate) fn write_msr() -> Self {
        // SAFETY: Only its address is taken.
        Self(unsafe { NonNull::new_unchecked(&raw mut bindings::__tracepoint_write_msr) })
    }

    /// The tracepoint of this name, exported or not.
    ///
    /// # Errors
    ///
    /// `ENODEV` if this kernel has none.
    // With our kernel patch none is looked for.
    #[cfg_attr(CONFIG_SCHED_HOOK, allow(dead_code))]
    pub(crate) fn find(name: &CStr) -> Result<Self> {
        /// What is looked for, and what was found.
        struct Search<'a>(&'a CStr, Option<Tracepoint>);

        /// # Safety
        ///
        /// `tracepoint` is one, and `search` a reference to a `Search`.
        unsafe extern "C" fn visit(tracepoint: *mut bindings::tracepoint, search: *mut c_void) {
            // SAFETY: As promised; a tracepoint's name is a string.
            let (search, name) = unsafe {
                (
                    &mut *search.cast::<Search<'_>>(),
                    CStr::from_char_ptr((*tracepoint).name),
                )
            };
            if name == search.0 {
                search.1 = NonNull::new(tracepoint).map(Tracepoint);
            }
        }
        let mut search = Search(name, None);
        // SAFETY: The callback gets its own argument.
        unsafe { bindings::for_each_kernel_tracepoint(Some(visit), from_mut(&mut search).cast()) };
        search.1.ok_or(ENODEV)
    }
}

/// A function that a tracepoint calls.
struct Probe {
    tracepoint: Tracepoint,
    function: *mut c_void,
    data: *mut c_void,
}

/// Probes, called until this is dropped, which takes one grace period for all of them.
///
/// # Invariants
///
/// They are registered.
pub(crate) struct Probes(KVec<Probe>);

// SAFETY: The kernel's list of probes has a lock of its own, and what is called is fit for any CPU.
unsafe impl Send for Probes {}
// SAFETY: A shared reference can do nothing.
unsafe impl Sync for Probes {}

impl Probes {
    /// None.
    pub(crate) const fn new() -> Self {
        // INVARIANT: None.
        Self(KVec::new())
    }

    /// Has `function` called as well from now on.
    ///
    /// # Safety
    ///
    /// It must be a function of C's that takes `data`, and then what the tracepoint gives; and whatever it does
    /// with `data` must be allowed, on any CPU, until the value is dropped.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) unsafe fn add(
        &mut self,
        tracepoint: Tracepoint,
        function: *mut c_void,
        data: *mut c_void,
    ) -> Result {
        self.0.reserve(1, GFP_KERNEL)?;
        // SAFETY: As the caller promises, and `Drop` unregisters it.
        to_result(unsafe {
            bindings::tracepoint_probe_register(tracepoint.0.as_ptr(), function, data)
        })?;
        // INVARIANT: As just done.
        let probe = Probe {
            tracepoint,
            function,
            data,
        };
        Ok(self.0.push(probe, GFP_KERNEL)?)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        for probe in &self.0 {
            // SAFETY: By the type invariant.
            unsafe {
                bindings::tracepoint_probe_unregister(
                    probe.tracepoint.0.as_ptr(),
                    probe.function,
                    probe.data,
                )
            };
        }
        // SAFETY: Probes of tracepoints that cannot fault run in sections of `tracepoint_srcu`: none is called after
        // this.
        unsafe { bindings::synchronize_srcu(&raw mut bindings::tracepoint_srcu) };
    }
}
