//! The errors of claiming.

use super::{Claims, Holder, Resource};
use rails_topo::CpuSet;
use std::{io, path::PathBuf};

/// The error of making a claim, or of listing claims.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Another process has the resource, or another claim of this process. Nothing was claimed.
    #[error("{resource} is held by {by}")]
    Held {
        /// The first of the resources that is held.
        resource: Resource,
        /// The resource's holder.
        by: Box<Holder>,
    },

    /// The user would hold more CPUs than a user other than root may. Nothing was claimed.
    #[error(
        "user {user} would hold CPUs {holds}, and may hold {max}: `max_cpus_per_user` in {} is another limit, which root \
         sets",
        Claims::LIMITS
    )]
    Limit {
        /// The user.
        user: u32,
        /// The CPUs that the processes of that user would hold together.
        holds: CpuSet,
        /// The number of CPUs that they may hold.
        max: usize,
    },

    /// The claim is lost: a user removed its file, this process closed another descriptor of that
    /// file, or the claim is that of the process from which this one was forked.
    #[error("this process no longer holds {resource}")]
    Lost {
        /// The first of the resources that is lost.
        resource: Resource,
    },

    /// The number is higher than can be claimed.
    #[error("{resource} cannot be claimed: the highest number is {highest}")]
    OutOfRange {
        /// The resource.
        resource: Resource,
        /// The highest number of the resource's kind.
        highest: u32,
    },

    /// The folder of the claims does not exist and cannot be made, or this process may not use it.
    /// On some distributions only root may make [`Claims::MACHINE`](super::Claims::MACHINE).
    #[error(
        "cannot {call} {}, the folder of the claims; root makes it for every user by `install -d -m 1777 {}`",
        path.display(), path.display()
    )]
    Folder {
        /// The operation.
        call: &'static str,
        /// The folder.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// Something other than a regular file is in the place of a file of claims: a link, for
    /// example, or a file whose owner keeps others from opening it by a lease (`F_SETLEASE`).
    #[error(
        "{} is not a regular file that can be opened, so nothing can be claimed in it; look at it, and remove it",
        path.display()
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
    },

    /// A file of claims could not be used. A file that others may not write to (mode other than
    /// 666) was not made by a claim.
    #[error("cannot {call} {}", path.display())]
    File {
        /// The operation.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// Another process removes the file, or the folder, again and again.
    #[error("{} was removed or replaced each time that a claim was made in it", path.display())]
    Unsteady {
        /// The file.
        path: PathBuf,
    },

    /// The file has more locks than all claims of a machine would make: a process locks every other
    /// byte.
    #[error("{} has more than {max} separate locks; process {} has one of them", path.display(), shown(*pid))]
    TooManyLocks {
        /// The file.
        path: PathBuf,
        /// The number of locks that are listed at most.
        max: usize,
        /// A process that holds some of the locks; `None` if it is not visible here.
        pid: Option<u32>,
    },
}

fn shown(pid: Option<u32>) -> String {
    pid.map_or("(unknown)".to_owned(), |pid| pid.to_string())
}
