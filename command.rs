// SPDX-License-Identifier: GPL-2.0

//! The commands that are written to the device: what they may say, and what is wrong with one.
//!
//! Pure, so that it is also tested on the host. A command is judged as a whole before anything is
//! done, by its text alone: whether there is such a process, target or counter is not known here.

use crate::{
    event::{
        self,
        Event,
        Invalid,
        ARCHITECTURAL, //
    },
    fmt::{
        self,
        Write, //
    },
};

/// The longest command, in bytes, with its final newline.
pub(crate) const MAX_LENGTH: usize = 1023;
/// The most events in a command.
pub(crate) const MAX_EVENTS: usize = 16;
/// How many bytes of a word stand in an error's line.
const MAX_QUOTED: usize = 40;

/// What a target is named by; `add` takes the others, too.
const WHICH: [&str; 2] = ["id", "pid"];
/// What `add` takes.
const ADD: [&str; 8] = [
    "pid", "event", "user", "kernel", "inherit", "thread", "n", "on_exec",
];

/// What is to be done.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack, for one write"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Count somebody.
    Add(Request),
    /// Stop that, and forget it.
    Remove(Which),
    /// Begin at 0 again.
    Reset(Which),
    /// Stop counting.
    Pause(Which),
    /// Go on counting.
    Resume(Which),
    /// Return when the target has exited.
    Wait(Which),
}

/// Which target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// By its id, 1 or more.
    Id(u64),
    /// By a pid above 0 in the writer's namespace.
    Pid(i32),
}

/// Who is to be counted, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Above 0, in the writer's namespace.
    pub(crate) pid: i32,
    /// At least one.
    pub(crate) events: Events,
    /// Whether what the target makes from now on is counted, too.
    pub(crate) inherit: bool,
    /// Of which threads.
    pub(crate) threads: Threads,
    /// Events in a period, or 0 for as many as the PMU takes; what it takes is not known here.
    pub(crate) n: u64,
    /// Whether each task counts only from its next exec on.
    pub(crate) on_exec: bool,
}

/// Of which threads a target consists: `thread=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// `0`: all of the process, as a sum.
    Together,
    /// `1`: the one that the pid names.
    One,
    /// `all`: all of the process, each for itself besides the sum.
    Each,
}

/// Up to [`MAX_EVENTS`] events, in the order in which they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events([Option<Event>; MAX_EVENTS]);

impl Events {
    /// One after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.0.iter().flatten().copied()
    }

    /// One event.
    pub(crate) fn of(event: Event) -> Self {
        let mut events = Self::default();
        events.0[0] = Some(event);
        events
    }

    /// Appends `event`, or returns `None` if there is no room.
    fn push(&mut self, event: Event) -> Option<()> {
        *self.0.iter_mut().find(|place| place.is_none())? = Some(event);
        Some(())
    }
}

