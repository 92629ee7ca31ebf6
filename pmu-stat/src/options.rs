// SPDX-License-Identifier: GPL-2.0

//! The command line: perf stat's, as far as the module can do the same.

use crate::{
    error::{
        Error,
        Result, //
    },
    event::{
        self,
        Event, //
    },
};
use lexopt::{
    Arg,
    Parser,
    ValueExt as _, //
};
use std::{
    ffi::OsString,
    path::PathBuf,
    time::Duration, //
};

/// What `--help` says.
const HELP: &str = "\
Usage: pmu-stat [OPTION]... COMMAND [ARGUMENT]...
       pmu-stat [OPTION]... -p PID[,PID]... | -t TID[,TID]... [COMMAND [ARGUMENT]...]

Counts events of processes with the kernel module pmu_count, and reports them as perf stat does.

  -e, --event EVENT[,EVENT]...   what to count, with :u, :k or :uk for the modes; may be repeated:
                                 cycles, instructions, ref-cycles, branches, branch-misses,
                                 cache-references, cache-misses, task-clock, or raw as r1d0
  -p, --pid PID[,PID]...         count these processes, until they or COMMAND have ended, or Ctrl-C
  -t, --tid TID[,TID]...         count these threads
  -i, --no-inherit               leave out what the command or process makes later
  -I, --interval-print MS        print the counts of each MS milliseconds
  -r, --repeat N                 run the command N times, print mean and deviation (0: for ever)
      --per-thread               a line for each thread
  -x, --field-separator SEP      print values with this between them
  -j, --json-output              print JSON, one object a line
  -o, --output FILE              print to the file, and not to the standard error
      --append                   add to the file
      --plot FILE.svg            draw the counts of each interval (-I, or 100 ms)
  -B, --[no-]big-num             group digits by threes as the locale has it (default)
  -v, --verbose                  tell more
  -h, --help                     this
      --version                  the version

Environment: PMU_COUNT_MODULE=FILE is the module to load if it is not loaded and modprobe has none.
See pmu-stat(8).
";

/// Interval of a picture if none is asked for.
const PLOT_INTERVAL: Duration = Duration::from_millis(100);

/// How to write the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// With this separator.
    Csv(String),
    /// An object a line.
    Json,
}

/// Whom to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// The command.
    Command,
    /// Processes, and how they were written.
    Processes(Vec<i32>, String),
    /// Threads, and how they were written.
    Threads(Vec<i32>, String),
}

/// All that was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// What to count; empty for the default.
    pub(crate) events: Vec<Event>,
    /// Whom to count.
    pub(crate) whom: Whom,
    /// Whether what they make later counts as well.
    pub(crate) inherit: bool,
    /// How long an interval is, if they are to be printed.
    pub(crate) interval: Option<Duration>,
    /// How many runs; 0 for no end.
    pub(crate) repeat: u32,
    /// Whether threads have lines of their own.
    pub(crate) per_thread: bool,
    /// How to write the counts.
    pub(crate) format: Format,
    /// Where to write them, if not to the standard error.
    pub(crate) output: Option<PathBuf>,
    /// Whether to keep what the file has.
    pub(crate) append: bool,
    /// The file of the picture.
    pub(crate) plot: Option<PathBuf>,
    /// Whether digits are grouped as the locale has it.
    pub(crate) big_num: bool,
    /// Whether to tell more.
    pub(crate) verbose: bool,
    /// The command and its arguments.
    pub(crate) command: Vec<OsString>,
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Task {
    /// Counting.
    Count(Box<Options>),
    /// Only this text.
    Say(String),
}

impl Options {
    /// How often to read the counts while they run.
    pub(crate) fn step(&self) -> Option<Duration> {
        self.interval
            .or_else(|| self.plot.as_ref().map(|_| PLOT_INTERVAL))
    }
}

