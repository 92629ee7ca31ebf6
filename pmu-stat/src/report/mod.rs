// SPDX-License-Identifier: GPL-2.0

//! What is printed, and where.

mod csv;
mod json;
mod text;

use crate::{
    device::Tid,
    error::{
        Error,
        Result, //
    },
    metric::Metric,
    options::{
        Format,
        Options, //
    },
    selection::{
        Selection,
        Slot, //
    },
    stats::Mean,
    sys,
    tally::{
        Group,
        Sample, //
    },
};
use std::{
    fs::File,
    io::{
        self,
        Write, //
    },
    time::Duration, //
};

/// In place of the number of an event that the PMU does not have.
const NOT_SUPPORTED: &str = "<not supported>";
/// In place of the number of an event whose tasks never ran.
const NOT_COUNTED: &str = "<not counted>";

/// The number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// Events.
    Count(u64),
    /// A time in nanoseconds, which is printed in milliseconds.
    Time(u64),
    /// There is none.
    None(&'static str),
}

impl Value {
    /// Its unit.
    fn unit(self, slot: Slot) -> &'static str {
        match slot {
            Slot::TaskClock => "msec",
            _ => "",
        }
    }
}

/// A line of what is printed.
struct Row<'a> {
    /// The thread: its name and id.
    thread: Option<(&'a str, String)>,
    /// The event as it was asked for.
    event: &'a str,
    /// The number.
    value: Value,
    /// The number's unit.
    unit: &'static str,
    /// How long the event was counted, in nanoseconds.
    running: u64,
    /// Deviation over several runs, in percent.
    noise: Option<f64>,
    /// What is told beside it.
    metric: Option<Metric>,
}

/// One run, or the mean of several.
pub(crate) struct Summary {
    /// What was counted.
    pub(crate) groups: Vec<Group>,
    /// Deviations of several runs, in percent, of each counter and at last of the time.
    pub(crate) noise: Option<(Vec<f64>, f64)>,
    /// How many runs.
    pub(crate) runs: u32,
    /// How long they took, in seconds.
    pub(crate) elapsed: Mean,
    /// The command's own times in user and in kernel mode, where they are to be shown.
    pub(crate) times: Option<(Duration, Duration)>,
}

/// Where reports go.
pub(crate) struct Report<'a> {
    /// How they look.
    options: &'a Options,
    /// Between groups of three digits.
    separator: String,
    /// The way out.
    out: Box<dyn Write>,
    /// Intervals that have been printed.
    intervals: u64,
}

impl<'a> Report<'a> {
    /// Opens the file, if it is to be one.
    pub(crate) fn open(options: &'a Options) -> Result<Self> {
        let out: Box<dyn Write> = match &options.output {
            None => Box::new(io::stderr()),
            Some(path) => {
                let mut how = File::options();
                if options.append {
                    how.append(true);
                } else {
                    how.write(true).truncate(true);
                }
                let file = how.create(true).open(path);
                Box::new(file.map_err(|error| {
                    Error::new(format!(
                        "cannot write to {}: {error}; choose another file with -o",
                        path.display()
                    ))
                })?)
            }
        };
        let separator = if options.big_num && options.format == Format::Text {
            sys::thousands_separator()
        } else {
            String::new()
        };
        let mut report = Self {
            options,
            separator,
            out,
            intervals: 0,
        };
        if options.output.is_some() && options.format != Format::Json {
            report.write(&format!("# started on {}\n\n", sys::now()))?;
        }
        Ok(report)
    }