/// What is wrong with a command, as one line that says how to mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong<'a> {
    /// It has more than [`MAX_LENGTH`] bytes.
    TooLong,
    /// A byte that is in no command, and where, from 1 on.
    Byte(u8, usize),
    /// There is no word.
    Empty,
    /// There is no such command.
    Verb(&'a [u8]),
    /// Not `key=value`.
    NoPair(&'a [u8]),
    /// A key that the command does not take, and those that it takes.
    Key(&'a [u8], &'static [&'static str]),
    /// A key that is there twice.
    Twice(&'static str),
    /// `add` without a pid.
    NoPid,
    /// No target is named.
    NoTarget,
    /// A target is named by id and by pid.
    TwoTargets,
    /// A value that its key does not take, and what it takes.
    Value(&'static str, &'a [u8], &'static str),
    /// Nothing beside a comma of this list of events.
    NoEvent(&'a [u8]),
    /// Neither a name nor a code.
    UnknownEvent(&'a [u8]),
    /// What follows the event's colon is no mode.
    Modes(&'a [u8]),
    /// An event that cannot be.
    Event(&'a [u8], Invalid),
    /// More than [`MAX_EVENTS`].
    TooManyEvents,
}

/// Reads a command.
///
/// # Errors
///
/// The first thing that is wrong with it.
pub(crate) fn parse(text: &[u8]) -> Result<Command, Wrong<'_>> {
    if text.len() > MAX_LENGTH {
        return Err(Wrong::TooLong);
    }
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let foreign = |byte: u8| !matches!(byte, b'\t' | b' '..=b'~');
    let mut bytes = (1..=MAX_LENGTH).zip(text);
    if let Some((at, &byte)) = bytes.find(|&(_, &byte)| foreign(byte)) {
        return Err(Wrong::Byte(byte, at));
    }

    let mut words = text
        .split(|&byte| matches!(byte, b'\t' | b' '))
        .filter(|word| !word.is_empty());
    let verb = words.next().ok_or(Wrong::Empty)?;
    let command = match verb {
        b"add" => return add(words).map(Command::Add),
        b"remove" => Command::Remove,
        b"reset" => Command::Reset,
        b"pause" => Command::Pause,
        b"resume" => Command::Resume,
        b"wait" => Command::Wait,
        _ => return Err(Wrong::Verb(verb)),
    };
    which(words).map(command)
}

/// The values of `keys` in `words`, which are `key=value` all.
fn values<'a, const N: usize>(
    keys: &'static [&'static str; N],
    words: impl Iterator<Item = &'a [u8]>,
) -> Result<[Option<&'a [u8]>; N], Wrong<'a>> {
    let mut values = [None; N];
    for word in words {
        let mut pair = word.splitn(2, |&byte| byte == b'=');
        let (Some(key), Some(value)) = (pair.next(), pair.next()) else {
            return Err(Wrong::NoPair(word));
        };
        let (name, place) = keys
            .iter()
            .zip(&mut values)
            .find(|(name, _)| name.as_bytes() == key)
            .ok_or(Wrong::Key(key, keys))?;
        if place.replace(value).is_some() {
            return Err(Wrong::Twice(name));
        }
    }
    Ok(values)
}

/// What follows `add`.
fn add<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Request, Wrong<'a>> {
    let [id, event, user, kernel, inherit, thread, count, on_exec] = values(&ADD, words)?;
    Ok(Request {
        pid: pid(id.ok_or(Wrong::NoPid)?)?,
        events: events(
            event.unwrap_or(b"cycles"),
            switch("user", user, true)?,
            switch("kernel", kernel, true)?,
        )?,
        inherit: switch("inherit", inherit, true)?,
        threads: match thread {
            None | Some(b"0") => Threads::Together,
            Some(b"1") => Threads::One,
            Some(b"all") => Threads::Each,
            Some(value) => return Err(Wrong::Value("thread", value, "0 for the process, 1 for that thread alone, or all for the process with a line for each thread")),
        },
        n: count.map_or(Ok(0), n)?,
        on_exec: switch("on_exec", on_exec, false)?,
    })
}

/// A value that is 0 or 1.
fn switch<'a>(
    key: &'static str,
    value: Option<&'a [u8]>,
    default: bool,
) -> Result<bool, Wrong<'a>> {
    match value {
        None => Ok(default),
        Some(b"0") => Ok(false),
        Some(b"1") => Ok(true),
        Some(value) => Err(Wrong::Value(key, value, "0 or 1")),
    }
}

/// What follows every other command.
fn which<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Which, Wrong<'a>> {
    match values(&WHICH, words)? {
        [Some(id), None] => match number(id, 10) {
            None | Some(0) => Err(Wrong::Value(
                "id",
                id,
                "the id of a target, 1 or more, as the device lists it",
            )),
            Some(id) => Ok(Which::Id(id)),
        },
        [None, Some(id)] => pid(id).map(Which::Pid),
        [None, None] => Err(Wrong::NoTarget),
        [Some(_), Some(_)] => Err(Wrong::TwoTargets),
    }
}

/// The value of `pid=`.
fn pid(value: &[u8]) -> Result<i32, Wrong<'_>> {
    number(value, 10)
        .and_then(|pid| i32::try_from(pid).ok())
        .filter(|&pid| pid > 0)
        .ok_or(Wrong::Value(
            "pid",
            value,
            "the number of a process or thread, 1 to 2147483647",
        ))
}

/// The value of `n=`.
fn n(value: &[u8]) -> Result<u64, Wrong<'_>> {
    match value.strip_prefix(b"0x") {
        Some(digits) => number(digits, 16),
        None => number(value, 10),
    }
    .ok_or(Wrong::Value("n", value, "the events in a period, decimal or 0x and hex, below 2^64; or 0 for as many as the PMU takes"))
}

/// The value of `event=`, with the modes of events that have none of their own.
fn events(list: &[u8], user: bool, kernel: bool) -> Result<Events, Wrong<'_>> {
    if list.is_empty() {
        return Err(Wrong::Value(
            "event",
            list,
            "names or codes, as in cycles,instructions:u,0x1d0",
        ));
    }
    let mut events = Events::default();
    for text in list.split(|&byte| byte == b',') {
        if text.is_empty() {
            return Err(Wrong::NoEvent(list));
        }
        let mut parts = text.splitn(2, |&byte| byte == b':');
        let code = parts
            .next()
            .and_then(code)
            .ok_or(Wrong::UnknownEvent(text))?;
        let (user, kernel) = match parts.next() {
            None => (user, kernel),
            Some(b"u") => (true, false),
            Some(b"k") => (false, true),
            Some(b"uk" | b"ku") => (true, true),
            Some(_) => return Err(Wrong::Modes(text)),
        };
        let event =
            Event::new(code, user, kernel).map_err(|invalid| Wrong::Event(text, invalid))?;
        events.push(event).ok_or(Wrong::TooManyEvents)?;
    }
    Ok(events)
}

