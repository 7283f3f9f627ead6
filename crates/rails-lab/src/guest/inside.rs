//! Functions for programs that run inside a guest.

use super::{GuestError, tools::Tool};
use crate::system::{file_error, output};
use std::{env, fs, process::Command};

/// Whether this process runs inside a guest, by the environment variable `RAILS_GUEST`.
pub fn inside() -> bool {
    env::var_os(INSIDE).is_some_and(|value| value == "1")
}

/// Ends a test that was started outside a guest.
///
/// # Panics
///
/// Outside a guest ([`inside`]), with instructions for running the test.
#[track_caller]
pub fn require() {
    assert!(inside(), "this test needs the two-socket guest, and this is not it; run: cargo xtask lab");
}

/// Loads a module of the guest's kernel, with its dependencies; a loaded module stays.
///
/// # Errors
///
/// [`GuestError::NoKernel`] outside a guest, [`GuestError::System`] with modprobe's message if it
/// fails.
///
/// # Privileges
///
/// Root, which programs in a guest are.
///
/// # References
///
/// modprobe(8)
pub fn load_module(name: &str) -> Result<(), GuestError> {
    let base = env::var_os(MODULES).filter(|_| inside());
    let base = base.ok_or_else(|| GuestError::NoKernel { reason: "this is not a guest".into() })?;
    let modprobe = Tool::Modprobe.find().ok_or(GuestError::Missing { missing: vec![Tool::Modprobe] })?;
    Ok(output(Command::new(modprobe).arg("-d").arg(base).arg(name)).map(drop)?)
}

/// Makes the kernel drop its clean cached pages, so that their memory is free.
///
/// # Errors
///
/// [`GuestError::System`] if the file `drop_caches` cannot be written.
///
/// # Privileges
///
/// Root, which programs in a guest are.
///
/// # References
///
/// proc_sys_vm(5), `drop_caches`
pub fn drop_caches() -> Result<(), GuestError> {
    Ok(fs::write(DROP_CACHES, "3").map_err(file_error("write", DROP_CACHES))?)
}

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
pub(crate) const INSIDE: &str = "RAILS_GUEST";
/// The folder for `modprobe -d`.
pub(crate) const MODULES: &str = "RAILS_GUEST_MODULES";
