//! A claim that was made.

use super::{
    ClaimError, Resources,
    folder::Folder,
    record_lock::Owner,
    registry::{Taken, registry},
    resource::{ClaimFile, Number, Numbers, spans},
};
use std::{io, process};

/// Resources that this process has for itself until the claim is dropped, or the process ends in
/// any way. A claim can be sent to any thread.
///
/// A forked child does not have its parent's claims, and dropping its copy releases nothing. After
/// execve(2) the process has no claims.
#[derive(Debug)]
#[must_use = "a claim ends when it is dropped"]
pub struct Claim {
    folder: Folder,
    resources: Resources,
    taken: Vec<Taken>,
    /// The process that made the claim.
    pid: u32,
}

impl Claim {
    pub(super) fn new(folder: Folder, resources: Resources, taken: Vec<Taken>) -> Self {
        Self { folder, resources, taken, pid: process::id() }
    }

    /// The claimed resources.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Divides the claim: takes these resources out, as a claim of their own. Resources outside the
    /// claim are ignored. All of them stay claimed throughout.
    pub fn split_off(&mut self, part: &Resources) -> Self {
        let mut off = Vec::new();
        for (kind, wanted) in part.by_kind() {
            for taken in self.taken.iter_mut().filter(|taken| taken.claim_file.kind == kind) {
                let numbers = taken.numbers.intersection(&wanted);
                taken.numbers = taken.numbers.difference(&numbers);
                off.push(Taken { file: taken.file, claim_file: taken.claim_file.clone(), numbers });
            }
        }
        for parts in [&mut self.taken, &mut off] {
            parts.retain(|taken| !taken.numbers.is_empty());
        }
        self.resources = resources_of(&self.taken);
        Self { folder: self.folder.clone(), resources: resources_of(&off), taken: off, pid: self.pid }
    }

    /// Reads back from the kernel whether all of the claim still holds.
    ///
    /// # Errors
    /// [`ClaimError::Lost`]; others if the kernel gives no answer.
    pub fn check(&self) -> Result<(), ClaimError> {
        let registry = registry();
        for taken in &self.taken {
            let held = match self.folder.open()? {
                Some(folder) => registry
                    .locked(&folder, &taken.claim_file, &spans(&taken.numbers))?
                    .filter(|(file, _)| *file == taken.file),
                None => None,
            };
            let ours = held
                .into_iter()
                .flat_map(|(_, locks)| locks)
                .filter(|lock| lock.owner == Owner::Process(process::id()));
            let ours: Numbers = ours.flat_map(|lock| lock.span.first..=lock.span.last).map(Number).collect();
            if let Some(lost) = taken.numbers.difference(&ours).first() {
                return Err(ClaimError::Lost { resource: taken.claim_file.kind.resource(lost.0) });
            }
        }
        Ok(())
    }

    /// Releases the whole claim. Dropping does the same, and logs a failure.
    ///
    /// # Errors
    /// [`ClaimError::File`] if the kernel does not unlock the claim, as for lack of memory
    /// (`ENOLCK`); this process then still holds it.
    pub fn release(mut self) -> Result<(), ClaimError> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), ClaimError> {
        // In a forked child the locks are another process's; the numbers may be claimed by the child anew.
        if self.pid != process::id() {
            self.taken.clear();
            return Ok(());
        }
        let (mut registry, folder) = (registry(), &self.folder);
        let failed = |claim_file: &ClaimFile, source: io::Error| ClaimError::File {
            call: "unlock",
            path: folder.path.join(claim_file.file_name()),
            source,
        };
        let mut result = Ok(());
        for taken in self.taken.drain(..).rev() {
            result = result.and(registry.let_go(&taken).map_err(|source| failed(&taken.claim_file, source)));
        }
        result
    }
}

fn resources_of(taken: &[Taken]) -> Resources {
    taken.iter().flat_map(|taken| taken.numbers.iter().map(|number| taken.claim_file.kind.resource(number.0))).collect()
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Err(error) = self.let_go() {
            tracing::warn!(%error, "a claim could not be released");
        }
    }
}
