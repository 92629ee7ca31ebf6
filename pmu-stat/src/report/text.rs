// SPDX-License-Identifier: GPL-2.0

//! Counts for people, in perf's columns.

use super::{
    Row,
    Summary,
    Value, //
};
use crate::options::{
    Options,
    Whom, //
};
use std::{
    fmt::Write as _,
    time::Duration, //
};

/// Intervals to a page, which has a header.
pub(super) const PAGE: u64 = 25;

/// The rows, of an interval that has ended `since` the start, or of all. `separator` groups digits.
pub(super) fn rows(rows: &[Row<'_>], since: Option<Duration>, separator: &str) -> String {
    let mut page = String::new();
    for row in rows {
        let mut line = String::new();
        if let Some(since) = since {
            let _ = write!(line, "{:>6}.{:09} ", since.as_secs(), since.subsec_nanos());
        }
        if let Some((name, tid)) = &row.thread {
            let _ = write!(line, "{name:>16}-{tid:<7} ");
        }
        let value = match row.value {
            Value::Count(count) => group(&count.to_string(), separator),
            Value::Time(ns) => group(&format!("{:.2}", ns as f64 / 1e6), separator),
            Value::None(why) => why.to_owned(),
        };
        let _ = write!(line, "{value:>18} {:<4} {:<32}", row.unit, row.event);
        let metric = match &row.metric {
            Some(metric) => format!(" # {:8.1} {}", metric.value, metric.unit),
            None => String::new(),
        };
        let _ = write!(line, "{metric:<38}");
        match row.noise {
            Some(noise) if noise != 0.0 => {
                let _ = write!(line, "  ( +-{noise:6.2}% )");
            }
            _ => {}
        }
        page += line.trim_end();
        page.push('\n');
    }
    page
}

/// What stands above a page of intervals.
pub(super) fn interval_header(per_thread: bool) -> String {
    let thread = if per_thread {
        format!(" {:>16}-{:<7}", "comm", "pid")
    } else {
        String::new()
    };
    format!(
        "#{:>15}{thread} {:>18} {:>4} events\n",
        "time", "counts", "unit"
    )
}

/// What stands above the counts of all.
pub(super) fn header(options: &Options, runs: u32) -> String {
    let whom = match &options.whom {
        Whom::Processes(_, pids) => format!("process id '{pids}'"),
        Whom::Threads(_, tids) => format!("thread id '{tids}'"),
        Whom::Command => {
            let words: Vec<_> = options
                .command
                .iter()
                .map(|w| w.to_string_lossy())
                .collect();
            format!("'{}'", words.join(" "))
        }
    };
    let runs = if runs > 1 {
        format!(" ({runs} runs)")
    } else {
        String::new()
    };
    format!("\n Performance counter stats for {whom}{runs}:\n\n")
}

/// What stands below them.
pub(super) fn footer(summary: &Summary) -> String {
    let elapsed = summary.elapsed;
    let mut footer = format!("\n {:17.9}", elapsed.value);
    if summary.runs > 1 {
        let _ = write!(footer, " +- {:.9} seconds time elapsed", elapsed.deviation);
        if elapsed.percent() != 0.0 {
            let _ = write!(footer, "  ( +-{:6.2}% )", elapsed.percent());
        }
    } else {
        footer += " seconds time elapsed";
        if let Some((user, system)) = summary.times {
            let _ = write!(footer, "\n\n {:17.9} seconds user", user.as_secs_f64());
            let _ = write!(footer, "\n {:17.9} seconds sys\n", system.as_secs_f64());
        }
    }
    footer + "\n\n"
}

/// Puts the separator between groups of three digits.
fn group(number: &str, separator: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut grouped = String::new();
    for (i, digit) in number.chars().enumerate() {
        if i > 0 && i < whole && (whole - i) % 3 == 0 {
            grouped += separator;
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metric::Metric,
        stats::Mean, //
    };

    fn row(event: &str, value: Value) -> Row<'_> {
        Row {
            thread: None,
            event,
            value,
            unit: "",
            running: 1,
            noise: None,
            metric: None,
        }
    }

    #[test]
    fn columns() {
        let all = [
            row("instructions:u", Value::Count(200_006)),
            row("branch-misses", Value::None(crate::report::NOT_SUPPORTED)),
            Row {
                unit: "msec",
                ..row("task-clock", Value::Time(166_514_999))
            },
        ];
        assert_eq!(
            rows(&all, None, ""),
            "            200006      instructions:u\n   <not supported>      branch-misses\n            166.51 msec task-clock\n"
        );
    }

    #[test]
    fn metrics_and_noise_have_columns_too() {
        let metric = Some(Metric {
            value: 0.5,
            unit: "instructions  insn_per_cycle".to_owned(),
            threshold: None,
        });
        let with = Row {
            metric,
            noise: Some(1.054),
            ..row("instructions", Value::Count(736_562))
        };
        assert_eq!(
            rows(&[with], None, ""),
            "            736562      instructions                     #      0.5 instructions  insn_per_cycle  ( +-  1.05% )\n"
        );
        let without = Row {
            noise: Some(0.0),
            ..row("cycles", Value::Count(1))
        };
        assert!(rows(&[without], None, "").ends_with(" cycles\n"));
        let noisy = Row {
            noise: Some(12.5),
            ..row("cycles", Value::Count(821_402))
        };
        assert_eq!(
            rows(&[noisy], None, ""),
            "            821402      cycles                                                                  ( +- 12.50% )\n"
        );
    }

    #[test]
    fn intervals_and_threads() {
        let thread = Row {
            thread: Some(("sleep", "196".to_owned())),
            ..row("cycles", Value::None(crate::report::NOT_COUNTED))
        };
        assert_eq!(
            rows(&[thread], Some(Duration::from_nanos(100_633_025)), ""),
            "     0.100633025            sleep-196          <not counted>      cycles\n"
        );
        assert_eq!(
            interval_header(false),
            "#           time             counts unit events\n"
        );
        assert_eq!(
            interval_header(true),
            "#           time             comm-pid                 counts unit events\n"
        );
    }

    #[test]
    fn digits_in_groups() {
        for (number, grouped) in [
            ("0", "0"),
            ("999", "999"),
            ("1000", "1,000"),
            ("123456", "123,456"),
            ("1234567", "1,234,567"),
            ("1234.56", "1,234.56"),
            ("12.345678", "12.345678"),
        ] {
            assert_eq!(group(number, ","), grouped);
            assert_eq!(group(number, ""), number);
        }
    }

    #[test]
    fn footers() {
        let elapsed = |value, deviation| Mean { value, deviation };
        let mut summary = Summary {
            groups: Vec::new(),
            noise: None,
            runs: 1,
            elapsed: elapsed(0.172_997_822, 0.0),
            times: Some((Duration::from_millis(30), Duration::from_millis(141))),
        };
        assert_eq!(
            footer(&summary),
            "\n       0.172997822 seconds time elapsed\n\n       0.030000000 seconds user\n       0.141000000 seconds sys\n\n\n"
        );
        summary.times = None;
        assert_eq!(
            footer(&summary),
            "\n       0.172997822 seconds time elapsed\n\n"
        );
        summary.runs = 3;
        summary.elapsed = elapsed(0.01, 0.001);
        assert_eq!(
            footer(&summary),
            "\n       0.010000000 +- 0.001000000 seconds time elapsed  ( +- 10.00% )\n\n"
        );
    }
}
