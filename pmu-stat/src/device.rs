// SPDX-License-Identifier: GPL-2.0

//! `/dev/pmu_count` and its protocol, version 1; see pmu_count(4).

use crate::{
    error::{
        Error,
        Result, //
    },
    event::Counter, //
};
use nix::{
    errno::Errno,
    unistd, //
};
use std::{
    fmt::Write as _,
    fs::{
        self,
        File, //
    },
    io,
    os::unix::fs::FileExt,
    str::FromStr, //
};

/// The device.
pub(crate) const PATH: &str = "/dev/pmu_count";
/// The version of the protocol that is spoken here.
const VERSION: &str = "1";

/// The device, open.
pub(crate) struct Device {
    /// For commands and snapshots.
    file: File,
}

/// What is to be counted.
pub(crate) struct Request<'a> {
    /// The process, or with [`Threads::One`] the thread.
    pub(crate) pid: i32,
    /// What to count of it, at least one.
    pub(crate) counters: &'a [Counter],
    /// Whether what it makes later counts as well.
    pub(crate) inherit: bool,
    /// Which of its threads.
    pub(crate) threads: Threads,
    /// Whether it begins at the next exec.
    pub(crate) on_exec: bool,
}

/// Which threads of the process count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// All, as one sum.
    All,
    /// All, and each by itself besides.
    Each,
    /// The one that was named.
    One,
}

/// Whose a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tid {
    /// All that the target counts.
    All,
    /// A thread.
    One(i32),
    /// All threads that have no line any more.
    Ended,
}

/// What the PMU has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pmu {
    /// General-purpose counters.
    counters: u32,
    /// Fixed-function counters.
    fixed: u32,
    /// Events that it does not count, by the names of [`Counter::name`].
    absent: Vec<String>,
}

impl Pmu {
    /// Whether it counts the event.
    pub(crate) fn has(&self, counter: Counter) -> bool {
        counter
            .name()
            .is_none_or(|name| !self.absent.iter().any(|absent| absent == name))
    }
}

/// One target and event at one time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The target's id.
    pub(crate) id: u64,
    /// Its process.
    pid: i32,
    /// Whose counts these are.
    pub(crate) tid: Tid,
    /// What that is called.
    pub(crate) name: String,
    /// The event as the device writes it.
    pub(crate) event: String,
    /// Events.
    pub(crate) count: u64,
    /// How long the tasks ran while they were counted, in nanoseconds.
    pub(crate) running: u64,
    /// Periods.
    pub(crate) overflows: u64,
    /// Where something was counted.
    pub(crate) cpus: String,
    /// Where somebody else has changed registers, or "none".
    pub(crate) disturbed: String,
    /// Where nothing could be counted, or "none".
    pub(crate) incomplete: String,
}

/// All that the device says at one time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// What the PMU has.
    pub(crate) pmu: Pmu,
    /// All targets, in the order of ids, and events, in the order of [`Request::counters`].
    pub(crate) lines: Vec<Line>,
}

/// A target that is ours, and is removed with this.
pub(crate) struct Target<'a> {
    /// Where to remove it.
    device: &'a Device,
    /// How the device calls it.
    pub(crate) id: u64,
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        // Nobody could be told anything better than what the device says.
        let _ = self.device.command(&format!("remove id={}", self.id));
    }
}

/// The device's no to a [`Request`].
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Why.
    pub(crate) errno: Errno,
    /// The reason and the remedy.
    pub(crate) error: Error,
}

