//! Claims: CPUs, interrupts and NIC queues that one process at a time has for itself, on the whole
//! host.
//!
//! A claim binds no thread. Claims are advisory: they keep two processes that ask, also of
//! different users, from using one core.
//!
//! # How
//! The folder [`Claims::MACHINE`] has one file for CPUs, one for interrupts, and one for the
//! receive queues of each interface; byte N stands for number N, and a claim is a lock on that byte
//! (fcntl_locking(2)). Nothing is ever written to the files. The kernel drops the lock when its
//! owner ends in any way, so no claim goes stale, and names the owner.
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
//! * All or nothing. Where several processes ask for the same resources at the same time, one of
//!   them gets them.
//! * Claims of one process exclude each other too, in all of its threads.
//! * A forked child has none of its parent's claims, and can make its own. As with all locks, a
//!   child that a process with several threads has forked must not use claims before it executes a
//!   program.
//! * Names of interfaces are those of the network namespace: equal names of different namespaces
//!   exclude each other where they share the folder.
//!
//! # Users
//! A user other than root may hold half of the CPUs that the process may use, rounded down, or as
//! many as `max_cpus_per_user` in [`Claims::LIMITS`] says. More are not claimed, and
//! [`Claims::taken`] leaves out the CPUs of a user who holds more by other means, and all locks of
//! open files, which are no claims. Root has no limit, and overrides the claims of other users:
//! root's claim of a resource that another user holds is granted, and [`Claims::list`] shows both.
//! If another user has put something else in the place of the folder or of a file, root moves it
//! away, and claims.
//!
//! # Limits
//! Any user can claim any interrupt and queue. The owner of a file of claims, root, and the owner
//! of the folder can remove it; earlier claims are then lost, which [`Claim::check`] reports. A
//! process that opens and closes such a file itself loses its claims.
//!
//! # References
//! [fcntl_locking(2)](https://man7.org/linux/man-pages/man2/fcntl_locking.2.html)

mod claim;
mod error;
mod folder;
mod holder;
mod limit;
mod record_lock;
mod registry;
mod resource;
mod user;

use self::{
    folder::{Folder, TRIES},
    limit::UserLimit,
    record_lock::{Locked, Owner},
    registry::{NotTaken, Registry, Taken, registry},
    resource::{ClaimFile, Kind, Span, spans},
    user::ROOT,
};
use crate::{kernel_files, settings::InterfaceName};
pub use claim::Claim;
pub use error::ClaimError;
pub use holder::Holder;
use nix::{net::if_::if_nameindex, unistd::geteuid};
use rails_topo::CpuSet;
pub use resource::{Number, Numbers, Resource, Resources};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process,
};

/// The folder in which claims are made.
#[derive(Debug, Clone)]
pub struct Claims {
    folder: Folder,
    limit: UserLimit,
}

/// The locks of each process; those of all invisible processes together, and those of all open
/// files together.
type Holdings = BTreeMap<Owner, Resources>;

impl Claims {
    /// The folder in which every process of the machine makes its claims: in the folder for locks
    /// (hier(7) has it by its former name, `/var/lock`), which is on a file system in memory. There
    /// is no fallback, since claims in two folders would not exclude each other.
    pub const MACHINE: &str = "/run/lock/rails";

    /// The file in which root limits the claims of other users on this machine: the line
    /// `max_cpus_per_user = 4` limits all processes of a user together.
    pub const LIMITS: &str = "/etc/rails/claims.toml";

    /// The claims of this machine, in [`Claims::MACHINE`], with the limits of [`Claims::LIMITS`].
    pub fn machine() -> Self {
        Self { limit: UserLimit::Administrators, ..Self::at(Self::MACHINE) }
    }

