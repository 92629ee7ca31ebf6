// SPDX-License-Identifier: GPL-2.0

//! Loading the module if the device is not there, and unloading it again if it was loaded here.

use crate::{
    device::{
        self,
        Device, //
    },
    error::{
        Error,
        Result, //
    }, //
};
use nix::{
    errno::Errno,
    kmod::{
        self,
        DeleteModuleFlags, //
    },
    unistd, //
};
use std::{
    env,
    ffi::{
        CStr,
        OsStr, //
    },
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{
        Command,
        Stdio, //
    },
    thread,
    time::Duration, //
};

/// The module.
const NAME: &CStr = c"pmu_count";
/// The environment variable that may name its file.
pub(crate) const VARIABLE: &str = "PMU_COUNT_MODULE";

/// The device, and the module if it was loaded for this run.
pub(crate) struct Module {
    /// Open for as long as there is something to count, so that nobody else unloads it.
    device: Option<Device>,
    /// Whether it is ours to unload.
    loaded: bool,
}

impl Module {
    /// Opens the device, and loads the module if there is none.
    pub(crate) fn open() -> Result<Self> {
        let mut module = Self {
            device: None,
            loaded: false,
        };
        if !Path::new(device::PATH).exists() {
            load()?;
            module.loaded = true;
            // Where udev makes the node it takes a moment.
            for _ in 0..100 {
                if Path::new(device::PATH).exists() {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        module.device = Some(Device::open().map_err(|error| {
            Error::new(match error.kind() {
                ErrorKind::PermissionDenied => format!(
                    "not permitted to use {}: run pmu-stat as root, or have root chmod it; see Rights in pmu_count(4)",
                    device::PATH
                ),
                _ => format!("cannot open {}: {error}; is the module well (dmesg)?", device::PATH),
            })
        })?);
        Ok(module)
    }

    /// The device.
    pub(crate) fn device(&self) -> Result<&Device> {
        let gone = || Error::new(format!("{} is not open", device::PATH));
        self.device.as_ref().ok_or_else(gone)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Others may have added targets meanwhile, which are theirs to end.
        let idle = self
            .device
            .take()
            .is_none_or(|device| device.read().is_ok_and(|s| s.lines.is_empty()));
        // Others may also have it open: then it stays as well.
        if self.loaded && idle {
            let _ = kmod::delete_module(NAME, DeleteModuleFlags::O_NONBLOCK);
        }
    }
}

/// Loads the module.
fn load() -> Result<()> {
    if !unistd::geteuid().is_root() {
        return Err(Error::new(format!(
            "{} is not there: have root load the module ({})",
            device::PATH,
            remedy()
        )));
    }
    match env::var_os(VARIABLE) {
        Some(file) => insert(Path::new(&file)),
        None => modprobe(),
    }
}

/// How to load it by hand.
fn remedy() -> String {
    match env::var(VARIABLE) {
        Ok(file) => format!("insmod {file}"),
        Err(_) => format!("modprobe {}", NAME.to_string_lossy()),
    }
}

/// Loads that file.
fn insert(file: &Path) -> Result<()> {
    let cannot = |error: &str| {
        Error::new(format!(
            "cannot load {} ({VARIABLE}): {error}; dmesg tells more",
            file.display()
        ))
    };
    let open = std::fs::File::open(file).map_err(|error| cannot(&error.to_string()))?;
    match kmod::finit_module(&open, c"", kmod::ModuleInitFlags::empty()) {
        // Somebody else was faster.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(cannot(errno.desc())),
    }
}

/// Loads the module from where modules are.
fn modprobe() -> Result<()> {
    let ended = Command::new("modprobe")
        .arg(OsStr::from_bytes(NAME.to_bytes()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output();
    let said = match ended {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr)
            .lines()
            .last()
            .unwrap_or("modprobe failed")
            .to_owned(),
        Err(error) => format!("modprobe: {error}"),
    };
    Err(Error::new(format!(
        "{} is not there, and the module cannot be loaded: {said}; install pmu_count.ko for this kernel or name its file in {VARIABLE} (dmesg may tell more)",
        device::PATH
    )))
}
