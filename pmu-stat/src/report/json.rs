// SPDX-License-Identifier: GPL-2.0

//! Counts as JSON: an object a line, with perf's keys in perf's order and spelling, so that those who
//! look for them with a pattern find them as well.

use super::{
    Row,
    Value, //
};
use serde_json::Value as Json;
use std::time::Duration;

/// The rows, of an interval that has ended `since` the start, or of all.
pub(super) fn rows(rows: &[Row<'_>], since: Option<Duration>) -> String {
    let mut page = String::new();
    for row in rows {
        let mut fields = Vec::new();
        let mut field = |key: &str, value: String| fields.push(format!("\"{key}\" : {value}"));
        if let Some(since) = since {
            field(
                "interval",
                format!("{}.{:09}", since.as_secs(), since.subsec_nanos()),
            );
        }
        if let Some((name, tid)) = &row.thread {
            field("thread", string(format!("{name}-{tid}")));
        }
        let value = match row.value {
            Value::Count(count) => format!("{count}.000000"),
            Value::Time(ns) => format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000),
            Value::None(why) => why.to_owned(),
        };
        field("counter-value", string(value));
        field("unit", string(row.unit));
        field("event", string(row.event));
        if let Some(noise) = row.noise {
            field("variance", format!("{noise:.2}"));
        }
        field("event-runtime", row.running.to_string());
        field("pcnt-running", "100.00".to_owned());
        if let Some(metric) = &row.metric {
            let value = if metric.value.is_nan() {
                "nan".to_owned()
            } else {
                format!("{:.6}", metric.value)
            };
            field("metric-value", string(value));
            field("metric-unit", string(metric.unit.as_str()));
            if let Some(threshold) = metric.threshold {
                field("metric-threshold", string(threshold));
            }
        }
        page += &format!("{{{}}}\n", fields.join(", "));
    }
    page
}

/// A string in quotes.
fn string(text: impl Into<String>) -> String {
    Json::String(text.into()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;

    fn row(value: Value) -> Row<'static> {
        Row {
            thread: None,
            event: "instructions:u",
            value,
            unit: "",
            running: 2_200_419,
            noise: None,
            metric: None,
        }
    }

    #[test]
    fn perfs_spelling() {
        assert_eq!(
            rows(&[row(Value::Count(200_006))], None),
            "{\"counter-value\" : \"200006.000000\", \"unit\" : \"\", \"event\" : \"instructions:u\", \"event-runtime\" : 2200419, \"pcnt-running\" : 100.00}\n"
        );
        let time = rows(&[row(Value::Time(1_446_052))], None);
        assert!(time.contains("\"1.446052\""), "{time}");
        let large = rows(&[row(Value::Count(u64::MAX))], None);
        assert!(large.contains("\"18446744073709551615.000000\""), "{large}");
    }

    #[test]
    fn all_keys() {
        let full = Row {
            thread: Some(("sleep", "196".to_owned())),
            noise: Some(0.5),
            metric: Some(Metric {
                value: 0.5,
                unit: "instructions  insn_per_cycle".to_owned(),
                threshold: Some("bad"),
            }),
            ..row(Value::Count(1))
        };
        let line = rows(&[full], Some(Duration::from_nanos(100_480_281)));
        let parsed: Json = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["interval"], 0.100_480_281);
        assert_eq!(parsed["thread"], "sleep-196");
        let mut keys = Vec::new();
        for part in line.split("\" : ") {
            keys.extend(part.rsplit('"').next());
        }
        assert_eq!(
            keys[..keys.len() - 1],
            [
                "interval",
                "thread",
                "counter-value",
                "unit",
                "event",
                "variance",
                "event-runtime",
                "pcnt-running",
                "metric-value",
                "metric-unit",
                "metric-threshold"
            ]
        );
    }

    #[test]
    fn names_may_hold_anything() {
        let odd = Row {
            thread: Some(("a\"b\\c\n\u{e4}", "1".to_owned())),
            ..row(Value::None("<not counted>"))
        };
        let parsed: Json = serde_json::from_str(&rows(&[odd], None)).unwrap();
        assert_eq!(parsed["thread"], "a\"b\\c\n\u{e4}-1");
        assert_eq!(parsed["counter-value"], "<not counted>");
    }
}
