//! The errors of reading and changing a setting.

use super::{Setting, Value};
use crate::{
    BindError,
    claims::{Holder, Resource},
    interrupt::irqbalance::BalancerError,
    memory::MemoryError,
};
use std::{io, path::PathBuf};

/// The error of reading or changing a setting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The interrupt, interface, queue, thread or process does not exist, or has gone; or this
    /// kernel does not have the setting.
    #[error("{setting} does not exist (no {})", path.display())]
    NotThere {
        /// The setting.
        setting: Setting,
        /// The setting's file, or the folder of the thread or process.
        path: PathBuf,
    },

    /// The setting exists and cannot be used, as the transmit steering of an interface with a
    /// single queue.
    #[error("{setting} is not supported here")]
    Unsupported {
        /// The setting.
        setting: Setting,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The kernel places this interrupt itself (a managed interrupt), or it cannot be moved at all.
    #[error("{setting} is not ours to set: the kernel manages the interrupt, or it cannot be moved")]
    Managed {
        /// The setting.
        setting: Setting,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The call takes a privilege that this process does not have.
    #[error("no permission to {call} {setting}; it takes {needs}")]
    Denied {
        /// `read` or `write`.
        call: &'static str,
        /// The setting.
        setting: Setting,
        /// The privilege.
        needs: &'static str,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// Another process has [claimed](crate::claims) the interrupt or the queue.
    #[error("{setting} is left alone: {resource} is claimed by {by}")]
    Claimed {
        /// The setting.
        setting: Setting,
        /// The claimed resource.
        resource: Resource,
        /// The holder of the claim.
        by: Box<Holder>,
    },

    /// `/sys` shows another network namespace than this thread's, and under that name another
    /// interface, or one that this namespace does not have.
    #[error("{setting} is left alone: `/sys` shows the interface of another network namespace under that name")]
    Foreign {
        /// The setting.
        setting: Setting,
    },

    /// The file system is mounted for reading only, as `/proc` and `/sys` are in containers.
    #[error("{setting} cannot be changed: {} is mounted read-only", path.display())]
    ReadOnly {
        /// The setting.
        setting: Setting,
        /// The setting's file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The empty set is no value: an interrupt, a thread and memory need a place.
    #[error("{setting} cannot be the empty set")]
    EmptySet {
        /// The setting.
        setting: Setting,
    },

    /// None of the CPUs or nodes exists, is online and may be used for this.
    #[error("{setting} cannot be {value}: none of them is there, online and usable for it")]
    NoneUsable {
        /// The setting.
        setting: Setting,
        /// The requested value.
        value: Value,
    },

    /// A value of the wrong kind: CPUs instead of a number, for example.
    #[error("{setting} cannot be set to {value}: it takes {expected}")]
    WrongKind {
        /// The setting.
        setting: Setting,
        /// The requested value.
        value: Value,
        /// The kind of value that the setting takes.
        expected: &'static str,
    },

    /// The file is malformed.
    #[error("{} holds `{text}`, which is no value of {setting}", path.display())]
    Malformed {
        /// The setting.
        setting: Setting,
        /// The setting's file.
        path: PathBuf,
        /// The file's text.
        text: String,
    },

    /// The thread could not be bound, or its binding could not be read.
    #[error("cannot {call} {setting}")]
    Thread {
        /// `read` or `write`.
        call: &'static str,
        /// The setting.
        setting: Setting,
        /// The thread's error.
        source: Box<BindError>,
    },

    /// The memory of the process could not be moved, or its nodes could not be read.
    #[error("cannot {call} {setting}")]
    Memory {
        /// `read` or `write`.
        call: &'static str,
        /// The setting.
        setting: Setting,
        /// The memory's error.
        source: Box<MemoryError>,
    },

    /// irqbalance could not be reached, or did not answer.
    #[error("cannot {call} {setting}")]
    Balancer {
        /// `find`, `read` or `write`.
        call: &'static str,
        /// The setting.
        setting: Setting,
        /// irqbalance's error.
        source: Box<BalancerError>,
    },

    /// The call failed in another way.
    #[error("cannot {call} {setting}")]
    Call {
        /// `read`, `write`, or the system call.
        call: &'static str,
        /// The setting.
        setting: Setting,
        /// The answer of the operating system.
        source: io::Error,
    },
}
