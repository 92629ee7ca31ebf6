// SPDX-License-Identifier: GPL-2.0

//! The PMU's model-specific registers: addresses and access, on this CPU only.
//!
//! Addresses and names are those of the Intel SDM volume 4, layouts those of volume 3, chapter
//! "Performance Monitoring".
//!
//! C header: [`arch/x86/include/asm/msr.h`](srctree/arch/x86/include/asm/msr.h)

use core::arch::asm;

use kernel::prelude::*;

use crate::{
    bindings,
    placement::{
        Place,
        FIXED,
        GENERAL, //
    },
    smp::ThisCpu, //
};

/// A register of the PMU.
///
/// # Invariants
///
/// It is one of this file's: whatever is written there changes what is counted, and no memory.
#[derive(Clone, Copy)]
pub(crate) struct Msr(u32);

/// IA32_PMC0: general-purpose counter 0; the others lie behind it. Writes take 32 bits and sign-extend
/// them.
const PMC0: Msr = Msr(0x0c1);
/// IA32_A_PMC0: the same counters, written at their full width. Exist with [`FULL_WIDTH_WRITE`].
const A_PMC0: Msr = Msr(0x4c1);
/// IA32_FIXED_CTR0: fixed-function counter 0; the others lie behind it. Written at their full width.
const FIXED_CTR0: Msr = Msr(0x309);
/// IA32_BIOS_SIGN_ID: every Intel CPU has it, and a 0 written there does nothing, but for who is
/// just asking for the microcode's revision.
pub(crate) const NOWHERE: Msr = Msr(0x08b);
/// IA32_PERF_CAPABILITIES. Exists with CPUID.01H:ECX.PDCM.
pub(crate) const PERF_CAPABILITIES: Msr = Msr(0x345);
/// IA32_PERFEVTSEL0: what general-purpose counter 0 counts; the others lie behind it.
const PERFEVTSEL0: Msr = Msr(0x186);
/// IA32_FIXED_CTR_CTRL: four bits for each fixed-function counter; 1:0 of them enable it.
pub(crate) const FIXED_CTR_CTRL: Msr = Msr(0x38d);
/// IA32_PERF_GLOBAL_STATUS: a bit says that its counter has overflowed; they lie as in
/// [`GLOBAL_CTRL`].
pub(crate) const GLOBAL_STATUS: Msr = Msr(0x38e);
/// IA32_PERF_GLOBAL_CTRL: bit n lets general-purpose counter n run, bit 32+n fixed-function counter n.
pub(crate) const GLOBAL_CTRL: Msr = Msr(0x38f);
/// IA32_PERF_GLOBAL_STATUS_SET: a 1 sets that bit of GLOBAL_STATUS. Exists from version 4 on.
pub(crate) const GLOBAL_STATUS_SET: Msr = Msr(0x391);
/// IA32_PERF_GLOBAL_OVF_CTRL (IA32_PERF_GLOBAL_STATUS_RESET from version 4 on): a 1 clears that
/// bit of GLOBAL_STATUS.
pub(crate) const GLOBAL_OVF_CTRL: Msr = Msr(0x390);

/// GLOBAL_STATUS.CTR_FRZ: all counters are stopped. Exists from version 4 on.
pub(crate) const CTR_FRZ: u64 = 1 << 59;
/// [`PERF_CAPABILITIES`]`[13]` (FW_WRITE): IA32_A_PMCx exist.
pub(crate) const FULL_WIDTH_WRITE: u64 = 1 << 13;

/// IA32_DEBUGCTL, of which only [`set_freeze_on_pmi`] touches one bit.
const DEBUGCTL: Msr = Msr(0x1d9);
/// IA32_DEBUGCTL.FREEZE_PERFMON_ON_PMI: a PMI clears GLOBAL_CTRL.
const FREEZE_PERFMON_ON_PMI: u64 = 1 << 12;

/// The event selects that lie behind one another.
pub(crate) const PERFEVTSELS: usize = 10;

/// IA32_PERFEVTSEL`index`: what counter `index` counts, if it has one of the addresses that lie
/// behind one another.
pub(crate) const fn perfevtsel(index: u8) -> Option<Msr> {
    match (index as usize) < PERFEVTSELS {
        // INVARIANT: Up to 18FH they are event selects.
        true => Some(Msr(PERFEVTSEL0.0 + index as u32)),
        false => None,
    }
}