/// Reads the command line, without the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Task> {
    let mut pids = None;
    let mut tids = None;
    let mut separator = None;
    let mut json = false;
    let mut big_num = None;
    let mut options = Options {
        events: Vec::new(),
        whom: Whom::Command,
        inherit: true,
        interval: None,
        repeat: 1,
        per_thread: false,
        format: Format::Text,
        output: None,
        append: false,
        plot: None,
        big_num: true,
        verbose: false,
        command: Vec::new(),
    };
    let wrong = |error: lexopt::Error| Error::usage(error);
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Arg::Short('e') | Arg::Long("event") => {
                let list = text(&mut parser)?;
                options.events.extend(event::parse_list(&list)?);
            }
            Arg::Short('p') | Arg::Long("pid") => pids = Some(text(&mut parser)?),
            Arg::Short('t') | Arg::Long("tid") => tids = Some(text(&mut parser)?),
            Arg::Short('i') | Arg::Long("no-inherit") => options.inherit = false,
            Arg::Short('I') | Arg::Long("interval-print") => {
                let ms = number(&mut parser, "-I", "milliseconds")?;
                options.interval = (ms > 0).then(|| Duration::from_millis(ms.into()));
            }
            Arg::Short('r') | Arg::Long("repeat") => {
                options.repeat = number(&mut parser, "-r", "runs")?;
            }
            Arg::Long("per-thread") => options.per_thread = true,
            Arg::Short('x') | Arg::Long("field-separator") => {
                separator = Some(text(&mut parser)?);
            }
            Arg::Short('j') | Arg::Long("json-output") => json = true,
            Arg::Short('o') | Arg::Long("output") => {
                let file = parser.value().map_err(wrong)?;
                // As for perf, "-" is where it goes anyway.
                options.output = (file != "-").then(|| file.into());
            }
            Arg::Long("append") => options.append = true,
            Arg::Long("plot") => options.plot = Some(parser.value().map_err(wrong)?.into()),
            Arg::Short('B') | Arg::Long("big-num") => big_num = Some(true),
            Arg::Long("no-big-num") => big_num = Some(false),
            Arg::Short('v') | Arg::Long("verbose") => options.verbose = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(Task::Say(HELP.to_owned())),
            Arg::Long("version") => {
                return Ok(Task::Say(format!(
                    "pmu-stat version {}\n",
                    env!("CARGO_PKG_VERSION")
                )))
            }
            Arg::Short('a') | Arg::Long("all-cpus") | Arg::Short('C') | Arg::Long("cpu") => {
                return Err(Error::usage(
                    "whole CPUs cannot be counted, only processes and threads: -p, -t or a command",
                ))
            }
            Arg::Value(command) => {
                options.command.push(command);
                options.command.extend(parser.raw_args().map_err(wrong)?);
            }
            other => return Err(Error::usage(other.unexpected())),
        }
    }
    options.format = match (separator, json) {
        (Some(_), true) => {
            return Err(Error::usage("-x and -j exclude each other"));
        }
        (Some(_), false) if big_num == Some(true) => {
            return Err(Error::usage("-B is not for -x"));
        }
        (Some(separator), false) if separator == "\\t" => Format::Csv("\t".to_owned()),
        (Some(separator), false) => Format::Csv(separator),
        (None, true) => Format::Json,
        (None, false) => Format::Text,
    };
    options.big_num = big_num != Some(false);
    options.whom = match (pids, tids) {
        (Some(_), Some(_)) => return Err(Error::usage("-p and -t exclude each other")),
        (Some(pids), None) => Whom::Processes(ids(&pids)?, pids),
        (None, Some(tids)) => Whom::Threads(ids(&tids)?, tids),
        (None, None) => Whom::Command,
    };
    check(&options)?;
    Ok(Task::Count(Box::new(options)))
}

/// Whether the options go together.
fn check(options: &Options) -> Result<()> {
    let no_command = options.command.is_empty();
    if no_command && options.whom == Whom::Command {
        return Err(Error::usage(
            "there is nothing to count: give a command, or -p or -t",
        ));
    }
    if options.repeat != 1 {
        if no_command {
            return Err(Error::usage("-r repeats a command: give one"));
        }
        if options.per_thread {
            return Err(Error::usage(
                "--per-thread does not go with -r: each run has other threads",
            ));
        }
        if options.plot.is_some() {
            return Err(Error::usage(
                "--plot draws one run, so it does not go with -r",
            ));
        }
    }
    Ok(())
}

/// The value of an option, as text.
fn text(parser: &mut Parser) -> Result<String> {
    let value = parser.value().map_err(Error::usage)?;
    value.string().map_err(Error::usage)
}

