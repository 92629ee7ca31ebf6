// SPDX-License-Identifier: GPL-2.0

//! What this CPU's PMU can do, as CPUID says.
//!
//! Intel SDM volume 3, "Architectural Performance Monitoring", and volume 2, CPUID leaf 0AH.

use core::arch::x86_64::{
    __cpuid,
    __cpuid_count, //
};

use crate::event;

/// The leaf that describes the PMU.
const LEAF_PMU: u32 = 0x0a;

/// CPUID.01H:ECX.PDCM: IA32_PERF_CAPABILITIES exists.
const PDCM: u32 = 1 << 15;

/// Why there is no PMU that we can program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The vendor is not Intel: other PMUs have other registers.
    NotIntel,
    /// Leaf 0AH is absent or all zero.
    NoPmu,
    /// The version has no GLOBAL_CTRL, or is newer than we know.
    Version(u8),
}

/// A PMU with GLOBAL_CTRL (version 2 to 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pmu {
    /// The general-purpose counters, at least 1.
    pub(crate) counters: u8,
    /// The bits in each, at most 64.
    pub(crate) width: u8,
    /// Whether fixed-function counters, and so FIXED_CTR_CTRL, exist.
    pub(crate) fixed: bool,
    /// Whether IA32_PERF_CAPABILITIES exists.
    pub(crate) perf_capabilities: bool,
    /// The architectural events that are announced as absent, by their bits in EBX.
    absent: u8,
}

/// The architectural events (unit mask and event select) in the order of their bits in
/// CPUID.0AH:EBX: "Pre-Defined Architectural Performance Events".
const ARCHITECTURAL_EVENTS: [u64; 7] = [
    event::CORE_CYCLES,
    event::INSTRUCTIONS_RETIRED,
    0x013c, // UnHalted Reference Cycles
    0x4f2e, // LLC Reference
    0x412e, // LLC Misses
    0x00c4, // Branch Instruction Retired
    0x00c5, // Branch Misses Retired
];

impl Pmu {
    /// Asks this CPU.
    pub(crate) fn detect() -> Result<Self, Missing> {
        // SAFETY: Every x86-64 CPU has CPUID and these two leaves.
        let (vendor, features) = unsafe { (__cpuid(0), __cpuid(1)) };

        // "GenuineIntel", in the order EBX, EDX, ECX.
        if [vendor.ebx, vendor.edx, vendor.ecx] != [0x756e_6547, 0x4965_6e69, 0x6c65_746e] {
            return Err(Missing::NotIntel);
        }
        if vendor.eax < LEAF_PMU {
            return Err(Missing::NoPmu);
        }
        // SAFETY: The leaf exists, as just checked.
        let pmu = unsafe { __cpuid_count(LEAF_PMU, 0) };

        Self::from_leaf(pmu.eax, pmu.ebx, pmu.edx, features.ecx & PDCM != 0)
    }

    /// Reads leaf 0AH's registers.
    fn from_leaf(eax: u32, ebx: u32, edx: u32, perf_capabilities: bool) -> Result<Self, Missing> {
        let [version, counters, width, events] = eax.to_le_bytes();

        if version == 0 || counters == 0 || width == 0 {
            return Err(Missing::NoPmu);
        }
        if !(2..=5).contains(&version) {
            return Err(Missing::Version(version));
        }
        // EAX[31:24] is the number of bits in EBX that mean something.
        let announced = u32::MAX.checked_shr(32 - u32::from(events.min(32)));
        Ok(Self {
            counters,
            width: width.min(64),
            fixed: edx & 0x1f != 0,
            perf_capabilities,
            absent: (ebx & announced.unwrap_or(0)) as u8,
        })
    }

    /// Whether `code`'s event select and unit mask are an architectural event that is announced as
    /// absent: it would never count.
    pub(crate) fn lacks(&self, code: u64) -> bool {
        ARCHITECTURAL_EVENTS
            .iter()
            .enumerate()
            .any(|(bit, &event)| code & 0xffff == event && self.absent >> bit & 1 != 0)
    }

    /// An event that moves whenever this CPU executes: what a self-test may count.
    pub(crate) fn certain_event(&self) -> u64 {
        match self.lacks(event::CORE_CYCLES) {
            false => event::CORE_CYCLES,
            true => event::INSTRUCTIONS_RETIRED,
        }
    }
}

// KUnit's in the kernel, the ordinary harness's on the host.
#[cfg_attr(not(test), kernel::macros::kunit_tests(pmu_count_cpuid))]
mod tests {
    use super::*;

    #[test]
    fn a_common_pmu_is_read() {
        assert_eq!(
            Pmu::from_leaf(0x0730_0404, 0, 0x603, true),
            Ok(Pmu {
                counters: 4,
                width: 48,
                fixed: true,
                perf_capabilities: true,
                absent: 0,
            })
        );
    }

    #[test]
    fn versions_without_a_gate_or_unknown_are_named() {
        let version = |v: u8| Pmu::from_leaf(0x0730_0400 | u32::from(v), 0, 0, false).map(|_| ());
        assert_eq!(version(0), Err(Missing::NoPmu));
        assert_eq!(version(1), Err(Missing::Version(1)));
        for known in 2..=5 {
            assert_eq!(version(known), Ok(()));
        }
        assert_eq!(version(6), Err(Missing::Version(6)));
        assert_eq!(version(255), Err(Missing::Version(255)));
    }

    #[test]
    fn no_counter_is_no_pmu() {
        assert_eq!(
            Pmu::from_leaf(0x0730_0002, 0, 0, false),
            Err(Missing::NoPmu)
        );
        assert_eq!(
            Pmu::from_leaf(0x0700_0402, 0, 0, false),
            Err(Missing::NoPmu)
        );
    }

    #[test]
    fn absent_events_are_known() {
        let lacks = |eax, ebx, code| Pmu::from_leaf(eax, ebx, 0, false).map(|pmu| pmu.lacks(code));
        assert_eq!(lacks(0x0730_0402, 0b101_1000, 0x00c5), Ok(true));
        assert_eq!(lacks(0x0730_0402, 0b101_1000, 0x412e), Ok(true));
        assert_eq!(lacks(0x0730_0402, 0b101_1000, 0x0100_4f2e), Ok(true));
        assert_eq!(lacks(0x0730_0402, 0b101_1000, 0x00c4), Ok(false));
        // An event of this model, not of the architecture.
        assert_eq!(lacks(0x0730_0402, 0xff, 0x01c5), Ok(false));
        // Bits beyond EAX[31:24] say nothing.
        assert_eq!(lacks(0x0630_0402, 0x7f, 0x00c5), Ok(false));
        assert_eq!(lacks(0x0030_0402, 0x7f, 0x003c), Ok(false));
    }

    #[test]
    fn the_self_test_takes_an_event_that_is_there() {
        let event = |ebx| Pmu::from_leaf(0x0730_0402, ebx, 0, false).map(|pmu| pmu.certain_event());
        assert_eq!(event(0), Ok(event::CORE_CYCLES));
        assert_eq!(event(1), Ok(event::INSTRUCTIONS_RETIRED));
        assert_eq!(event(2), Ok(event::CORE_CYCLES));
    }
}
