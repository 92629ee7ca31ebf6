// SPDX-License-Identifier: GPL-2.0

//! The arithmetic of a counter that is preloaded with -N.
//!
//! Pure, so that it is also tested on the host. A counter of `width` bits starts at `-N`, counts
//! up, and overflows to 0 after N events: one *period*. Where it stands says how many events of the
//! running period there were, so that nothing need be remembered but the number of periods.

use core::num::NonZeroU64;

/// The least N when only user mode is counted; Linux's perf preloads no less either.
const N_MIN_USER: u64 = 2;
/// The least N when the kernel is counted, in events.
///
/// What a PMI executes counts then: some 500 instructions, which take thousands of cycles on
/// hardware, and some events count several times in a cycle. Were N near that, the next PMI would
/// follow before the last returned, for ever; with this it is a small part of each period.
const N_MIN_KERNEL: u64 = 100_000;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// All events.
    pub(crate) events: u64,
    /// How often N of them were complete.
    pub(crate) overflows: u64,
}

/// What a counter is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Its bits, 1 to 64.
    pub(crate) width: u8,
    /// Whether writes reach all of them. Otherwise they take 32 bits and sign-extend them (Intel
    /// SDM volume 3, "Full-Width Writes to Performance Counter Registers").
    pub(crate) full_width: bool,
    /// Whether a register keeps that it has overflowed. Otherwise its top bit tells: set from -N
    /// on, and gone at the overflow.
    pub(crate) status: bool,
}

impl Shape {
    /// 2^width - 1.
    const fn mask(&self) -> u64 {
        match self.width {
            0..=63 => (1 << self.width) - 1,
            _ => u64::MAX,
        }
    }

    /// The largest N: -N must have bit 31 set to be written in 32 bits, and the top bit to tell an
    /// overflow by it.
    fn largest_n(&self) -> u64 {
        let written = if self.full_width { u64::MAX } else { 1 << 31 };
        let told = match self.status {
            true => self.mask(),
            false => self.mask() / 2 + 1,
        };
        told.min(written)
    }
}

/// N lies outside `min..=max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange {
    /// The least N, in events.
    pub(crate) min: u64,
    /// The largest N, in events.
    pub(crate) max: u64,
}

/// What a counter holds when a period starts: -N.
#[derive(Clone, Copy)]
pub(crate) struct Preload {
    /// N, the events in a period.
    n: NonZeroU64,
    /// 2^width - 1.
    mask: u64,
}

impl Preload {
    /// A preload of -`n` for such a counter, or of the largest `n` that it takes if `n` is 0.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], with the bounds.
    pub(crate) fn new(n: u64, shape: Shape, counts_kernel: bool) -> Result<Self, OutOfRange> {
        let min = if counts_kernel {
            N_MIN_KERNEL
        } else {
            N_MIN_USER
        };
        let max = shape.largest_n();
        match NonZeroU64::new(if n == 0 { max } else { n }) {
            Some(n) if (min..=max).contains(&n.get()) => Ok(Self {
                n,
                mask: shape.mask(),
            }),
            _ => Err(OutOfRange { min, max }),
        }
    }

    /// The counter's value `events` (less than N) after a period began.
    const fn value_after(&self, events: u64) -> u64 {
        events.wrapping_sub(self.n.get()) & self.mask
    }

    /// -N: where a period starts.
    pub(crate) const fn start(&self) -> u64 {
        self.value_after(0)
    }

    /// Whether the top bit of `value` says that the counter has overflowed since its period began.
    #[inline]
    pub(crate) const fn top_bit_gone(&self, value: u64) -> bool {
        value & !(self.mask >> 1) == 0
    }

    /// Whether a counter can stand at `value` that has not overflowed since its period began.
    pub(crate) const fn within_period(&self, value: u64) -> bool {
        value >= self.start()
    }

    /// After an overflow: how many periods are complete when the counter stands at `value`, and
    /// the value that goes on from there, with the events since (the PMI's skid) kept.
    ///
    /// It is one period, but for a PMI that comes more than N late.
    #[inline]
    pub(crate) fn reload(&self, value: u64) -> (u64, u64) {
        if value < self.n.get() {
            (1, self.value_after(value))
        } else {
            (
                (value / self.n).wrapping_add(1),
                self.value_after(value % self.n),
            )
        }
    }

    /// All that was counted by a counter that stands at `value`: `periods` were reloaded, and it
    /// has `overflowed` since or not.
    ///
    /// With the largest N there is no telling from `value` alone.
    pub(crate) fn count(&self, periods: u64, value: u64, overflowed: bool) -> Count {
        let (more, value) = match overflowed {
            true => self.reload(value),
            false => (0, value),
        };
        let overflows = periods.wrapping_add(more);
        let events = value.wrapping_sub(self.start()) & self.mask;
        Count {
            events: overflows.wrapping_mul(self.n.get()).wrapping_add(events),
            overflows,
        }
    }
}