/// IA32_PERFEVTSELx of a general-purpose counter, FIXED_CTR_CTRL of one of fixed function.
pub(crate) const fn select(place: Place) -> Msr {
    match place.as_fixed() {
        // INVARIANT: There are `GENERAL` of them behind one another.
        None => Msr(PERFEVTSEL0.0 + place.index() as u32),
        Some(_) => FIXED_CTR_CTRL,
    }
}

/// A counter, as it is best written: IA32_A_PMCx if general-purpose ones take a `full_width` write.
pub(crate) const fn counter(place: Place, full_width: bool) -> Msr {
    // INVARIANT: There are `GENERAL` and `FIXED` of them behind one another.
    match (place.as_fixed(), full_width) {
        (None, false) => Msr(PMC0.0 + place.index() as u32),
        (None, true) => Msr(A_PMC0.0 + place.index() as u32),
        (Some(number), _) => Msr(FIXED_CTR0.0 + number as u32),
    }
}

/// Whether `value` in the register of this address may change what some counter counts that we may
/// use.
#[inline]
pub(crate) fn of_pmu(address: u32, value: u64) -> bool {
    let behind = |first: Msr, number: u8| address.wrapping_sub(first.0) < u32::from(number);
    behind(PERFEVTSEL0, GENERAL)
        || behind(PMC0, GENERAL)
        || behind(A_PMC0, GENERAL)
        || behind(FIXED_CTR0, FIXED)
        || address == FIXED_CTR_CTRL.0
        || of_all_counters(address, value)
}

/// Whether `value` in the register of this address may change what each counter counts.
pub(crate) fn of_all_counters(address: u32, value: u64) -> bool {
    [GLOBAL_CTRL, GLOBAL_OVF_CTRL, GLOBAL_STATUS_SET]
        .iter()
        .any(|msr| msr.0 == address)
        // The kernel writes DEBUGCTL itself, for a debugger that steps, but not this bit.
        || address == DEBUGCTL.0 && value & FREEZE_PERFMON_ON_PMI != 0
}

/// Whether the register of this address is that counter, or selects what it counts.
pub(crate) fn of_counter(address: u32, place: Place) -> bool {
    [
        select(place),
        counter(place, false),
        counter(place, true), //
    ]
    .iter()
    .any(|msr| msr.0 == address)
}

/// Whether PMIs stop all counters by themselves.
pub(crate) fn freezes_on_pmi(cpu: &ThisCpu) -> bool {
    DEBUGCTL
        .try_read(cpu)
        .is_ok_and(|debugctl| debugctl & FREEZE_PERFMON_ON_PMI != 0)
}

/// Lets PMIs stop all counters by themselves or not.
///
/// # Errors
///
/// `EIO` if the CPU refuses (#GP).
pub(crate) fn set_freeze_on_pmi(freeze: bool, cpu: &ThisCpu) -> Result {
    if freeze == freezes_on_pmi(cpu) {
        return Ok(());
    }
    let debugctl = DEBUGCTL.try_read(cpu)?;
    DEBUGCTL.try_write(debugctl ^ FREEZE_PERFMON_ON_PMI, cpu)
}

impl Msr {
    /// The register of this address.
    ///
    /// # Safety
    ///
    /// [`Msr::address`] must have given it.
    #[inline(always)]
    pub(crate) const unsafe fn at(address: u32) -> Self {
        // INVARIANT: As the caller promises.
        Self(address)
    }

    /// Its address.
    #[inline(always)]
    pub(crate) const fn address(self) -> u32 {
        self.0
    }

    /// Reads a register that may not be there. Not from NMIs, which the return from a #GP would let in.
    ///
    /// # Errors
    ///
    /// `EIO` if the CPU refuses (#GP).
    pub(crate) fn try_read(self, _: &ThisCpu) -> Result<u64> {
        // EAX, ECX, EDX, EBX, ESP (unused), EBP, ESI, EDI.
        let mut regs = [0, self.0, 0, 0, 0, 0, 0, 0];
        // SAFETY: `regs` has the eight elements that the function reads and writes, and it
        // survives a #GP.
        match unsafe { bindings::rdmsr_safe_regs(regs.as_mut_ptr()) } {
            0 => Ok(u64::from(regs[2]) << 32 | u64::from(regs[0])),
            _ => Err(EIO),
        }
    }

