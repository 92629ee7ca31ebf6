// SPDX-License-Identifier: GPL-2.0

//! What `-I` and `--plot` tell: the counts of each interval.

use crate::{
    device::{
        Line,
        Tid, //
    },
    error::{
        Error,
        Result, //
    },
    options::{
        Options,
        Whom, //
    },
    plot::{
        self,
        Plot,
        Series, //
    },
    report::Report,
    selection::{
        Selection,
        Slot, //
    },
    tally::{
        self,
        Group,
        Since, //
    },
};
use std::{
    fs::{
        self,
        File, //
    },
    io,
    path::Path,
    time::Duration, //
};

/// The intervals of a run.
pub(crate) struct Intervals<'a> {
    /// What was asked for.
    options: &'a Options,
    /// When the last ended, from the start of the run.
    last: Duration,
    /// What had been counted then, for what is printed.
    printed: Since,
    /// And for the picture, which has no threads.
    drawn: Since,
    /// For each counter, when each interval ended, in seconds, and what was counted in it.
    points: Vec<Vec<(f64, f64)>>,
}

/// Makes the picture's file, so that one that cannot be written is known before anything is run.
pub(crate) fn make_plot(options: &Options) -> Result<()> {
    let Some(file) = &options.plot else {
        return Ok(());
    };
    let made = File::options().create(true).append(true).open(file);
    made.map(drop).map_err(|error| cannot_draw(file, &error))
}

/// That it cannot.
fn cannot_draw(file: &Path, error: &io::Error) -> Error {
    Error::new(format!(
        "cannot write {}: {error}; choose another file with --plot",
        file.display()
    ))
}

impl<'a> Intervals<'a> {
    /// The first begins.
    pub(crate) fn new(options: &'a Options) -> Self {
        Self {
            options,
            last: Duration::ZERO,
            printed: Since::default(),
            drawn: Since::default(),
            points: Vec::new(),
        }
    }

    /// One has ended `now`, from the start, and `lines` tell what has been counted of the targets with these ids.
    pub(crate) fn step(
        &mut self,
        report: &mut Report<'_>,
        selection: &Selection,
        now: Duration,
        lines: &[Line],
        ids: &[u64],
    ) -> Result<()> {
        if self.options.interval.is_some() {
            let groups = tally::groups(lines, ids, self.options.per_thread);
            let mut steps = self.printed.step(&groups);
            steps.retain(is_worth_a_line);
            report.interval(selection, &steps, now, now.saturating_sub(self.last))?;
        }
        if self.options.plot.is_some() {
            for group in self.drawn.step(&tally::groups(lines, ids, false)) {
                self.points.resize(group.samples.len(), Vec::new());
                for (points, sample) in self.points.iter_mut().zip(group.samples) {
                    points.push((now.as_secs_f64(), sample.count as f64));
                }
            }
        }
        self.last = now;
        Ok(())
    }

    /// Writes the picture, if there is to be one.
    pub(crate) fn draw(&self, selection: &Selection) -> Result<()> {
        let (Some(file), Some(interval)) = (&self.options.plot, self.options.step()) else {
            return Ok(());
        };
        let mut series = Vec::new();
        for (event, slot) in selection.events.iter().zip(&selection.slots) {
            if let Slot::Counter(i) = slot {
                series.push(Series {
                    name: &event.name,
                    points: self.points.get(*i).cloned().unwrap_or_default(),
                });
            }
        }
        let title = match &self.options.whom {
            Whom::Processes(_, pids) => format!("process {pids}"),
            Whom::Threads(_, tids) => format!("thread {tids}"),
            Whom::Command => {
                let words = self.options.command.iter();
                let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
                words.join(" ")
            }
        };
        let picture = plot::render(&Plot {
            title: &title,
            interval: interval.as_secs_f64(),
            series,
        });
        fs::write(file, picture).map_err(|error| cannot_draw(file, &error))
    }
}

/// Threads that have ended and had nothing more to tell would fill the page at each interval.
fn is_worth_a_line(step: &Group) -> bool {
    let idle = step.samples.iter().all(|s| s.count == 0 && s.running == 0);
    !idle
        || match step.key.1 {
            Tid::All => true,
            Tid::One(tid) => Path::new(&format!("/proc/{tid}")).exists(),
            Tid::Ended => false,
        }
}
