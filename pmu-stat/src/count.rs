// SPDX-License-Identifier: GPL-2.0

//! Counting: one run or several.

use crate::{
    child::{
        self,
        Child,
        End, //
    },
    device::{
        Device,
        Refusal,
        Request,
        Snapshot,
        Target,
        Threads, //
    },
    error::{
        tell,
        Error,
        Result, //
    },
    interval::Intervals,
    options::{
        Options,
        Whom, //
    },
    report::{
        Report,
        Summary, //
    },
    selection::Selection,
    signals::Signals,
    stats::Mean,
    sys,
    tally::{
        self,
        Group,
        Sample, //
    },
};
use nix::{
    errno::Errno,
    poll::{
        self,
        PollFd,
        PollFlags,
        PollTimeout, //
    },
    sys::{
        resource::{
            self,
            Usage,
            UsageWho, //
        },
        signal::Signal,
        time::TimeVal, //
    },
};
use std::{
    ffi::CString,
    fs,
    os::fd::{
        AsFd as _,
        OwnedFd, //
    },
    time::{
        Duration,
        Instant, //
    },
};

/// How the program is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With this status.
    Status(u8),
    /// By this signal.
    Signal(Signal),
}

/// Why a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The command has ended.
    Command(End),
    /// All that were to be counted have.
    Gone,
    /// By a signal to this program.
    Signal(Signal),
}

/// A run.
struct Run {
    /// What was counted.
    groups: Vec<Group>,
    /// How long it took.
    elapsed: Duration,
    /// The command's times in user and in kernel mode.
    times: (Duration, Duration),
    /// Why it is over.
    over: Over,
}

/// All that a run needs.
struct Session<'a> {
    /// What was asked for.
    options: &'a Options,
    /// Where it is counted.
    device: &'a Device,
    /// What is counted.
    selection: Selection,
    /// The command.
    arguments: Vec<CString>,
    /// The processes or threads, if it is not the command.
    ids: Vec<i32>,
    /// What may come meanwhile.
    signals: &'a Signals,
}

/// Does all that the options ask for.
pub(crate) fn count(
    options: &Options,
    device: &Device,
    signals: &Signals,
    report: &mut Report<'_>,
) -> Result<Ending> {
    let mut session = Session {
        options,
        device,
        selection: Selection::new(&options.events, &device.read()?.pmu)?,
        arguments: child::arguments(&options.command)?,
        ids: match &options.whom {
            Whom::Command => Vec::new(),
            Whom::Processes(pids, _) => processes(pids)?,
            Whom::Threads(tids, _) => tids.clone(),
        },
        signals,
    };
    let endless = options.repeat == 0;
    let mut runs = Vec::new();
    loop {
        let run = session.run(report)?;
        let over = run.over;
        // Of the signals, as with perf, only Ctrl-C leaves the counts to be printed, unless the
        // repetition is endless.
        if matches!(over, Over::Signal(signal) if endless || signal != Signal::SIGINT) {
            return Ok(over.ending());
        }
        if options.verbose {
            report.verbose(&session.selection, &run.groups)?;
        }
        runs.push(run);
        let stopped = !matches!(over, Over::Command(End::Exited(_)));
        let complete = stopped || endless || runs.len() as u64 == u64::from(options.repeat);
        if complete && options.interval.is_none() {
            report.summary(&session.selection, &session.summary(&runs))?;
        }
        if endless && !stopped {
            runs.clear();
        } else if complete {
            return Ok(over.ending());
        }
    }
}

impl Over {
    /// What the program makes of it.
    fn ending(self) -> Ending {
        let status = match self {
            Self::Command(End::Exited(status)) => status,
            Self::Command(End::Killed(signal)) => 128 + signal,
            Self::Gone => 0,
            Self::Signal(signal) => return Ending::Signal(signal),
        };
        Ending::Status(u8::try_from(status).unwrap_or(u8::MAX))
    }
}

/// The ids of the processes that these are, or are threads of.
fn processes(pids: &[i32]) -> Result<Vec<i32>> {
    let mut processes = Vec::new();
    for pid in pids {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let process = process.and_then(|id| id.trim().parse().ok());
        let process = process.ok_or_else(|| no_process(*pid))?;
        if !processes.contains(&process) {
            processes.push(process);
        }
    }
    Ok(processes)
}

/// A process or thread that is not there.
fn no_process(pid: i32) -> Error {
    Error::no_target(format!(
        "there is no process or thread {pid}; ps tells which there are"
    ))
}

