// SPDX-License-Identifier: GPL-2.0

//! What is counted: an event code as perf's `rUUEE` writes it, and the privilege levels.
//!
//! Pure, so that it is also tested on the host. The layout is IA32_PERFEVTSELx's: Intel SDM
//! volume 3, chapter "Performance Monitoring", "Architectural Performance Monitoring Version 1".

use crate::fmt;

/// IA32_PERFEVTSELx.USR: count at CPL 1, 2 and 3.
const USR: u64 = 1 << 16;
/// IA32_PERFEVTSELx.OS: count at CPL 0.
const OS: u64 = 1 << 17;
/// IA32_PERFEVTSELx.INT: raise a PMI at overflow.
const INT: u64 = 1 << 20;
/// IA32_PERFEVTSELx.EN: the counter runs (while GLOBAL_CTRL lets it).
const EN: u64 = 1 << 22;

/// The bits that a user may choose: event select (7:0), unit mask (15:8), EDGE (18), INV (23) and
/// CMASK (31:24).
const CODE: u64 = 0xff84_ffff;

/// "UnHalted Core Cycles", unit mask 00H: what perf calls `cycles`.
pub(crate) const CORE_CYCLES: u64 = 0x003c;
/// "Instruction Retired", unit mask 00H.
pub(crate) const INSTRUCTIONS_RETIRED: u64 = 0x00c0;

/// Why an [`Event`] cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// These bits of the code are reserved, or the module's to set.
    Bits(u64),
    /// Neither user nor kernel mode was asked for.
    NoMode,
}

/// Whether a counter that IA32_PERFEVTSELx selects `value` for is enabled.
pub(crate) const fn is_enabled(value: u64) -> bool {
    value & EN != 0
}

/// `value` with the counter not enabled.
pub(crate) const fn disabled(value: u64) -> u64 {
    value & !EN
}

/// An event and the privilege levels at which it counts.
///
/// # Invariants
///
/// `code` has no bit outside [`CODE`], and `user || kernel`.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    code: u64,
    user: bool,
    kernel: bool,
}

impl Event {
    /// [`CORE_CYCLES`] in kernel mode.
    // INVARIANT: No more bits, and one mode.
    pub(crate) const KERNEL_CYCLES: Self = Self {
        code: CORE_CYCLES,
        user: false,
        kernel: true,
    };
    /// [`INSTRUCTIONS_RETIRED`] in kernel mode.
    // INVARIANT: As above.
    pub(crate) const KERNEL_INSTRUCTIONS: Self = Self {
        code: INSTRUCTIONS_RETIRED,
        ..Self::KERNEL_CYCLES
    };

    /// Checks `code` and the modes.
    pub(crate) const fn new(code: u64, user: bool, kernel: bool) -> Result<Self, Invalid> {
        if code & !CODE != 0 {
            return Err(Invalid::Bits(code & !CODE));
        }
        if !user && !kernel {
            return Err(Invalid::NoMode);
        }
        // INVARIANT: Both were just checked.
        Ok(Self { code, user, kernel })
    }

    /// The code, as it was given.
    pub(crate) const fn code(&self) -> u64 {
        self.code
    }

    /// Whether the kernel's part is counted: it then includes what our own PMIs execute.
    pub(crate) const fn counts_kernel(&self) -> bool {
        self.kernel
    }

    /// The value of IA32_PERFEVTSELx that counts this event.
    pub(crate) const fn perfevtsel(&self, pmi: bool) -> u64 {
        let mut value = self.code | EN;
        if self.user {
            value |= USR;
        }
        if self.kernel {
            value |= OS;
        }
        if pmi {
            value |= INT;
        }
        value
    }

    /// What one count of it is called in the report.
    pub(crate) const fn unit(&self) -> &'static str {
        match self.code {
            CORE_CYCLES => "cycles",
            _ => "counts",
        }
    }
}

/// `0x003c:uk`, as perf writes modifiers.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}:", self.code)?;
        if self.user {
            f.write_str("u")?;
        }
        if self.kernel {
            f.write_str("k")?;
        }
        Ok(())
    }
}

// KUnit's in the kernel, the ordinary harness's on the host.
#[cfg_attr(not(test), kernel::macros::kunit_tests(pmu_count_event))]
mod tests {
    use super::*;

    #[test]
    fn the_register_is_the_manuals() {
        let select = |code, user, kernel| Event::new(code, user, kernel).unwrap().perfevtsel(true);
        assert_eq!(select(0x3c, true, true), 0x53_003c);
        assert_eq!(select(0x3c, true, false), 0x51_003c);
        assert_eq!(select(0x3c, false, true), 0x52_003c);
        assert_eq!(select(0xff84_ffff, true, true), 0xffd7_ffff);
        assert_eq!(
            Event::new(0x3c, true, true).unwrap().perfevtsel(false),
            0x43_003c
        );
    }

    #[test]
    fn bits_that_are_not_the_users_are_refused() {
        for bit in [16, 17, 19, 20, 21, 22, 32, 40, 63] {
            let code = 0x3c | 1 << bit;
            assert_eq!(
                Event::new(code, true, true).err(),
                Some(Invalid::Bits(1 << bit))
            );
        }
        for bit in (0..16).chain([18, 23]).chain(24..32) {
            assert!(Event::new(1 << bit, true, true).is_ok());
        }
    }

    #[test]
    fn some_mode_must_count() {
        assert_eq!(Event::new(0x3c, false, false).err(), Some(Invalid::NoMode));
    }

    // The kernel's crate has no strings to compare with.
    #[cfg(test)]
    #[test]
    fn it_reads_as_perf_writes_it() {
        let text = |code, user, kernel| Event::new(code, user, kernel).unwrap().to_string();
        assert_eq!(text(0x3c, true, true), "0x003c:uk");
        assert_eq!(text(0xc0, true, false), "0x00c0:u");
        assert_eq!(text(0x0184_00c0, false, true), "0x18400c0:k");
    }

    #[test]
    fn only_core_cycles_are_called_cycles() {
        assert_eq!(Event::new(0x3c, true, true).unwrap().unit(), "cycles");
        assert_eq!(Event::new(0x013c, true, true).unwrap().unit(), "counts");
        assert_eq!(
            Event::new(0x0100_003c, true, true).unwrap().unit(),
            "counts"
        );
    }
}