    /// Claims in this folder, which only exclude claims in the same folder: for tests, and for
    /// containers that share one. The first claim makes it, open to every user. Users have no
    /// limit.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Folder { path: folder.into() }, limit: UserLimit::Unlimited }
    }

    /// Limits the CPUs that all processes of a user other than root hold together.
    #[must_use]
    pub fn max_cpus_per_user(self, max: usize) -> Self {
        Self { limit: UserLimit::Cpus(max), ..self }
    }

    /// The folder in which the claims are made.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Claims all of these resources, or none; an empty set is always granted. The call does not
    /// wait.
    ///
    /// # Errors
    /// [`ClaimError::Held`] names the holder, [`ClaimError::Limit`] the user's limit. Other errors
    /// say why nothing can be claimed.
    ///
    /// # Privileges
    /// None where the folder is there. Making [`Claims::MACHINE`] takes write permission to
    /// `/run/lock`, which every user has on Debian and root alone on Fedora.
    pub fn claim(&self, resources: impl IntoIterator<Item = Resource>) -> Result<Claim, ClaimError> {
        self.claim_instead(resources, &CpuSet::new())
    }

    /// As [`claim`](Self::claim), in place of CPUs that this process releases next: they do not
    /// count for the user's limit.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub fn claim_instead(
        &self,
        resources: impl IntoIterator<Item = Resource>,
        of: &CpuSet,
    ) -> Result<Claim, ClaimError> {
        // A set takes memory by its largest number, so numbers are bounded first.
        let checked: Result<Resources, ClaimError> = resources.into_iter().map(in_range).collect();
        self.claim_all(checked?, of)
    }

    fn claim_all(&self, resources: Resources, instead_of: &CpuSet) -> Result<Claim, ClaimError> {
        let mut taken = Vec::new();
        let refused = {
            let mut registry = registry();
            let mut kinds = resources.by_kind().into_iter();
            // Always in the same order: of several processes, the one that holds the last of the contested
            // resources is refused none.
            kinds.find_map(|(kind, numbers)| {
                let refused = self.take(&mut registry, &kind, &numbers, &mut taken).err()?;
                Some((kind, refused))
            })
        };
        let claim = Claim::new(self.folder.clone(), resources, taken);
        match refused {
            None => self.within_limit(claim, instead_of),
            Some((_, NotTaken::Failed(error))) => Err(error),
            Some((kind, NotTaken::Held { number, owner })) => {
                claim.release()?;
                let resource = kind.resource(number);
                Err(ClaimError::Held { by: Box::new(self.holder(owner, &resource)), resource })
            }
        }
    }

    /// Takes all of these numbers or none; overriding claims of root go to a file of their own.
    fn take(
        &self,
        registry: &mut Registry,
        kind: &Kind,
        numbers: &Numbers,
        taken: &mut Vec<Taken>,
    ) -> Result<(), NotTaken> {
        let is_root = user::is_root();
        // Root moves obstacles away before it looks at the locks.
        self.folder.open_or_make()?;
        for _ in 0..TRIES {
            let held = self.held(registry, &kind.claim_file(), numbers)?;
            let overridden: Numbers = held
                .into_iter()
                .filter(|(_, owner)| is_root && owner.is_below_root())
                .map(|(number, _)| number)
                .collect();
            let others = numbers.difference(&overridden);
            if !overridden.is_empty() {
                taken.push(registry.take(&self.folder, &kind.overrides(), &overridden)?);
            }
            if !others.is_empty() {
                match registry.take(&self.folder, &kind.claim_file(), &others) {
                    Ok(part) => taken.push(part),
                    // Another user has just claimed it.
                    Err(NotTaken::Held { owner, .. }) if is_root && owner.is_below_root() => {
                        if let Some(part) = taken.pop_if(|part| part.claim_file == kind.overrides()) {
                            let path = self.folder.path.join(part.claim_file.file_name());
                            let failed = |source| ClaimError::File { call: "unlock", path, source };
                            registry.let_go(&part).map_err(failed)?;
                        }
                        continue;
                    }
                    Err(refused) => return Err(refused),
                }
            }
            // Each process locks in its own file before it looks at the other file, so at least one
            // of two sees the other's lock.
            let by_root = self.held(registry, &kind.overrides(), &others)?;
            let beside = self.held(registry, &kind.claim_file(), &overridden)?;
            let mut in_the_way =
                by_root.into_iter().chain(beside.into_iter().filter(|(_, owner)| !owner.is_below_root()));
            return match in_the_way.next() {
                None => Ok(()),
                Some((Number(number), owner)) => Err(NotTaken::Held { number, owner }),
            };
        }
        Err(ClaimError::Unsteady { path: self.folder.path.join(kind.claim_file().file_name()) }.into())
    }

    /// The numbers among these that are locked in a file, with their owners.
    fn held(
        &self,
        registry: &Registry,
        claim_file: &ClaimFile,
        numbers: &Numbers,
    ) -> Result<Vec<(Number, Owner)>, ClaimError> {
        let Some(folder) = self.folder.open()? else { return Ok(Vec::new()) };
        let locks = match registry.locked(&folder, claim_file, &spans(numbers)) {
            // Such a file has no locks, and never will.
            Err(ClaimError::NotAFile { .. }) => return Ok(Vec::new()),
            locked => locked?.map(|(_, locks)| locks).unwrap_or_default(),
        };
        let numbers = |lock: Locked| (lock.span.first..=lock.span.last).map(move |number| (Number(number), lock.owner));
        Ok(locks.into_iter().flat_map(numbers).collect())
    }

    /// Releases a claim that would take the user above the limit.
    fn within_limit(&self, claim: Claim, instead_of: &CpuSet) -> Result<Claim, ClaimError> {
        let Some(max) = self.limit.of_claims().filter(|_| !user::is_root() && !claim.resources().cpus().is_empty())
        else {
            return Ok(claim);
        };
        let user = user::of(process::id()).unwrap_or_else(|| geteuid().as_raw());
        let holdings = self.holdings([cpus()])?;
        let own = holdings.iter().filter(|(owner, _)| owner.user() == Some(user));
        let holds = own.fold(CpuSet::new(), |all, (_, holds)| all.union(holds.cpus()));
        let holds = holds.difference(instead_of).union(claim.resources().cpus());
        match holds.len() <= max {
            true => Ok(claim),
            false => {
                claim.release()?;
                Err(ClaimError::Limit { user, holds, max })
            }
        }
    }

    /// All holders of claims, this process among them, by process number. The call changes nothing:
    /// without the folder there are none.
    ///
    /// # Errors
    /// By variant. A link or a pipe in the place of a file is ignored, because nothing can be
    /// claimed in it.
    ///
    /// # Privileges
    /// None. The commands and users of other users' processes are unknown where `/proc` hides them
    /// (`hidepid`).
    pub fn list(&self) -> Result<Vec<Holder>, ClaimError> {
        let holdings = self.all_holdings()?;
        Ok(holdings.into_iter().map(|(owner, holds)| Holder::of(owner, holds)).collect())
    }

    /// All claimed resources, of other processes and of this one, among the CPUs that this kernel
    /// can have, the interrupts, and the queues of this network namespace's interfaces. The CPUs of
    /// a user above the limit do not count, and a warning names the holder; nor do locks of open
    /// files, which are no claims. Interrupts and queues with too many locks to list are ignored:
    /// any user may have made those, and CPUs can still be planned.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn taken(&self) -> Result<Resources, ClaimError> {
        self.taken_by(|_| true)
    }

    /// The resources among the [taken](Self::taken) that a claim of this process does not override:
    /// for root the claims of root's processes, and of those whose user is unknown.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn taken_for_good(&self) -> Result<Resources, ClaimError> {
        self.taken_by(|owner| !(user::is_root() && owner.is_below_root()))
    }

    fn taken_by(&self, counts: impl Fn(Owner) -> bool) -> Result<Resources, ClaimError> {
        let mut taken = Resources::default();
        for (kind, spans) in of_this_machine() {
            let is_of_cpus = kind == Kind::Cpus;
            let holdings = match self.holdings([(kind, spans)]) {
                Ok(holdings) if is_of_cpus => self.without_excess(holdings),
                Ok(holdings) => holdings,
                Err(error @ ClaimError::TooManyLocks { .. }) if !is_of_cpus => {
                    tracing::warn!(%error, "a file of claims is passed over");
                    continue;
                }
                Err(error) => return Err(error),
            };
            let counted = holdings.iter().filter(|(owner, _)| **owner != Owner::OpenFile && counts(**owner));
            counted.for_each(|(_, holds)| taken.insert_all(holds));
        }
        Ok(taken)
    }

    /// The holdings without the CPUs of users above the limit, and without CPUs locked without a
    /// claim.
    fn without_excess(&self, mut holdings: Holdings) -> Holdings {
        if let Some(holds) = holdings.remove(&Owner::OpenFile)
            && limit::is_first_of(None)
        {
            tracing::warn!("locks that are no claims are not heeded: {}", Holder::of(Owner::OpenFile, holds));
        }
        let Some(max) = self.limit.of_others() else { return holdings };
        let mut of_users: BTreeMap<u32, CpuSet> = BTreeMap::new();
        for (owner, holds) in &holdings {
            if let Some(user) = owner.user().filter(|user| *user != ROOT) {
                let all = of_users.entry(user).or_default();
                *all = all.union(holds.cpus());
            }
        }
        of_users.retain(|_, holds| holds.len() > max);
        holdings.retain(|owner, holds| {
            let Some(user) = owner.user().filter(|user| of_users.contains_key(user)) else { return true };
            if limit::is_first_of(Some(user)) {
                let holder = Holder::of(*owner, holds.clone());
                tracing::warn!(max, "the claims of user {user} are not heeded, who holds too many CPUs: {holder}");
            }
            false
        });
        holdings
    }

    /// The holder of this resource, which may be this process; `None` if the resource is free.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn holder_of(&self, resource: &Resource) -> Result<Option<Holder>, ClaimError> {
        let number = Span { first: resource.number(), last: resource.number() };
        let holdings = self.holdings([(resource.kind(), vec![number])])?;
        let found = holdings.into_iter().find(|(_, holds)| holds.contains(resource));
        Ok(found.map(|(owner, _)| self.holder(owner, resource)))
    }

    /// The holdings of each process among all numbers that can be claimed.
    fn all_holdings(&self) -> Result<Holdings, ClaimError> {
        self.holdings(self.folder.kinds()?.into_iter().map(whole))
    }

    /// The holdings of each process among these.
    fn holdings(&self, asked: impl IntoIterator<Item = (Kind, Vec<Span>)>) -> Result<Holdings, ClaimError> {
        let mut holdings = Holdings::new();
        let Some(folder) = self.folder.open()? else { return Ok(holdings) };
        let registry = registry();
        let claim_files =
            asked.into_iter().flat_map(|(kind, spans)| [(kind.claim_file(), spans.clone()), (kind.overrides(), spans)]);
        for (claim_file, spans) in claim_files {
            let locks = match registry.locked(&folder, &claim_file, &spans) {
                Ok(locks) => locks.map(|(_, locks)| locks).unwrap_or_default(),
                Err(error @ ClaimError::NotAFile { .. }) => {
                    tracing::warn!(%error, "a file of claims is passed over");
                    continue;
                }
                Err(error) => return Err(error),
            };
            for lock in locks {
                holdings.entry(lock.owner).or_default().insert_span(&claim_file.kind, lock.span);
            }
        }
        Ok(holdings)
    }

    /// The holder of this resource, whose owner is known.
    fn holder(&self, owner: Owner, resource: &Resource) -> Holder {
        // Several processes may be invisible. And if the list fails, or has changed since, the
        // error must still name the owner.
        let listed = owner.pid().and_then(|_| self.all_holdings().ok()?.remove(&owner));
        let mut holds = listed.unwrap_or_default();
        holds.insert(resource.clone());
        Holder::of(owner, holds)
    }
}

