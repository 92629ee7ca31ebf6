// SPDX-License-Identifier: GPL-2.0

//! What this CPU's PMU can do, as CPUID says.
//!
//! Intel SDM volume 3, "Architectural Performance Monitoring", and volume 2, CPUID leaf 0AH.

use core::arch::x86_64::{
    CpuidResult, //
    __cpuid,
    __cpuid_count,
};

use crate::{
    event::{
        self,
        Event,
        ARCHITECTURAL, //
    },
    placement::Places, //
};

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
    /// The version is newer than we know.
    Version(u8),
}

/// A PMU of version 1 to 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pmu {
    version: u8,
    /// The general-purpose counters, at least 1.
    pub(crate) counters: u8,
    /// The bits in each, at most 64.
    pub(crate) width: u8,
    /// The fixed-function counters, a bit each.
    fixed: u32,
    /// The bits in each, at most 64; 0 if there is none.
    pub(crate) fixed_width: u8,
    /// Whether IA32_PERF_CAPABILITIES exists.
    pub(crate) perf_capabilities: bool,
    /// The architectural events that are announced as absent, by their bits in EBX.
    absent: u8,
}

/// The bits of the architectural events.
const KNOWN: u32 = (1 << ARCHITECTURAL.len()) - 1;

impl Pmu {
    /// Asks this CPU, which must remain the same meanwhile for an answer that is of one.
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
        // SAFETY: As above; the leaf exists, as just checked.
        let pmu = unsafe { __cpuid_count(LEAF_PMU, 0) };

        Self::from_leaf(pmu, features.ecx & PDCM != 0)
    }

    /// Reads leaf 0AH's registers.
    fn from_leaf(leaf: CpuidResult, perf_capabilities: bool) -> Result<Self, Missing> {
        let [version, counters, width, events] = leaf.eax.to_le_bytes();

        if version == 0 || counters == 0 || width == 0 {
            return Err(Missing::NoPmu);
        }
        if version > 5 {
            return Err(Missing::Version(version));
        }
        // Version 1 has none, and says nothing of them; version 5 adds a mask to their number.
        let first = (1 << (leaf.edx & 0x1f)) - 1;
        let fixed = match version {
            1 => 0,
            5 => first | leaf.ecx,
            _ => first,
        };
        let fixed_width = match fixed {
            0 => 0,
            _ => (leaf.edx >> 5) as u8,
        };
        // An event is there if its bit is 0 and among the first EAX[31:24].
        let beyond = u32::MAX.checked_shl(events.into()).unwrap_or(0);
        Ok(Self {
            version,
            counters,
            width: width.min(64),
            fixed,
            fixed_width: fixed_width.min(64),
            perf_capabilities,
            absent: ((leaf.ebx | beyond) & KNOWN) as u8,
        })
    }

    /// The counters that we may use.
    pub(crate) fn places(&self) -> Places {
        // Those that have no bits are announced by mistake.
        let fixed = match self.fixed_width {
            0 => 0,
            _ => self.fixed,
        };
        Places::new(self.counters, fixed)
    }

    /// How many general-purpose counters we may use.
    pub(crate) fn general(&self) -> u8 {
        (self.places().bits() as u32).count_ones() as u8
    }

    /// How many fixed-function counters we may use.
    pub(crate) fn fixed(&self) -> u8 {
        (self.places().bits() >> 32).count_ones() as u8
    }

    /// Whether FIXED_CTR_CTRL exists.
    pub(crate) const fn has_fixed(&self) -> bool {
        self.fixed != 0
    }

    /// Whether GLOBAL_CTRL and GLOBAL_STATUS exist.
    pub(crate) const fn has_global(&self) -> bool {
        self.version >= 2
    }

    /// Whether GLOBAL_STATUS can be set, and has CTR_FRZ, which stops the counters.
    pub(crate) const fn has_freeze_status(&self) -> bool {
        self.version >= 4
    }

    /// Whether `code`'s event select and unit mask are an architectural event that is announced as
    /// absent: it would never count.
    pub(crate) fn lacks(&self, code: u64) -> bool {
        ARCHITECTURAL
            .iter()
            .enumerate()
            .any(|(bit, event)| code & 0xffff == event.code && self.absent >> bit & 1 != 0)
    }

    /// An event that moves whenever this CPU executes in kernel mode: what a self-test may count.
    pub(crate) fn certain_event(&self) -> Event {
        match self.lacks(event::CORE_CYCLES) {
            false => Event::KERNEL_CYCLES,
            true => Event::KERNEL_INSTRUCTIONS,
        }
    }
}

// KUnit's in the kernel, the ordinary harness's on the host.
#[cfg_attr(not(test), kernel::macros::kunit_tests(pmu_count_cpuid))]
mod tests {
    use super::*;

    const fn leaf(eax: u32, ebx: u32, ecx: u32, edx: u32) -> CpuidResult {
        CpuidResult { eax, ebx, ecx, edx }
    }

    #[test]
    fn a_common_pmu_is_read() {
        assert_eq!(
            Pmu::from_leaf(leaf(0x0730_0404, 0, 0, 0x603), true),
            Ok(Pmu {
                version: 4,
                counters: 4,
                width: 48,
                fixed: 0b111,
                fixed_width: 48,
                perf_capabilities: true,
                absent: 0,
            })
        );
    }

