// SPDX-License-Identifier: GPL-2.0

//! The device: reading tells what was counted, writing commands. `man/pmu_count.4` has both.

use core::pin::Pin;

use kernel::{
    alloc::flags::GFP_KERNEL_ACCOUNT,
    fmt::{
        self,
        Write, //
    },
    fs::{
        file::flags::O_NONBLOCK,
        File,
        Kiocb,
        LocalFile, //
    },
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

use crate::{
    account::{
        add,
        Kind,
        Sums, //
    },
    command::{
        self,
        Quoted,
        Threads,
        MAX_LENGTH, //
    },
    cpuid::Pmu,
    event::ARCHITECTURAL,
    pid::Name,
    refusal::refuse,
    rights::Caller,
    smp::{
        on_this_cpu,
        CpuSet, //
    },
    target::{
        State,
        Target, //
    },
    targets::{
        self,
        Targets, //
    },
    PmuCount,
};

/// The protocol's version.
const VERSION: u32 = 1;

/// An open device.
#[pin_data]
pub(crate) struct Device {
    /// What the read at offset 0 saw, and whose it was.
    #[pin]
    seen: Mutex<(KVVec<u8>, Option<Caller>)>,
}

impl Device {
    /// Makes the device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST` if there is one of this name.
    pub(crate) fn register() -> impl PinInit<MiscDeviceRegistration<Self>, Error> {
        MiscDeviceRegistration::register(MiscDeviceOptions { name: c"pmu_count" })
    }
}

#[vtable]
impl MiscDevice for Device {
    type Ptr = Pin<KBox<Self>>;
    type OwnerModule = PmuCount;

    fn open(_: &File, _: &MiscDeviceRegistration<Self>) -> Result<Self::Ptr> {
        KBox::pin_init(
            try_pin_init!(Self {
                seen <- new_mutex!((KVVec::new(), None)),
            }),
            GFP_KERNEL,
        )
    }

    fn read_iter(mut kiocb: Kiocb<'_, Self::Ptr>, iov: &mut IovIterDest<'_>) -> Result<usize> {
        let device = kiocb.file();
        let caller = Caller::of(file(&kiocb));
        let mut seen = device.seen.lock();
        if kiocb.ki_pos() == 0 {
            *seen = (report(&caller)?, Some(caller));
        }
        let (seen, reader) = &*seen;
        // The file may have been passed on meanwhile, to one who may not see as much.
        if reader.is_some_and(|reader| reader != caller) {
            return Err(EPERM);
        }
        let wanted = iov.len();
        let before = kiocb.ki_pos();
        let read = iov.simple_read_from_buffer(kiocb.ki_pos_mut(), seen)?;
        // That takes a bad address for the end.
        match read == 0 && wanted > 0 && usize::try_from(before)? < seen.len() {
            true => Err(EFAULT),
            false => Ok(read),
        }
    }

    fn write_iter(kiocb: Kiocb<'_, Self::Ptr>, iov: &mut IovIterSource<'_>) -> Result<usize> {
        let length = iov.len();
        let mut text = KVec::from_elem(0, length.min(MAX_LENGTH + 1), GFP_KERNEL)?;
        if iov.copy_from_iter(&mut text) != text.len() {
            return Err(EFAULT);
        }
        let command = command::parse(&text).map_err(|wrong| {
            let error = if wrong.is_too_long() { E2BIG } else { EINVAL };
            refuse(error, fmt!("{wrong}"))
        })?;
        let file = file(&kiocb);
        let may_wait = file.flags() & O_NONBLOCK == 0;
        all()?.execute(&command, &Caller::of(file), may_wait)?;
        Ok(length)
    }
}

/// All targets.
fn all<'a>() -> Result<&'a Targets> {
    // SAFETY: The device is gone before the slot is emptied.
    unsafe { targets::slot().get() }.ok_or(ENODEV)
}

/// The file that is read or written.
fn file<'a, T>(kiocb: &Kiocb<'a, T>) -> &'a LocalFile
where
    T: kernel::types::ForeignOwnable,
{
    // SAFETY: It is open as long as it is used. Who uses its position without the lock for that is this thread.
    unsafe { LocalFile::from_raw_file((*kiocb.as_raw()).ki_filp) }
}

/// A text that grows.
struct Text(KVVec<u8>);

impl Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.0
            .extend_from_slice(more.as_bytes(), GFP_KERNEL_ACCOUNT)
            .map_err(|_| fmt::Error)
    }
}