/// The value of an option, as a number of something.
fn number(parser: &mut Parser, option: &str, of: &str) -> Result<u32> {
    let value = text(parser)?;
    let wrong = |_| Error::usage(format!("{option} takes a number of {of}, not '{value}'"));
    value.parse().map_err(wrong)
}

/// A list of pids or tids.
fn ids(list: &str) -> Result<Vec<i32>> {
    let mut ids = Vec::new();
    for id in list.split(',') {
        match id.trim().parse() {
            Ok(number) if number > 0 => {
                // A process is counted once however often it is named.
                if !ids.contains(&number) {
                    ids.push(number);
                }
            }
            _ => {
                return Err(Error::no_target(format!(
                    "'{id}' is no process or thread id; ps tells which there are"
                )))
            }
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options> {
        let words = line.split(' ').filter(|word| !word.is_empty());
        match parse(words.map(OsString::from))? {
            Task::Count(options) => Ok(*options),
            Task::Say(text) => panic!("{text}"),
        }
    }

    #[test]
    fn the_command_begins_where_options_end() {
        let all = options("-e cycles -r3 ls -l -e").unwrap();
        assert_eq!(all.command, ["ls", "-l", "-e"]);
        assert_eq!((all.repeat, all.events.len()), (3, 1));
        assert_eq!(
            options("-- -strange -x").unwrap().command,
            ["-strange", "-x"]
        );
        assert_eq!(
            options("true -- false").unwrap().command,
            ["true", "--", "false"]
        );
    }

    #[test]
    fn values_stand_where_perf_takes_them() {
        let all = options("-ecycles:u --event=instructions --event ref-cycles -I100 true").unwrap();
        let names: Vec<_> = all.events.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["cycles:u", "instructions", "ref-cycles"]);
        assert_eq!(all.interval, Some(Duration::from_millis(100)));
        assert!(!options("-ip 1").unwrap().inherit);
    }

    #[test]
    fn formats() {
        assert_eq!(options("true").unwrap().format, Format::Text);
        assert_eq!(
            options("-x, true").unwrap().format,
            Format::Csv(",".to_owned())
        );
        assert_eq!(
            options("-x ; true").unwrap().format,
            Format::Csv(";".to_owned())
        );
        assert_eq!(
            options(r"-x \t true").unwrap().format,
            Format::Csv("\t".to_owned())
        );
        assert_eq!(options("-j true").unwrap().format, Format::Json);
        assert!(options("-j -x , true").is_err());
        assert!(options("-B -x , true").is_err());
    }

    #[test]
    fn whom() {
        let pids = Whom::Processes(vec![12, 7], "12,7,12".to_owned());
        assert_eq!(options("-p 12,7,12").unwrap().whom, pids);
        let tids = Whom::Threads(vec![12], "12".to_owned());
        assert_eq!(options("-t 12").unwrap().whom, tids);
        for wrong in ["-p abc", "-p 1,", "-p 0", "-t -5", "-p 99999999999"] {
            assert_eq!(options(wrong).unwrap_err().status, 22, "{wrong}");
        }
    }

    #[test]
    fn steps() {
        assert_eq!(options("true").unwrap().step(), None);
        assert_eq!(options("-I 0 true").unwrap().step(), None);
        let plot = options("--plot a.svg true").unwrap();
        assert_eq!((plot.interval, plot.step()), (None, Some(PLOT_INTERVAL)));
        let both = options("-I 20 --plot a.svg true").unwrap();
        assert_eq!(both.step(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn misuse_ends_with_perfs_status() {
        for wrong in [
            "",
            "-Q true",
            "--nosuch true",
            "-a",
            "-e nosuch true",
            "-e",
            "-r x true",
            "-r -1 true",
            "-r 2 -p 1",
            "-r 2 --per-thread true",
            "-r 2 --plot a.svg true",
            "-p 1 -t 2",
            "-I x true",
        ] {
            assert_eq!(options(wrong).unwrap_err().status, 129, "{wrong}");
        }
    }

    #[test]
    fn every_option_is_in_the_help() {
        for option in [
            "-e", "-p", "-t", "-i", "-I", "-r", "-x", "-j", "-o", "-v", "-B",
        ] {
            assert!(HELP.contains(&format!("  {option}, --")), "{option}");
        }
    }
}