    #[test]
    fn versions_that_are_unknown_are_named() {
        let version = |version: u8| {
            let pmu = Pmu::from_leaf(leaf(0x0730_0400 | u32::from(version), 0, 0, 0), false);
            pmu.map(|pmu| (pmu.has_global(), pmu.has_freeze_status()))
        };
        assert_eq!(version(0), Err(Missing::NoPmu));
        assert_eq!(version(1), Ok((false, false)));
        assert_eq!(version(2), Ok((true, false)));
        assert_eq!(version(3), Ok((true, false)));
        assert_eq!(version(4), Ok((true, true)));
        assert_eq!(version(5), Ok((true, true)));
        assert_eq!(version(6), Err(Missing::Version(6)));
        assert_eq!(version(255), Err(Missing::Version(255)));
    }

    #[test]
    fn fixed_counters_are_found_where_the_version_tells_them() {
        let fixed = |version: u32, ecx, edx| {
            let pmu = Pmu::from_leaf(leaf(0x0730_0400 | version, 0, ecx, edx), false);
            pmu.map(|pmu| {
                let places = pmu.places().bits() >> 32;
                assert_eq!(u32::from(pmu.fixed()), places.count_ones());
                (pmu.has_fixed(), places)
            })
        };
        assert_eq!(fixed(1, 0, 0x603), Ok((false, 0)));
        assert_eq!(fixed(2, 0, 0x603), Ok((true, 0b111)));
        assert_eq!(fixed(2, 0, 0x602), Ok((true, 0b11)));
        assert_eq!(fixed(2, 0, 0x600), Ok((false, 0)));
        assert_eq!(fixed(2, 0, 0x61f), Ok((true, 0b111)));
        assert_eq!(fixed(4, 0b100, 0x600), Ok((false, 0)));
        assert_eq!(fixed(5, 0b100, 0x600), Ok((true, 0b100)));
        assert_eq!(fixed(5, 0b100, 0x601), Ok((true, 0b101)));
        assert_eq!(fixed(5, 0, 0x603), Ok((true, 0b111)));
        assert_eq!(fixed(5, 0, 0x8600), Ok((false, 0)));
        // There, but none that we know, or none that has bits.
        assert_eq!(fixed(5, 0b1000, 0x600), Ok((true, 0)));
        assert_eq!(fixed(2, 0, 0x003), Ok((true, 0)));
    }

    #[test]
    fn each_kind_of_counter_has_its_width() {
        let widths = |version: u32, edx| {
            let pmu = Pmu::from_leaf(leaf(0x0728_0400 | version, 0, 0, edx), false);
            pmu.map(|pmu| (pmu.width, pmu.fixed_width))
        };
        assert_eq!(widths(1, 0x603), Ok((40, 0)));
        assert_eq!(widths(2, 0x603), Ok((40, 48)));
        assert_eq!(widths(2, 0x600), Ok((40, 0)));
        assert_eq!(widths(2, 0x1fe3), Ok((40, 64)));
    }

    #[test]
    fn general_purpose_counters_are_used_as_far_as_they_lie_behind_one_another() {
        let general = |number: u32| {
            let pmu = Pmu::from_leaf(leaf(0x0730_0002 | number << 8, 0, 0, 0), false);
            pmu.map(|pmu| {
                let places = pmu.places().bits();
                assert_eq!(u32::from(pmu.general()), places.count_ones());
                places
            })
        };
        assert_eq!(general(1), Ok(0b1));
        assert_eq!(general(4), Ok(0b1111));
        assert_eq!(general(8), Ok(0xff));
        assert_eq!(general(9), Ok(0xff));
        assert_eq!(general(255), Ok(0xff));
    }

    #[test]
    fn no_counter_is_no_pmu() {
        assert_eq!(
            Pmu::from_leaf(leaf(0x0730_0002, 0, 0, 0), false),
            Err(Missing::NoPmu)
        );
        assert_eq!(
            Pmu::from_leaf(leaf(0x0700_0402, 0, 0, 0), false),
            Err(Missing::NoPmu)
        );
    }

    #[test]
    fn absent_events_are_known() {
        let lacks =
            |eax, ebx, code| Pmu::from_leaf(leaf(eax, ebx, 0, 0), false).map(|pmu| pmu.lacks(code));
        assert_eq!(lacks(0x0730_0402, 0b101_1000, 0x00c5), Ok(true));
        assert_eq!(lacks(0x0730_0402, 0b101_1000, 0x412e), Ok(true));
        assert_eq!(lacks(0x0730_0402, 0b101_1000, 0x0100_4f2e), Ok(true));
        assert_eq!(lacks(0x0730_0402, 0b101_1000, 0x00c4), Ok(false));
        // An event of this model, not of the architecture.
        assert_eq!(lacks(0x0730_0402, 0xff, 0x01c5), Ok(false));
        // Nor is there what lies beyond EAX[31:24].
        assert_eq!(lacks(0x0630_0402, 0, 0x00c5), Ok(true));
        assert_eq!(lacks(0x0630_0402, 0, 0x00c4), Ok(false));
        assert_eq!(lacks(0x0030_0402, 0, 0x003c), Ok(true));
        assert_eq!(lacks(0x2030_0402, 0, 0x00c5), Ok(false));
        assert_eq!(lacks(0xff30_0402, 0, 0x00c5), Ok(false));
    }

    #[test]
    fn the_self_test_takes_an_event_that_is_there() {
        let select = |ebx| {
            let pmu = Pmu::from_leaf(leaf(0x0730_0402, ebx, 0, 0), false);
            pmu.map(|pmu| pmu.certain_event().perfevtsel(false))
        };
        assert_eq!(select(0), Ok(0x42_003c));
        assert_eq!(select(1), Ok(0x42_00c0));
        assert_eq!(select(2), Ok(0x42_003c));
    }
}
