// SPDX-License-Identifier: GPL-2.0

//! The local APIC's entry for PMIs: where an overflow is delivered.
//!
//! Intel SDM volume 3, chapter "Advanced Programmable Interrupt Controller", "Local Vector Table".
//!
//! C header: [`arch/x86/include/asm/apic.h`](srctree/arch/x86/include/asm/apic.h)

use kernel::{
    bindings,
    prelude::*, //
};

use crate::smp::ThisCpu;

extern "C" {
    /// The driver of the local APIC in its mode, xAPIC or x2APIC.
    static apic: *const bindings::apic;
}

/// LVT Performance Monitoring Counters Register.
const LVTPC: u32 = 0x340;
/// [`LVTPC`]: delivery mode NMI, not masked.
pub(crate) const NMI: u32 = 0x400;

/// [`LVTPC`]: an interrupt is on its way to the CPU. Read only.
const DELIVERY_STATUS: u32 = 1 << 12;

/// Reads LVTPC, all that can be written there.
///
/// # Errors
///
/// `ENODEV` if there is no local APIC.
pub(crate) fn lvtpc(_: &ThisCpu) -> Result<u32> {
    // SAFETY: The pointer is set at boot, and a driver's operations never change.
    let read = unsafe { apic.as_ref() }.and_then(|driver| driver.read);
    // SAFETY: Every local APIC of a CPU with a PMU has this register.
    let value = read.map(|read| unsafe { read(LVTPC) });
    Ok(value.ok_or(ENODEV)? & !DELIVERY_STATUS)
}

/// Writes LVTPC: [`NMI`], or what was read there.
#[inline]
pub(crate) fn set_lvtpc(value: u32, _: &ThisCpu) {
    // SAFETY: As above.
    if let Some(write) = unsafe { apic.as_ref() }.and_then(|driver| driver.write) {
        // SAFETY: As above. Without a local APIC nothing was read, and we are not called.
        unsafe { write(LVTPC, value) };
    }
}
