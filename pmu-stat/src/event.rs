// SPDX-License-Identifier: GPL-2.0

//! Events as they are asked for with `-e`.

use crate::{
    architectural::{
        code_of,
        ARCHITECTURAL,
        CODE, //
    },
    error::{
        Error,
        Result, //
    },
};

/// What a counter counts: an event and the modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// Event select and unit mask, with the further bits of [`CODE`].
    pub(crate) code: u64,
    /// In user mode.
    pub(crate) user: bool,
    /// In kernel mode.
    pub(crate) kernel: bool,
}

impl Counter {
    /// The name that the device has for it, if it has one.
    pub(crate) fn name(self) -> Option<&'static str> {
        ARCHITECTURAL
            .iter()
            .find(|event| event.code == self.code)
            .map(|event| event.name)
    }
}

/// Where the number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A counter of the PMU.
    Counter(Counter),
    /// The time that the tasks ran while they were counted, which the device has with each event.
    TaskClock,
}

/// One event of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// As it was written, which is also how it is reported.
    pub(crate) name: String,
    /// Where its number comes from.
    pub(crate) source: Source,
    /// Whether modes stood behind it.
    explicit: bool,
}

impl Event {
    /// `written` is one event, without blanks or commas.
    fn parse(written: &str) -> Result<Self> {
        let (name, modifiers) = match written.split_once(':') {
            Some((name, modifiers)) => (name, Some(modifiers)),
            None => (written, None),
        };
        if name == "task-clock" && modifiers.is_none() {
            return Ok(Self {
                name: written.to_owned(),
                source: Source::TaskClock,
                explicit: true,
            });
        }
        let code = code_of(name.as_bytes())
            .or_else(|| raw(name))
            .ok_or_else(|| unknown(written))?;
        if code & !CODE != 0 {
            return Err(Error::usage(format!(
                "'{written}' sets bits {:#x}, which no event has; r takes event select 7:0, unit mask 15:8, EDGE 18, INV 23 and CMASK 31:24",
                code & !CODE
            )));
        }
        let (user, kernel) = match modifiers {
            None => (true, true),
            Some(m) if !m.is_empty() && m.chars().all(|c| matches!(c, 'u' | 'k')) => {
                (m.contains('u'), m.contains('k'))
            }
            Some(m) => {
                return Err(Error::usage(format!(
                    "'{m}' in '{written}' is no modifier of events here; there are :u, :k and :uk"
                )))
            }
        };
        Ok(Self {
            name: written.to_owned(),
            source: Source::Counter(Counter { code, user, kernel }),
            explicit: modifiers.is_some(),
        })
    }

    /// The same in user mode only, if the modes were left open: what perf turns to for those who may
    /// not count the kernel.
    pub(crate) fn in_user_mode(&self) -> Option<Self> {
        match self.source {
            Source::Counter(counter) if !self.explicit => Some(Self {
                name: format!("{}:u", self.name),
                source: Source::Counter(Counter {
                    kernel: false,
                    ..counter
                }),
                explicit: true,
            }),
            _ => None,
        }
    }
}

/// The code in perf's `rUUEE`.
fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    // from_str_radix() takes a sign.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// An event that is none.
fn unknown(written: &str) -> Error {
    let names: Vec<_> = ARCHITECTURAL
        .iter()
        .flat_map(|event| event.names())
        .collect();
    Error::usage(format!(
        "unknown event '{written}'; there are {}, task-clock, and raw codes as r1d0",
        names.join(", ")
    ))
}

/// The events of one `-e`. Groups in braces are taken apart, as all events are counted at the same
/// time anyway; modes behind a group are those of its events that have none.
pub(crate) fn parse_list(list: &str) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut rest = list;
    loop {
        let end;
        if let Some(group) = rest.strip_prefix('{') {
            let (inner, behind) = group
                .split_once('}')
                .ok_or_else(|| Error::usage(format!("'{list}' lacks a closing brace")))?;
            end = behind.find(',').unwrap_or(behind.len());
            let modes = &behind[..end];
            for event in inner.split(',') {
                let event = event.trim();
                let modes = if event.contains(':') { "" } else { modes };
                events.push(Event::parse(&format!("{event}{modes}"))?);
            }
            rest = &behind[end..];
        } else {
            end = rest.find(',').unwrap_or(rest.len());
            events.push(Event::parse(rest[..end].trim())?);
            rest = &rest[end..];
        }
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return Ok(events),
        }
    }
}