impl<'a> Session<'a> {
    /// Counts once.
    fn run(&mut self, report: &mut Report<'_>) -> Result<Run> {
        let mut child = match self.arguments.is_empty() {
            true => None,
            false => Some(Child::prepare(&self.arguments, &self.signals.before)?),
        };
        let alive = self.pidfds()?;
        let targets = self.add(child.as_ref().map(|child| child.pid.as_raw()))?;
        let ids: Vec<_> = targets.iter().map(|target| target.id).collect();
        let before = usage();
        let start = Instant::now();
        let mut intervals = Intervals::new(self.options);
        if let Some(child) = &mut child {
            child.start().map_err(|errno| self.workload_failed(errno))?;
        }
        let over = self.wait(start, child.as_mut(), alive, || {
            let now = start.elapsed();
            intervals.step(
                report,
                &self.selection,
                now,
                &self.device.read()?.lines,
                &ids,
            )
        })?;
        let elapsed = start.elapsed();
        let times = (
            since(&before, &usage(), Usage::user_time),
            since(&before, &usage(), Usage::system_time),
        );
        if let Over::Command(End::Killed(signal)) = over {
            tell(format_args!(
                "{}: {}",
                self.command(),
                sys::describe(signal)
            ));
        }
        let snapshot = self.device.read()?;
        intervals.step(report, &self.selection, elapsed, &snapshot.lines, &ids)?;
        self.remark(&snapshot, &ids);
        drop(targets);
        intervals.draw(&self.selection)?;
        Ok(Run {
            groups: tally::groups(&snapshot.lines, &ids, self.options.per_thread),
            elapsed,
            times,
            over,
        })
    }

    /// The command's name.
    fn command(&self) -> String {
        let name = self.options.command.first();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// A command that cannot be run.
    fn workload_failed(&self, errno: Errno) -> Error {
        Error::new(format!(
            "Workload failed: cannot run '{}': {}",
            self.command(),
            errno.desc()
        ))
    }

    /// Files that tell of the end of those who are counted. A command tells by SIGCHLD.
    fn pidfds(&self) -> Result<Vec<OwnedFd>> {
        let threads = matches!(self.options.whom, Whom::Threads(..));
        let open = |id: &i32| {
            sys::pidfd(*id, threads).map_err(|errno| match errno {
                Errno::ESRCH => no_process(*id),
                errno => Error::new(format!("cannot watch process {id}: {}", errno.desc())),
            })
        };
        self.ids.iter().map(open).collect()
    }

    /// Begins to count, with less than was asked for where perf would do the same.
    fn add(&mut self, child: Option<i32>) -> Result<Vec<Target<'a>>> {
        loop {
            let refusal = match self.add_all(child) {
                Ok(targets) => return Ok(targets),
                Err(refusal) => refusal,
            };
            let pmu = self.device.read()?.pmu;
            let changed = match refusal.errno {
                Errno::EPERM => self.selection.turn_to_user_mode(&pmu),
                Errno::ENOSPC => self.selection.leave_one_out(&pmu),
                _ => false,
            };
            if !changed {
                return Err(refusal.error);
            }
        }
    }

