// SPDX-License-Identifier: GPL-2.0

//! Following tasks across the CPUs, as a registration that ends with its value.
//!
//! C header: [`include/linux/sched/hook.h`](srctree/include/linux/sched/hook.h), which our kernel
//! patch adds.

use core::{
    marker::PhantomPinned,
    ptr::null_mut, //
};

use kernel::{
    bindings,
    container_of,
    current,
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

/// Who is told of followed tasks.
pub(crate) trait Follower: Send + Sync + Sized + 'static {
    /// This CPU runs one of them from now on.
    ///
    /// A switch between two of them is no event; the same may be said twice in a row. Called in a
    /// context switch, at a task's exit, and by IPI at the registration's beginning and end; maybe
    /// with the raw runqueue lock held: no sleep, no wake-up, no printk, no panic.
    fn arrived(cpu: &ThisCpu);

    /// It runs none any more. Called as above, and also instead of it when the registration ends.
    fn left(cpu: &ThisCpu);

    /// The last of the tasks that were meant exits; those that they have made may live. Called
    /// once at most, in that task, before its parent can learn of it, under `rcu_read_lock()`: no
    /// sleep.
    fn dead(&self);

    /// The registration ends while one of the tasks that were meant lives, and nothing is called
    /// any more.
    fn left_alive(&self);
}

/// Who is followed.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Only the one thread, and not all of its process, of now and of later.
    pub(crate) thread: bool,
    /// Also what they make from now on, and what that makes: processes, and threads of those.
    pub(crate) inherit: bool,
}

/// The marks of followed tasks.
struct Marks {
    /// Of those that are meant.
    meant: bindings::sched_mark,
    /// Of those that they have made.
    made: bindings::sched_mark,
}

/// Tasks that are followed until this is dropped.
///
/// # Invariants
///
/// `marks.meant` is registered with `HOOK`.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: Follower> {
    #[pin]
    marks: Opaque<Marks>,
    follower: Arc<T>,
    /// Tasks point to `marks`.
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The only fields of the marks that change are atomic.
unsafe impl<T: Follower> Send for Registration<T> {}
// SAFETY: As above.
unsafe impl<T: Follower> Sync for Registration<T> {}

impl<T: Follower> Registration<T> {
    const HOOK: &'static bindings::sched_hook = &bindings::sched_hook {
        in_: Some(arrived::<T>),
        out: Some(left::<T>),
    };

    /// Follows `task` and whoever else `scope` says.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another module has the hooks, `ESRCH` if all whom it would follow are exiting.
    pub(crate) fn new(
        follower: Arc<T>,
        task: ARef<Task>,
        scope: Scope,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // Before the marks, by which it is found.
            follower,
            _pin: PhantomPinned,
            // INVARIANT: It is registered when this has succeeded.
            marks <- Opaque::try_ffi_init(move |marks: *mut Marks| {
                // SAFETY: The memory is ours, pinned, and stays until `PinnedDrop` unregisters
                // it.
                unsafe {
                    let [meant, made] = [&raw mut (*marks).meant, &raw mut (*marks).made];
                    let children = if scope.inherit { made } else { null_mut() };
                    meant.write(bindings::sched_mark {
                        thread: if scope.thread { children } else { meant },
                        child: children,
                        dead: Some(dead::<T>),
                        tasks: bindings::atomic_t::default(),
                    });
                    made.write(bindings::sched_mark {
                        thread: made,
                        child: made,
                        dead: None,
                        tasks: bindings::atomic_t::default(),
                    });
                    to_result(bindings::sched_hook_register(
                        Self::HOOK,
                        meant,
                        task.as_ptr(),
                        match scope.thread {
                            true => bindings::pid_type_PIDTYPE_PID,
                            false => bindings::pid_type_PIDTYPE_TGID,
                        },
                    ))
                }
            }),
        }? Error)
    }
}

#[pinned_drop]
impl<T: Follower> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The marks are there.
        let meant = unsafe { &raw mut (*self.marks.get()).meant };
        // SAFETY: By the type invariant. Nothing is called after this.
        if unsafe { bindings::sched_hook_unregister(Self::HOOK, meant) } {
            self.follower.left_alive();
        }
    }
}

/// Whether the current task is followed, or being taken on or left.
pub(crate) fn current_is_followed() -> bool {
    // SAFETY: The task is valid, and the field is a word that changes at once.
    unsafe {
        !(&raw const (*current!().as_ptr()).sched_mark)
            .read_volatile()
            .is_null()
    }
}

/// # Safety
///
/// Only as `sched_hook.in`: interrupts are off.
unsafe extern "C" fn arrived<T: Follower>() {
    // SAFETY: As promised.
    T::arrived(&unsafe { ThisCpu::assume() });
}

/// # Safety
///
/// Only as `sched_hook.out`: interrupts are off.
unsafe extern "C" fn left<T: Follower>() {
    // SAFETY: As promised.
    T::left(&unsafe { ThisCpu::assume() });
}

/// # Safety
///
/// Only as `sched_mark.dead` of a [`Registration<T>`]'s first mark.
unsafe extern "C" fn dead<T: Follower>(meant: *mut bindings::sched_mark) {
    // SAFETY: As promised, it is within a registration, which stays as long as its marks may be
    // used, and whose follower was set before they were registered.
    let registration = unsafe {
        let marks = container_of!(meant, Marks, meant);
        &*container_of!(Opaque::cast_from(marks), Registration<T>, marks)
    };
    registration.follower.dead();
}
