// SPDX-License-Identifier: GPL-2.0

//! What has to hold whatever is written to the device or given as parameters. It panics where it does not.

use crate::{
    command::{
        parse,
        Command,
        Request,
        Threads,
        Which,
        MAX_EVENTS,
        MAX_LENGTH, //
    },
    counter::{
        Count,
        OutOfRange,
        Preload,
        Shape, //
    },
    event::{
        code_of,
        Event,
        Invalid, //
    },
};

/// A write to the device. Returns whether it is a command.
pub(crate) fn write(text: &[u8]) -> bool {
    let told = text.escape_ascii();
    let command = match parse(text) {
        Ok(command) => command,
        Err(wrong) => {
            let line = wrong.to_string();
            assert!(
                line.bytes().all(|byte| matches!(byte, b' '..=b'~')),
                "{told}: {line}"
            );
            assert!((20..=300).contains(&line.len()), "{told}: {line}");
            assert_eq!(wrong.is_too_long(), text.len() > MAX_LENGTH, "{told}");
            return false;
        }
    };
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    assert!(text.len() <= MAX_LENGTH, "{told}");
    assert!(
        line.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')),
        "{told}"
    );
    let plain = written(&command);
    assert_eq!(parse(plain.as_bytes()), Ok(command), "{told}: {plain}");
    for word in line.split(|byte| matches!(byte, b'\t' | b' ')) {
        value(&command, &String::from_utf8_lossy(word));
    }
    // Neither a blank more nor the final newline matters; any other byte behind it does.
    if line.len() < MAX_LENGTH {
        for more in [&b" "[..], b"\t", b"\n"] {
            assert_eq!(parse(&[line, more].concat()), Ok(command), "{told}");
        }
        for more in [&b"\0"[..], b"\r", b"\x80"] {
            assert!(parse(&[line, more].concat()).is_err(), "{told}");
        }
    }
    match command {
        Command::Add(request) => {
            assert!(request.pid > 0, "{told}");
            assert!(
                (1..=MAX_EVENTS).contains(&request.events.iter().count()),
                "{told}"
            );
            for event in request.events.iter() {
                let (user, kernel) = (
                    event.perfevtsel(false) >> 16 & 1 == 1,
                    event.counts_kernel(),
                );
                assert_eq!(
                    numbers(event.code(), user, kernel, request.n),
                    Some(event),
                    "{told}"
                );
            }
        }
        Command::Remove(which)
        | Command::Reset(which)
        | Command::Pause(which)
        | Command::Resume(which)
        | Command::Wait(which) => match which {
            Which::Id(id) => assert!(id > 0, "{told}"),
            Which::Pid(pid) => assert!(pid > 0, "{told}"),
        },
    }
    true
}

/// A word of a command, if it has numbers: they are what has been read.
fn value(command: &Command, word: &str) {
    let digits = |text: &str| match text.trim_start_matches('0') {
        "" => "0".into(),
        rest => rest.to_lowercase(),
    };
    match (word.split_once('='), command) {
        (Some(("event", list)), Command::Add(request)) => {
            assert_eq!(
                list.split(',').count(),
                request.events.iter().count(),
                "{word}"
            );
            for (text, event) in list.split(',').zip(request.events.iter()) {
                let name = text.split(':').next().unwrap_or(text);
                match (
                    code_of(name.as_bytes()),
                    name.strip_prefix("0x").or(name.strip_prefix('r')),
                ) {
                    (Some(code), _) => assert_eq!(code, event.code(), "{word}"),
                    (None, Some(hex)) => {
                        assert_eq!(digits(hex), format!("{:x}", event.code()), "{word}")
                    }
                    (None, None) => panic!("{word}"),
                }
            }
        }
        (Some(("n", n)), Command::Add(request)) => match n.strip_prefix("0x") {
            Some(hex) => assert_eq!(digits(hex), format!("{:x}", request.n), "{word}"),
            None => assert_eq!(digits(n), request.n.to_string(), "{word}"),
        },
        (Some((key @ ("pid" | "id"), number)), _) => {
            let read = written(command);
            let read = read
                .split(' ')
                .find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            assert_eq!(read, Some(&*digits(number)), "{word}");
        }
        _ => {}
    }
}

