// SPDX-License-Identifier: GPL-2.0

//! The arithmetic of a counter that is preloaded with -N.
//!
//! Pure, so that it is also tested on the host. A counter of `width` bits starts at `-N`, counts
//! up, and overflows to 0 after N events: one *period*. Where it stands says how many events of the
//! running period there were, so that nothing need be remembered but those of earlier periods. N is at most
//! half of what it can hold, so that it says, too, whether it has overflowed: the top bit is set from
//! -N on, and gone then.

use core::num::NonZeroU64;

/// The least N when only user mode is counted; Linux's perf preloads no less either.
const N_MIN_USER: u64 = 2;
/// The least N when the kernel is counted, in events.
///
/// What a PMI executes counts then: some 500 instructions, which take thousands of cycles on
/// hardware, and some events count several times in a cycle. Were N near that, the next PMI would
/// follow before the last returned, for ever; with this it is a small part of each period.
pub(crate) const N_MIN_KERNEL: u64 = 100_000;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// All events.
    pub(crate) events: u64,
    /// How often N of them were complete.
    pub(crate) overflows: u64,
}

impl Count {
    /// Adds another.
    pub(crate) fn add(&mut self, more: &Self) {
        self.events = self.events.wrapping_add(more.events);
        self.overflows = self.overflows.wrapping_add(more.overflows);
    }

    /// What came since `before`, or `None` if that is more than there is.
    pub(crate) fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            events: self.events.checked_sub(before.events)?,
            overflows: self.overflows.checked_sub(before.overflows)?,
        })
    }
}

/// What a counter is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Its bits, 1 to 64.
    pub(crate) width: u8,
    /// Whether writes reach all of them. Otherwise they take 32 bits and sign-extend them (Intel
    /// SDM volume 3, "Full-Width Writes to Performance Counter Registers").
    pub(crate) full_width: bool,
}

impl Shape {
    /// 2^width - 1.
    const fn mask(&self) -> u64 {
        match self.width {
            0..=63 => (1 << self.width) - 1,
            _ => u64::MAX,
        }
    }

    /// The largest N: -N must have the top bit set, and bit 31 to be written in 32 bits.
    const fn largest_n(&self) -> u64 {
        const WRITTEN: u64 = 1 << 31;
        let told = self.mask() / 2 + 1;
        match self.full_width || told < WRITTEN {
            true => told,
            false => WRITTEN,
        }
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
    /// The top bit, alone.
    top: u64,
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
                top: shape.mask() / 2 + 1,
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

    /// The counter's top bit, alone.
    pub(crate) const fn top(&self) -> u64 {
        self.top
    }

    /// N, in events.
    #[inline]
    pub(crate) const fn n(&self) -> u64 {
        self.n.get()
    }

    /// Whether a counter that stands at `value` has overflowed since its period began.
    #[inline]
    pub(crate) const fn overflowed(&self, value: u64) -> bool {
        value & self.top == 0
    }

    /// Whether a counter that has `overflowed` since its period began, or not, can stand at `value`.
    pub(crate) const fn can_be(&self, value: u64, overflowed: bool) -> bool {
        value <= self.mask
            && match overflowed {
                true => self.overflowed(value),
                false => value >= self.start(),
            }
    }

    /// The events of the periods that are complete when a counter that has overflowed stands at `value`,
    /// and the value that goes on from there, with the events since (the PMI's skid) kept.
    ///
    /// It is one period, but for a PMI that comes more than N late.
    #[inline(always)]
    pub(crate) fn reload(&self, value: u64) -> (u64, u64) {
        if value < self.n.get() {
            (self.n.get(), self.value_after(value))
        } else {
            let since = value % self.n;
            (
                value.wrapping_sub(since).wrapping_add(self.n.get()),
                self.value_after(since),
            )
        }
    }

    /// All that was counted by a counter that stands at `value`, in addition to periods of `completed`
    /// events, after which it was reloaded.
    ///
    /// It holds at any moment, also between an overflow and its PMI.
    pub(crate) fn count(&self, completed: u64, value: u64) -> Count {
        let (more, value) = match self.overflowed(value) {
            true => self.reload(value),
            false => (0, value),
        };
        let completed = completed.wrapping_add(more);
        let since = value.wrapping_sub(self.start()) & self.mask;
        Count {
            events: completed.wrapping_add(since),
            overflows: completed / self.n,
        }
    }
}

// KUnit's in the kernel, the ordinary harness's on the host.
#[cfg_attr(not(test), kernel::macros::kunit_tests(pmu_count_counter))]
mod tests {
    use super::*;

    const fn shape(width: u8, full_width: bool) -> Shape {
        Shape { width, full_width }
    }

