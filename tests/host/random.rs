// SPDX-License-Identifier: GPL-2.0

//! The parsers, given whatever may come: by chance, the same each time (`SEED=<number>` for another), 100,000 of each sort
//! (`STRESS=1`: 1,000,000); and what fuzzing has found worth keeping.

use std::{
    env,
    fs,
    panic::{
        catch_unwind,
        AssertUnwindSafe, //
    },
    path::Path, //
};

use crate::{
    command::MAX_LENGTH,
    judge, //
};

/// Pseudo-random numbers.
struct Xorshift(u64);

impl Xorshift {
    /// The next one.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next one below `end`.
    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    /// One of `choices`.
    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A number, mostly beside one where something begins or ends.
    fn number(&mut self) -> u64 {
        let near: u64 = match self.below(4) {
            0 => self.of(&[0, 2, 100_000]),
            1 => return self.next(),
            _ => 1 << self.below(64),
        };
        near.wrapping_add(self.of(&[0, 0, 1, u64::MAX]))
    }

    /// A command that is mostly well-formed, but for its values.
    fn command(&mut self) -> Vec<u8> {
        let add = self.below(4) != 0;
        let verb = match add {
            true => "add",
            false => self.of(&["remove", "reset", "pause", "resume", "wait", "stop"]),
        };
        let which = if !add && self.below(2) == 0 {
            "id"
        } else {
            "pid"
        };
        let number = match self.below(3) {
            0 => self.number().to_string(),
            _ => self.of(&["1", "7", "2147483647", "0042", "-1"]).into(),
        };
        let mut words = vec![format!("{which}={number}")];
        while add && self.below(5) != 0 {
            let word = match self.below(6) {
                0 => {
                    let events = (0..=self.below(18)).map(|_| self.event());
                    format!("event={}", events.collect::<Vec<_>>().join(","))
                }
                1 => format!("event={}", self.event()),
                2 => match self.below(3) {
                    0 => format!("n={}", self.number()),
                    1 => format!("n={:#x}", self.number()),
                    _ => self.of(&["n=x", "n=18446744073709551616", "n=0xFf"]).into(),
                },
                3 => format!("thread={}", self.of(&["0", "1", "all", "2"])),
                _ => {
                    let key = self.of(&["user", "kernel", "inherit", "on_exec"]);
                    format!("{key}={}", self.of(&["0", "1", "1", ""]))
                }
            };
            // Most keys once, at any place.
            let key = word.split_inclusive('=').next().unwrap();
            if self.below(20) == 0 || !words.iter().any(|other| other.starts_with(key)) {
                words.insert(self.below(words.len() + 1), word);
            }
        }
        words.insert(0, verb.into());
        let mut text = words.join(self.of(&[" ", "  ", "\t"]));
        text.push_str(self.of(&["", "\n"]));
        text.into()
    }

    /// One of a list of events.
    fn event(&mut self) -> String {
        let names = [
            "cycles",
            "branches",
            "ref-cycles",
            "0xc0",
            "r1a8",
            "0xff84ffff",
        ];
        let code = match self.below(50) {
            0 => self.of(&["", "x", "0x4100c0"]).into(),
            1 => format!("{:#x}", self.number()),
            _ => self.of(&names).to_string(),
        };
        let modes = match self.below(50) {
            0 => self.of(&[":", ":uu"]),
            _ => self.of(&["", ":u", ":k", ":uk", ":ku"]),
        };
        format!("{code}{modes}")
    }

    /// Spoils `text` at one place.
    fn spoil(&mut self, text: &mut Vec<u8>) {
        let at = self.below(text.len() + 1);
        let byte = match self.below(3) {
            0 => self.below(256) as u8,
            _ => self.of(b" \t\n\r\0=,:x0719fu-_\"\\"),
        };
        match self.below(6) {
            0 => text.insert(at, byte),
            1 => text.truncate(at),
            2 => text.extend(self.command()),
            3 => {
                let again = text[at..].repeat(self.of(&[1, 2, 40]));
                text.extend(again);
            }
            4 if at < text.len() => {
                text.remove(at);
            }
            _ if at < text.len() => text[at] = byte,
            _ => {}
        }
    }
}

/// The number that the variable has, or another.
fn variable(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |number| number.parse().expect(name))
}

/// Calls `round` often, and says of one that panics how to see it again. Returns how often, and how often it returned true.
fn rounds(mut round: impl FnMut(&mut Xorshift) -> bool) -> (usize, usize) {
    let seed = variable("SEED", 1);
    let rounds = match variable("STRESS", 0) {
        0 => 100_000,
        _ => 1_000_000,
    };
    // Never 0, which would stay.
    let mut random = Xorshift(seed.wrapping_mul(0x9e37_79b9_7f4a_7c16) | 1);
    let mut good = 0;
    for number in 0..rounds {
        match catch_unwind(AssertUnwindSafe(|| round(&mut random))) {
            Ok(is_good) => good += usize::from(is_good),
            Err(_) => panic!("round {number}; again with SEED={seed}"),
        }
    }
    (rounds, good)
}

#[test]
fn random_commands_are_read_right_or_refused() {
    let mut too_long = 0;
    let (rounds, good) = rounds(|random| {
        let mut text = random.command();
        for _ in 0..random.of(&[0, 1, 1, 2, 3]) {
            random.spoil(&mut text);
        }
        too_long += usize::from(text.len() > MAX_LENGTH);
        judge::write(&text)
    });
    // Each was there often enough to prove something.
    assert!(good > rounds / 10 && good < rounds / 2, "{good} were good");
    assert!(too_long > rounds / 100, "{too_long} were too long");
}

#[test]
fn random_bytes_are_read_right_or_refused() {
    rounds(|random| {
        let length = match random.below(4) {
            0 => random.below(2 * MAX_LENGTH),
            _ => random.below(40),
        };
        let text: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        judge::write(&text)
    });
}

#[test]
fn random_parameters_are_taken_or_refused_with_their_bounds() {
    let (rounds, good) = rounds(|random| {
        let (user, kernel) = (random.below(4) != 0, random.below(2) != 0);
        let code = match random.below(2) {
            0 => random.number() & 0xff84_ffff,
            _ => random.number(),
        };
        judge::numbers(code, user, kernel, random.number()).is_some()
    });
    assert!(good > rounds / 3 && good < rounds, "{good} were good");
}

#[test]
fn what_fuzzing_has_found_worth_keeping_is_read_right_or_refused() {
    let corpus = Path::new(file!()).with_file_name("../fuzz/corpus");
    let inputs = fs::read_dir(corpus)
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let (good, bad): (Vec<_>, Vec<_>) = inputs.partition(|text| judge::write(text));
    assert!(
        good.len() >= 5 && bad.len() >= 5,
        "{} and {}",
        good.len(),
        bad.len()
    );
}
