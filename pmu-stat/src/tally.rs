// SPDX-License-Identifier: GPL-2.0

//! What our targets have counted, in all or since the last time.

use crate::device::{
    Line,
    Tid, //
};
use std::collections::HashMap;

/// What one event of one target or thread has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Events.
    pub(crate) count: u64,
    /// Nanoseconds that its tasks ran while they were counted.
    pub(crate) running: u64,
}

impl Sample {
    /// Both together.
    fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            running: self.running.saturating_add(other.running),
        }
    }

    /// What has come since `other`.
    fn minus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_sub(other.count),
            running: self.running.saturating_sub(other.running),
        }
    }
}

/// Whose samples these are: a target's id and the thread.
pub(crate) type Key = (u64, Tid);

/// The samples of one row for each counter, in the order in which they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Whose.
    pub(crate) key: Key,
    /// What that is called.
    pub(crate) name: String,
    /// One for each counter.
    pub(crate) samples: Vec<Sample>,
}

/// The groups of the lines: one for each thread of each target, or one for the sum of all targets.
pub(crate) fn groups(lines: &[Line], ids: &[u64], per_thread: bool) -> Vec<Group> {
    let mut each: Vec<Group> = Vec::new();
    for line in lines.iter().filter(|line| ids.contains(&line.id)) {
        let sample = Sample {
            count: line.count,
            running: line.running,
        };
        let key = (line.id, line.tid);
        match each.iter_mut().find(|group| group.key == key) {
            Some(group) => group.samples.push(sample),
            None => each.push(Group {
                key,
                name: line.name.clone(),
                samples: vec![sample],
            }),
        }
    }
    if per_thread {
        each.retain(|group| group.key.1 != Tid::All);
        return each;
    }
    // A target of one thread has the lines of that thread only.
    let with_sum: Vec<u64> = each
        .iter()
        .filter(|group| group.key.1 == Tid::All)
        .map(|group| group.key.0)
        .collect();
    each.retain(|group| group.key.1 == Tid::All || !with_sum.contains(&group.key.0));
    let sum = each.into_iter().reduce(|mut sum, group| {
        for (sample, more) in sum.samples.iter_mut().zip(group.samples) {
            *sample = sample.plus(more);
        }
        sum
    });
    sum.into_iter().collect()
}

/// What was counted at the last time.
#[derive(Default)]
pub(crate) struct Since(HashMap<Key, Vec<Sample>>);

impl Since {
    /// What has come since the last call.
    pub(crate) fn step(&mut self, groups: &[Group]) -> Vec<Group> {
        let mut before = std::mem::take(&mut self.0);
        let mut steps = groups.to_vec();
        for group in &mut steps {
            self.0.insert(group.key, group.samples.clone());
            if let Some(old) = before.remove(&group.key) {
                group.take_off(&old);
            }
        }
        // Threads that have lost their lines are in the sum of the ended ones now, with all that
        // they have ever counted.
        for ((id, _), old) in before {
            if let Some(ended) = steps.iter_mut().find(|g| g.key == (id, Tid::Ended)) {
                ended.take_off(&old);
            }
        }
        steps
    }
}

impl Group {
    /// Leaves what has come since `old`.
    fn take_off(&mut self, old: &[Sample]) {
        for (sample, old) in self.samples.iter_mut().zip(old) {
            *sample = sample.minus(*old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Snapshot;

    /// "ID TID COUNT" for each line.
    fn lines(all: &[&str]) -> Vec<Line> {
        let mut text = "pmu_count 1 counters=4 fixed=3 absent=none\n".to_owned();
        for line in all {
            let words: Vec<_> = line.split(' ').collect();
            text += &format!(
                "id={} pid=1 tid={} name=\"a\" state=running event=cycles:u count={} enabled=1 running={}5 overflows=0 n=2 cpus=0 disturbed=none incomplete=none\n",
                words[0], words[1], words[2], words[2]
            );
        }
        text.parse::<Snapshot>().unwrap().lines
    }

    fn counts(groups: &[Group]) -> Vec<(Tid, Vec<u64>)> {
        let counts = |group: &Group| group.samples.iter().map(|s| s.count).collect();
        groups.iter().map(|g| (g.key.1, counts(g))).collect()
    }

    #[test]
    fn targets_are_summed_up() {
        let lines = lines(&["1 all 10", "1 all 20", "2 all 300", "2 all 400", "3 all 9"]);
        let sum = groups(&lines, &[1, 2], false);
        assert_eq!(counts(&sum), [(Tid::All, vec![310, 420])]);
        assert_eq!(sum[0].samples[0].running, 105 + 3005);
        assert_eq!(groups(&lines, &[], false), []);
    }

    #[test]
    fn threads_are_in_the_sum_already() {
        let lines = lines(&["1 all 30", "1 7 10", "1 8 15", "1 ended 5"]);
        assert_eq!(counts(&groups(&lines, &[1], false)), [(Tid::All, vec![30])]);
        assert_eq!(
            counts(&groups(&lines, &[1], true)),
            [
                (Tid::One(7), vec![10]),
                (Tid::One(8), vec![15]),
                (Tid::Ended, vec![5])
            ]
        );
    }

    #[test]
    fn one_thread_is_a_sum_of_its_own() {
        let lines = lines(&["1 7 10", "2 8 100"]);
        assert_eq!(counts(&groups(&lines, &[1, 2], false))[0].1, [110]);
        assert_eq!(groups(&lines, &[1, 2], true).len(), 2);
    }

    /// The steps of what is read one time after the other.
    fn steps(reads: &[&[&str]]) -> Vec<Vec<(Tid, Vec<u64>)>> {
        let mut since = Since::default();
        let step = |read: &&[&str]| counts(&since.step(&groups(&lines(read), &[1], true)));
        reads.iter().map(step).collect()
    }

    #[test]
    fn steps_add_up() {
        let steps = steps(&[&["1 7 10"], &["1 7 25", "1 8 4"], &["1 7 25", "1 8 5"]]);
        assert_eq!(
            steps,
            [
                vec![(Tid::One(7), vec![10])],
                vec![(Tid::One(7), vec![15]), (Tid::One(8), vec![4])],
                vec![(Tid::One(7), vec![0]), (Tid::One(8), vec![1])],
            ]
        );
    }

    #[test]
    fn what_threads_had_is_not_counted_again_among_the_ended() {
        // 7 ends with 12 and 8 with 5, then 9 with 1.
        let steps = steps(&[
            &["1 7 10", "1 8 4", "1 9 0"],
            &["1 9 1", "1 ended 17"],
            &["1 ended 18"],
        ]);
        assert_eq!(steps[1], [(Tid::One(9), vec![1]), (Tid::Ended, vec![3])]);
        assert_eq!(steps[2], [(Tid::Ended, vec![0])]);
    }
}