/// An event's code: by name, or as 0xHEX, or as perf's rHEX.
fn code(text: &[u8]) -> Option<u64> {
    event::code_of(text).or_else(|| {
        let digits = text.strip_prefix(b"0x").or(text.strip_prefix(b"r"))?;
        number(digits, 16)
    })
}

/// A number without a sign, of at least one digit.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let value = |digit: &u8| {
        char::from(*digit)
            .to_digit(16)
            .filter(|&digit| digit < radix)
    };
    let (first, rest) = digits.split_first()?;
    rest.iter()
        .try_fold(value(first)?.into(), |number: u64, digit| {
            number
                .checked_mul(radix.into())?
                .checked_add(value(digit)?.into())
        })
}

/// Text of others in double quotes, so that it neither ends its line nor its quotes: `"` and `\`
/// have a `\` before them, and what is no printable ASCII is `\xHH`.
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for &byte in self.0 {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_char('"')
    }
}

/// A word of a command, quoted and not too long.
fn quote(word: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match word.get(..MAX_QUOTED) {
        Some(start) if start.len() < word.len() => {
            fmt::Display::fmt(&Quoted(start), f)?;
            f.write_str("...")
        }
        _ => fmt::Display::fmt(&Quoted(word), f),
    }
}

impl Wrong<'_> {
    /// Whether it is the length, which has an errno of its own.
    pub(crate) const fn is_too_long(&self) -> bool {
        matches!(self, Self::TooLong)
    }
}

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLong => write!(
                f,
                "a command has at most {MAX_LENGTH} bytes; write one at a time"
            ),
            Self::Byte(byte, at) => {
                write!(f, "byte {at} is {byte:#04x}")?;
                f.write_str(match byte {
                    0 => ", NUL: write the text without it",
                    b'\n' => ", a line break: write one command at a time",
                    b'\r' => ", a carriage return: end the line without it",
                    _ => ": a command is ASCII text, with blanks between its words",
                })
            }
            Self::Empty => {
                f.write_str("there is no command: write add, remove, reset, pause, resume or wait")
            }
            Self::Verb(word) => {
                quote(word, f)?;
                f.write_str(" is no command: there are add, remove, reset, pause, resume and wait")
            }
            Self::NoPair(word) => {
                quote(word, f)?;
                f.write_str(" is no key=value: write it so, without blanks")
            }
            Self::Key(key, keys) => {
                quote(key, f)?;
                f.write_str(" is no key of this command: it takes")?;
                keys.iter().try_for_each(|key| write!(f, " {key}="))
            }
            Self::Twice(key) => write!(f, "{key}= is there twice: write it once"),
            Self::NoPid => f.write_str("pid= is missing: say whom to count"),
            Self::NoTarget => f.write_str("id= and pid= are missing: say which target"),
            Self::TwoTargets => f.write_str("id= and pid= are both there: write one of them"),
            Self::Value(key, b"", wanted) => write!(
                f,
                "{key}= has no value: it takes {wanted}; no blank beside the ="
            ),
            Self::Value(key, value, wanted) => {
                write!(f, "{key}=")?;
                quote(value, f)?;
                write!(f, ": it takes {wanted}")
            }
            Self::NoEvent(list) => {
                f.write_str("event=")?;
                quote(list, f)?;
                f.write_str(": an event is missing beside a comma")
            }
            Self::UnknownEvent(text) => {
                f.write_str("event ")?;
                quote(text, f)?;
                f.write_str(" is unknown: there are")?;
                for known in &ARCHITECTURAL {
                    write!(f, " {}", known.name)?;
                }
                f.write_str(", and codes as 0x1d0 or r1d0")
            }
            Self::Modes(text) => {
                f.write_str("event ")?;
                quote(text, f)?;
                f.write_str(": behind its colon stands u, k or uk")
            }
            Self::Event(text, invalid) => {
                f.write_str("event ")?;
                quote(text, f)?;
                f.write_str(": ")?;
                fmt::Display::fmt(&invalid, f)
            }
            Self::TooManyEvents => write!(
                f,
                "event= has more than {MAX_EVENTS} events: leave some out"
            ),
        }
    }
}

