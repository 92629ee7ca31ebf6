// SPDX-License-Identifier: GPL-2.0

//! Being on a CPU, and being on all of them.
//!
//! C header: [`include/linux/smp.h`](srctree/include/linux/smp.h)

use core::{
    cell::UnsafeCell,
    ptr::{
        from_mut,
        from_ref, //
    }, //
};

use kernel::{
    bindings,
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    fmt,
    interrupt::local_interrupt_disable,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::NotThreadSafe, //
};

/// Proof that the code stays on the CPU where it is: interrupts are off there, or it is an NMI.
///
/// # Invariants
///
/// As long as it exists, the code that holds it is not moved to another CPU.
pub(crate) struct ThisCpu(NotThreadSafe);

impl ThisCpu {
    /// Claims what the caller knows.
    ///
    /// # Safety
    ///
    /// For as long as the value exists interrupts must be off on this CPU.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Self {
        // INVARIANT: Nothing is scheduled while interrupts are off.
        Self(NotThreadSafe)
    }

    /// This CPU's number, below `nr_cpu_ids`.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        CpuId::current().as_u32() as usize
    }
}

/// Calls `f` on this CPU with interrupts off.
pub(crate) fn on_this_cpu<T>(f: impl FnOnce(&ThisCpu) -> T) -> T {
    let _off = local_interrupt_disable();
    // SAFETY: `_off` lives longer than the token, and its C function disables them on any kernel.
    f(&unsafe { ThisCpu::assume() })
}

/// The CPUs that may ever come online.
pub(crate) fn possible_cpus() -> impl Iterator<Item = u32> {
    0..nr_cpu_ids()
}

/// Calls `f` on the CPU of this number with interrupts off, and waits for it. `None` if that CPU is
/// not online.
///
/// Does not sleep. Must not be called with interrupts off.
pub(crate) fn on_cpu<T: Send>(number: u32, f: impl Fn(&ThisCpu) -> T + Sync) -> Option<T> {
    let mut returned = None;
    let mut call = |cpu: &ThisCpu| returned = Some(f(cpu));
    // SAFETY: What `call` refers to may be used on another CPU, and lives until that is over.
    unsafe { call_on_cpu(number, &mut call) };
    returned
}

/// # Safety
///
/// `f` may be called on another CPU.
unsafe fn call_on_cpu<F: FnMut(&ThisCpu)>(number: u32, f: &mut F) {
    // SAFETY: `call_mut` gets back the reference that it wants, and the call is waited for (`wait`).
    unsafe {
        bindings::smp_call_function_single(
            number as c_int,
            Some(call_mut::<F>),
            from_mut(f).cast(),
            true,
        )
    };
}

/// # Safety
///
/// Only for [`call_on_cpu`]: `f` is a reference to an `F`, and interrupts are off.
unsafe extern "C" fn call_mut<F: FnMut(&ThisCpu)>(f: *mut c_void) {
    // SAFETY: As promised.
    let f = unsafe { &mut *f.cast::<F>() };
    // SAFETY: As promised, until the end of this function.
    f(&unsafe { ThisCpu::assume() });
}

/// Calls `f` on every CPU that is online, with interrupts off, and waits for all of them.
///
/// Does not sleep. Must not be called with interrupts off.
pub(crate) fn on_each_cpu<F: Fn(&ThisCpu) + Sync>(f: F) {
    // SAFETY: `call` gets back the reference that it wants, and `f` lives until all calls are over,
    // as is waited for (`wait`).
    unsafe {
        bindings::on_each_cpu_cond_mask(
            None,
            Some(call::<F>),
            from_ref(&f).cast_mut().cast(),
            true,
            &raw const bindings::__cpu_online_mask,
        )
    };
}

/// # Safety
///
/// Only for [`on_each_cpu`]: `f` is a reference to an `F`, and interrupts are off.
unsafe extern "C" fn call<F: Fn(&ThisCpu) + Sync>(f: *mut c_void) {
    // SAFETY: As promised.
    let f = unsafe { &*f.cast_const().cast::<F>() };
    // SAFETY: As promised, until the end of this function.
    f(&unsafe { ThisCpu::assume() });
}

