// SPDX-License-Identifier: GPL-2.0

//! Being on a CPU, and being on all of them.
//!
//! C header: [`include/linux/smp.h`](srctree/include/linux/smp.h)

use core::{
    arch::asm,
    cell::{
        Cell,
        UnsafeCell, //
    },
    ptr::{
        from_ref,
        NonNull, //
    }, //
};

use kernel::{
    alloc::Flags,
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    fmt,
    interrupt::local_interrupt_disable,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    types::NotThreadSafe, //
};

use crate::bindings;

/// Proof that the code stays on the CPU where it is: interrupts are off there.
///
/// # Invariants
///
/// As long as it exists, the code that holds it is not moved to another CPU.
pub(crate) struct ThisCpu(NotThreadSafe);

impl ThisCpu {
    /// Claims what the caller knows. It takes no place, not on the stack either.
    ///
    /// # Safety
    ///
    /// For as long as the reference is used interrupts must be off on this CPU.
    #[inline(always)]
    pub(crate) unsafe fn assume<'a>() -> &'a Self {
        // INVARIANT: Nothing is scheduled while interrupts are off.
        // SAFETY: There is nothing to point to.
        unsafe { NonNull::dangling().as_ref() }
    }

    /// This CPU's number, below `nr_cpu_ids`.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        CpuId::current().as_u32() as usize
    }
}

/// Whether interrupts are off, as they are in an NMI.
fn interrupts_are_off() -> bool {
    /// RFLAGS.IF.
    const IF: u64 = 1 << 9;
    let flags: u64;
    // SAFETY: Reads the flags by way of the stack, which the kernel's code may use.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags & IF == 0
}

/// Calls `f` on this CPU with interrupts off. From any context, NMIs included.
pub(crate) fn on_this_cpu<T>(f: impl FnOnce(&ThisCpu) -> T) -> T {
    if interrupts_are_off() {
        // SAFETY: As just seen; only `f` could turn them on, and it must not.
        return f(unsafe { ThisCpu::assume() });
    }
    let _off = local_interrupt_disable();
    // SAFETY: `_off` lives longer than the token, and its C function disables them on any kernel.
    f(unsafe { ThisCpu::assume() })
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
    let returned = Cell::new(None);
    let f = |cpu: &ThisCpu| returned.set(Some(f(cpu)));
    let (call, argument) = as_callback(&f);
    // SAFETY: The callback gets its own argument. `f` and what it refers to live until the call is over,
    // as is waited for (`wait`), and nobody else uses them meanwhile.
    unsafe { bindings::smp_call_function_single(number as c_int, call, argument, true) };
    returned.into_inner()
}

/// Calls `f` on every CPU that is online, with interrupts off, and waits for all of them.
///
/// Does not sleep. Must not be called with interrupts off.
pub(crate) fn on_each_cpu<F: Fn(&ThisCpu) + Sync>(f: F) {
    let (call, argument) = as_callback(&f);
    // SAFETY: The callback gets its own argument, and `f` lives until all calls are over, as is waited
    // for (`wait`).
    unsafe {
        bindings::on_each_cpu_cond_mask(
            None,
            call,
            argument,
            true,
            &raw const bindings::__cpu_online_mask,
        )
    };
}

/// `f` as the kernel calls functions on CPUs: a callback and the argument that it wants, which is good
/// as long as `f` is. It must be called with interrupts off.
fn as_callback<F: Fn(&ThisCpu)>(f: &F) -> (bindings::smp_call_func_t, *mut c_void) {
    /// # Safety
    ///
    /// `f` is a reference to an `F`, and interrupts are off.
    unsafe extern "C" fn call<F: Fn(&ThisCpu)>(f: *mut c_void) {
        // SAFETY: As promised.
        let f = unsafe { &*f.cast_const().cast::<F>() };
        // SAFETY: As promised, until the end of this function.
        f(unsafe { ThisCpu::assume() });
    }
    (Some(call::<F>), from_ref(f).cast_mut().cast())
}