/// The numbers that say what is counted, wherever they come from. Returns the event if there is one.
pub(crate) fn numbers(code: u64, user: bool, kernel: bool, n: u64) -> Option<Event> {
    let told = (code, user, kernel, n);
    // Event select, unit mask, EDGE, INV, CMASK.
    let foreign = code & !0xff84_ffff;
    let event = match Event::new(code, user, kernel) {
        Ok(event) => event,
        Err(invalid) => {
            match invalid {
                Invalid::Bits(bits) => assert!(bits != 0 && bits == foreign, "{told:x?}"),
                Invalid::NoMode => assert!(!user && !kernel && foreign == 0, "{told:x?}"),
            }
            return None;
        }
    };
    assert!(foreign == 0 && (user || kernel), "{told:x?}");
    // EN, INT, OS and USR are the module's.
    let register = code | 1 << 22 | 1 << 20 | u64::from(kernel) << 17 | u64::from(user) << 16;
    assert_eq!(event.perfevtsel(true), register, "{told:x?}");
    for width in [1, 2, 17, 18, 31, 32, 40, 48, 63, 64] {
        for full_width in [false, true] {
            period(n, Shape { width, full_width }, kernel);
        }
    }
    Some(event)
}

/// A period of `n` is taken, and what it counts is what there was; or the bounds are named.
fn period(n: u64, shape: Shape, kernel: bool) {
    let new = |n| Preload::new(n, shape, kernel);
    let told = (n, kernel, shape);
    match new(n) {
        Ok(preload) => {
            let n = preload.n();
            let start = preload.start();
            assert!(n >= 2, "{told:x?}");
            assert!(
                preload.can_be(start, false) && !preload.can_be(start, true),
                "{told:x?}"
            );
            for (events, value) in [(0, start), (n - 1, start + (n - 1)), (n, 0)] {
                let overflows = u64::from(events == n);
                assert_eq!(
                    preload.count(0, value),
                    Count { events, overflows },
                    "{told:x?}"
                );
            }
        }
        // A counter so narrow that it takes none.
        Err(OutOfRange { min, max }) if min > max => {
            assert!(
                [0, min, max].map(new).iter().all(Result::is_err),
                "{told:x?}"
            );
        }
        Err(OutOfRange { min, max }) => {
            assert!(n != 0 && !(min..=max).contains(&n), "{told:x?}");
            assert!(
                [0, min, max].map(new).iter().all(Result::is_ok),
                "{told:x?}"
            );
            assert!(
                [min - 1, max + 1].map(new).iter().all(Result::is_err),
                "{told:x?}"
            );
        }
    }
}

/// `command` as somebody may have written it.
fn written(command: &Command) -> String {
    let (verb, which) = match command {
        Command::Add(request) => return written_add(request),
        Command::Remove(which) => ("remove", which),
        Command::Reset(which) => ("reset", which),
        Command::Pause(which) => ("pause", which),
        Command::Resume(which) => ("resume", which),
        Command::Wait(which) => ("wait", which),
    };
    match which {
        Which::Id(id) => format!("{verb} id={id}"),
        Which::Pid(pid) => format!("{verb} pid={pid}"),
    }
}

/// The same for an `add`.
fn written_add(request: &Request) -> String {
    let events = request.events.iter().map(|event| event.named().to_string());
    format!(
        "add pid={} event={} inherit={} thread={} n={} on_exec={}",
        request.pid,
        events.collect::<Vec<_>>().join(","),
        u8::from(request.inherit),
        match request.threads {
            Threads::Together => "0",
            Threads::One => "1",
            Threads::Each => "all",
        },
        request.n,
        u8::from(request.on_exec)
    )
}
