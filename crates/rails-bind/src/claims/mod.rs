//! Claims: CPUs, interrupts and NIC queues that one process at a time has for itself, on the whole host.
//!
//! A claim binds nothing. It keeps two processes, also of different users, from both believing that a core is theirs.
//! It is advisory: it keeps out those that ask.
//!
//! # How
//! The folder [`Claims::MACHINE`] has one file for CPUs, one for interrupts, and one for the receive queues of each
//! interface; byte N stands for number N, and a claim is a lock on that byte (fcntl_locking(2)). Nothing is ever
//! written to the files. The kernel drops the lock however its owner ends, so nothing goes stale, and it says whose
//! lock it is.
//!
//! ```no_run
//! use rails_bind::claims::{ClaimError, Claims, Resource};
//! use rails_topo::CpuId;
//!
//! let claims = Claims::machine();
//! match claims.claim([Resource::Cpu(CpuId(2)), Resource::Interrupt(33)]) {
//!     Ok(claim) => println!("{} until the claim is dropped", claim.resources()),
//!     Err(ClaimError::Held { resource, by }) => println!("{resource} is taken: {by}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok::<(), ClaimError>(())
//! ```
//!
//! # What holds
//! * All or nothing. Where several processes ask for the same resources at the same time, one of them gets them.
//! * Claims of one process exclude each other too, in all of its threads.
//! * A forked child has none of its parent's claims, and can make its own. As with all locks, a child that was forked
//!   by a process with several threads may call nothing of this before it executes a program.
//! * Names of interfaces are those of the network namespace: equal names of different namespaces exclude each other
//!   where they share the folder.
//!
//! # Limits
//! Any user can claim anything. The owner of a file of claims, root, and the owner of the folder can remove it; claims
//! that were made before are then lost, which [`Claim::check`] tells. A process that opens and closes such a file by
//! other means loses its claims.
//!
//! # References
//! [fcntl_locking(2)](https://man7.org/linux/man-pages/man2/fcntl_locking.2.html)

mod claim;
mod error;
mod folder;
mod holder;
mod record_lock;
mod registry;
mod resource;

pub use claim::Claim;
pub use error::ClaimError;
pub use holder::Holder;
pub use resource::{Number, Numbers, Resource, Resources};

use self::{
    folder::Folder,
    registry::{NotTaken, registry},
    resource::Kind,
};

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The folder in which claims are made.
#[derive(Debug, Clone)]
pub struct Claims {
    folder: Folder,
}

impl Claims {
    /// Where every process of the machine makes its claims: in the folder for locks (hier(7) has it by its former name,
    /// `/var/lock`), which is on a file system in memory. There is no other place, since claims in two places would not exclude each other.
    pub const MACHINE: &str = "/run/lock/rails";

    /// The claims of this machine, in [`Claims::MACHINE`].
    pub fn machine() -> Self {
        Self::at(Self::MACHINE)
    }