// KUnit's in the kernel, the ordinary harness's on the host.
#[cfg_attr(not(test), kernel::macros::kunit_tests(pmu_count_counter))]
mod tests {
    use super::*;

    const fn shape(width: u8, full_width: bool, status: bool) -> Shape {
        Shape {
            width,
            full_width,
            status,
        }
    }

    /// A counter as the manual has it, with PMIs that come `late` events after the overflow.
    ///
    /// `None` if a write did not arrive as it was meant.
    fn run(n: u64, shape: Shape, events: u64, late: u64) -> Option<Count> {
        let preload = Preload::new(n, shape, false).ok()?;
        let (mut value, mut periods, mut due) = (preload.start(), 0, None);
        for _ in 0..events {
            value = (value + 1) & preload.mask;
            due = match due {
                None if value == 0 => Some(late),
                Some(left) => Some(left - 1),
                None => None,
            };
            if !shape.status && due.is_some() != preload.top_bit_gone(value) {
                return None;
            }
            if due == Some(0) {
                let (more, reloaded) = preload.reload(value);
                periods += more;
                value = match shape.full_width {
                    true => reloaded,
                    false => reloaded as u32 as i32 as u64 & preload.mask,
                };
                if value != reloaded {
                    return None;
                }
                due = None;
            }
        }
        Some(preload.count(periods, value, due.is_some()))
    }

    #[test]
    fn no_event_is_lost_whatever_n_and_the_skid() {
        for n in [2, 3, 7, 1_000, 99_999] {
            for late in [0, 1, 2, 13, 1_000] {
                for shape in [
                    shape(32, false, true),
                    shape(40, false, true),
                    shape(40, true, true),
                    shape(48, true, true),
                    shape(32, false, false),
                    shape(40, true, false),
                ] {
                    for events in [0, 1, 2, 6, 7, 8, 1_999, 2_000, 20_011] {
                        let count = Count {
                            events,
                            // Unwrapped: objtool does not know the panic of a division by zero.
                            overflows: events.checked_div(n).unwrap(),
                        };
                        assert_eq!(run(n, shape, events, late), Some(count));
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_n_wraps_once() {
        for (shape, max) in [
            (shape(32, true, true), (1 << 32) - 1),
            (shape(32, false, true), 1 << 31),
            (shape(40, true, true), (1 << 40) - 1),
            (shape(48, true, true), (1 << 48) - 1),
            (shape(48, false, true), 1 << 31),
            (shape(64, true, true), u64::MAX),
            (shape(32, true, false), 1 << 31),
            (shape(40, true, false), 1 << 39),
            (shape(48, true, false), 1 << 47),
            (shape(48, false, false), 1 << 31),
        ] {
            let preload = Preload::new(0, shape, true).unwrap();
            assert_eq!(preload.start(), preload.mask - (max - 1));
            assert_eq!(preload.count(0, preload.start(), false), Count::default());

            assert!(preload.within_period(preload.start()));
            assert!(!preload.within_period(preload.start() - 1));
            assert!(shape.status || !preload.top_bit_gone(preload.start()));
            assert!(preload.top_bit_gone(0) && preload.top_bit_gone(5));

            let count = Count {
                events: max.wrapping_add(5),
                overflows: 1,
            };
            let (periods, value) = preload.reload(5);
            assert_eq!(preload.count(periods, value, false), count);
            assert_eq!(preload.count(0, 5, true), count);

            assert!(Preload::new(max, shape, true).is_ok());
            if let Some(more) = max.checked_add(1) {
                assert!(Preload::new(more, shape, true).is_err());
            }
        }
    }

    #[test]
    fn a_pmi_that_is_still_due_is_counted() {
        let preload = Preload::new(1_000, shape(48, true, true), false).unwrap();
        let count = Count {
            events: 4_017,
            overflows: 4,
        };
        assert_eq!(preload.count(3, 17, true), count);
    }

    #[test]
    fn the_bounds_are_named() {
        assert_eq!(
            Preload::new(1, shape(48, true, true), false).err(),
            Some(OutOfRange {
                min: 2,
                max: (1 << 48) - 1
            })
        );
        assert_eq!(
            Preload::new(99_999, shape(48, false, true), true).err(),
            Some(OutOfRange {
                min: 100_000,
                max: 1 << 31
            })
        );
        assert!(Preload::new(2, shape(48, true, true), false).is_ok());
        assert!(Preload::new(100_000, shape(48, true, true), true).is_ok());
        assert!(Preload::new(u64::MAX, shape(48, true, true), true).is_err());
    }
}