impl Device {
    /// Opens it.
    pub(crate) fn open() -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(PATH)?;
        Ok(Self { file })
    }

    /// Has the device carry out a command.
    fn command(&self, command: &str) -> std::result::Result<(), Errno> {
        // One write is one command, so it may not be split.
        match unistd::write(&self.file, command.as_bytes()) {
            Ok(length) if length == command.len() => Ok(()),
            Ok(_) => Err(Errno::EIO),
            Err(errno) => Err(errno),
        }
    }

    /// All that there is now.
    pub(crate) fn read(&self) -> Result<Snapshot> {
        let mut text = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            // At offset 0 the device takes a snapshot, and further on it goes on in that.
            match self.file.read_at(&mut buffer, text.len() as u64) {
                Ok(0) => break,
                Ok(n) => text.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::new(format!("cannot read {PATH}: {error}"))),
            }
        }
        String::from_utf8_lossy(&text).parse()
    }

    /// Begins to count.
    pub(crate) fn add(&self, request: &Request<'_>) -> std::result::Result<Target<'_>, Refusal> {
        if let Err(errno) = self.command(&request.command()) {
            return Err(Refusal {
                errno,
                error: self.explain(request, errno),
            });
        }
        let found = self
            .read()
            .map(|snapshot| snapshot.id_of(request.pid, request.threads));
        match found {
            Ok(Some(id)) => Ok(Target { device: self, id }),
            Ok(None) => Err(Error::new(format!(
                "{PATH} does not show process {}, which was just added",
                request.pid
            ))),
            Err(error) => Err(error),
        }
        .map_err(|error| {
            // Who cannot say the id can say the pid.
            let _ = self.command(&format!("remove pid={}", request.pid));
            Refusal {
                errno: Errno::UnknownErrno,
                error,
            }
        })
    }

    /// Why a request was refused, and what to do about it.
    fn explain(&self, request: &Request<'_>, errno: Errno) -> Error {
        let pid = request.pid;
        let snapshot = self.read().ok();
        Error::new(match errno {
            Errno::EPERM | Errno::EACCES => format!(
                "not permitted to count process {pid}: run pmu-stat as root or with CAP_PERFMON; others may count their own processes in user mode (:u), where the kernel has pmu_count's patch"
            ),
            Errno::EBUSY if watchdog() => "the NMI watchdog uses the PMU: sysctl kernel.nmi_watchdog=0, and try again".to_owned(),
            Errno::EBUSY => "the PMU is in use, most likely by perf: end it, and try again (dmesg may tell more)".to_owned(),
            Errno::ENOSPC => match snapshot {
                Some(Snapshot { pmu, lines }) => format!(
                    "too many events or targets: the PMU has {} general-purpose and {} fixed-function counters, and nothing is multiplexed; ask for fewer of these {} events at a time{}",
                    pmu.counters,
                    pmu.fixed,
                    request.counters.len(),
                    if lines.is_empty() { "" } else { ", or remove other targets (cat /dev/pmu_count)" }
                ),
                None => "too many events or targets; dmesg tells the limits".to_owned(),
            },
            Errno::EEXIST => {
                let holder = snapshot.and_then(|s| s.id_of(pid, request.threads));
                match holder {
                    Some(id) => format!(
                        "process {pid} is being counted already, as target {id}: end the pmu-stat that does, or: echo remove id={id} >{PATH}"
                    ),
                    None => format!(
                        "process {pid} is being counted already, by another target: cat {PATH} shows which (dmesg as well)"
                    ),
                }
            }
            Errno::ESRCH => return Error::no_target(format!("there is no process {pid}; ps tells which there are")),
            Errno::EOPNOTSUPP => "the PMU does not count one of these events: ask for them one by one (dmesg tells which)".to_owned(),
            errno => format!("{PATH} refuses '{}': {}; dmesg tells more", request.command(), errno.desc()),
        })
    }
}

/// Whether the NMI watchdog is on, which holds a counter of the PMU.
fn watchdog() -> bool {
    fs::read_to_string("/proc/sys/kernel/nmi_watchdog").is_ok_and(|on| on.trim() == "1")
}

impl Request<'_> {
    /// As the device wants it.
    fn command(&self) -> String {
        let mut command = format!("add pid={} event=", self.pid);
        for (i, counter) in self.counters.iter().enumerate() {
            let separator = if i == 0 { "" } else { "," };
            let modes = match (counter.user, counter.kernel) {
                (true, true) => "uk",
                (true, false) => "u",
                _ => "k",
            };
            // Writing to a string does not fail.
            let _ = match counter.name() {
                Some(name) => write!(command, "{separator}{name}:{modes}"),
                None => write!(command, "{separator}{:#x}:{modes}", counter.code),
            };
        }
        let threads = match self.threads {
            Threads::All => "0",
            Threads::Each => "all",
            Threads::One => "1",
        };
        let _ = write!(
            command,
            " inherit={} thread={threads} on_exec={}",
            u8::from(self.inherit),
            u8::from(self.on_exec)
        );
        command
    }
}

impl Snapshot {
    /// The youngest target of that process or thread.
    fn id_of(&self, pid: i32, threads: Threads) -> Option<u64> {
        let is_it = |line: &&Line| match threads {
            Threads::One => line.tid == Tid::One(pid),
            _ => line.tid == Tid::All && line.pid == pid,
        };
        self.lines.iter().filter(is_it).map(|line| line.id).max()
    }
}