/// Those that are counted without `-e`: perf's, in its order, as far as the PMU counts them.
pub(crate) fn defaults() -> Vec<Event> {
    let counter = |name: &str, code| Event {
        name: name.to_owned(),
        source: Source::Counter(Counter {
            code,
            user: true,
            kernel: true,
        }),
        explicit: false,
    };
    vec![
        Event {
            name: "task-clock".to_owned(),
            source: Source::TaskClock,
            explicit: true,
        },
        counter("branch-misses", 0x00c5),
        counter("branches", 0x00c4),
        counter("cpu-cycles", 0x003c),
        counter("instructions", 0x00c0),
    ]
}

/// The counter for those who want only the time. Anybody may count in user mode.
pub(crate) const ANY: Counter = Counter {
    code: 0x003c,
    user: true,
    kernel: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The counter of a single event.
    fn counter(written: &str) -> Option<(u64, bool, bool)> {
        match Event::parse(written).ok()?.source {
            Source::Counter(c) => Some((c.code, c.user, c.kernel)),
            Source::TaskClock => None,
        }
    }

    #[test]
    fn names_and_modes() {
        assert_eq!(counter("cycles"), Some((0x3c, true, true)));
        assert_eq!(counter("cpu-cycles:u"), Some((0x3c, true, false)));
        assert_eq!(counter("instructions:k"), Some((0xc0, false, true)));
        assert_eq!(counter("branch-instructions:ku"), Some((0xc4, true, true)));
        assert_eq!(counter("ref-cycles:uk"), Some((0x13c, true, true)));
    }

    #[test]
    fn raw_codes() {
        assert_eq!(counter("r00c0:u"), Some((0xc0, true, false)));
        assert_eq!(counter("rC0"), Some((0xc0, true, true)));
        assert_eq!(counter("r1C4"), Some((0x1c4, true, true)));
        assert_eq!(counter("rff84ffff"), Some((0xff84_ffff, true, true)));
        for wrong in ["r", "r0x1c4", "r+c0", "r-1", "rg0", "r20000", "r100000000"] {
            assert_eq!(counter(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_none_says_what_there_is() {
        for wrong in [
            "nosuch",
            "",
            "cycles:",
            "cycles:x",
            "cycles:u:k",
            "Cycles",
            "{cycles",
        ] {
            assert!(Event::parse(wrong).is_err(), "{wrong}");
        }
        let said = parse_list("cycles,nosuch").unwrap_err().to_string();
        assert!(
            said.contains("'nosuch'") && said.contains("instructions"),
            "{said}"
        );
    }

    #[test]
    fn lists() {
        let names = |list| -> Vec<String> {
            let events = parse_list(list).unwrap();
            events.into_iter().map(|e| e.name).collect()
        };
        assert_eq!(names("cycles:u,rc0"), ["cycles:u", "rc0"]);
        assert_eq!(names("cycles, instructions"), ["cycles", "instructions"]);
        assert_eq!(
            names("{cycles,rc0:k}:u,branches"),
            ["cycles:u", "rc0:k", "branches"]
        );
        assert_eq!(names("cycles,{branches}"), ["cycles", "branches"]);
        for wrong in [
            "cycles,",
            "",
            ",",
            "{cycles",
            "{}",
            "{cycles}x",
            "{cycles}:u:k",
            "{{cycles}}",
        ] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn user_mode_only_where_modes_were_left_open() {
        let open = Event::parse("cycles").unwrap().in_user_mode().unwrap();
        assert_eq!(open.name, "cycles:u");
        assert_eq!(open, Event::parse("cycles:u").unwrap());
        assert_eq!(Event::parse("cycles:k").unwrap().in_user_mode(), None);
        assert_eq!(Event::parse("task-clock").unwrap().in_user_mode(), None);
    }

    #[test]
    fn the_device_knows_them_by_their_first_names() {
        let counter = |code| Counter {
            code,
            user: true,
            kernel: true,
        };
        assert_eq!(counter(0x3c).name(), Some("cycles"));
        assert_eq!(counter(0xc4).name(), Some("branches"));
        assert_eq!(counter(0x1c4).name(), None);
    }
}
