//! irqbalance, which moves interrupts by itself: whether it runs, and how to keep it away from some.
//!
//! It looks at all interrupts every ten seconds and moves those that it is not told to leave alone, so what was set for one does
//! not last. [`plan()`] says what to do about that, and [`heed`] does it to changes that are to be made.
//!
//! It can be talked to through the socket that its `irqbalance-ui` uses (where that is built in): one
//! request a connection, with the sender's credentials, which must be those of user 0. Measured with version 1.9.2, and
//! read in the sources of others (`sock_handle` in `irqbalance.c`):
//! * `setup` is answered with what is banned by its command line or by this socket: `SLEEP 10 IRQ 24 LOAD 0 DIFF 0
//!   CLASS 0 BANNED 00000000`. What a policy script or `--banmod` bans is not in it.
//! * `settings ban irqs 24 25` *replaces* that list, also what the command line banned, and `settings ban irqs NONE`
//!   clears it. There is no answer, so the list is read back. It holds from then on: before interrupts are next placed, those
//!   banned are dropped from what there is to place.
//! * A request has room for 500 bytes.

mod client;
mod error;
mod options;
mod plan;
mod setup;

pub use error::BalancerError;
pub use options::{BalancerOptions, HintPolicy};
pub use plan::{BalancerPlan, heed, plan};

use crate::thread::Tid;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A running irqbalance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balancer {
    /// Its process.
    pub pid: Tid,
    /// What its command line says.
    pub options: BalancerOptions,
    /// Where the file system begins that has its socket.
    root: PathBuf,
    /// For each call.
    patience: Duration,
}

impl Balancer {
    /// The irqbalance of this machine, run by root; the one of the lowest number if there are several.
    ///
    /// # Privileges
    /// None, unless `/proc` is mounted with `hidepid`.
    ///
    /// # Errors
    /// [`BalancerError::Hidden`] where not all processes of the machine can be seen and none of those that can is it;
    /// [`BalancerError::Unlisted`].
    pub fn find() -> Result<Option<Self>, BalancerError> {
        Self::find_under(Path::new("/"))
    }

    /// The irqbalance of the machine whose file system begins at `root` (it has `root/proc` and `root/run`).
    ///
    /// # Errors
    /// As [`Balancer::find`].
    pub fn find_under(root: &Path) -> Result<Option<Self>, BalancerError> {
        let proc = root.join("proc");
        let unlisted = |source| BalancerError::Unlisted { directory: proc.clone(), source };
        // Only who may write to /proc/irq moves interrupts; anybody else may take the name.
        let owner = fs::metadata(&proc).map_err(unlisted)?.uid();
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(&proc).map_err(unlisted)? {
            let entry = entry.map_err(unlisted)?;
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Some(pid) = Tid::from_raw(pid) else { continue };
            if is_irqbalance(&entry.path()) && entry.metadata().is_ok_and(|metadata| metadata.uid() == owner) {
                found.insert(pid);
            }
        }
        for pid in found {
            if let Some(line) = command_line(&proc.join(pid.to_string())) {
                let options = BalancerOptions::parse(&line);
                return Ok(Some(Self { pid, options, root: root.to_owned(), patience: PATIENCE }));
            }
        }
        why_hidden(&proc).map_or(Ok(None), |why| Err(BalancerError::Hidden { why }))
    }

    /// What it leaves alone because its command line or somebody after it said so.
    ///
    /// # Privileges
    /// User 0. Another is kept from the socket's file by its permissions, and gets no answer from an abstract one.
    ///
    /// # Errors
    /// By variant; [`BalancerError::NoSocket`] where it is built without one, or is in a mount namespace of its own.
    pub fn banned(&self) -> Result<BTreeSet<u32>, BalancerError> {
        client::banned(self)
    }

    /// Tells it to leave these interrupts alone, besides those that it leaves alone already, and reads that back. What
    /// somebody else bans between the reading and the writing is lost: it knows of no way to add to the list. It forgets them when
    /// it ends.
    ///
    /// As a change of the machine's settings ([`Change::ban`](crate::settings::Change::ban)) it is taken back when a guard is
    /// dropped, and known to the journal.
    ///
    /// # Privileges
    /// As [`Balancer::banned`].
    ///
    /// # Errors
    /// As [`Balancer::banned`]; [`BalancerError::TooMany`] and [`BalancerError::NotTaken`]. After an error, what it left
    /// alone before is as it was, unless the error is `NotTaken`.
    pub fn ban(&self, interrupts: &[u32]) -> Result<(), BalancerError> {
        let before = client::banned(self)?;
        let wanted: BTreeSet<u32> = before.iter().chain(interrupts).copied().collect();
        if wanted == before { Ok(()) } else { client::replace(self, &wanted) }
    }

    /// Tells it that it may move these interrupts again, and reads that back.
    ///
    /// # Privileges
    /// As [`Balancer::banned`].
    ///
    /// # Errors
    /// As [`Balancer::ban`].
    pub fn unban(&self, interrupts: &[u32]) -> Result<(), BalancerError> {
        let before = client::banned(self)?;
        let wanted: BTreeSet<u32> = before.iter().copied().filter(|number| !interrupts.contains(number)).collect();
        if wanted == before { Ok(()) } else { client::replace(self, &wanted) }
    }
}

fn is_irqbalance(directory: &Path) -> bool {
    fs::read(directory.join("comm")).is_ok_and(|name| name.trim_ascii_end() == b"irqbalance")
}

/// The command line of a process; `None` of one that has ended, be it that its parent has not been told yet.
fn command_line(directory: &Path) -> Option<Vec<u8>> {
    fs::read(directory.join("cmdline")).ok().filter(|line| !line.is_empty())
}

/// Why a process of the machine may be there that is not in `/proc`.
fn why_hidden(proc: &Path) -> Option<&'static str> {
    if fs::read_dir(proc.join("1")).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Some("/proc shows the processes of others to nobody but root (hidepid)");
    }
    let own = fs::metadata(proc.join("self/ns/pid")).ok()?;
    (own.ino() != FIRST_PID_NAMESPACE).then_some("this is a PID namespace of its own, as containers have them")
}

/// `PROC_PID_INIT_INO` in `include/linux/proc_ns.h`.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    let _ = BalancerOptions::parse(bytes);
    let answer = String::from_utf8_lossy(bytes);
    if let Some(banned) = setup::banned(&answer) {
        let _ = setup::request(&banned);
    }
}

/// For each call. It looks at all interrupts within milliseconds, but for one that a busy machine keeps from its processor.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