    /// A counter as the manual has it, with PMIs that come `late` events after the overflow.
    ///
    /// `None` if a write did not arrive as it was meant, or if what is read on the way is not what there
    /// was.
    fn run(n: u64, shape: Shape, events: u64, late: u64) -> Option<Count> {
        let preload = Preload::new(n, shape, false).ok()?;
        let (mut value, mut completed, mut due) = (preload.start(), 0, None);
        for event in 1..=events {
            value = value.wrapping_add(1) & preload.mask;
            due = match due {
                None if value == 0 => Some(late),
                Some(left) => Some(left - 1),
                None => None,
            };
            let as_it_was = |completed, value, overflowed| {
                preload.count(completed, value).events == event
                    && preload.overflowed(value) == overflowed
                    && preload.can_be(value, overflowed)
                    && !preload.can_be(value, !overflowed)
            };
            if !as_it_was(completed, value, due.is_some()) {
                return None;
            }
            if due == Some(0) {
                let (more, reloaded) = preload.reload(value);
                completed += more;
                value = match shape.full_width {
                    true => reloaded,
                    false => reloaded as u32 as i32 as u64 & preload.mask,
                };
                if !as_it_was(completed, value, false) {
                    return None;
                }
                due = None;
            }
        }
        Some(preload.count(completed, value))
    }

    #[test]
    fn no_event_is_lost_whatever_n_and_the_skid() {
        for n in [2, 3, 7, 1_000, 99_999] {
            for late in [0, 1, 2, 13, 1_000] {
                for shape in [
                    shape(32, false),
                    shape(40, false),
                    shape(40, true),
                    shape(48, true),
                    shape(64, true),
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
    fn the_largest_n_leaves_the_top_bit_to_the_overflow() {
        for (shape, max) in [
            (shape(31, false), 1 << 30),
            (shape(32, true), 1 << 31),
            (shape(32, false), 1 << 31),
            (shape(40, true), 1 << 39),
            (shape(48, true), 1 << 47),
            (shape(48, false), 1 << 31),
            (shape(64, true), 1 << 63),
        ] {
            let preload = Preload::new(0, shape, true).unwrap();
            assert_eq!(preload.n(), max);
            assert_eq!(preload.start(), preload.mask - (max - 1));
            assert_eq!(preload.count(0, preload.start()), Count::default());

            assert!(preload.can_be(preload.start(), false));
            assert!(!preload.can_be(preload.start(), true));
            assert!(!preload.can_be(preload.start() - 1, false));
            assert!(preload.can_be(preload.mask, false));
            assert!(preload.can_be(0, true) && !preload.can_be(0, false));
            assert!(preload.can_be(5, true) && !preload.can_be(5, false));

            let count = Count {
                events: max + 5,
                overflows: 1,
            };
            let (completed, value) = preload.reload(5);
            assert_eq!(preload.count(completed, value), count);
            assert_eq!(preload.count(0, 5), count);

            assert!(Preload::new(max, shape, true).is_ok());
            assert!(Preload::new(max + 1, shape, true).is_err());
        }
    }

    #[test]
    fn a_value_that_no_counting_leads_to_is_known() {
        let preload = Preload::new(1_000, shape(48, true), false).unwrap();
        // Between the half of what it can hold and -N.
        for value in [1 << 47, (1 << 48) - 1_001] {
            assert!(!preload.can_be(value, false) && !preload.can_be(value, true));
        }
        // More than it can hold.
        assert!(!preload.can_be(1 << 48, false) && !preload.can_be(1 << 48, true));
        assert!(preload.can_be((1 << 47) - 1, true));
    }

    #[test]
    fn a_pmi_that_is_still_due_is_counted() {
        let preload = Preload::new(1_000, shape(48, true), false).unwrap();
        let count = |events, overflows| Count { events, overflows };
        assert_eq!(preload.count(3_000, 17), count(4_017, 4));
        assert_eq!(preload.count(3_000, 2_999), count(6_999, 6));
        assert_eq!(preload.count(3_000, preload.start() + 17), count(3_017, 3));
    }

    #[test]
    fn the_bounds_are_named() {
        assert_eq!(
            Preload::new(1, shape(48, true), false).err(),
            Some(OutOfRange {
                min: 2,
                max: 1 << 47
            })
        );
        assert_eq!(
            Preload::new(99_999, shape(48, false), true).err(),
            Some(OutOfRange {
                min: 100_000,
                max: 1 << 31
            })
        );
        assert!(Preload::new(2, shape(48, true), false).is_ok());
        assert!(Preload::new(100_000, shape(48, true), true).is_ok());
        assert!(Preload::new(u64::MAX, shape(48, true), true).is_err());
    }
}
