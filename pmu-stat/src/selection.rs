// SPDX-License-Identifier: GPL-2.0

//! Which counters the events take, and what stands in the place of those that have none.

use crate::{
    device::Pmu,
    error::{
        Error,
        Result, //
    },
    event::{
        self,
        Counter,
        Event,
        Source, //
    },
};

/// What an event's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// That of the counter with this index.
    Counter(usize),
    /// The time that belongs to any counter.
    TaskClock,
    /// None, as the PMU has no such event.
    Absent,
    /// None, as all counters are taken.
    LeftOut,
}

/// The events, and what to ask the device for.
pub(crate) struct Selection {
    /// As they were asked for.
    pub(crate) events: Vec<Event>,
    /// Whether nobody has asked, so that these are the default ones.
    pub(crate) by_default: bool,
    /// How many of the default ones, from the first, are not counted for want of counters.
    left_out: usize,
    /// For each event.
    pub(crate) slots: Vec<Slot>,
    /// Each once.
    pub(crate) counters: Vec<Counter>,
}

impl Selection {
    /// Chooses the counters; `events` is empty for the default ones.
    pub(crate) fn new(events: &[Event], pmu: &Pmu) -> Result<Self> {
        let mut selection = Self {
            by_default: events.is_empty(),
            events: if events.is_empty() {
                event::defaults()
            } else {
                events.to_vec()
            },
            left_out: 0,
            slots: Vec::new(),
            counters: Vec::new(),
        };
        selection.choose(pmu);
        if selection.slots.iter().all(|slot| *slot == Slot::Absent) {
            let names: Vec<_> = selection.events.iter().map(|e| e.name.as_str()).collect();
            return Err(Error::new(format!(
                "the PMU counts none of these events ({}): ask for others, as cycles",
                names.join(", ")
            )));
        }
        Ok(selection)
    }

    /// Fills in slots and counters.
    fn choose(&mut self, pmu: &Pmu) {
        self.slots.clear();
        self.counters.clear();
        let mut most = self.left_out;
        for event in &self.events {
            let slot = match event.source {
                Source::TaskClock => Slot::TaskClock,
                Source::Counter(counter) if !pmu.has(counter) => Slot::Absent,
                Source::Counter(_) if most > 0 => {
                    most -= 1;
                    Slot::LeftOut
                }
                Source::Counter(counter) => {
                    let known = self.counters.iter().position(|c| *c == counter);
                    Slot::Counter(known.unwrap_or_else(|| {
                        self.counters.push(counter);
                        self.counters.len() - 1
                    }))
                }
            };
            self.slots.push(slot);
        }
        // The time comes with a counter only.
        if self.counters.is_empty() && self.slots.contains(&Slot::TaskClock) {
            self.counters.push(event::ANY);
        }
    }

    /// Asks for user mode only where the modes were left open. Whether that is another request.
    pub(crate) fn turn_to_user_mode(&mut self, pmu: &Pmu) -> bool {
        let mut turned = false;
        for event in &mut self.events {
            if let Some(user) = event.in_user_mode() {
                *event = user;
                turned = true;
            }
        }
        self.choose(pmu);
        turned
    }

    /// Leaves out one more of the default events. Whether there still is one to count.
    pub(crate) fn leave_one_out(&mut self, pmu: &Pmu) -> bool {
        if !self.by_default || self.counters.len() < 2 {
            return false;
        }
        self.left_out += 1;
        self.choose(pmu);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::Snapshot,
        event::parse_list, //
    };

    fn pmu(absent: &str) -> Pmu {
        let line = format!("pmu_count 1 counters=4 fixed=3 absent={absent}\n");
        line.parse::<Snapshot>().unwrap().pmu
    }

    fn selection(events: &str) -> Selection {
        Selection::new(&parse_list(events).unwrap(), &pmu("branch-misses")).unwrap()
    }

    #[test]
    fn each_counter_is_asked_for_once() {
        let all = selection("cycles,r3c,cycles:u,cpu-cycles:uk,task-clock,r003c:u");
        let numbers = [0, 0, 1, 0].map(Slot::Counter);
        assert_eq!(all.slots[..4], numbers);
        assert_eq!(all.slots[4..], [Slot::TaskClock, Slot::Counter(1)]);
        assert_eq!(all.counters.len(), 2);
    }

    #[test]
    fn absent_events_take_none() {
        let all = selection("branch-misses,cycles,branch-misses:u");
        assert_eq!(all.slots, [Slot::Absent, Slot::Counter(0), Slot::Absent]);
        let events = parse_list("branch-misses").unwrap();
        assert!(Selection::new(&events, &pmu("branch-misses")).is_err());
    }

    #[test]
    fn time_alone_takes_one() {
        let all = selection("task-clock");
        assert_eq!((all.slots.len(), all.counters.len()), (1, 1));
        assert_eq!(selection("task-clock,cycles").counters.len(), 1);
    }

    #[test]
    fn the_default_shrinks_until_it_fits() {
        let pmu = pmu("branch-misses");
        let mut all = Selection::new(&[], &pmu).unwrap();
        assert_eq!(all.counters.len(), 3);
        assert!(all.leave_one_out(&pmu));
        assert!(all.leave_one_out(&pmu));
        assert_eq!(
            all.slots,
            [
                Slot::TaskClock,
                Slot::Absent,
                Slot::LeftOut,
                Slot::LeftOut,
                Slot::Counter(0)
            ]
        );
        assert!(!all.leave_one_out(&pmu));
        assert!(!selection("cycles,instructions").leave_one_out(&pmu));
    }

    #[test]
    fn user_mode_for_those_who_may_not_do_more() {
        let pmu = pmu("none");
        let mut all = selection("cycles,instructions:u,task-clock");
        assert!(all.turn_to_user_mode(&pmu));
        assert_eq!(all.events[0].name, "cycles:u");
        assert!(all.counters.iter().all(|c| c.user && !c.kernel));
        assert!(!all.turn_to_user_mode(&pmu));
    }
}