    /// Writes it.
    fn write(&mut self, text: &str) -> Result<()> {
        self.out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush())
            .map_err(|error| Error::new(format!("cannot write the counts: {error}")))
    }

    /// Says what is told with -v, in the words of perf.
    pub(crate) fn verbose(&mut self, selection: &Selection, groups: &[Group]) -> Result<()> {
        for group in groups {
            for (event, slot) in selection.events.iter().zip(&selection.slots) {
                if let Some(sample) = sample(*slot, group) {
                    self.write(&format!(
                        "{}: {} {} {}\n",
                        event.name, sample.count, sample.running, sample.running
                    ))?;
                }
            }
        }
        Ok(())
    }

    /// The rows of one format.
    fn format(&self, rows: &[Row<'_>], since: Option<Duration>) -> String {
        match &self.options.format {
            Format::Text => text::rows(rows, since, &self.separator),
            Format::Csv(separator) => csv::rows(rows, since, separator),
            Format::Json => json::rows(rows, since),
        }
    }

    /// What was counted in the interval that has ended `since` the start and took `elapsed`.
    pub(crate) fn interval(
        &mut self,
        selection: &Selection,
        steps: &[Group],
        since: Duration,
        elapsed: Duration,
    ) -> Result<()> {
        let mut rows = self.rows(selection, steps, None, elapsed.as_secs_f64());
        if self.options.format == Format::Text {
            for row in &mut rows {
                if let (Value::Count(count), None) = (row.value, &row.metric) {
                    row.metric = Some(Metric::rate(count, elapsed.as_secs_f64()));
                }
            }
        }
        let mut page = String::new();
        if self.options.format == Format::Text && self.intervals % text::PAGE == 0 {
            page = text::interval_header(self.options.per_thread);
        }
        page += &self.format(&rows, Some(since));
        self.intervals += 1;
        self.write(&page)
    }

    /// What was counted in all.
    pub(crate) fn summary(&mut self, selection: &Selection, summary: &Summary) -> Result<()> {
        let noise = summary.noise.as_ref();
        let rows = self.rows(selection, &summary.groups, noise, summary.elapsed.value);
        let rows = self.format(&rows, None);
        if self.options.format != Format::Text {
            return self.write(&rows);
        }
        let header = text::header(self.options, summary.runs);
        self.write(&format!("{header}{rows}{}", text::footer(summary)))
    }

    /// The rows of all groups, by events.
    fn rows<'r>(
        &self,
        selection: &'r Selection,
        groups: &'r [Group],
        noise: Option<&(Vec<f64>, f64)>,
        elapsed: f64,
    ) -> Vec<Row<'r>> {
        let mut rows = Vec::new();
        for (event, slot) in selection.events.iter().zip(&selection.slots) {
            // As perf, which tries more by default than most PMUs have.
            if *slot == Slot::Absent && selection.by_default && !self.options.verbose {
                continue;
            }
            for group in groups {
                let found = sample(*slot, group);
                let value = match (slot, found) {
                    (Slot::Absent, _) => Value::None(NOT_SUPPORTED),
                    (Slot::TaskClock, Some(s)) if s.running > 0 => Value::Time(s.running),
                    (Slot::Counter(_), Some(s)) if s.running > 0 || s.count > 0 => {
                        Value::Count(s.count)
                    }
                    _ => Value::None(NOT_COUNTED),
                };
                let named = |name: &str| {
                    let mut all = selection.events.iter().zip(&selection.slots);
                    let slot = all.find(|(event, _)| base(&event.name) == name)?.1;
                    sample(*slot, group)
                };
                let metric = if selection.by_default && !matches!(value, Value::None(_)) {
                    Metric::of_default(base(&event.name), named, elapsed)
                } else {
                    None
                };
                rows.push(Row {
                    thread: self.options.per_thread.then(|| {
                        let tid = match group.key.1 {
                            Tid::One(tid) => tid.to_string(),
                            _ => "ended".to_owned(),
                        };
                        (group.name.as_str(), tid)
                    }),
                    event: &event.name,
                    value,
                    unit: value.unit(*slot),
                    running: found.map_or(0, |s| s.running),
                    noise: noise.map(|(counters, time)| match slot {
                        Slot::Counter(i) => counters.get(*i).copied().unwrap_or(0.0),
                        Slot::TaskClock => *time,
                        _ => 0.0,
                    }),
                    metric,
                });
            }
        }
        rows
    }
}

/// A default event's name without the mode that may have been chosen for it.
fn base(name: &str) -> &str {
    name.strip_suffix(":u").unwrap_or(name)
}

/// The slot's part of what the group has counted.
fn sample(slot: Slot, group: &Group) -> Option<Sample> {
    match slot {
        Slot::Counter(i) => group.samples.get(i).copied(),
        Slot::TaskClock => group.samples.first().copied(),
        Slot::Absent | Slot::LeftOut => None,
    }
}
