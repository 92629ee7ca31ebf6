// SPDX-License-Identifier: GPL-2.0

//! The local APIC's entry for PMIs: where an overflow is delivered.
//!
//! Intel SDM volume 3, chapter "Advanced Programmable Interrupt Controller", "Local Vector Table".
//!
//! C header: [`arch/x86/include/asm/apic.h`](srctree/arch/x86/include/asm/apic.h)

use kernel::prelude::*;

use crate::{
    bindings,
    smp::ThisCpu, //
};

extern "C" {
    /// The driver of the local APIC in its mode, xAPIC or x2APIC.
    static apic: *const bindings::apic;
}

/// Spurious Interrupt Vector Register.
const SVR: u32 = 0xf0;
/// [`SVR`]: the APIC is switched on by software; it is off on a CPU that goes offline.
const SOFTWARE_ENABLED: u32 = 1 << 8;
/// LVT Performance Monitoring Counters Register.
const LVTPC: u32 = 0x340;
/// [`LVTPC`]: delivery mode NMI, not masked.
pub(crate) const NMI: u32 = 0x400;
/// [`LVTPC`]: masked. The CPU sets it when it delivers a PMI.
const MASKED: u32 = 1 << 16;
/// [`LVTPC`]: an interrupt is on its way to the CPU. Read only.
const DELIVERY_STATUS: u32 = 1 << 12;

/// Reads a register that every local APIC of a CPU with a PMU has. `None` without a local APIC.
fn read(register: u32, _: &ThisCpu) -> Option<u32> {
    // SAFETY: The pointer is set at boot, and a driver's operations never change.
    let read = unsafe { apic.as_ref() }.and_then(|driver| driver.read);
    // SAFETY: The register is there, and reading it changes nothing.
    read.map(|read| unsafe { read(register) })
}

/// Reads LVTPC, all that can be written there.
///
/// # Errors
///
/// `ENODEV` if there is no local APIC.
pub(crate) fn lvtpc(cpu: &ThisCpu) -> Result<u32> {
    Ok(read(LVTPC, cpu).ok_or(ENODEV)? & !DELIVERY_STATUS)
}

/// Whether LVTPC is masked: the CPU has delivered a PMI, and it was not opened since.
#[cold]
#[inline(never)]
pub(crate) fn is_masked(cpu: &ThisCpu) -> bool {
    lvtpc(cpu).is_ok_and(|lvtpc| lvtpc & MASKED != 0)
}

/// Whether PMIs are delivered as NMIs, as far as the local APIC delivers anything.
pub(crate) fn delivers_nmis(cpu: &ThisCpu) -> bool {
    lvtpc(cpu) == Ok(NMI) || read(SVR, cpu).is_some_and(|svr| svr & SOFTWARE_ENABLED == 0)
}

/// What writes LVTPC, looked up once.
#[derive(Clone, Copy)]
pub(crate) struct Writer(unsafe extern "C" fn(u32, u32));

impl Writer {
    /// The driver's.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no local APIC.
    pub(crate) fn find() -> Result<Self> {
        // SAFETY: As for reading.
        let write = unsafe { apic.as_ref() }.and_then(|driver| driver.write);
        write.map(Self).ok_or(ENODEV)
    }

    /// Writes LVTPC: [`NMI`], or what was read there.
    #[inline(always)]
    pub(crate) fn set_lvtpc(self, value: u32, _: &ThisCpu) {
        // SAFETY: There is a local APIC, whose register takes both values.
        unsafe { (self.0)(LVTPC, value) };
    }
}
