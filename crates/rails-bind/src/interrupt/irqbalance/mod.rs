//! irqbalance, a daemon that moves interrupts: finding it, and banning interrupts from it.
//!
//! irqbalance looks at all interrupts every ten seconds, and moves those that no ban names.
//! [`heed`] adjusts changes of interrupts to that.
//!
//! Rails talk to it through the socket of `irqbalance-ui` (where that is built in): one request a
//! connection, from user
//! 0. Measured with version 1.9.2, and read in the sources of others (`sock_handle` in
//!    `irqbalance.c`):
//! * `setup` is answered with the interrupts that the command line or this socket has banned:
//!   `SLEEP 10 IRQ 24 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000`. The bans of a policy script and of
//!   `--banmod` are not in it.
//! * `settings ban irqs 24 25` *replaces* that list, also the bans of the command line, and
//!   `settings ban irqs NONE` clears it. There is no answer, so the list is read back. The list
//!   holds from then on: irqbalance drops banned interrupts before it next places interrupts.
//! * A request has room for 500 bytes.

mod client;
mod error;
mod plan;

use crate::thread::Tid;
pub use error::BalancerError;
pub use plan::{BalancerPlan, heed};
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
    pid: Tid,
    /// The root of the file system that has irqbalance's socket.
    root: PathBuf,
    /// The timeout of each call.
    patience: Duration,
}

impl Balancer {
    /// The irqbalance of this machine, run by root; the one of the lowest number if there are
    /// several.
    ///
    /// # Privileges
    /// None, unless `/proc` is mounted with `hidepid`.
    ///
    /// # Errors
    /// [`BalancerError::Hidden`] if no visible process is irqbalance and some are hidden;
    /// [`BalancerError::Unlisted`].
    pub fn find() -> Result<Option<Self>, BalancerError> {
        Self::find_under(Path::new("/"))
    }

    /// The irqbalance of the machine whose file system begins at `root` (it has `root/proc` and
    /// `root/run`).
    ///
    /// # Errors
    /// As [`Balancer::find`].
    pub fn find_under(root: &Path) -> Result<Option<Self>, BalancerError> {
        let proc = root.join("proc");
        let unlisted = |source| BalancerError::Unlisted { directory: proc.clone(), source };
        // Only a process that may write to /proc/irq moves interrupts; any other may take the name.
        let owner = fs::metadata(&proc).map_err(unlisted)?.uid();
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(&proc).map_err(unlisted)? {
            let entry = entry.map_err(unlisted)?;
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if is_irqbalance(&entry.path()) && entry.metadata().is_ok_and(|metadata| metadata.uid() == owner) {
                found.extend(Tid::from_raw(pid));
            }
        }
        match found.first() {
            Some(pid) => Ok(Some(Self { pid: *pid, root: root.to_owned(), patience: PATIENCE })),
            None => why_hidden(&proc).map_or(Ok(None), |why| Err(BalancerError::Hidden { why })),
        }
    }

    /// The process of irqbalance.
    pub fn pid(&self) -> Tid {
        self.pid
    }

    /// The interrupts that the command line or this socket has irqbalance leave alone.
    ///
    /// # Privileges
    /// User 0.
    ///
    /// # Errors
    /// By variant; [`BalancerError::Unusable`] if irqbalance has no socket built in, or a mount
    /// namespace of its own.
    pub fn banned(&self) -> Result<BTreeSet<u32>, BalancerError> {
        client::banned(self)
    }

    /// Tells irqbalance to leave these interrupts alone, besides those that it leaves alone
    /// already, and reads that back. A ban by another program between the reading and the
    /// writing is lost: irqbalance cannot add to the list. irqbalance forgets bans when it
    /// ends.
    ///
    /// As a change of the machine's settings ([`Change::ban`](crate::settings::Change::ban)) a ban
    /// is taken back when a guard is dropped, and stands in the journal.
    ///
    /// # Privileges
    /// User 0.
    ///
    /// # Errors
    /// As [`Balancer::banned`]. [`BalancerError::Unusable`] if a request has no room for the
    /// interrupts, and if they do not read back.
    pub fn ban(&self, interrupts: &[u32]) -> Result<(), BalancerError> {
        self.change(|banned| banned.extend(interrupts))
    }

    /// Tells irqbalance that it may move these interrupts again, and reads that back.
    ///
    /// # Privileges
    /// User 0.
    ///
    /// # Errors
    /// As [`Balancer::ban`].
    pub fn unban(&self, interrupts: &[u32]) -> Result<(), BalancerError> {
        self.change(|banned| banned.retain(|number| !interrupts.contains(number)))
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<u32>)) -> Result<(), BalancerError> {
        let before = client::banned(self)?;
        let mut wanted = before.clone();
        change(&mut wanted);
        if wanted == before { Ok(()) } else { client::replace(self, &wanted) }
    }
}

/// Whether the process is a live irqbalance; a zombie has no command line.
fn is_irqbalance(directory: &Path) -> bool {
    fs::read(directory.join("comm")).is_ok_and(|name| name.trim_ascii_end() == b"irqbalance")
        && fs::read(directory.join("cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Why a process of the machine may not be in `/proc`.
fn why_hidden(proc: &Path) -> Option<&'static str> {
    if fs::read_dir(proc.join("1")).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Some(match proc.join("self").symlink_metadata() {
            Ok(_) => "/proc shows the processes of other users to root alone (hidepid)",
            Err(_) => "/proc shows no processes",
        });
    }
    let own = fs::metadata(proc.join("self/ns/pid")).ok()?;
    (own.ino() != FIRST_PID_NAMESPACE).then_some("this is a PID namespace of its own, as containers have them")
}

/// `PROC_PID_INIT_INO` in `include/linux/proc_ns.h`.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(answer: &str) {
    let _ = client::parse(answer);
}

/// irqbalance looks at all interrupts within milliseconds, unless a busy machine keeps it from its
/// CPU.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
