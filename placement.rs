// SPDX-License-Identifier: GPL-2.0

//! Which of a CPU's counters counts which event.
//!
//! Pure, so that it is also tested on the host. Each event that is counted has a *slot*, the same on all
//! CPUs; each CPU puts each slot on a counter of its own choice, its *place*.

use crate::event::{
    self,
    Event, //
};

/// The general-purpose counters that we use at most: on all that there are their registers lie behind
/// one another.
pub(crate) const GENERAL: u8 = 8;
/// The fixed-function counters that we know: instructions, core cycles, reference cycles.
pub(crate) const FIXED: u8 = 3;
/// The slots: more events can never be counted at once.
pub(crate) const MOST: usize = GENERAL as usize + FIXED as usize;

/// What each fixed-function counter counts: "Association of Fixed-Function Performance Counters with
/// Architectural Performance Events".
const FIXED_EVENTS: [u64; FIXED as usize] = [
    event::INSTRUCTIONS_RETIRED,
    event::CORE_CYCLES,
    event::REFERENCE_CYCLES,
];

/// A counter of a CPU.
///
/// # Invariants
///
/// Below [`MOST`]: the general-purpose ones, then those of fixed function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u8);

impl Place {
    /// The general-purpose counter of this number.
    pub(crate) const fn general(number: u8) -> Option<Self> {
        match number {
            // INVARIANT: As just seen.
            0..GENERAL => Some(Self(number)),
            _ => None,
        }
    }

    /// The fixed-function counter of this number.
    pub(crate) const fn fixed(number: u8) -> Option<Self> {
        match number {
            // INVARIANT: As just seen.
            0..FIXED => Some(Self(GENERAL + number)),
            _ => None,
        }
    }

    /// Its number among all, below [`MOST`].
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its number among the fixed-function counters, if it is one.
    #[inline]
    pub(crate) const fn as_fixed(self) -> Option<u8> {
        self.0.checked_sub(GENERAL)
    }

    /// Its bit in GLOBAL_CTRL, GLOBAL_STATUS and GLOBAL_OVF_CTRL, alone.
    #[inline]
    pub(crate) const fn mask(self) -> u64 {
        // Wrapping: an NMI must not panic, whatever the compiler can see.
        match self.as_fixed() {
            None => 1u64.wrapping_shl(self.0 as u32),
            Some(fixed) => FIRST_FIXED.wrapping_shl(fixed as u32),
        }
    }

    /// What RDPMC knows it by.
    pub(crate) const fn rdpmc(self) -> u32 {
        match self.as_fixed() {
            None => self.0 as u32,
            Some(fixed) => 1 << 30 | fixed as u32,
        }
    }
}

/// Fixed-function counter 0's bit in GLOBAL_CTRL, alone.
const FIRST_FIXED: u64 = 1 << 32;

/// Counters, by their bits in GLOBAL_CTRL.
///
/// # Invariants
///
/// Only bits of a [`Place`] are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places(u64);

impl Places {
    /// None.
    pub(crate) const NONE: Self = Self(0);

    /// The first `general` general-purpose counters, as far as we use them, and those of fixed function
    /// whose bits are in `fixed`.
    pub(crate) fn new(general: u8, fixed: u32) -> Self {
        let general = (0..general).map_while(Place::general);
        let fixed = (0..FIXED)
            .filter(|number| fixed >> number & 1 != 0)
            .filter_map(Place::fixed);
        general.chain(fixed).fold(Self::NONE, Self::with)
    }

    /// With one more.
    pub(crate) const fn with(self, place: Place) -> Self {
        Self(self.0 | place.mask())
    }

    /// Without those of `others`.
    pub(crate) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Those whose bits are in `status`.
    #[inline]
    pub(crate) const fn among(self, status: u64) -> Self {
        Self(self.0 & status)
    }

    /// Their bits.
    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Whether this one is there.
    #[inline]
    pub(crate) const fn contains(self, place: Place) -> bool {
        self.0 & place.mask() != 0
    }

    /// Whether there is none.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them, the general-purpose ones first.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = Place> {
        const { assert!(GENERAL == 8 && FIRST_FIXED.trailing_zeros() == 4 * GENERAL as u32) };
        // INVARIANT: By ours the bits are 0 to 7, and some from 32 on, to which belongs a place from 8 on.
        ones(self.0).map(|bit| Place((bit & 7 | bit >> 2 & 8) as u8))
    }
}

/// The numbers of the bits that are set.
#[inline]
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        // Without the lowest of them.
        let rest = bits & bits.wrapping_sub(1);
        (bits != 0).then(|| {
            bits = rest;
            bit
        })
    })
}

/// Puts each event on one of the counters `free`. `None` if they are too few.
///
/// The general-purpose counters come first, in the order of slots, so that one event is on PMC0. Where
/// they do not suffice, those of fixed function take what they can.
pub(crate) fn place(events: &[Option<Event>; MOST], free: Places) -> Option<[Option<Place>; MOST]> {
    place_by(events, free, false).or_else(|| place_by(events, free, true))
}

/// The same, where events that may be on a counter of fixed function go there, if `moves`.
fn place_by(
    events: &[Option<Event>; MOST],
    mut free: Places,
    moves: bool,
) -> Option<[Option<Place>; MOST]> {
    let there = free;
    let mut places = [None; MOST];
    for (event, place) in events.iter().zip(&mut places) {
        let Some(event) = event else { continue };
        let fixed = (0..)
            .zip(FIXED_EVENTS)
            .find(|&(_, code)| code == event.code())
            .and_then(|(number, _)| Place::fixed(number))
            .filter(|&fixed| there.contains(fixed));
        // On most CPUs these are at the time stamp counter's rate there, and at that of a slower clock
        // on a general-purpose counter: never the one for the other.
        let must = event.code() == event::REFERENCE_CYCLES;
        let found = match fixed {
            Some(fixed) if free.contains(fixed) && (must || moves) => fixed,
            Some(_) if must => return None,
            _ => free.iter().find(|place| place.as_fixed().is_none())?,
        };
        free = free.without(Places::NONE.with(found));
        *place = Some(found);
    }
    Some(places)
}

