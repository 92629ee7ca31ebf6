// SPDX-License-Identifier: GPL-2.0

//! Counts with a separator between them, in perf's order.

use super::{
    Row,
    Value, //
};
use std::{
    fmt::Write as _,
    time::Duration, //
};

/// The rows, of an interval that has ended `since` the start, or of all.
pub(super) fn rows(rows: &[Row<'_>], since: Option<Duration>, separator: &str) -> String {
    let mut page = String::new();
    for row in rows {
        if let Some(since) = since {
            let _ = write!(
                page,
                "{}.{:09}{separator}",
                since.as_secs(),
                since.subsec_nanos()
            );
        }
        if let Some((name, tid)) = &row.thread {
            let _ = write!(page, "{name}-{tid}{separator}");
        }
        let _ = match row.value {
            Value::Count(count) => write!(page, "{count}"),
            Value::Time(ns) => write!(page, "{:.2}", ns as f64 / 1e6),
            Value::None(why) => write!(page, "{why}"),
        };
        let _ = write!(page, "{separator}{}{separator}{}", row.unit, row.event);
        if let Some(noise) = row.noise {
            let _ = write!(page, "{separator}{noise:.2}%");
        }
        let _ = write!(
            page,
            "{separator}{}{separator}100.00{separator}",
            row.running
        );
        if let Some(metric) = &row.metric {
            // As perf, which leaves out what is no number.
            if metric.value.is_finite() {
                let _ = write!(page, "{:.1}", metric.value);
            }
            let _ = write!(page, "{separator}{}", metric.unit);
        } else {
            page += separator;
        }
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;

    fn row(value: Value) -> Row<'static> {
        Row {
            thread: None,
            event: "cycles",
            value,
            unit: "",
            running: 1_362_327,
            noise: None,
            metric: None,
        }
    }

    #[test]
    fn fields() {
        let all = [
            row(Value::Count(400_012)),
            Row {
                noise: Some(0.441),
                ..row(Value::Count(803_393))
            },
            Row {
                running: 0,
                ..row(Value::None(crate::report::NOT_SUPPORTED))
            },
        ];
        assert_eq!(
            rows(&all, None, ","),
            "400012,,cycles,1362327,100.00,,\n803393,,cycles,0.44%,1362327,100.00,,\n<not supported>,,cycles,0,100.00,,\n"
        );
    }

    #[test]
    fn metrics() {
        let metric = |value| {
            Some(Metric {
                value,
                unit: "GHz  cycles_frequency".to_owned(),
                threshold: None,
            })
        };
        let all = [
            Row {
                metric: metric(0.54),
                ..row(Value::Count(1))
            },
            Row {
                unit: "msec",
                metric: metric(f64::NAN),
                ..row(Value::Time(1_513_936))
            },
        ];
        assert_eq!(
            rows(&all, None, ";"),
            "1;;cycles;1362327;100.00;0.5;GHz  cycles_frequency\n1.51;msec;cycles;1362327;100.00;;GHz  cycles_frequency\n"
        );
    }

    #[test]
    fn intervals_and_threads() {
        let thread = Row {
            thread: Some(("sleep", "196".to_owned())),
            ..row(Value::Count(5))
        };
        let since = Some(Duration::from_nanos(2_100_321_710));
        assert_eq!(
            rows(&[thread], since, ","),
            "2.100321710,sleep-196,5,,cycles,1362327,100.00,,\n"
        );
    }
}