    /// Begins to count all, or none.
    fn add_all(&self, child: Option<i32>) -> std::result::Result<Vec<Target<'a>>, Refusal> {
        let of_command = self.options.whom == Whom::Command;
        let ids = match child {
            Some(child) if of_command => &[child][..],
            _ => &self.ids[..],
        };
        let add = |id: &i32| {
            self.device.add(&Request {
                pid: *id,
                counters: &self.selection.counters,
                inherit: self.options.inherit,
                threads: match self.options.whom {
                    Whom::Threads(..) => Threads::One,
                    _ if self.options.per_thread => Threads::Each,
                    _ => Threads::All,
                },
                on_exec: of_command,
            })
        };
        ids.iter().map(add).collect()
    }

    /// Waits until the run is over, and calls `step` at the end of each interval but the last.
    fn wait(
        &self,
        start: Instant,
        mut child: Option<&mut Child>,
        mut alive: Vec<OwnedFd>,
        mut step: impl FnMut() -> Result<()>,
    ) -> Result<Over> {
        let period = self.options.step();
        let mut due = period.map(|period| start + period);
        loop {
            let gone = self.poll(&alive, due)?;
            while let Some(signal) = self.signals.next() {
                match signal {
                    Signal::SIGCHLD => {}
                    // It is for the command, which has it from the terminal; but something has to
                    // end what would go on for ever.
                    Signal::SIGINT if child.is_some() && !self.is_endless() => {}
                    signal => return Ok(Over::Signal(signal)),
                }
            }
            let mut gone = gone.iter();
            alive.retain(|_| gone.next() != Some(&true));
            match &mut child {
                Some(child) => {
                    if let Some(end) = child.ended() {
                        return Ok(Over::Command(end));
                    }
                }
                None if alive.is_empty() => return Ok(Over::Gone),
                None => {}
            }
            if let (Some(time), Some(period)) = (&mut due, period) {
                if *time <= Instant::now() {
                    step()?;
                    // What could not be kept is left out.
                    while *time <= Instant::now() {
                        *time += period;
                    }
                }
            }
        }
    }

    /// Whether reports go on until somebody ends them.
    fn is_endless(&self) -> bool {
        self.options.interval.is_some() || self.options.repeat == 0
    }

    /// Waits for a signal, the time, or the end of one of these; says which of them have ended.
    fn poll(&self, alive: &[OwnedFd], due: Option<Instant>) -> Result<Vec<bool>> {
        let timeout = match due {
            None => PollTimeout::NONE,
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                let ms = left.as_nanos().div_ceil(1_000_000);
                PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut files = vec![PollFd::new(self.signals.file.as_fd(), PollFlags::POLLIN)];
        files.extend(
            alive
                .iter()
                .map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)),
        );
        match poll::poll(&mut files, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::new(format!("cannot wait: {}", errno.desc()))),
        }
        let ended = |file: &PollFd<'_>| file.any().unwrap_or(false);
        Ok(files[1..].iter().map(ended).collect())
    }

    /// Says what the counts may suffer from, and with -v where they come from.
    fn remark(&self, snapshot: &Snapshot, ids: &[u64]) {
        for line in snapshot.lines.iter().filter(|line| ids.contains(&line.id)) {
            if self.options.verbose {
                tell(format_args!(
                    "target {}: {} on CPUs {}, {} overflows",
                    line.id, line.event, line.cpus, line.overflows
                ));
            }
            if line.disturbed != "none" {
                tell(format_args!(
                    "pmu-stat: warning: somebody else has written to the PMU of CPUs {}: {} may be wrong (dmesg)",
                    line.disturbed, line.event
                ));
            }
            if line.incomplete != "none" {
                tell(format_args!(
                    "pmu-stat: warning: CPUs {} could not be programmed: {} lacks what ran there (dmesg)",
                    line.incomplete, line.event
                ));
            }
        }
    }

    /// The mean of the runs.
    fn summary(&self, runs: &[Run]) -> Summary {
        let mut groups = runs.last().map_or(Vec::new(), |run| run.groups.clone());
        let mut noise = None;
        // Of several there are no threads, so one group at most.
        if let ([group], true) = (&mut groups[..], self.options.repeat > 1) {
            let mut counters = Vec::new();
            let mut time = 0.0;
            for (i, mean) in group.samples.iter_mut().enumerate() {
                let samples = runs
                    .iter()
                    .filter_map(|run| run.groups.first()?.samples.get(i));
                let count = Mean::of(samples.clone().map(|sample| sample.count as f64));
                let running = Mean::of(samples.map(|sample| sample.running as f64));
                *mean = Sample {
                    count: count.value.round() as u64,
                    running: running.value.round() as u64,
                };
                counters.push(count.percent());
                time = running.percent();
            }
            noise = Some((counters, time));
        }
        let elapsed = Mean::of(runs.iter().map(|run| run.elapsed.as_secs_f64()));
        let shown = self.options.repeat <= 1 && self.options.whom == Whom::Command;
        Summary {
            groups,
            noise,
            runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            elapsed,
            times: runs.last().filter(|_| shown).map(|run| run.times),
        }
    }
}

/// What our ended children have used.
fn usage() -> Option<Usage> {
    resource::getrusage(UsageWho::RUSAGE_CHILDREN).ok()
}

/// The time between the two.
fn since(before: &Option<Usage>, after: &Option<Usage>, time: fn(&Usage) -> TimeVal) -> Duration {
    let time = |usage: &Option<Usage>| {
        let time = usage.as_ref().map(time)?;
        let seconds = u64::try_from(time.tv_sec()).ok()?;
        let microseconds = u64::try_from(time.tv_usec()).ok()?;
        Some(Duration::from_secs(seconds) + Duration::from_micros(microseconds))
    };
    let (before, after) = (time(before), time(after));
    after
        .unwrap_or_default()
        .saturating_sub(before.unwrap_or_default())
}