// KUnit's in the kernel, the ordinary harness's on the host.
#[cfg_attr(not(test), kernel::macros::kunit_tests(pmu_count_placement))]
mod tests {
    use super::*;

    /// Where events of these codes and modes (user, kernel) go, as bits in GLOBAL_CTRL.
    fn bits(codes: &[(u64, bool, bool)], free: Places) -> Option<[u32; MOST]> {
        let mut events = [None; MOST];
        for (event, &(code, user, kernel)) in events.iter_mut().zip(codes) {
            *event = Event::new(code, user, kernel).ok();
        }
        let places = place(&events, free)?;
        Some(places.map(|place| place.map_or(u32::MAX, |place| place.mask().trailing_zeros())))
    }

    /// The first places, and no more.
    fn only<const N: usize>(first: [u32; N]) -> Option<[u32; MOST]> {
        let mut places = [u32::MAX; MOST];
        for (place, bit) in places.iter_mut().zip(first) {
            *place = bit;
        }
        Some(places)
    }

    const UK: (bool, bool) = (true, true);

    fn uk(code: u64) -> (u64, bool, bool) {
        (code, UK.0, UK.1)
    }

    #[test]
    fn general_purpose_counters_come_first() {
        let all = [uk(0x00c4), uk(0x013c), uk(0x00c0), uk(0x412e), uk(0x003c)];
        assert_eq!(bits(&all, Places::new(4, 0b111)), only([0, 34, 1, 2, 3]));
        assert_eq!(bits(&all[4..], Places::new(1, 0b111)), only([0]));
        assert_eq!(bits(&[], Places::new(4, 0b111)), only([]));
    }

    #[test]
    fn where_they_do_not_suffice_fixed_counters_take_what_they_can() {
        let all = [uk(0x00c4), uk(0x013c), uk(0x00c0), uk(0x412e), uk(0x003c)];
        assert_eq!(bits(&all, Places::new(2, 0b111)), only([0, 34, 32, 1, 33]));
        let all = [uk(0x00c0), uk(0x003c), uk(0x013c)];
        assert_eq!(bits(&all, Places::new(4, 0)), only([0, 1, 2]));
        assert_eq!(bits(&all, Places::new(2, 0b010)), only([0, 33, 1]));
        // CMASK, INV, EDGE, another unit mask.
        let all = [
            uk(0x0100_00c0),
            uk(0x0184_00c0),
            uk(0x0004_003c),
            uk(0x01c0),
        ];
        assert_eq!(bits(&all, Places::new(3, 0b111)), None);
    }

    #[test]
    fn a_fixed_counter_has_one_event() {
        let free = Places::new(2, 0b111);
        let all = [
            (0x00c0, true, false),
            (0x00c0, false, true),
            (0x00c0, true, true),
        ];
        assert_eq!(bits(&all, free), only([32, 0, 1]));
        // Reference cycles are not the same elsewhere, unless there is but elsewhere.
        let all = [(0x013c, true, false), (0x013c, false, true)];
        assert_eq!(bits(&all, free), None);
        assert_eq!(bits(&all, Places::new(2, 0b011)), only([0, 1]));
    }

    #[test]
    fn one_more_than_there_are_is_too_many() {
        let mut all = [uk(0); MOST + 1];
        for (event, unit_mask) in all.iter_mut().zip(1..) {
            event.0 = 0x00c0 | unit_mask << 8;
        }
        for general in 1..=GENERAL {
            let free = Places::new(general, 0b111);
            let (fit, more) = (usize::from(general), usize::from(general) + 1);
            assert!(bits(&all[..fit], free).is_some());
            assert!(bits(&all[..more], free).is_none());
        }
        // What a fixed-function counter takes leaves one to the others, wherever its slot is.
        all[2] = uk(0x00c0);
        assert!(bits(&all[..5], Places::new(4, 0b001)).is_some());
        assert!(bits(&all[..5], Places::new(4, 0b110)).is_none());
    }

    #[test]
    fn places_are_known_by_their_bits() {
        let all = Places::new(u8::MAX, u32::MAX);
        assert_eq!(all.bits(), 0x7_0000_00ff);
        assert_eq!((Place::general(8), Place::fixed(3)), (None, None));
        assert_eq!(all.iter().count(), MOST);
        for (index, place) in all.iter().enumerate() {
            assert_eq!(place.index(), index);
            let alone = Places::NONE.with(place);
            assert_eq!(alone.bits(), place.mask());
            assert!(alone.iter().eq([place]));
        }
        let place = |bit: u32| {
            let place = Places(1 << bit).iter().next()?;
            Some((place.as_fixed(), place.rdpmc()))
        };
        assert_eq!(place(0), Some((None, 0)));
        assert_eq!(place(7), Some((None, 7)));
        assert_eq!(place(32), Some((Some(0), 0x4000_0000)));
        assert_eq!(place(34), Some((Some(2), 0x4000_0002)));
        let status = 1 << 35 | 1 << 34 | 1 << 8 | 1;
        assert_eq!(all.among(status).bits(), 1 << 34 | 1);
    }
}
