// SPDX-License-Identifier: GPL-2.0

//! What can be told from several counts together: the metrics of perf's default events.

use crate::tally::Sample;

/// A number that comments a count.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    /// The number; NaN where a part of it is missing.
    pub(crate) value: f64,
    /// Its unit and, as perf has it, its name.
    pub(crate) unit: String,
    /// Whether it is a good one, as perf sees it.
    pub(crate) threshold: Option<&'static str>,
}

impl Metric {
    /// A metric of perf's.
    fn named(value: f64, unit: &str) -> Self {
        Self {
            value,
            unit: unit.to_owned(),
            threshold: None,
        }
    }

    /// Which is bad if `bad`.
    fn judged(self, bad: bool) -> Self {
        let judgement = if bad { "bad" } else { "good" };
        Self {
            threshold: (!self.value.is_nan()).then_some(judgement),
            ..self
        }
    }

    /// Events a second, with a prefix that leaves at most four digits.
    pub(crate) fn rate(count: u64, seconds: f64) -> Self {
        let mut rate = count as f64 / seconds;
        let mut prefix = "";
        for larger in ["K", "M", "G", "T"] {
            if rate < 1000.0 {
                break;
            }
            rate /= 1000.0;
            prefix = larger;
        }
        Self::named(rate, &format!("{prefix}/sec"))
    }

    /// The metric that perf prints beside this default event. `sample` has that of another event.
    /// `elapsed` is in seconds.
    pub(crate) fn of_default(
        event: &str,
        sample: impl Fn(&str) -> Option<Sample>,
        elapsed: f64,
    ) -> Option<Self> {
        let count = |name| sample(name).map_or(f64::NAN, |sample| sample.count as f64);
        let nanoseconds = sample(event).map_or(f64::NAN, |sample| sample.running as f64);
        match event {
            "task-clock" => Some(Self::named(
                nanoseconds / 1e9 / elapsed,
                "CPUs  CPUs_utilized",
            )),
            "branches" => Some(Self::named(
                count("branches") * 1000.0 / nanoseconds,
                "M/sec  branch_frequency",
            )),
            "cpu-cycles" => Some(Self::named(
                count("cpu-cycles") / nanoseconds,
                "GHz  cycles_frequency",
            )),
            "instructions" => {
                let value = count("instructions") / count("cpu-cycles");
                Some(Self::named(value, "instructions  insn_per_cycle").judged(value < 1.0))
            }
            "branch-misses" => {
                let value = count("branch-misses") / count("branches");
                Some(Self::named(value * 100.0, "%  branch_miss_rate").judged(value > 0.05))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(event: &str) -> Metric {
        let sample = |name: &str| {
            let count = match name {
                "branch-misses" => 60,
                "branches" => 1000,
                "cpu-cycles" => 4000,
                "instructions" => 2000,
                _ => 0,
            };
            let running = 2_000;
            Some(Sample { count, running })
        };
        Metric::of_default(event, sample, 1e-6).unwrap()
    }

    #[test]
    fn perfs_metrics() {
        assert_eq!(metric("task-clock").value, 2.0);
        assert_eq!(metric("branches").value, 500.0);
        assert_eq!(metric("cpu-cycles").value, 2.0);
        assert_eq!(metric("instructions").value, 0.5);
        assert_eq!(metric("instructions").threshold, Some("bad"));
        assert_eq!(metric("branch-misses").value, 6.0);
        assert_eq!(metric("branch-misses").threshold, Some("bad"));
        assert_eq!(Metric::of_default("ref-cycles", |_| None, 1.0), None);
    }

    #[test]
    fn without_a_part_there_is_no_number() {
        let without = |name: &str| (name == "instructions").then(Sample::default);
        let ipc = Metric::of_default("instructions", without, 1.0).unwrap();
        assert!(ipc.value.is_nan() && ipc.threshold.is_none());
    }

    #[test]
    fn rates() {
        let rate = |count, seconds| {
            let rate = Metric::rate(count, seconds);
            (rate.value, rate.unit)
        };
        assert_eq!(rate(0, 0.1), (0.0, "/sec".to_owned()));
        assert_eq!(rate(50, 0.1), (500.0, "/sec".to_owned()));
        assert_eq!(rate(100, 0.1), (1.0, "K/sec".to_owned()));
        assert_eq!(rate(25_000_000, 0.1), (250.0, "M/sec".to_owned()));
        assert_eq!(rate(2_500_000_000, 0.5), (5.0, "G/sec".to_owned()));
    }
}
