// SPDX-License-Identifier: GPL-2.0

//! The events that have names: the architectural ones. One table for the module and for pmu-stat.
//!
//! Intel SDM volume 3, "Architectural Performance Monitoring", with perf's names.

/// The bits that a user may choose: event select (7:0), unit mask (15:8), EDGE (18), INV (23) and
/// CMASK (31:24).
pub(crate) const CODE: u64 = 0xff84_ffff;

/// "UnHalted Core Cycles", unit mask 00H.
pub(crate) const CORE_CYCLES: u64 = 0x003c;
/// "Instruction Retired", unit mask 00H.
pub(crate) const INSTRUCTIONS_RETIRED: u64 = 0x00c0;
/// "UnHalted Reference Cycles", unit mask 01H.
pub(crate) const REFERENCE_CYCLES: u64 = 0x013c;

/// An event that means the same on every PMU that has it.
pub(crate) struct Architectural {
    /// Unit mask and event select.
    pub(crate) code: u64,
    /// What perf calls it, and so do we.
    pub(crate) name: &'static str,
    /// What perf calls it besides.
    alias: Option<&'static str>,
}

impl Architectural {
    /// One line of [`ARCHITECTURAL`].
    const fn new(code: u64, name: &'static str, alias: Option<&'static str>) -> Self {
        Self { code, name, alias }
    }

    /// All that perf calls it, what we do first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.name), self.alias].into_iter().flatten()
    }
}

/// The architectural events in the order of their bits in CPUID.0AH:EBX: "Pre-Defined
/// Architectural Performance Events".
pub(crate) const ARCHITECTURAL: [Architectural; 7] = [
    Architectural::new(CORE_CYCLES, "cycles", Some("cpu-cycles")),
    Architectural::new(INSTRUCTIONS_RETIRED, "instructions", None),
    Architectural::new(REFERENCE_CYCLES, "ref-cycles", None),
    Architectural::new(0x4f2e, "cache-references", None),
    Architectural::new(0x412e, "cache-misses", None),
    Architectural::new(0x00c4, "branches", Some("branch-instructions")),
    Architectural::new(0x00c5, "branch-misses", None),
];

/// The code of the architectural event that perf calls `name`.
pub(crate) fn code_of(name: &[u8]) -> Option<u64> {
    ARCHITECTURAL
        .iter()
        .find(|event| event.names().any(|known| known.as_bytes() == name))
        .map(|event| event.code)
}
