//! The guarantees that a file system or the receiver's operator may refuse.

use crate::reason::Reason;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A guarantee that the receiver's file system or its operator refused, and without which the batch
/// continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LackingGuarantee {
    /// The guarantee.
    pub guarantee: Guarantee,
    /// The step that was refused first, and the system's error; or the option of the receiver that
    /// would allow it.
    pub cause: Reason,
}

/// A property of a copy that some file systems and sandboxes cannot give. Files are verified with
/// or without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Guarantee {
    /// Two receivers of one file exclude each other, by a record lock (fcntl(2)) and by flock(2),
    /// or by one of them.
    Lock,
    /// An unfinished file belongs to the receiver's user, and no other user may write to it.
    Owner,
    /// Files and folders have the sender's mode.
    Mode,
    /// A confirmed file survives a crash of the machine (fsync(2)).
    Sync,
    /// Files and folders have the sender's times of modification.
    Times,
    /// Entries have the sender's owners, as it wants, and programs their set-id bits.
    Owners,
    /// Files and folders have the sender's extended attributes of `user.`, as it wants.
    Xattrs,
    /// Files and folders have the sender's extended attributes of `security.` and `trusted.`.
    PrivilegedXattrs,
    /// Files and folders have the sender's access lists, as it wants.
    AccessLists,
}

impl fmt::Display for LackingGuarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.guarantee {
            Guarantee::Lock => "this file system cannot lock: two receivers may collide",
            Guarantee::Owner => "this file system does not keep unfinished files private: others may change them",
            Guarantee::Mode => "this file system does not keep the sender's modes",
            Guarantee::Sync => "this file system cannot be told to write to disk: a crash may lose what arrived",
            Guarantee::Times => "this file system does not keep the sender's times",
            Guarantee::Owners => "owners are not kept, nor are set-user-id and set-group-id bits",
            Guarantee::Xattrs => "extended attributes are not kept",
            Guarantee::PrivilegedXattrs => "extended attributes of security. and trusted. are not kept",
            Guarantee::AccessLists => "access lists are not kept",
        };
        write!(f, "{words} ({})", self.cause)
    }
}