// KUnit's in the kernel, the ordinary harness's on the host.
#[cfg_attr(not(test), kernel::macros::kunit_tests(pmu_count_command))]
mod tests {
    use super::*;

    fn list(events: &[(u64, bool, bool)]) -> Events {
        let mut list = Events::default();
        for &(code, user, kernel) in events {
            list.push(Event::new(code, user, kernel).unwrap()).unwrap();
        }
        list
    }

    /// What `add pid=7` asks for.
    fn plain() -> Request {
        Request {
            pid: 7,
            events: list(&[(0x3c, true, true)]),
            inherit: true,
            threads: Threads::Together,
            n: 0,
            on_exec: false,
        }
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        assert_eq!(parse(b"add pid=7"), Ok(Command::Add(plain())));
    }

    #[test]
    fn everything_can_be_said() {
        let all = Request {
            pid: i32::MAX,
            events: list(&[(0xc0, true, false), (0x01d0, true, false)]),
            inherit: false,
            threads: Threads::Each,
            n: 100_000,
            on_exec: true,
        };
        for text in [
            "add pid=2147483647 event=instructions,0x1d0 user=1 kernel=0 inherit=0 thread=all n=100000 on_exec=1\n",
            "add on_exec=1 n=100000 thread=all inherit=0 kernel=0 user=1 event=0xc0,r1D0 pid=2147483647",
            "\t add  pid=2147483647\tevent=instructions:u,r01d0:u thread=all inherit=0 n=0x186a0 on_exec=1 \n",
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(Command::Add(all)));
        }
        let one = Request {
            threads: Threads::One,
            ..plain()
        };
        assert_eq!(parse(b"add pid=7 thread=1"), Ok(Command::Add(one)));
        assert_eq!(
            parse(b"add pid=7 thread=0 user=1 kernel=1 inherit=1 n=0 on_exec=0 event=cycles"),
            Ok(Command::Add(plain()))
        );
    }

    #[test]
    fn the_other_commands_name_a_target() {
        for (verb, command) in [
            ("remove", Command::Remove as fn(Which) -> Command),
            ("reset", Command::Reset),
            ("pause", Command::Pause),
            ("resume", Command::Resume),
            ("wait", Command::Wait),
        ] {
            for (word, which) in [
                ("id=1", Which::Id(1)),
                ("id=18446744073709551615", Which::Id(u64::MAX)),
                ("pid=1", Which::Pid(1)),
                ("pid=0012", Which::Pid(12)),
            ] {
                let mut text = [b' '; 40];
                for (place, byte) in text.iter_mut().zip(verb.bytes()) {
                    *place = byte;
                }
                for (place, byte) in text.iter_mut().skip(10).zip(word.bytes()) {
                    *place = byte;
                }
                assert_eq!(parse(&text), Ok(command(which)));
            }
        }
    }

    #[test]
    fn an_events_own_modes_win() {
        let events = |text| match parse(text) {
            Ok(Command::Add(request)) => Some(request.events),
            _ => None,
        };
        assert_eq!(
            events(b"add pid=7 kernel=0 event=cycles,cycles:k,cycles:uk,cycles:ku,cycles:u"),
            Some(list(&[
                (0x3c, true, false),
                (0x3c, false, true),
                (0x3c, true, true),
                (0x3c, true, true),
                (0x3c, true, false),
            ]))
        );
        // No mode is wrong only where none is given.
        assert_eq!(
            events(b"add user=0 kernel=0 pid=7 event=cycles:k,0xc0:u"),
            Some(list(&[(0x3c, false, true), (0xc0, true, false)]))
        );
        assert_eq!(
            parse(b"add user=0 kernel=0 pid=7 event=cycles:k,0xc0"),
            Err(Wrong::Event(b"0xc0", Invalid::NoMode))
        );
        assert_eq!(
            parse(b"add user=0 kernel=0 pid=7"),
            Err(Wrong::Event(b"cycles", Invalid::NoMode))
        );
    }

    #[test]
    fn every_name_is_an_event() {
        for (text, code) in [
            ("add pid=7 event=cpu-cycles", 0x3c),
            ("add pid=7 event=instructions", 0xc0),
            ("add pid=7 event=ref-cycles", 0x013c),
            ("add pid=7 event=cache-references", 0x4f2e),
            ("add pid=7 event=cache-misses", 0x412e),
            ("add pid=7 event=branches", 0xc4),
            ("add pid=7 event=branch-instructions", 0xc4),
            ("add pid=7 event=branch-misses", 0xc5),
            ("add pid=7 event=0xFF84ffff", 0xff84_ffff),
            ("add pid=7 event=r0", 0),
        ] {
            let request = Request {
                events: list(&[(code, true, true)]),
                ..plain()
            };
            assert_eq!(parse(text.as_bytes()), Ok(Command::Add(request)));
        }
    }

    #[test]
    fn there_is_room_for_sixteen_events() {
        let sixteen = b"add pid=7 event=r0,r1,r2,r3,r4,r5,r6,r7,r8,r9,ra,rb,rc,rd,re,rf";
        match parse(sixteen) {
            Ok(Command::Add(Request { events, .. })) => {
                assert!(events.iter().map(|event| event.code()).eq(0..16));
            }
            _ => assert!(false),
        }
        assert_eq!(
            parse(b"add pid=7 event=r0,r1,r2,r3,r4,r5,r6,r7,r8,r9,ra,rb,rc,rd,re,rf,r10"),
            Err(Wrong::TooManyEvents)
        );
    }

    #[test]
    fn a_command_has_its_length() {
        let mut text = [b' '; MAX_LENGTH + 1];
        for (place, byte) in text.iter_mut().zip(*b"add pid=7") {
            *place = byte;
        }
        assert_eq!(parse(&text), Err(Wrong::TooLong));
        assert!(Wrong::TooLong.is_too_long() && !Wrong::Empty.is_too_long());
        assert_eq!(parse(&text[1..]), Err(Wrong::Verb(b"dd")));
        assert_eq!(parse(&text[..MAX_LENGTH]), Ok(Command::Add(plain())));
        // The newline is one of its bytes.
        text[MAX_LENGTH - 1] = b'\n';
        assert_eq!(parse(&text[..MAX_LENGTH]), Ok(Command::Add(plain())));
        text[MAX_LENGTH] = b'\n';
        assert_eq!(parse(&text), Err(Wrong::TooLong));
    }

    #[test]
    fn a_command_is_one_line_of_ascii() {
        for (text, byte, at) in [
            (&b"add pid=7\0"[..], 0, 10),
            (b"add pid=7\n\0", b'\n', 10),
            (b"add pid=7\n\n", b'\n', 10),
            (b"\nadd pid=7\n", b'\n', 1),
            (b"add pid=7\nadd pid=8\n", b'\n', 10),
            (b"add pid=7\r\n", b'\r', 10),
            (b"add\x0bpid=7", 0x0b, 4),
            (b"add pid=7\x1b[2J", 0x1b, 10),
            (b"add pid=7\x7f", 0x7f, 10),
            (b"add pid=7 \xc3\xa4", 0xc3, 11),
            (b"\xff", 0xff, 1),
        ] {
            assert_eq!(parse(text), Err(Wrong::Byte(byte, at)));
        }
    }

    #[test]
    fn words_are_what_they_have_to_be() {
        for (text, wrong) in [
            (&b""[..], Wrong::Empty),
            (b"\n", Wrong::Empty),
            (b" \t  \n", Wrong::Empty),
            (b"ADD pid=7", Wrong::Verb(b"ADD")),
            (b"pid=7", Wrong::Verb(b"pid=7")),
            (b"addpid=7", Wrong::Verb(b"addpid=7")),
            (b"add", Wrong::NoPid),
            (b"add event=cycles", Wrong::NoPid),
            (b"add 7", Wrong::NoPair(b"7")),
            (b"add pid", Wrong::NoPair(b"pid")),
            (b"add pid =7", Wrong::NoPair(b"pid")),
            (b"add pid= 7", Wrong::NoPair(b"7")),
            (b"add pid = 7", Wrong::NoPair(b"pid")),
            (b"add =7", Wrong::Key(b"", &ADD)),
            (b"add PID=7", Wrong::Key(b"PID", &ADD)),
            (b"add id=7", Wrong::Key(b"id", &ADD)),
            (b"add pid=7 force=1", Wrong::Key(b"force", &ADD)),
            (b"remove pid=7 event=cycles", Wrong::Key(b"event", &WHICH)),
            (b"wait pid=7 n=0", Wrong::Key(b"n", &WHICH)),
            (b"add pid=7 pid=7", Wrong::Twice("pid")),
            (b"add pid=7 n=0 n=1", Wrong::Twice("n")),
            (b"reset id=1 id=2", Wrong::Twice("id")),
            (b"remove", Wrong::NoTarget),
            (b"pause id=1 pid=7", Wrong::TwoTargets),
            (b"pause pid=7 id=1", Wrong::TwoTargets),
        ] {
            assert_eq!(parse(text), Err(wrong));
        }
    }

    /// Whether `value` is refused for its key.
    fn refused(text: &[u8], key: &str, value: &[u8]) -> bool {
        matches!(parse(text), Err(Wrong::Value(k, v, _)) if k == key && v == value)
    }

    #[test]
    fn values_are_what_they_have_to_be() {
        for (text, key, value) in [
            (&b"add pid="[..], "pid", &b""[..]),
            (b"add pid=0", "pid", b"0"),
            (b"add pid=-1", "pid", b"-1"),
            (b"add pid=+1", "pid", b"+1"),
            (b"add pid=2147483648", "pid", b"2147483648"),
            (b"add pid=4294967303", "pid", b"4294967303"),
            (
                b"add pid=99999999999999999999",
                "pid",
                b"99999999999999999999",
            ),
            (b"add pid=0x7", "pid", b"0x7"),
            (b"add pid=7,8", "pid", b"7,8"),
            (b"add pid=7a", "pid", b"7a"),
            (b"add pid==7", "pid", b"=7"),
            (b"remove pid=self", "pid", b"self"),
            (b"remove id=0", "id", b"0"),
            (b"remove id=", "id", b""),
            (b"remove id=0x1", "id", b"0x1"),
            (
                b"remove id=18446744073709551616",
                "id",
                b"18446744073709551616",
            ),
            (b"add pid=7 user=", "user", b""),
            (b"add pid=7 user=2", "user", b"2"),
            (b"add pid=7 kernel=yes", "kernel", b"yes"),
            (b"add pid=7 kernel=00", "kernel", b"00"),
            (b"add pid=7 inherit=-1", "inherit", b"-1"),
            (b"add pid=7 inherit=all", "inherit", b"all"),
            (b"add pid=7 on_exec=on", "on_exec", b"on"),
            (b"add pid=7 thread=", "thread", b""),
            (b"add pid=7 thread=2", "thread", b"2"),
            (b"add pid=7 thread=ALL", "thread", b"ALL"),
            (b"add pid=7 n=", "n", b""),
            (b"add pid=7 n=0x", "n", b"0x"),
            (b"add pid=7 n=0X10", "n", b"0X10"),
            (b"add pid=7 n=-1", "n", b"-1"),
            (b"add pid=7 n=1e6", "n", b"1e6"),
            (
                b"add pid=7 n=18446744073709551616",
                "n",
                b"18446744073709551616",
            ),
            (
                b"add pid=7 n=0x10000000000000000",
                "n",
                b"0x10000000000000000",
            ),
            (b"add pid=7 event=", "event", b""),
        ] {
            assert!(refused(text, key, value));
        }
        let most = Request {
            n: u64::MAX,
            ..plain()
        };
        for text in [
            &b"add pid=7 n=18446744073709551615"[..],
            b"add pid=7 n=0xffffffffffffffff",
            b"add pid=0000000000000000000007 n=0x0000FFFFffffFFFFffff",
        ] {
            assert_eq!(parse(text), Ok(Command::Add(most)));
        }
    }

    #[test]
    fn events_are_what_they_have_to_be() {
        for (text, wrong) in [
            (&b"add pid=7 event=,"[..], Wrong::NoEvent(b",")),
            (b"add pid=7 event=cycles,", Wrong::NoEvent(b"cycles,")),
            (b"add pid=7 event=,cycles", Wrong::NoEvent(b",cycles")),
            (
                b"add pid=7 event=cycles,,instructions",
                Wrong::NoEvent(b"cycles,,instructions"),
            ),
            (b"add pid=7 event=cycle", Wrong::UnknownEvent(b"cycle")),
            (b"add pid=7 event=Cycles", Wrong::UnknownEvent(b"Cycles")),
            (b"add pid=7 event=:u", Wrong::UnknownEvent(b":u")),
            (b"add pid=7 event=60", Wrong::UnknownEvent(b"60")),
            (b"add pid=7 event=0x", Wrong::UnknownEvent(b"0x")),
            (b"add pid=7 event=0xg", Wrong::UnknownEvent(b"0xg")),
            (b"add pid=7 event=0XC0", Wrong::UnknownEvent(b"0XC0")),
            (b"add pid=7 event=r", Wrong::UnknownEvent(b"r")),
            (b"add pid=7 event=r0xc0", Wrong::UnknownEvent(b"r0xc0")),
            (
                b"add pid=7 event=cpu/event=0xc0/",
                Wrong::UnknownEvent(b"cpu/event=0xc0/"),
            ),
            (
                b"add pid=7 event=0x1000000000000003c",
                Wrong::UnknownEvent(b"0x1000000000000003c"),
            ),
            (b"add pid=7 event=cycles:", Wrong::Modes(b"cycles:")),
            (b"add pid=7 event=cycles:x", Wrong::Modes(b"cycles:x")),
            (b"add pid=7 event=cycles:U", Wrong::Modes(b"cycles:U")),
            (b"add pid=7 event=cycles:uu", Wrong::Modes(b"cycles:uu")),
            (b"add pid=7 event=cycles:u:k", Wrong::Modes(b"cycles:u:k")),
            (b"add pid=7 event=r3c,cycles:pp", Wrong::Modes(b"cycles:pp")),
            (
                b"add pid=7 event=cycles,0x5300c0",
                Wrong::Event(b"0x5300c0", Invalid::Bits(0x53_0000)),
            ),
            (
                b"add pid=7 event=r1000000c0:u",
                Wrong::Event(b"r1000000c0:u", Invalid::Bits(1 << 32)),
            ),
        ] {
            assert_eq!(parse(text), Err(wrong));
        }
    }

    // The kernel's crate has no strings to compare with.
    #[cfg(test)]
    #[test]
    fn an_error_says_how_to_mend_it() {
        for (text, line) in [
            ("", "there is no command: write add, remove, reset, pause, resume or wait"),
            ("stop \"\\", r#""stop" is no command: there are add, remove, reset, pause, resume and wait"#),
            ("\"\\", r#""\"\\" is no command: there are add, remove, reset, pause, resume and wait"#),
            ("add\0", "byte 4 is 0x00, NUL: write the text without it"),
            ("add\nadd", "byte 4 is 0x0a, a line break: write one command at a time"),
            ("add\r\n", "byte 4 is 0x0d, a carriage return: end the line without it"),
            ("add \u{e4}", "byte 5 is 0xc3: a command is ASCII text, with blanks between its words"),
            ("add pid = 7", r#""pid" is no key=value: write it so, without blanks"#),
            ("add pid=", "pid= has no value: it takes the number of a process or thread, 1 to 2147483647; no blank beside the ="),
            ("add id=1", r#""id" is no key of this command: it takes pid= event= user= kernel= inherit= thread= n= on_exec="#),
            ("wait event=cycles", r#""event" is no key of this command: it takes id= pid="#),
            ("add pid=7 pid=8", "pid= is there twice: write it once"),
            ("add", "pid= is missing: say whom to count"),
            ("remove", "id= and pid= are missing: say which target"),
            ("remove id=1 pid=7", "id= and pid= are both there: write one of them"),
            ("add pid=7 user=on", r#"user="on": it takes 0 or 1"#),
            ("add pid=0", r#"pid="0": it takes the number of a process or thread, 1 to 2147483647"#),
            ("add pid=7 thread=2", r#"thread="2": it takes 0 for the process, 1 for that thread alone, or all for the process with a line for each thread"#),
            ("add pid=7 n=1k", r#"n="1k": it takes the events in a period, decimal or 0x and hex, below 2^64; or 0 for as many as the PMU takes"#),
            ("remove id=0", r#"id="0": it takes the id of a target, 1 or more, as the device lists it"#),
            ("add pid=7 event=", "event= has no value: it takes names or codes, as in cycles,instructions:u,0x1d0; no blank beside the ="),
            ("add pid=7 event=cycles,", r#"event="cycles,": an event is missing beside a comma"#),
            ("add pid=7 event=foo", r#"event "foo" is unknown: there are cycles instructions ref-cycles cache-references cache-misses branches branch-misses, and codes as 0x1d0 or r1d0"#),
            ("add pid=7 event=cycles:", r#"event "cycles:": behind its colon stands u, k or uk"#),
            ("add pid=7 event=0x4100c0", r#"event "0x4100c0": bits 0x410000 are not yours to set; event select 7:0, unit mask 15:8, EDGE 18, INV 23 and CMASK 31:24 are"#),
            ("add pid=7 user=0 kernel=0", r#"event "cycles": user=0 kernel=0 counts nothing: leave one of them on"#),
            (
                "0123456789012345678901234567890123456789",
                r#""0123456789012345678901234567890123456789" is no command: there are add, remove, reset, pause, resume and wait"#,
            ),
            (
                "0123456789012345678901234567890123456789X",
                r#""0123456789012345678901234567890123456789"... is no command: there are add, remove, reset, pause, resume and wait"#,
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), line);
        }
        assert_eq!(
            parse(&[b' '; 1024]).unwrap_err().to_string(),
            "a command has at most 1023 bytes; write one at a time"
        );
        let many = format!("add pid=7 event=r0{}", ",r1".repeat(16));
        assert_eq!(
            parse(many.as_bytes()).unwrap_err().to_string(),
            "event= has more than 16 events: leave some out"
        );
    }

    #[cfg(test)]
    #[test]
    fn what_is_quoted_stays_in_its_quotes() {
        assert_eq!(
            Quoted(b"a \"b\" \\ \n\x1b\x7f\xe4~").to_string(),
            r#""a \"b\" \\ \x0a\x1b\x7f\xe4~""#
        );
        assert_eq!(Quoted(b"").to_string(), "\"\"");
    }
}
