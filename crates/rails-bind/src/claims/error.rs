//! The errors of claiming.

use super::{Claims, Holder, Resource};
use rails_topo::CpuSet;
use std::{io, path::PathBuf};

/// A claim that was not made, or claims that could not be listed.
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

    /// The user would hold more CPUs than any user but root may. Nothing was claimed.
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
        /// The most that they may hold.
        max: usize,
    },

    /// The claim is gone: a user removed the file behind it, this process closed a descriptor of
    /// that file that it had opened by other means, or the claim is the one of the process that
    /// this process was forked from.
    #[error("this process no longer holds {resource}")]
    Lost {
        /// The first of the resources that is lost.
        resource: Resource,
    },

    /// A number beyond all that can be claimed.
    #[error("{resource} cannot be claimed: the highest number is {highest}")]
    OutOfRange {
        /// The resource.
        resource: Resource,
        /// The highest number of its kind.
        highest: u32,
    },

    /// The folder of the claims is not there and cannot be made, or this process may not use it.
    /// [`Claims::MACHINE`](super::Claims::MACHINE) lies where some distributions let root alone
    /// write.
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

    /// There is something else in the place of a file of claims: a link, for example, or a file
    /// whose owner keeps others from opening it by a lease (`F_SETLEASE`).
    #[error(
        "{} is not a regular file that can be opened, so nothing can be claimed in it; look at it, and remove it",
        path.display()
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
    },

    /// A file of claims could not be used. One that others may not write to (its mode is not 666)
    /// was not made by a claim.
    #[error("cannot {call} {}", path.display())]
    File {
        /// The operation.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// A process removes the file, or the folder, again and again.
    #[error("{} was removed or replaced each time that a claim was made in it", path.display())]
    Unsteady {
        /// The file.
        path: PathBuf,
    },

    /// More locks than all claims of a machine would be: a process locks every other byte.
    #[error("{} has more than {most} separate locks; process {} has one of them", path.display(), shown(*pid))]
    Crowded {
        /// The file.
        path: PathBuf,
        /// The most that are listed.
        most: usize,
        /// A process that has some of them; `None` if it is not visible here.
        pid: Option<u32>,
    },
}

fn shown(pid: Option<u32>) -> String {
    pid.map_or("(unknown)".to_owned(), |pid| pid.to_string())
}
