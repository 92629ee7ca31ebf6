// SPDX-License-Identifier: GPL-2.0

//! The machine going to sleep, waking up and going down, as a registration that ends with its value.
//!
//! All CPUs but the last go offline before the machine sleeps, and come back after (`cpuhp.rs`); the
//! last one loses its registers just so.
//!
//! C headers: [`include/linux/syscore_ops.h`](srctree/include/linux/syscore_ops.h),
//! [`include/linux/reboot.h`](srctree/include/linux/reboot.h)

use core::ptr::null_mut;

use kernel::{
    container_of,
    error::to_result,
    ffi::{
        c_int,
        c_ulong, //
    },
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

use crate::{
    bindings,
    smp::ThisCpu, //
};

/// What is done when the machine sleeps, wakes up or goes down.
pub(crate) trait Callbacks: Send + Sync + Sized + 'static {
    /// Called on the last CPU before the machine sleeps; interrupts are off.
    fn sleeps(&self, cpu: &ThisCpu);

    /// Called there when it has woken up, before the other CPUs come online; interrupts are off.
    fn wakes(&self, cpu: &ThisCpu);

    /// The machine reboots, starts another kernel by kexec, halts or powers off; all CPUs are still
    /// online.
    fn goes_down(&self);
}

/// What the kernel links into its lists.
struct Links {
    syscore: bindings::syscore,
    reboot: bindings::notifier_block,
}

/// Callbacks that are called until this is dropped.
///
/// # Invariants
///
/// `links` are registered, and `links.syscore.data` is a reference to `callbacks`' object.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: Callbacks> {
    #[pin]
    links: Opaque<Links>,
    // Dropped after `PinnedDrop` has waited for the last call.
    _callbacks: Arc<T>,
}

// SAFETY: The kernel's lists have locks of their own.
unsafe impl<T: Callbacks> Send for Registration<T> {}
// SAFETY: A shared reference can do nothing.
unsafe impl<T: Callbacks> Sync for Registration<T> {}

impl<T: Callbacks> Registration<T> {
    /// What the last CPU does.
    const SYSCORE: &'static bindings::syscore_ops = &bindings::syscore_ops {
        suspend: Some(suspend::<T>),
        resume: Some(resume::<T>),
        shutdown: None,
    };

    /// Has `callbacks` called from now on.
    ///
    /// # Errors
    ///
    /// `EEXIST`, which cannot be: what is registered is new.
    pub(crate) fn new(callbacks: Arc<T>) -> impl PinInit<Self, Error> {
        let data = Arc::as_ptr(&callbacks).cast_mut().cast();
        // INVARIANT: They are registered when this has succeeded.
        try_pin_init!(Self {
            _callbacks: callbacks,
            links <- Opaque::try_ffi_init(move |links: *mut Links| {
                // SAFETY: The memory is ours, pinned, and stays until `PinnedDrop`, which
                // unregisters it; so does the object.
                unsafe {
                    links.write(Links {
                        syscore: bindings::syscore {
                            node: bindings::list_head::default(),
                            ops: Self::SYSCORE,
                            data,
                        },
                        reboot: bindings::notifier_block {
                            notifier_call: Some(reboot::<T>),
                            next: null_mut(),
                            priority: 0,
                        },
                    });
                    to_result(bindings::register_reboot_notifier(&raw mut (*links).reboot))?;
                    bindings::register_syscore(&raw mut (*links).syscore);
                    Ok::<(), Error>(())
                }
            }),
        }? Error)
    }
}

#[pinned_drop]
impl<T: Callbacks> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        let links = self.links.get();
        // SAFETY: By the type invariant. Nothing else runs while those of `syscore` do; the other waits for
        // running callbacks.
        unsafe {
            bindings::unregister_syscore(&raw mut (*links).syscore);
            bindings::unregister_reboot_notifier(&raw mut (*links).reboot);
        }
    }
}

/// # Safety
///
/// Only as `syscore_ops.suspend` of a [`Registration<T>`]: interrupts are off.
unsafe extern "C" fn suspend<T: Callbacks>(data: *mut c_void) -> c_int {
    // SAFETY: By the registration's invariant, and as promised.
    let (callbacks, cpu) = unsafe { (&*data.cast::<T>(), ThisCpu::assume()) };
    callbacks.sleeps(cpu);
    0
}

/// # Safety
///
/// Only as `syscore_ops.resume` of a [`Registration<T>`]: interrupts are off.
unsafe extern "C" fn resume<T: Callbacks>(data: *mut c_void) {
    // SAFETY: As above.
    let (callbacks, cpu) = unsafe { (&*data.cast::<T>(), ThisCpu::assume()) };
    callbacks.wakes(cpu);
}

/// # Safety
///
/// Only as `notifier_call` of a [`Registration<T>`].
unsafe extern "C" fn reboot<T: Callbacks>(
    reboot: *mut bindings::notifier_block,
    _: c_ulong,
    _: *mut c_void,
) -> c_int {
    // SAFETY: As promised, `reboot` is a field of `Links`, beside the one that has the object.
    let callbacks = unsafe {
        &*(*container_of!(reboot, Links, reboot))
            .syscore
            .data
            .cast::<T>()
    };
    callbacks.goes_down();
    bindings::NOTIFY_DONE as c_int
}