/// All that the caller may see.
fn report(caller: &Caller) -> Result<KVVec<u8>> {
    let mut text = Text(KVVec::new());
    let all = all()?;
    text.write_fmt(fmt!("pmu_count {VERSION} {Abilities}\n"))
        .map_err(|_| ENOMEM)?;
    all.look(caller, |target, state, name| {
        lines(&mut text, target, state, name)
    })?;
    Ok(text.0)
}

/// What this CPU's PMU has.
struct Abilities;

impl fmt::Display for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(pmu) = on_this_cpu(|_| Pmu::detect()) else {
            return f.write_str("counters=0 fixed=0 absent=none");
        };
        write!(
            f,
            "counters={} fixed={} absent=",
            pmu.general(),
            pmu.fixed()
        )?;
        let mut comma = "";
        for event in &ARCHITECTURAL {
            if pmu.lacks(event.code) {
                write!(f, "{comma}{}", event.name)?;
                comma = ",";
            }
        }
        f.write_str(if comma.is_empty() { "none" } else { "" })
    }
}

/// Whose a line is, for one of a target's events.
#[derive(Clone, Copy)]
struct Whose<'a> {
    tid: Tid,
    name: Option<Name>,
    state: State,
    nanoseconds: u64,
    cpus: &'a CpuSet,
}

#[derive(Clone, Copy)]
enum Tid {
    All,
    One(i32),
    Ended,
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::One(number) => write!(f, "{number}"),
            Self::Ended => f.write_str("ended"),
        }
    }
}

/// A target's lines.
fn lines(text: &mut Text, target: &Target, state: State, name: Option<Name>) -> Result {
    // One look at each, so that the sum is the sum of what is said.
    let mut accounts = KVVec::new();
    let mut all = Sums::default();
    let mut nanoseconds = 0u64;
    let cpus = CpuSet::new(GFP_KERNEL)?;
    for account in target.accounts.iter() {
        let (sums, ran) = (
            account.sums(),
            account.clock.nanoseconds(target.is_paused()),
        );
        add(&mut all, &sums);
        nanoseconds = nanoseconds.wrapping_add(ran);
        cpus.extend(account.cpus());
        accounts.push((account, sums, ran), GFP_KERNEL)?;
    }
    let whole = Whose {
        tid: match target.terms.is_one() {
            true => Tid::One(target.number()),
            false => Tid::All,
        },
        name,
        state,
        nanoseconds,
        cpus: &cpus,
    };
    write_lines(text, target, &whole, &all)?;
    if target.terms.threads != Threads::Each {
        return Ok(());
    }
    for &(account, ref sums, nanoseconds) in accounts.iter().rev() {
        let Kind::Thread(thread) = account.kind() else {
            continue;
        };
        let whose = Whose {
            tid: Tid::One(thread.number()),
            name: thread.name(),
            state: match account.had_ended() {
                true => State::Exited,
                false => state,
            },
            nanoseconds,
            cpus: account.cpus(),
        };
        write_lines(text, target, &whose, sums)?;
    }
    // What it has is of threads that have no line any more.
    let rest = accounts
        .iter()
        .find(|(account, ..)| matches!(account.kind(), Kind::All));
    match rest {
        Some(&(rest, ref sums, nanoseconds)) if nanoseconds != 0 || *sums != Sums::default() => {
            let whose = Whose {
                tid: Tid::Ended,
                name: None,
                state: State::Exited,
                nanoseconds,
                cpus: rest.cpus(),
            };
            write_lines(text, target, &whose, sums)
        }
        _ => Ok(()),
    }
}

/// The lines of one account, one an event.
fn write_lines(text: &mut Text, target: &Target, whose: &Whose<'_>, sums: &Sums) -> Result {
    let name = whose.name.as_ref().map_or(&[][..], |name| name.bytes());
    for (column, count) in target.counts_of(sums) {
        text.write_fmt(fmt!(
            "id={} pid={} tid={} name={} state={} event={} count={} enabled={} running={} overflows={} n={} cpus={} disturbed={} incomplete={}\n",
            target.id,
            target.process_number(),
            whose.tid,
            Quoted(name),
            whose.state,
            column.event.named(),
            count.events,
            whose.nanoseconds,
            whose.nanoseconds,
            count.overflows,
            column.n,
            Listed(whose.cpus),
            Listed(&target.disturbed),
            Listed(&target.incomplete),
        ))
        .map_err(|_| ENOMEM)?;
    }
    Ok(())
}

/// A list of CPUs, or `none`.
struct Listed<'a>(&'a CpuSet);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str("none"),
            false => self.0.fmt(f),
        }
    }
}
