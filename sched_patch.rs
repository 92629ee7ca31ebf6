// SPDX-License-Identifier: GPL-2.0

//! The hooks that our kernel patch adds, as a registration that ends with its value.
//!
//! C header: [`include/linux/sched/hook.h`](srctree/include/linux/sched/hook.h)

use core::{
    marker::PhantomData,
    ptr::{
        from_mut,
        from_ref,
        null_mut, //
    },
};

use kernel::{
    current,
    error::to_result,
    prelude::*,
    sync::atomic::{
        Atomic,
        Full, //
    },
    task::Task, //
};

use crate::{
    bindings,
    sched_hook::{
        Mark,
        Switch, //
    },
    smp::ThisCpu, //
};

/// The hooks, ours until this is dropped. No task must be marked any more then.
pub(crate) struct Registration<M: Mark>(PhantomData<fn() -> M>);

/// What is registered.
struct Hook<S, M>(PhantomData<(S, M)>);

impl<S: Switch<M>, M: Mark> Hook<S, M> {
    const HOOK: &'static bindings::sched_hook = &bindings::sched_hook {
        in_: Some(arrived::<S, M>),
        out: Some(left::<S, M>),
        fork: Some(forked::<M>),
        exec: Some(execed::<M>),
        exit: Some(exited::<M>),
    };
}

impl<M: Mark> Registration<M> {
    /// Takes the hooks.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another module has them.
    pub(crate) fn new<S: Switch<M>>() -> Result<Self> {
        // SAFETY: The callbacks are there until `Drop`.
        to_result(unsafe { bindings::sched_hook_register(Hook::<S, M>::HOOK) })?;
        Ok(Self(PhantomData))
    }

    /// Follows all threads of the process of `task`, or it alone (`one`), those that do not exit yet,
    /// each with the mark that `mark` says, which must not sleep. Returns how many there were. CPUs that
    /// run one of them already are not told.
    ///
    /// # Errors
    ///
    /// `EEXIST` if one of them is followed already; nothing was done then.
    pub(crate) fn follow<'a, F>(&self, task: &Task, one: bool, mark: F) -> Result<c_int>
    where
        F: FnMut(&Task) -> &'a M,
    {
        /// # Safety
        ///
        /// `t` is a task, and `mark` a reference to an `F`.
        unsafe extern "C" fn call<'a, M: Mark, F: FnMut(&Task) -> &'a M>(
            t: *mut bindings::task_struct,
            mark: *mut c_void,
        ) -> *mut c_void {
            // SAFETY: As promised; a `Task` is a `task_struct`.
            let (task, mark) = unsafe { (&*t.cast::<Task>(), &mut *mark.cast::<F>()) };
            as_pointer(Some(mark(task)))
        }
        let mut mark = mark;
        let kind = match one {
            true => bindings::pid_type_PIDTYPE_PID,
            false => bindings::pid_type_PIDTYPE_TGID,
        };
        // SAFETY: The task is one, and the callback gets its own argument.
        let followed = unsafe {
            bindings::sched_hook_follow(
                task.as_ptr(),
                kind,
                Some(call::<M, F>),
                from_mut(&mut mark).cast(),
            )
        };
        to_result(followed).map(|()| followed)
    }

    /// Calls `f` with each followed task and its mark; it must not sleep.
    pub(crate) fn for_each<F: FnMut(&Task, &M)>(&self, f: F) {
        /// # Safety
        ///
        /// `t` is a task, `mark` its mark, and `f` a reference to an `F`.
        unsafe extern "C" fn call<M: Mark, F: FnMut(&Task, &M)>(
            t: *mut bindings::task_struct,
            mark: *mut c_void,
            f: *mut c_void,
        ) {
            // SAFETY: As promised, and as marks stay.
            let (task, mark, f) =
                unsafe { (&*t.cast::<Task>(), &*mark.cast::<M>(), &mut *f.cast::<F>()) };
            f(task, mark);
        }
        let mut f = f;
        // SAFETY: The callback gets its own argument.
        unsafe { bindings::sched_hook_for_each(Some(call::<M, F>), from_mut(&mut f).cast()) };
    }

    /// Takes the mark off a task, if it is this one. A CPU that runs it is not told.
    pub(crate) fn forget(&self, task: &Task, mark: &M) -> bool {
        // SAFETY: The task is valid, and all who change the field do so at once.
        let field =
            unsafe { Atomic::from_ptr((&raw mut (*task.as_ptr()).sched_mark).cast::<*mut M>()) };
        field
            .cmpxchg(from_ref(mark).cast_mut(), null_mut(), Full)
            .is_ok()
    }
}

impl<M: Mark> Drop for Registration<M> {
    fn drop(&mut self) {
        // SAFETY: They are ours. Nothing is called after this.
        unsafe { bindings::sched_hook_unregister() };
    }
}

/// The current task's mark.
///
/// # Safety
///
/// There must be a [`Registration<M>`]: all marks are its own then.
pub(crate) unsafe fn current_mark<M: Mark>(_: &ThisCpu) -> Option<&M> {
    // SAFETY: The task is valid, and the field is a word that changes at once. It is null or an `M`, which
    // stays, as no grace period ends while interrupts are off here.
    unsafe {
        (&raw const (*current!().as_ptr()).sched_mark)
            .read_volatile()
            .cast::<M>()
            .as_ref()
    }
}

fn as_pointer<M>(mark: Option<&M>) -> *mut c_void {
    mark.map_or(null_mut(), |mark| from_ref(mark).cast_mut().cast())
}

/// # Safety
///
/// Only as `sched_hook.in`: `mark` is a mark, and interrupts are off.
unsafe extern "C" fn arrived<S: Switch<M>, M: Mark>(mark: *mut c_void) {
    // SAFETY: As promised.
    let (mark, cpu) = unsafe { (&*mark.cast::<M>(), ThisCpu::assume()) };
    S::arrived(mark, cpu);
}

/// # Safety
///
/// Only as `sched_hook.out`: `next` is a mark or null, and interrupts are off.
unsafe extern "C" fn left<S: Switch<M>, M: Mark>(next: *mut c_void) {
    // SAFETY: As promised.
    let (next, cpu) = unsafe { (next.cast::<M>().as_ref(), ThisCpu::assume()) };
    S::left(next, cpu);
}

/// # Safety
///
/// Only as `sched_hook.fork`: `mark` is a mark, and `child` a task.
unsafe extern "C" fn forked<M: Mark>(
    mark: *mut c_void,
    child: *mut bindings::task_struct,
) -> *mut c_void {
    // SAFETY: As promised.
    let (mark, child) = unsafe { (&*mark.cast::<M>(), &*child.cast::<Task>()) };
    as_pointer(mark.forked(child))
}

/// # Safety
///
/// Only as `sched_hook.exec`: `mark` is a mark.
unsafe extern "C" fn execed<M: Mark>(mark: *mut c_void, privileged: bool) -> *mut c_void {
    // SAFETY: As promised.
    as_pointer(unsafe { &*mark.cast::<M>() }.execed(privileged))
}

/// # Safety
///
/// Only as `sched_hook.exit`: `mark` is a mark, and `t` a task.
unsafe extern "C" fn exited<M: Mark>(mark: *mut c_void, t: *mut bindings::task_struct) {
    // SAFETY: As promised.
    let (mark, task) = unsafe { (&*mark.cast::<M>(), &*t.cast::<Task>()) };
    mark.exited(task);
}