impl FromStr for Snapshot {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let strange = || {
            Error::new(format!(
                "{PATH} does not speak version {VERSION} of its protocol: pmu-stat and the module do not belong together"
            ))
        };
        let mut lines = text.lines();
        let first = lines
            .next()
            .and_then(|line| line.strip_prefix("pmu_count "))
            .and_then(|line| line.strip_prefix(VERSION)?.strip_prefix(' '));
        let pmu = first.and_then(Pmu::parse).ok_or_else(strange)?;
        let lines: Option<_> = lines.map(Line::parse).collect();
        Ok(Self {
            pmu,
            lines: lines.ok_or_else(strange)?,
        })
    }
}

impl Pmu {
    /// From the first line, without the version.
    fn parse(line: &str) -> Option<Self> {
        let fields = Fields::parse(line)?;
        let absent = fields.get("absent")?;
        Some(Self {
            counters: fields.number("counters")?,
            fixed: fields.number("fixed")?,
            absent: match absent {
                "none" => Vec::new(),
                names => names.split(',').map(str::to_owned).collect(),
            },
        })
    }
}

impl Line {
    /// From any but the first line.
    fn parse(line: &str) -> Option<Self> {
        let fields = Fields::parse(line)?;
        let text = |key| fields.get(key).map(str::to_owned);
        Some(Self {
            id: fields.number("id")?,
            pid: fields.number("pid")?,
            tid: match fields.get("tid")? {
                "all" => Tid::All,
                "ended" => Tid::Ended,
                number => Tid::One(number.parse().ok()?),
            },
            name: text("name")?,
            event: text("event")?,
            count: fields.number("count")?,
            running: fields.number("running")?,
            overflows: fields.number("overflows")?,
            cpus: text("cpus")?,
            disturbed: text("disturbed")?,
            incomplete: text("incomplete")?,
        })
    }
}

/// The `key=value` of a line. What this version does not know is left alone.
struct Fields<'a>(Vec<(&'a str, String)>);

impl<'a> Fields<'a> {
    /// Takes a line apart.
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (key, behind) = rest.split_once('=')?;
            if key.is_empty() || key.contains(' ') {
                return None;
            }
            let value;
            (value, rest) = match behind.strip_prefix('"') {
                Some(quoted) => unquote(quoted)?,
                None => {
                    let end = behind.find(' ').unwrap_or(behind.len());
                    (behind[..end].to_owned(), &behind[end..])
                }
            };
            fields.push((key, value));
            rest = match rest.strip_prefix(' ') {
                Some(rest) => rest,
                None if rest.is_empty() => rest,
                None => return None,
            };
        }
        Some(Self(fields))
    }

    /// The value of a key.
    fn get(&self, key: &str) -> Option<&str> {
        let field = self.0.iter().find(|(k, _)| *k == key);
        field.map(|(_, value)| value.as_str())
    }

    /// The number of a key.
    fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

