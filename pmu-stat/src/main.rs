// SPDX-License-Identifier: GPL-2.0

//! `pmu-stat`: perf stat's report of what the kernel module pmu_count counts.
//!
//! - `options`, `event`: the command line, and the events on it, by the module's own table of names
//! - `module`, `device`: loading the module, and the only file that knows the device's protocol
//! - `selection`: which counters the events take
//! - `count`: runs, from the fork to the last count; `child` and `signals` are its hands
//! - `tally`, `interval`, `stats`, `metric`: arithmetic
//! - `report`, `plot`: what is printed, and the picture
//! - `sys`: all that is unsafe

#[path = "../../architectural.rs"]
mod architectural;
mod child;
mod count;
mod device;
mod error;
mod event;
mod interval;
mod metric;
mod module;
mod options;
mod plot;
mod report;
mod selection;
mod signals;
mod stats;
mod sys;
mod tally;

use count::Ending;
use error::Result;
use module::Module;
use options::{
    Options,
    Task, //
};
use report::Report;
use signals::Signals;
use std::{
    env,
    io::{
        self,
        Write as _, //
    },
    process::ExitCode,
};

fn main() -> ExitCode {
    let ending = match options::parse(env::args_os().skip(1)) {
        Ok(Task::Say(text)) => say(&text),
        Ok(Task::Count(options)) => run(&options),
        Err(error) => Err(error),
    };
    match ending {
        Ok(Ending::Status(status)) => status.into(),
        Ok(Ending::Signal(signal)) => {
            signals::die_of(signal);
            ExitCode::from(128 + signal as u8)
        }
        Err(error) => {
            error::tell(&error);
            error.status.into()
        }
    }
}

/// Prints the text that was asked for.
fn say(text: &str) -> Result<Ending> {
    // Who closes the output has seen enough.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(Ending::Status(0))
}

/// Counts. Whatever comes, targets are removed and the module is unloaded before this returns.
fn run(options: &Options) -> Result<Ending> {
    let signals = Signals::block()?;
    let mut report = Report::open(options)?;
    interval::make_plot(options)?;
    let module = Module::open()?;
    count::count(options, module.device()?, &signals, &mut report)
}
