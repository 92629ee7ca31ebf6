// SPDX-License-Identifier: GPL-2.0

//! The scheduler's tracepoints in place of the hooks that our kernel patch adds, as a registration that ends
//! with its value.
//!
//! `sched_switch` lies before the switch, so that all of it is the next task's. Whoever is not followed pays for a
//! look into the table of marks, twice in each switch.
//!
//! C headers: [`include/trace/events/sched.h`](srctree/include/trace/events/sched.h),
//! [`include/trace/events/task.h`](srctree/include/trace/events/task.h)

use core::{
    iter::successors,
    ptr::{
        eq,
        from_ref,
        null,
        null_mut, //
    },
};

use kernel::{
    container_of,
    current,
    ffi::c_uint,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        barrier::{
            self,
            smp_mb, //
        },
        rcu, //
    },
    task::Task, //
};

use crate::{
    bindings,
    marks::Marks,
    pid::process,
    sched_hook::{
        Mark,
        Switch, //
    },
    smp::{
        on_this_cpu,
        per_cpu,
        ThisCpu, //
    },
    tracepoint::{
        Probes,
        Tracepoint, //
    },
};

/// Where [`current_mark()`] finds the marks of the only [`Registration`], null without one.
static MARKS: Atomic<*mut c_void> = Atomic::new(null_mut());

per_cpu! {
    /// The task that is coming, while its mark's arrival is told, null otherwise: it is not current yet.
    static COMING: *const Task = null();
}

/// The probes, ours until this is dropped. No task must be marked any more then.
pub(crate) struct Registration<M: Mark> {
    // Dropped before what they use.
    _probes: Probes,
    marks: KBox<Marks<M>>,
}

impl<M: Mark> Registration<M> {
    /// Has the probes called from now on.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the kernel lacks a tracepoint, `ENOMEM`.
    pub(crate) fn new<S: Switch<M>>() -> Result<Self> {
        let marks = KBox::new(Marks::<M>::new()?, GFP_KERNEL)?;
        let data = from_ref(&*marks).cast_mut().cast::<c_void>();
        let mut probes = Probes::new();
        for (name, function) in [
            (c"task_newtask", made::<M> as *mut c_void),
            (c"sched_process_exec", execed::<S, M> as *mut c_void),
            (c"sched_process_exit", exited::<S, M> as *mut c_void),
            (c"sched_switch", switched::<S, M> as *mut c_void),
        ] {
            // SAFETY: Each function has its tracepoint's arguments, and the marks stay for longer than the probes.
            unsafe { probes.add(Tracepoint::find(name)?, function, data) }?;
        }
        MARKS.store(data, Relaxed);
        Ok(Self {
            _probes: probes,
            marks,
        })
    }

    /// Follows all threads of the process of `task`, or it alone (`one`), those that do not exit yet,
    /// each with the mark that `mark` says, which must not sleep. Returns how many there were. CPUs that
    /// run one of them already are not told.
    ///
    /// # Errors
    ///
    /// `EEXIST` if one of them is followed already; nothing was done then. `ENOMEM`: some may be followed.
    pub(crate) fn follow<'a, F>(&self, task: &Task, one: bool, mut mark: F) -> Result<c_int>
    where
        F: FnMut(&Task) -> &'a M,
    {
        let guard = rcu::read_lock();
        let meant = || threads_of(task, &guard).filter(|&thread| !one || eq(thread, task));
        if meant().any(|thread| self.marks.has(thread)) {
            return Err(EEXIST);
        }
        let (mut followed, mut taken) = (0, false);
        // Whoever is made by one that has a mark gets one in `made()`; all others are found here, as the list grows at
        // its end.
        for thread in meant().filter(|&thread| !exits(thread)) {
            match self.marks.enter(thread) {
                Ok(()) => {
                    self.set(thread, mark(thread));
                    followed += 1;
                }
                Err(EEXIST) => taken = true,
                Err(error) => return Err(error),
            }
        }
        match (followed, taken) {
            // Its maker is followed by somebody else, just since.
            (0, true) => Err(EEXIST),
            _ => Ok(followed),
        }
    }

    /// Gives a task that has been entered its mark. One that exits meanwhile has missed it in [`exited()`], or has it
    /// taken off there or here.
    fn set(&self, task: &Task, mark: &M) {
        let is_set = self.marks.change(task, None, Some(mark));
        let taken = match (is_set, exits(task)) {
            (false, _) => Some(mark),
            (true, true) => self.marks.remove(task),
            (true, false) => None,
        };
        if let Some(mark) = taken {
            mark.exited(task);
        }
    }

    /// Calls `f` with each followed task and its mark; it must not sleep.
    pub(crate) fn for_each<F: FnMut(&Task, &M)>(&self, f: F) {
        self.marks.for_each(f);
    }

    /// Takes the mark off a task, if it is this one. A CPU that runs it is not told.
    pub(crate) fn forget(&self, task: &Task, mark: &M) -> bool {
        let is_off = self.marks.change(task, Some(mark), None);
        if is_off {
            self.marks.remove(task);
        }
        is_off
    }
}

impl<M: Mark> Drop for Registration<M> {
    fn drop(&mut self) {
        MARKS.store(null_mut(), Relaxed);
    }
}

/// The mark of the current task, or of the one whose arrival is just being told.
///
/// # Safety
///
/// There must be a [`Registration<M>`].
pub(crate) unsafe fn current_mark<M: Mark>(cpu: &ThisCpu) -> Option<&M> {
    let coming = COMING::get(cpu);
    let task = match coming.is_null() {
        true => from_ref::<Task>(current!()),
        false => coming,
    };
    // SAFETY: As promised. No grace period ends while interrupts are off here, and marks stay.
    unsafe {
        let marks = MARKS.load(Relaxed).cast::<Marks<M>>().as_ref()?;
        marks.get(task)
    }
}