    /// Writes a register that may not be there, or may not take `value`. Not from NMIs, as above.
    ///
    /// # Errors
    ///
    /// `EIO` if the CPU refuses (#GP).
    pub(crate) fn try_write(self, value: u64, _: &ThisCpu) -> Result {
        let [low, high] = halves(value);
        let mut regs = [low, self.0, high, 0, 0, 0, 0, 0];
        // SAFETY: As above; by the type invariant the write changes no memory.
        match unsafe { bindings::wrmsr_safe_regs(regs.as_mut_ptr()) } {
            0 => Ok(()),
            _ => Err(EIO),
        }
    }

    /// Reads the register.
    ///
    /// # Safety
    ///
    /// The register must exist on this CPU.
    #[inline(always)]
    pub(crate) unsafe fn read(self, cpu: &ThisCpu) -> u64 {
        // SAFETY: As the caller promises.
        let [low, high] = unsafe { self.read_halves(cpu) };
        u64::from(high) << 32 | u64::from(low)
    }

    /// The same, as [`halves()`].
    ///
    /// # Safety
    ///
    /// As for [`Msr::read`].
    #[inline(always)]
    pub(crate) unsafe fn read_halves(self, _: &ThisCpu) -> [u32; 2] {
        let (low, high): (u32, u32);
        // SAFETY: The caller promises that this does not fault; nothing else is changed.
        unsafe {
            asm!(
                "rdmsr",
                in("ecx") self.0,
                out("eax") low,
                out("edx") high,
                options(nostack, preserves_flags),
            )
        };
        [low, high]
    }

    /// Writes the register.
    ///
    /// # Safety
    ///
    /// The register must exist on this CPU, and `value` have no bit that is reserved there.
    #[inline(always)]
    pub(crate) unsafe fn write(self, value: u64, cpu: &ThisCpu) {
        // SAFETY: As the caller promises.
        unsafe { self.write_halves(halves(value), cpu) };
    }

    /// The same, from [`halves()`].
    ///
    /// # Safety
    ///
    /// As for [`Msr::write`].
    #[inline(always)]
    pub(crate) unsafe fn write_halves(self, [low, high]: [u32; 2], _: &ThisCpu) {
        // SAFETY: The caller promises that this does not fault; by the type invariant it changes
        // no memory. It is no `nomem`: no access may move past the start or stop of a counter.
        unsafe {
            asm!(
                "wrmsr",
                in("ecx") self.0,
                in("eax") low,
                in("edx") high,
                options(nostack, preserves_flags),
            )
        };
    }
}

/// EAX's and EDX's part of `value`.
#[inline(always)]
pub(crate) const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Reads the counter that [`Place::rdpmc`] gives this number, all bits that it has.
///
/// # Safety
///
/// The counter must exist on this CPU.
#[inline(always)]
pub(crate) unsafe fn rdpmc(index: u32, _: &ThisCpu) -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: The caller promises that the counter exists; CPL 0 may read it whatever CR4.PCE is.
    unsafe {
        asm!(
            "rdpmc",
            in("ecx") index,
            out("rax") low,
            out("rdx") high,
            options(nostack, preserves_flags),
        )
    };
    high << 32 | low
}

/// The kernel's reservation of [`PERFEVTSEL0`], which keeps perf out as long as it is held.
///
/// C file: [`arch/x86/kernel/cpu/perfctr-watchdog.c`]
/// (srctree/arch/x86/kernel/cpu/perfctr-watchdog.c)
pub(crate) struct Reservation(());

impl Reservation {
    /// Reserves the register.
    ///
    /// # Errors
    ///
    /// `EBUSY` while perf or the NMI watchdog has an event.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Has no precondition. It returns 1 for "yours".
        match unsafe { bindings::reserve_evntsel_nmi(PERFEVTSEL0.0) } {
            1 => Ok(Self(())),
            _ => Err(EBUSY),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: It is ours.
        unsafe { bindings::release_evntsel_nmi(PERFEVTSEL0.0) };
    }
}