    /// Claims in this folder, which excludes those alone that use the same: for tests, and for containers that share
    /// one. The first claim makes it, open to every user.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Folder { path: folder.into() } }
    }

    /// Where they are made.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Claims all of these resources, or none; no resources are always granted. It does not wait.
    ///
    /// # Errors
    /// [`ClaimError::Held`] names the holder. The others say why nothing can be claimed.
    ///
    /// # Privileges
    /// None where the folder is there. To make [`Claims::MACHINE`] takes write permission to `/run/lock`, which every
    /// user has on Debian and root alone on Fedora.
    pub fn claim(&self, resources: impl IntoIterator<Item = Resource>) -> Result<Claim, ClaimError> {
        // A number without bound would be memory without bound in the set.
        let checked: Result<Resources, ClaimError> = resources.into_iter().map(in_range).collect();
        self.claim_all(checked?)
    }

    fn claim_all(&self, resources: Resources) -> Result<Claim, ClaimError> {
        let mut taken = Vec::new();
        let refused = {
            let mut registry = registry();
            let mut kinds = resources.by_kind().into_iter();
            // Always in the same order: of several processes, the one that holds the last of the contested resources
            // is refused none.
            kinds.find_map(|(kind, numbers)| match registry.take(&self.folder, &kind, &numbers) {
                Ok(part) => {
                    taken.push(part);
                    None
                }
                Err(refused) => Some((kind, refused)),
            })
        };
        let claim = Claim::new(self.folder.clone(), resources, taken);
        match refused {
            None => Ok(claim),
            Some((_, NotTaken::Failed(error))) => Err(error),
            Some((kind, NotTaken::Held { number, pid })) => {
                claim.release()?;
                let resource = kind.resource(number);
                Err(ClaimError::Held { by: Box::new(self.holder(pid, &resource)), resource })
            }
        }
    }

    /// All holders of claims, this process among them, by the number of their process. It takes nothing and makes
    /// nothing: without the folder there are none.
    ///
    /// # Errors
    /// By variant. A link or a pipe in the place of a file is passed over, as nothing can be claimed in it.
    ///
    /// # Privileges
    /// None. The commands and users of other users' processes are unknown where `/proc` hides them (`hidepid`).
    pub fn list(&self) -> Result<Vec<Holder>, ClaimError> {
        let mut holders = self.holdings(&self.folder.kinds()?)?;
        let unseen = holders.remove_entry(&None);
        Ok(holders.into_iter().chain(unseen).map(|(pid, holds)| Holder::of(pid, holds)).collect())
    }

    /// All that is claimed, by other processes or by this one. Interrupts and queues with more locks than are listed are
    /// passed over: any user may have made them, and CPUs can be planned all the same.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn taken(&self) -> Result<Resources, ClaimError> {
        let mut taken = Vec::new();
        for kind in self.folder.kinds()? {
            match self.holdings(std::slice::from_ref(&kind)) {
                Ok(holdings) => taken.extend(holdings.values().flat_map(Resources::iter)),
                Err(error @ ClaimError::Crowded { .. }) if kind != Kind::Cpus => {
                    tracing::warn!(%error, "a file of claims is passed over");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(taken.into_iter().collect())
    }

    /// The holder of this resource, which may be this process; `None` if nobody has claimed it.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn holder_of(&self, resource: &Resource) -> Result<Option<Holder>, ClaimError> {
        let holdings = self.holdings(&[resource.kind()])?;
        let found = holdings.into_iter().find(|(_, holds)| holds.contains(resource));
        Ok(found.map(|(pid, _)| self.holder(pid, resource)))
    }

    /// What each process holds of these kinds.
    fn holdings(&self, kinds: &[Kind]) -> Result<BTreeMap<Option<u32>, Resources>, ClaimError> {
        let mut holdings: BTreeMap<Option<u32>, Resources> = BTreeMap::new();
        let Some(folder) = self.folder.open()? else { return Ok(holdings) };
        let registry = registry();
        for kind in kinds {
            let locks = match registry.locked(&folder, kind) {
                Ok(locks) => locks.map(|(_, locks)| locks).unwrap_or_default(),
                Err(error @ ClaimError::NotAFile { .. }) => {
                    tracing::warn!(%error, "a file of claims is passed over");
                    continue;
                }
                Err(error) => return Err(error),
            };
            for lock in locks {
                holdings.entry(lock.pid).or_default().insert_span(kind, lock.span);
            }
        }
        Ok(holdings)
    }

    /// The process that was found to hold this.
    fn holder(&self, pid: Option<u32>, resource: &Resource) -> Holder {
        // Several processes may be invisible. And where the list cannot be had, or has changed already, the one that was
        // found is still to be named.
        let listed = pid.and_then(|_| self.folder.kinds().and_then(|kinds| self.holdings(&kinds)).ok()?.remove(&pid));
        let mut holds = listed.unwrap_or_default();
        holds.insert(resource.clone());
        Holder::of(pid, holds)
    }
}

fn in_range(resource: Resource) -> Result<Resource, ClaimError> {
    let highest = resource.kind().highest();
    if resource.number() > highest { Err(ClaimError::OutOfRange { resource, highest }) } else { Ok(resource) }
}

#[cfg(test)]
mod tests;