/// Whether `task` is on its way out; from then on it may have passed [`exited()`].
fn exits(task: &Task) -> bool {
    // SAFETY: The task is valid, and the field is a word, which it writes itself.
    let flags = unsafe { (&raw const (*task.as_ptr()).flags).read_volatile() };
    flags & bindings::PF_EXITING != 0
}

/// The threads of the process of `task`.
fn threads_of<'a>(task: &'a Task, _: &'a rcu::Guard) -> impl Iterator<Item = &'a Task> {
    // SAFETY: The task is valid, and so is its process.
    let head = unsafe { &raw const (*(*task.as_ptr()).signal).thread_head };
    let following = move |node: *const bindings::list_head| {
        // SAFETY: It is the list's head or one of its nodes, and links stay as long as the guard does.
        let next = unsafe { (&raw const (*node).next).read_volatile() }.cast_const();
        (next != head).then_some(next)
    };
    successors(following(head), move |&node| following(node)).map(|node| {
        // SAFETY: Each node is a task's, which stays as long as the guard does.
        unsafe { &*container_of!(node, bindings::task_struct, thread_node).cast::<Task>() }
    })
}

/// # Safety
///
/// Only as a probe of `sched_switch`, with marks: `prev` and `next` are tasks, and interrupts are off.
unsafe extern "C" fn switched<S: Switch<M>, M: Mark>(
    marks: *mut c_void,
    _preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    _prev_state: c_uint,
) {
    let coming = next.cast_const().cast::<Task>();
    // SAFETY: As promised: no grace period ends meanwhile, and marks stay.
    let (prev, next, cpu) = unsafe {
        let marks = &*marks.cast::<Marks<M>>();
        (marks.get(prev.cast()), marks.get(coming), ThisCpu::assume())
    };
    if prev.is_some() {
        S::left(next, cpu);
    }
    if let Some(mark) = next.filter(|&mark| !prev.is_some_and(|prev| eq(prev, mark))) {
        COMING::set(coming, cpu);
        S::arrived(mark, cpu);
        COMING::set(null(), cpu);
    }
}

/// # Safety
///
/// Only as a probe of `task_newtask`, with marks: `child` is a task, which the current one has made and which has not
/// run.
unsafe extern "C" fn made<M: Mark>(
    marks: *mut c_void,
    child: *mut bindings::task_struct,
    _flags: u64,
) {
    // SAFETY: As promised.
    let (marks, child) = unsafe { (&*marks.cast::<Marks<M>>(), &*child.cast::<Task>()) };
    let _guard = rcu::read_lock();
    // The child is in the list of its process's threads. `follow()` marks, and looks on in that list: so it finds the
    // child, or the mark is seen here.
    smp_mb(barrier::Full);
    // SAFETY: As the guard says.
    let Some(mark) = (unsafe { marks.get(from_ref::<Task>(current!())) }) else {
        return;
    };
    if !mark.wants(child) {
        return;
    }
    match marks.enter(child) {
        Ok(()) => {
            let new = mark.forked(child);
            marks.change(child, None, new);
            // If all marks were being taken off and its own was not there yet, its parent's is gone.
            // SAFETY: As the guard says.
            let is_alone = unsafe { marks.get(from_ref::<Task>(current!())) }.is_none();
            if new.is_none() || is_alone {
                if let Some(mark) = marks.remove(child) {
                    mark.exited(child);
                }
            }
        }
        // `follow()` has found it, as one of the threads that it follows.
        Err(EEXIST) if process(child) == process(current!()) => {}
        Err(_) => mark.missed(),
    }
}

/// # Safety
///
/// Only as a probe of `sched_process_exec`, with marks: the current task is `program` from now on.
unsafe extern "C" fn execed<S: Switch<M>, M: Mark>(
    marks: *mut c_void,
    _task: *mut bindings::task_struct,
    _old_pid: bindings::pid_t,
    program: *mut bindings::linux_binprm,
) {
    // SAFETY: As promised.
    let (marks, program) = unsafe { (&*marks.cast::<Marks<M>>(), &*program) };
    let _guard = rcu::read_lock();
    // SAFETY: As the guard says.
    let Some(old) = (unsafe { marks.get(from_ref::<Task>(current!())) }) else {
        return;
    };
    let is_secret = program.interp_flags & bindings::BINPRM_FLAGS_ENFORCE_NONDUMP != 0;
    let new = old.execed(program.secureexec() != 0 || is_secret);
    if new.is_some_and(|new| eq(new, old)) {
        return;
    }
    on_this_cpu(|cpu| {
        // Otherwise it was taken off meanwhile.
        if marks.change(current!(), Some(old), new) {
            match new {
                Some(new) => S::arrived(new, cpu),
                None => {
                    marks.remove(current!());
                    S::left(None, cpu);
                }
            }
        }
    });
}

/// # Safety
///
/// Only as a probe of `sched_process_exit`, with marks: the current task exits, and its parent does not know yet.
unsafe extern "C" fn exited<S: Switch<M>, M: Mark>(
    marks: *mut c_void,
    _task: *mut bindings::task_struct,
    _group_dead: bool,
) {
    // SAFETY: As promised.
    let marks = unsafe { &*marks.cast::<Marks<M>>() };
    let _guard = rcu::read_lock();
    let mark = on_this_cpu(|cpu| {
        let mark = marks.remove(current!())?;
        S::left(None, cpu);
        Some(mark)
    });
    if let Some(mark) = mark {
        mark.exited(current!());
    }
}
