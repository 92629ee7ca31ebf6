// SPDX-License-Identifier: GPL-2.0

//! The PMU's model-specific registers: addresses and access, on this CPU only.
//!
//! Addresses and names are those of the Intel SDM volume 4, layouts those of volume 3, chapter
//! "Performance Monitoring".
//!
//! C header: [`arch/x86/include/asm/msr.h`](srctree/arch/x86/include/asm/msr.h)

use core::arch::asm;

use kernel::{
    bindings,
    prelude::*, //
};

use crate::smp::ThisCpu;

/// A register of the PMU.
///
/// # Invariants
///
/// It is one of this file's: whatever is written there changes what is counted, and no memory.
#[derive(Clone, Copy)]
pub(crate) struct Msr(u32);

/// IA32_PMC0: counter 0. Writes take 32 bits and sign-extend them.
pub(crate) const PMC0: Msr = Msr(0x0c1);
/// IA32_A_PMC0: counter 0, written at its full width. Exists with [`FULL_WIDTH_WRITE`].
pub(crate) const A_PMC0: Msr = Msr(0x4c1);
/// IA32_BIOS_SIGN_ID: every Intel CPU has it, and a 0 written there does nothing, but for who is
/// just asking for the microcode's revision.
pub(crate) const NOWHERE: Msr = Msr(0x08b);
/// IA32_PERF_CAPABILITIES. Exists with CPUID.01H:ECX.PDCM.
pub(crate) const PERF_CAPABILITIES: Msr = Msr(0x345);
/// IA32_PERFEVTSEL0: what counter 0 counts.
pub(crate) const PERFEVTSEL0: Msr = Msr(0x186);
/// IA32_FIXED_CTR_CTRL: four bits for each fixed-function counter; 1:0 of them enable it.
pub(crate) const FIXED_CTR_CTRL: Msr = Msr(0x38d);
/// IA32_PERF_GLOBAL_STATUS: bit n says that counter n has overflowed.
pub(crate) const GLOBAL_STATUS: Msr = Msr(0x38e);
/// IA32_PERF_GLOBAL_CTRL: bit n lets counter n run, bit 32+n fixed-function counter n.
pub(crate) const GLOBAL_CTRL: Msr = Msr(0x38f);
/// IA32_PERF_GLOBAL_STATUS_SET: a 1 sets that bit of GLOBAL_STATUS. Exists from version 4 on.
pub(crate) const GLOBAL_STATUS_SET: Msr = Msr(0x391);
/// IA32_PERF_GLOBAL_OVF_CTRL (IA32_PERF_GLOBAL_STATUS_RESET from version 4 on): a 1 clears that
/// bit of GLOBAL_STATUS.
pub(crate) const GLOBAL_OVF_CTRL: Msr = Msr(0x390);

/// GLOBAL_STATUS.CTR_FRZ: all counters are stopped. Exists from version 4 on.
pub(crate) const CTR_FRZ: u64 = 1 << 59;
/// Counter 0's bit in [`GLOBAL_CTRL`], [`GLOBAL_STATUS`] and [`GLOBAL_OVF_CTRL`].
pub(crate) const COUNTER0: u64 = 1 << 0;
/// [`PERF_CAPABILITIES`]`[13]` (FW_WRITE): [`A_PMC0`] exists.
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

/// Whether `value` in the register of this address may change what counter 0 counts, when it is
/// somebody else who writes it.
pub(crate) fn disturbs_counter0(address: u32, value: u64) -> bool {
    let registers = [
        PMC0,
        A_PMC0,
        PERFEVTSEL0,
        GLOBAL_CTRL,
        GLOBAL_OVF_CTRL,
        GLOBAL_STATUS_SET,
    ];
    // The kernel writes DEBUGCTL itself, for a debugger that steps, but not this bit.
    registers.iter().any(|msr| msr.0 == address)
        || address == DEBUGCTL.0 && value & FREEZE_PERFMON_ON_PMI != 0
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
    /// The register of an address that [`Msr::address`] gave.
    #[inline(always)]
    pub(crate) const fn at(address: u32) -> Self {
        Self(address)
    }

    /// Its address.
    #[inline(always)]
    pub(crate) const fn address(self) -> u32 {
        self.0
    }

    /// Reads a register that may not be there.
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

    /// Writes a register that may not be there, or may not take `value`.
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
    pub(crate) unsafe fn read(self, _: &ThisCpu) -> u64 {
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
        u64::from(high) << 32 | u64::from(low)
    }

    /// Writes the register.
    ///
    /// # Safety
    ///
    /// The register must exist on this CPU, and `value` have no bit that is reserved there.
    #[inline(always)]
    pub(crate) unsafe fn write(self, value: u64, _: &ThisCpu) {
        let [low, high] = halves(value);
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
const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Reads general-purpose counter 0, all bits that it has.
///
/// # Safety
///
/// The CPU must have a PMU.
#[inline(always)]
pub(crate) unsafe fn rdpmc0(_: &ThisCpu) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: The caller promises that the counter exists; CPL 0 may read it whatever CR4.PCE is.
    unsafe {
        asm!(
            "rdpmc",
            in("ecx") 0,
            out("eax") low,
            out("edx") high,
            options(nostack, preserves_flags),
        )
    };
    u64::from(high) << 32 | u64::from(low)
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