/// One `T` for each CPU, that only this CPU gets at.
pub(crate) struct PerCpu<T>(KVec<Line<T>>);

// SAFETY: Each `T` is used by one CPU only, the one that `get()` was called on, and is fit for that.
unsafe impl<T: NmiSafe> Sync for PerCpu<T> {}

/// What a CPU may use while an NMI that interrupts it uses it, too.
///
/// # Safety
///
/// Whatever the two do, neither sees a half of what the other has written.
pub(crate) unsafe trait NmiSafe: Send {}

/// Keeps the neighbours' writes off a CPU's cache line (64 bytes on every x86-64).
#[repr(align(64))]
#[derive(Default)]
struct Line<T>(T);

impl<T: Default + NmiSafe> PerCpu<T> {
    /// One for each CPU that may ever come online.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let cpus = nr_cpu_ids();
        let mut lines = KVec::with_capacity(cpus as usize, GFP_KERNEL)?;
        for _ in 0..cpus {
            lines.push(Line::default(), GFP_KERNEL)?;
        }
        Ok(Self(lines))
    }

    /// This CPU's. There always is one; the `Option` spares the NMI path a panic.
    #[inline(always)]
    pub(crate) fn get<'a>(&'a self, cpu: &'a ThisCpu) -> Option<&'a T> {
        self.0.get(cpu.index()).map(|line| &line.0)
    }
}

/// A value that a CPU shares with the NMIs that interrupt it.
///
/// Like [`core::cell::Cell`], but each access happens, and where it stands.
#[derive(Default)]
pub(crate) struct NmiCell<T: Copy>(UnsafeCell<T>);

impl<T: Copy> NmiCell<T> {
    /// The value; `T` must be no wider than a register, lest an NMI see half of it.
    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        const { assert!(size_of::<T>() <= size_of::<usize>()) };
        // SAFETY: It is no `Sync`: nobody but this CPU uses it, by single accesses.
        unsafe { self.0.get().read_volatile() }
    }

    /// Replaces the value.
    #[inline(always)]
    pub(crate) fn set(&self, value: T) {
        const { assert!(size_of::<T>() <= size_of::<usize>()) };
        // SAFETY: As in `get()`.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// A word that all CPUs read and few write, each access by itself.
pub(crate) struct Shared<T: Copy>(NmiCell<T>);

// SAFETY: Each access is one of a register's width, as in `NmiCell`: nobody sees half of a value.
unsafe impl<T: Copy + Send> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// For a `static`.
    pub(crate) const fn new(value: T) -> Self {
        Self(NmiCell(UnsafeCell::new(value)))
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        self.0.get()
    }

    /// Replaces the value.
    #[inline(always)]
    pub(crate) fn set(&self, value: T) {
        self.0.set(value);
    }
}

/// A set of CPUs that only grows.
pub(crate) struct CpuSet(KVec<Atomic<bool>>);

impl CpuSet {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let mut members = KVec::new();
        for _ in possible_cpus() {
            members.push(Atomic::new(false), GFP_KERNEL)?;
        }
        Ok(Self(members))
    }

    /// Adds this CPU; an NMI may.
    pub(crate) fn insert(&self, cpu: &ThisCpu) {
        if let Some(member) = self.0.get(cpu.index()) {
            member.store(true, Relaxed);
        }
    }

    /// Whether the CPU of this number is in it.
    fn contains(&self, number: usize) -> bool {
        self.0
            .get(number)
            .is_some_and(|member| member.load(Relaxed))
    }

    /// Whether it has no member.
    pub(crate) fn is_empty(&self) -> bool {
        !self.0.iter().any(|member| member.load(Relaxed))
    }
}

/// `0,2-3`, as the kernel writes lists of CPUs.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let mut number = 0;
        while number < self.0.len() {
            let first = number;
            while self.contains(number) {
                number += 1;
            }
            match number - first {
                0 => {}
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{}", number - 1)?,
            }
            if number > first {
                comma = ",";
            }
            number += 1;
        }
        Ok(())
    }
}