/// One `T` for each CPU, that only this CPU gets at.
pub(crate) struct PerCpu<T>(KVVec<Line<T>>);

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
        let mut lines = KVVec::new();
        for _ in possible_cpus() {
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

/// A word that a CPU shares with the NMIs that interrupt it.
///
/// Like [`core::cell::Cell`], but each access happens, at once, and where it stands.
#[derive(Default)]
pub(crate) struct NmiCell(UnsafeCell<u64>);

impl NmiCell {
    /// The value.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        // SAFETY: It is no `Sync`: nobody but this CPU uses it, by single instructions.
        unsafe { self.0.get().read_volatile() }
    }

    /// Replaces the value.
    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        // SAFETY: As in `get()`.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// Defines a word of which each CPU has its own, as a type with functions for all that is done to it.
///
/// It is what `DEFINE_PER_CPU()` makes, found by the CPU's GS base. No other CPU gets at it, and an access is
/// one instruction: to an NMI it is done or not begun, and a context switch can afford it, where an array
/// takes several and an `Atomic` a call.
///
/// C header: [`include/linux/percpu-defs.h`](srctree/include/linux/percpu-defs.h)
macro_rules! per_cpu {
    ($(#[$doc:meta])* static $name:ident: u32 = $initial:expr;) => {
        $crate::smp::per_cpu!(@ ":e", "dword", $(#[$doc])* $name, u32, $initial);
    };
    ($(#[$doc:meta])* static $name:ident: $type:ty = $initial:expr;) => {
        $crate::smp::per_cpu!(@ ":r", "qword", $(#[$doc])* $name, $type, $initial);
    };
    (@ $register:literal, $size:literal, $(#[$doc:meta])* $name:ident, $type:ty, $initial:expr) => {
        $(#[$doc])*
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        struct $name;

        const _: () = {
            /// What the kernel copies for each CPU when it loads the module. Never used itself.
            #[link_section = ".data..percpu"]
            static mut INITIAL: $type = $initial;

            // No word needs all of these.
            #[allow(dead_code)]
            impl $name {
                /// This CPU's value.
                #[inline(always)]
                fn get(_: &$crate::smp::ThisCpu) -> $type {
                    let value;
                    // SAFETY: As the section is what it is, this reads the CPU's own copy.
                    unsafe {
                        core::arch::asm!(
                            concat!("mov {value", $register, "}, gs:[rip + {initial}]"),
                            value = out(reg) value,
                            initial = sym INITIAL,
                            options(nostack, preserves_flags, readonly),
                        )
                    };
                    value
                }

                /// Replaces this CPU's value.
                #[inline(always)]
                fn set(value: $type, _: &$crate::smp::ThisCpu) {
                    // SAFETY: As above; nobody else uses it.
                    unsafe {
                        core::arch::asm!(
                            concat!("mov gs:[rip + {initial}], {value", $register, "}"),
                            value = in(reg) value,
                            initial = sym INITIAL,
                            options(nostack, preserves_flags),
                        )
                    };
                }

                /// Replaces this CPU's value by a constant.
                #[inline(always)]
                fn set_to<const VALUE: i32>(_: &$crate::smp::ThisCpu) {
                    // SAFETY: As above.
                    unsafe {
                        core::arch::asm!(
                            concat!("mov ", $size, " ptr gs:[rip + {initial}], {value}"),
                            value = const VALUE,
                            initial = sym INITIAL,
                            options(nostack, preserves_flags),
                        )
                    };
                }

                /// Whether this CPU's value is this one.
                #[inline(always)]
                fn is(value: $type, _: &$crate::smp::ThisCpu) -> bool {
                    // SAFETY: As for reading.
                    unsafe {
                        core::arch::asm!(
                            concat!("cmp gs:[rip + {initial}], {value", $register, "}"),
                            "jne {differs}",
                            value = in(reg) value,
                            initial = sym INITIAL,
                            differs = label { return false },
                            options(nostack, readonly),
                        )
                    };
                    true
                }

                /// `value` less this CPU's.
                #[inline(always)]
                fn taken_from(mut value: $type, _: &$crate::smp::ThisCpu) -> $type {
                    // SAFETY: As for reading.
                    unsafe {
                        core::arch::asm!(
                            concat!("sub {value", $register, "}, gs:[rip + {initial}]"),
                            value = inout(reg) value,
                            initial = sym INITIAL,
                            options(nostack, readonly),
                        )
                    };
                    value
                }

                /// `value` with those bits inverted that are set in this CPU's.
                #[inline(always)]
                fn inverted_in(mut value: $type, _: &$crate::smp::ThisCpu) -> $type {
                    // SAFETY: As for reading.
                    unsafe {
                        core::arch::asm!(
                            concat!("xor {value", $register, "}, gs:[rip + {initial}]"),
                            value = inout(reg) value,
                            initial = sym INITIAL,
                            options(nostack, readonly),
                        )
                    };
                    value
                }

                /// Adds to this CPU's value, at once for NMIs.
                #[inline(always)]
                fn add(more: $type, _: &$crate::smp::ThisCpu) {
                    // SAFETY: As for writing.
                    unsafe {
                        core::arch::asm!(
                            concat!("add gs:[rip + {initial}], {more", $register, "}"),
                            more = in(reg) more,
                            initial = sym INITIAL,
                            options(nostack),
                        )
                    };
                }

                /// Adds 1 to this CPU's value, at once for NMIs.
                #[inline(always)]
                fn increment(_: &$crate::smp::ThisCpu) {
                    // SAFETY: As for writing.
                    unsafe {
                        core::arch::asm!(
                            concat!("inc ", $size, " ptr gs:[rip + {initial}]"),
                            initial = sym INITIAL,
                            options(nostack),
                        )
                    };
                }

                /// Takes from this CPU's value, at once for NMIs.
                #[inline(always)]
                fn subtract(less: $type, _: &$crate::smp::ThisCpu) {
                    // SAFETY: As for writing.
                    unsafe {
                        core::arch::asm!(
                            concat!("sub gs:[rip + {initial}], {less", $register, "}"),
                            less = in(reg) less,
                            initial = sym INITIAL,
                            options(nostack),
                        )
                    };
                }
            }
        };
    };
}
pub(crate) use per_cpu;

/// A set of CPUs.
pub(crate) struct CpuSet(KVec<Atomic<bool>>);

impl CpuSet {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(flags: Flags) -> Result<Self> {
        let cpus = nr_cpu_ids() as usize;
        let mut members = KVec::with_capacity(cpus, flags)?;
        for _ in 0..cpus {
            members.push(Atomic::new(false), flags)?;
        }
        Ok(Self(members))
    }

    /// Adds this CPU; an NMI may.
    pub(crate) fn insert(&self, cpu: &ThisCpu) {
        self.set(cpu.index(), true);
    }

    /// Removes this CPU.
    pub(crate) fn remove(&self, cpu: &ThisCpu) {
        self.set(cpu.index(), false);
    }

    /// Adds the CPU of this number.
    pub(crate) fn add(&self, number: usize) {
        self.set(number, true);
    }

    /// Hands over the number of each CPU, and then removes it.
    pub(crate) fn drain(&self, mut to: impl FnMut(usize)) {
        for (number, member) in self.0.iter().enumerate() {
            if member.load(Relaxed) {
                to(number);
                // Who does not see it any more sees what was done with it.
                member.store(false, Release);
            }
        }
    }

    /// Adds the CPUs of another set.
    pub(crate) fn extend(&self, other: &Self) {
        other.iter().for_each(|number| self.set(number, true));
    }

    /// Removes all.
    pub(crate) fn clear(&self) {
        self.iter().for_each(|number| self.set(number, false));
    }

    fn set(&self, number: usize, is_member: bool) {
        if let Some(member) = self.0.get(number) {
            member.store(is_member, Relaxed);
        }
    }

    /// Whether the CPU of this number is in it.
    fn contains(&self, number: usize) -> bool {
        self.0
            .get(number)
            .is_some_and(|member| member.load(Acquire))
    }

    /// The CPUs' numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len()).filter(|&number| self.contains(number))
    }

    /// Whether it has no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
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