/// All numbers that may be claimed here: only the CPUs, and the interfaces' files, that the machine
/// has, because any user can lock others.
fn of_this_machine() -> impl Iterator<Item = (Kind, Vec<Span>)> {
    let interfaces = if_nameindex().inspect_err(|error| tracing::warn!(%error, "the interfaces cannot be listed"));
    let names: BTreeSet<InterfaceName> = interfaces
        .iter()
        .flat_map(|interfaces| interfaces.iter())
        .filter_map(|interface| interface.name().to_str().ok()?.parse().ok())
        .collect();
    let queues = names.into_iter().map(|name| whole(Kind::Queues(name)));
    [cpus(), whole(Kind::Interrupts)].into_iter().chain(queues)
}

/// The CPUs that this kernel can have.
fn cpus() -> (Kind, Vec<Span>) {
    let possible = kernel_files::possible_cpus();
    let spans = possible.map(|cpus| spans(&Numbers::from_words(cpus.as_words())));
    (Kind::Cpus, spans.unwrap_or_else(|| vec![Kind::Cpus.whole()]))
}

fn whole(kind: Kind) -> (Kind, Vec<Span>) {
    let span = kind.whole();
    (kind, vec![span])
}

fn in_range(resource: Resource) -> Result<Resource, ClaimError> {
    let highest = resource.kind().highest();
    if resource.number() > highest { Err(ClaimError::OutOfRange { resource, highest }) } else { Ok(resource) }
}

#[cfg(test)]
mod tests;
