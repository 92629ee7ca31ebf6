// SPDX-License-Identifier: GPL-2.0

//! A handler of NMIs, as a registration that ends with its value.
//!
//! C header: [`arch/x86/include/asm/nmi.h`](srctree/arch/x86/include/asm/nmi.h)

use core::{
    ffi::{
        c_int,
        c_uint,
        CStr, //
    },
    marker::PhantomData, //
};

use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

use crate::{
    bindings,
    smp::ThisCpu, //
};

/// What a handler says of an NMI.
///
/// Linux passes each NMI to all handlers. One that nobody claims is reported as unknown, and for
/// each that was claimed beyond the first one following NMI is forgiven.
pub(crate) enum Return {
    /// It was not ours.
    Done,
    /// It was ours.
    Handled,
}

/// A handler of this CPU's NMIs (`NMI_LOCAL`).
pub(crate) trait Handler: 'static {
    /// The handler's name, under which it is registered: no other may have the same.
    const NAME: &'static CStr;

    /// Called for each NMI, on the CPU that takes it, whatever it was doing: no lock, no
    /// allocation, no printk, no panic.
    fn handle(cpu: &ThisCpu) -> Return;
}

/// A handler that is called until this is dropped.
///
/// # Invariants
///
/// `action` is registered as `T::NAME`.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: Handler> {
    #[pin]
    action: Opaque<bindings::nmiaction>,
    handler: PhantomData<fn() -> T>,
}

// SAFETY: The kernel's list of handlers has a lock of its own.
unsafe impl<T: Handler> Send for Registration<T> {}
// SAFETY: A shared reference can do nothing.
unsafe impl<T: Handler> Sync for Registration<T> {}

impl<T: Handler> Registration<T> {
    /// Has the handler called from now on.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        // INVARIANT: It is registered when this has succeeded.
        try_pin_init!(Self {
            handler: PhantomData,
            action <- Opaque::try_ffi_init(|action: *mut bindings::nmiaction| {
                // SAFETY: The memory is ours, pinned, and stays until `PinnedDrop`, which
                // unregisters it. An empty list is a head that points to itself.
                unsafe {
                    let list = &raw mut (*action).list;
                    action.write(bindings::nmiaction {
                        list: bindings::list_head { next: list, prev: list },
                        handler: Some(callback::<T>),
                        max_duration: 0,
                        flags: 0,
                        name: T::NAME.as_char_ptr(),
                    });
                    to_result(bindings::__register_nmi_handler(bindings::NMI_LOCAL, action))
                }
            }),
        }? Error)
    }
}

#[pinned_drop]
impl<T: Handler> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant this finds our action; it waits for running handlers.
        unsafe { bindings::unregister_nmi_handler(bindings::NMI_LOCAL, T::NAME.as_char_ptr()) };
    }
}

/// # Safety
///
/// Only as an `nmiaction`'s handler.
unsafe extern "C" fn callback<T: Handler>(_: c_uint, _: *mut bindings::pt_regs) -> c_int {
    // SAFETY: An NMI handler runs with interrupts off.
    let cpu = unsafe { ThisCpu::assume() };
    match T::handle(cpu) {
        Return::Done => bindings::NMI_DONE as c_int,
        Return::Handled => bindings::NMI_HANDLED as c_int,
    }
}
