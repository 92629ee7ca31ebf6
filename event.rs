// SPDX-License-Identifier: GPL-2.0

//! What is counted: an event code as perf's `rUUEE` writes it, and the privilege levels.
//!
//! Pure, so that it is also tested on the host. The layout is IA32_PERFEVTSELx's: Intel SDM
//! volume 3, chapter "Performance Monitoring", "Architectural Performance Monitoring Version 1".

use crate::fmt;

pub(crate) use crate::architectural::{
    code_of,
    ARCHITECTURAL,
    CODE,
    CORE_CYCLES,
    INSTRUCTIONS_RETIRED,
    REFERENCE_CYCLES, //
};

/// IA32_PERFEVTSELx.USR: count at CPL 1, 2 and 3.
const USR: u64 = 1 << 16;
/// IA32_PERFEVTSELx.OS: count at CPL 0.
const OS: u64 = 1 << 17;
/// IA32_PERFEVTSELx.INT: raise a PMI at overflow.
const INT: u64 = 1 << 20;
/// IA32_PERFEVTSELx.EN: the counter runs (while GLOBAL_CTRL lets it).
const EN: u64 = 1 << 22;

/// Why an [`Event`] cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// These bits of the code are reserved, or the module's to set.
    Bits(u64),
    /// Neither user nor kernel mode was asked for.
    NoMode,
}

/// What is wrong and how to mend it, to stand behind what the user wrote.
impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(bits) => write!(f, "bits {bits:#x} are not yours to set; event select 7:0, unit mask 15:8, EDGE 18, INV 23 and CMASK 31:24 are"),
            Self::NoMode => f.write_str("user=0 kernel=0 counts nothing: leave one of them on"),
        }
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// The four bits of IA32_FIXED_CTR_CTRL that let a fixed-function counter count at these levels: OS,
    /// USR, AnyThread (never), PMI.
    pub(crate) const fn fixed_ctr_ctrl(&self, pmi: bool) -> u64 {
        self.kernel as u64 | (self.user as u64) << 1 | (pmi as u64) << 3
    }

    /// What one count of it is called in the report.
    pub(crate) const fn unit(&self) -> &'static str {
        match self.code {
            CORE_CYCLES => "cycles",
            _ => "counts",
        }
    }

    /// The event as `/dev/pmu_count` has it, by its name if it has one: `cycles:uk`.
    pub(crate) const fn named(self) -> Named {
        Named(self)
    }

    /// `:uk`, as perf writes modifiers.
    fn fmt_modes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.user, self.kernel) {
            (true, false) => ":u",
            (false, _) => ":k",
            (true, true) => ":uk",
        })
    }
}

/// `0x003c:uk`.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.code)?;
        self.fmt_modes(f)
    }
}

/// An event that is written by its name.
pub(crate) struct Named(Event);

/// `cycles:uk`, or `0x01d0:u` where there is no name.
impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(event) = self;
        match ARCHITECTURAL.iter().find(|known| known.code == event.code) {
            Some(known) => {
                f.write_str(known.name)?;
                event.fmt_modes(f)
            }
            None => fmt::Display::fmt(event, f),
        }
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
    fn a_fixed_function_counter_is_controlled_as_the_manual_has_it() {
        let control = |user, kernel, pmi| {
            let event = Event::new(0xc0, user, kernel).unwrap();
            event.fixed_ctr_ctrl(pmi)
        };
        assert_eq!(control(true, true, true), 0b1011);
        assert_eq!(control(true, false, true), 0b1010);
        assert_eq!(control(false, true, true), 0b1001);
        assert_eq!(control(false, true, false), 0b0001);
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

    #[test]
    fn names_are_perfs() {
        for (name, code) in [
            ("cycles", 0x003c),
            ("cpu-cycles", 0x003c),
            ("instructions", 0x00c0),
            ("ref-cycles", 0x013c),
            ("cache-references", 0x4f2e),
            ("cache-misses", 0x412e),
            ("branches", 0x00c4),
            ("branch-instructions", 0x00c4),
            ("branch-misses", 0x00c5),
        ] {
            assert_eq!(code_of(name.as_bytes()), Some(code));
        }
        for name in ["", "cycle", "cyclesx", "Cycles", "cycles ", "bus-cycles"] {
            assert_eq!(code_of(name.as_bytes()), None);
        }
    }

    #[test]
    fn an_event_is_its_code_and_modes() {
        let event = |code, user, kernel| Event::new(code, user, kernel).unwrap();
        assert!(event(0x3c, true, true) == event(0x3c, true, true));
        assert!(event(0x3c, true, true) != event(0x013c, true, true));
        assert!(event(0x3c, true, true) != event(0x3c, true, false));
        assert!(event(0x3c, true, true) != event(0x3c, false, true));
    }

    // The kernel's crate has no strings to compare with.
    #[cfg(test)]
    #[test]
    fn it_is_named_where_it_has_a_name() {
        let text = |code, user, kernel| {
            let event = Event::new(code, user, kernel).unwrap();
            event.named().to_string()
        };
        assert_eq!(text(0x3c, true, true), "cycles:uk");
        assert_eq!(text(0xc0, true, false), "instructions:u");
        assert_eq!(text(0xc4, false, true), "branches:k");
        assert_eq!(text(0x01d0, true, false), "0x01d0:u");
        assert_eq!(text(0x0100_003c, true, true), "0x100003c:uk");
        for known in ARCHITECTURAL {
            assert_eq!(text(known.code, true, false), format!("{}:u", known.name));
        }
    }

    #[cfg(test)]
    #[test]
    fn what_is_invalid_can_be_mended() {
        let text = |code, user| Event::new(code, user, false).unwrap_err().to_string();
        assert!(text(0x41_003c, true).starts_with("bits 0x410000 are not yours to set; "));
        assert_eq!(
            text(0x3c, false),
            "user=0 kernel=0 counts nothing: leave one of them on"
        );
    }

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
