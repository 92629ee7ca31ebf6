// SPDX-License-Identifier: GPL-2.0

//! Following a process across the CPUs, as a registration that ends with its value.
//!
//! C header: [`include/linux/sched/hook.h`](srctree/include/linux/sched/hook.h), which our kernel
//! patch adds.

use core::marker::PhantomPinned;

use kernel::{
    bindings,
    container_of,
    error::to_result,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
    task::Task,
    types::Opaque, //
};

use crate::smp::ThisCpu;

/// What is told of the followed process.
pub(crate) trait Follower: Send + Sync + Sized + 'static {
    /// This CPU runs one of its threads from now on (`arrived`), or none any more. A switch between
    /// two of them is no event; the same may be said twice in a row.
    ///
    /// Called in a context switch, at a thread's exit, and by IPI at the registration's beginning
    /// and end; maybe with the raw runqueue lock held: no sleep, no wake-up, no printk, no panic.
    /// The CPU has been fully online.
    fn switched(arrived: bool, cpu: &ThisCpu);

    /// The last thread exits. Called once at most, in that thread, before its parent can learn of
    /// it, under `rcu_read_lock()`: no sleep.
    fn dead(&self);

    /// The registration ends while the process lives, and nothing is called any more.
    fn left_alive(&self);
}

/// A process that is followed until this is dropped.
///
/// # Invariants
///
/// `hook` is registered.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: Follower> {
    #[pin]
    hook: Opaque<bindings::sched_hook>,
    follower: Arc<T>,
    task: ARef<Task>,
    /// Threads point to `hook`.
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The hook's only field that changes is atomic.
unsafe impl<T: Follower> Send for Registration<T> {}
// SAFETY: As above.
unsafe impl<T: Follower> Sync for Registration<T> {}

impl<T: Follower> Registration<T> {
    /// Follows all threads of `task`'s process, of now and of later.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another module has the hooks, `ESRCH` if all threads are exiting.
    pub(crate) fn new(follower: Arc<T>, task: ARef<Task>) -> impl PinInit<Self, Error> {
        let raw = task.as_ptr();
        try_pin_init!(Self {
            // Before the hook, by which it is found.
            follower,
            task,
            _pin: PhantomPinned,
            // INVARIANT: It is registered when this has succeeded.
            hook <- Opaque::try_ffi_init(move |hook: *mut bindings::sched_hook| {
                // SAFETY: The memory is ours, pinned, and stays until `PinnedDrop` unregisters
                // it; so does the task.
                to_result(unsafe {
                    hook.write(bindings::sched_hook {
                        switched: Some(switched::<T>),
                        stop: Some(stop::<T>),
                        dead: Some(dead::<T>),
                        threads: bindings::atomic_t::default(),
                    });
                    bindings::sched_hook_register(hook, raw)
                })
            }),
        }? Error)
    }
}

#[pinned_drop]
impl<T: Follower> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        let (hook, task) = (self.hook.get(), self.task.as_ptr());
        // SAFETY: By the type invariant, and with the same task. Nothing is called after this.
        if unsafe { bindings::sched_hook_unregister(hook, task) } {
            self.follower.left_alive();
        }
    }
}

/// # Safety
///
/// Only as `sched_hook.switched`: interrupts are off.
unsafe extern "C" fn switched<T: Follower>(arrived: bool) {
    // SAFETY: As promised.
    T::switched(arrived, &unsafe { ThisCpu::assume() });
}

/// # Safety
///
/// Only as `sched_hook.stop`: interrupts are off.
unsafe extern "C" fn stop<T: Follower>(_: bool) {
    // SAFETY: As promised.
    T::switched(false, &unsafe { ThisCpu::assume() });
}

/// # Safety
///
/// Only as `sched_hook.dead` of a [`Registration<T>`].
unsafe extern "C" fn dead<T: Follower>(hook: *mut bindings::sched_hook) {
    // SAFETY: As promised, `hook` is the field of a registration, which stays as long as its
    // hook may be called, and whose follower was set before the hook was registered.
    let registration = unsafe { &*container_of!(Opaque::cast_from(hook), Registration<T>, hook) };
    registration.follower.dead();
}