/// What stands before the closing quote, and what behind it.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut name = Vec::new();
    let mut rest = quoted;
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => return Some((String::from_utf8_lossy(&name).into_owned(), rest)),
            '\\' => {
                let escaped = rest.chars().next()?;
                if escaped == 'x' {
                    let digits = rest.get(1..3)?;
                    name.push(u8::from_str_radix(digits, 16).ok()?);
                    rest = &rest[3..];
                } else {
                    name.push(u8::try_from(escaped).ok()?);
                    rest = &rest[1..];
                }
            }
            c => name.push(u8::try_from(c).ok()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "pmu_count 1 counters=4 fixed=3 absent=cache-references,cache-misses\n";

    fn line(tid: &str, name: &str) -> String {
        format!("id=7 pid=1234 tid={tid} name=\"{name}\" state=running event=cycles:uk count=700123 enabled=1200345 running=1200346 overflows=2 n=140737488355328 cpus=0-1 disturbed=none incomplete=3")
    }

    fn snapshot(lines: &[String]) -> Result<Snapshot> {
        format!("{FIRST}{}\n", lines.join("\n")).parse()
    }

    fn name(written: &str) -> Option<String> {
        Line::parse(&line("all", written)).map(|line| line.name)
    }

    #[test]
    fn the_first_line() {
        let pmu = FIRST.parse::<Snapshot>().unwrap().pmu;
        assert_eq!((pmu.counters, pmu.fixed), (4, 3));
        let counter = |code| Counter {
            code,
            user: true,
            kernel: false,
        };
        assert!(!pmu.has(counter(0x412e)));
        assert!(pmu.has(counter(0x00c0)));
        assert!(pmu.has(counter(0x01d0)));
        let all = "pmu_count 1 counters=4 fixed=3 absent=none\n";
        assert!(all.parse::<Snapshot>().unwrap().pmu.has(counter(0x412e)));
    }

    #[test]
    fn other_versions_are_refused() {
        for wrong in [
            "",
            "\n",
            "pmu_count 2 counters=4 fixed=3 absent=none\n",
            "pmu_count 12 counters=4 fixed=3 absent=none\n",
            "pmu_count 1 counters=4 fixed=3\n",
            "pmu_count 1 counters=x fixed=3 absent=none\n",
        ] {
            let said = wrong.parse::<Snapshot>().unwrap_err().to_string();
            assert!(said.contains("version 1"), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_line() {
        let snapshot = snapshot(&[
            line("all", "gzip"),
            line("77", "gzip"),
            line("ended", "gzip"),
        ]);
        let lines = snapshot.unwrap().lines;
        assert_eq!(
            lines[0],
            Line {
                id: 7,
                pid: 1234,
                tid: Tid::All,
                name: "gzip".to_owned(),
                event: "cycles:uk".to_owned(),
                count: 700_123,
                running: 1_200_346,
                overflows: 2,
                cpus: "0-1".to_owned(),
                disturbed: "none".to_owned(),
                incomplete: "3".to_owned(),
            }
        );
        assert_eq!(lines[1].tid, Tid::One(77));
        assert_eq!(lines[2].tid, Tid::Ended);
    }

    #[test]
    fn later_fields_are_left_alone() {
        let with_more = format!("{} more=\"a b\" most=1", line("all", "a"));
        assert_eq!(Line::parse(&with_more), Line::parse(&line("all", "a")));
    }

    #[test]
    fn names() {
        assert_eq!(name("a b").as_deref(), Some("a b"));
        assert_eq!(name("").as_deref(), Some(""));
        assert_eq!(
            name(r#"a\" count=1 b=\""#).as_deref(),
            Some("a\" count=1 b=\"")
        );
        assert_eq!(name(r"a\\").as_deref(), Some(r"a\"));
        assert_eq!(name(r"a\x0ab\xc3\xa4").as_deref(), Some("a\nb\u{e4}"));
        assert_eq!(name(r"\xff").as_deref(), Some("\u{fffd}"));
        for wrong in [r"\", r"\x0", r"\xg0", "a\"b", "\u{e4}\u{20ac}"] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn broken_lines_are_refused() {
        let whole = line("all", "a");
        assert!(snapshot(&[whole.clone()]).is_ok());
        for wrong in [
            whole.replace("count=700123", "count=-1"),
            whole.replace("count=700123 ", ""),
            whole.replace("tid=all", "tid=none"),
            whole.replace(" state=", "  state="),
            whole.replace("state=running", "state"),
        ] {
            assert!(snapshot(&[wrong.clone()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_youngest_target_is_meant() {
        let mut lines = vec![line("all", "a"), line("1234", "a")];
        lines.push(lines[0].replace("id=7", "id=9"));
        lines.push(lines[1].replace("id=7", "id=11"));
        lines.push(lines[0].replace("id=7 pid=1234", "id=12 pid=1235"));
        let snapshot = snapshot(&lines).unwrap();
        assert_eq!(snapshot.id_of(1234, Threads::All), Some(9));
        assert_eq!(snapshot.id_of(1234, Threads::Each), Some(9));
        assert_eq!(snapshot.id_of(1234, Threads::One), Some(11));
        assert_eq!(snapshot.id_of(1235, Threads::All), Some(12));
        assert_eq!(snapshot.id_of(1236, Threads::All), None);
    }

    #[test]
    fn requests() {
        let counter = |code, user, kernel| Counter { code, user, kernel };
        let mut request = Request {
            pid: 12,
            counters: &[
                counter(0x3c, true, true),
                counter(0xc0, true, false),
                counter(0x1d0, false, true),
            ],
            inherit: true,
            threads: Threads::All,
            on_exec: true,
        };
        assert_eq!(
            request.command(),
            "add pid=12 event=cycles:uk,instructions:u,0x1d0:k inherit=1 thread=0 on_exec=1"
        );
        request.counters = &[];
        request.inherit = false;
        request.on_exec = false;
        request.threads = Threads::Each;
        assert!(request
            .command()
            .ends_with("inherit=0 thread=all on_exec=0"));
        request.threads = Threads::One;
        assert!(request.command().contains("thread=1"));
    }
}
