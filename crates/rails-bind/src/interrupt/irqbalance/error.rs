//! Why irqbalance could not be found or talked to.

use crate::thread::Tid;
use std::{collections::BTreeSet, io, path::PathBuf, time::Duration};

/// irqbalance could not be looked for, or not be told something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BalancerError {
    /// The processes could not be listed.
    #[error("cannot list the processes in {}", directory.display())]
    Unlisted {
        /// Where they should be.
        directory: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },

    /// It is not among the processes that can be seen, and not all can.
    #[error("whether irqbalance runs cannot be seen: {why}")]
    Hidden {
        /// What hides it.
        why: &'static str,
    },

    /// It has ended.
    #[error("irqbalance (process {pid}) has ended")]
    Ended {
        /// The process that it was.
        pid: Tid,
    },

    /// It runs and has no socket that can be reached.
    #[error("irqbalance (process {pid}) has no socket that can be reached")]
    NoSocket {
        /// Its process.
        pid: Tid,
    },

    /// It listens to user 0 only.
    #[error("irqbalance (process {pid}) listens to user 0 only")]
    NotPermitted {
        /// Its process.
        pid: Tid,
        /// What the operating system said; nothing if it was irqbalance that refused.
        source: Option<io::Error>,
    },

    /// Somebody else answers under its name.
    #[error("the socket of irqbalance (process {pid}) belongs to process {owner}")]
    Foreign {
        /// Its process.
        pid: Tid,
        /// Who answers; 0 is one that cannot be seen from here.
        owner: i32,
    },

    /// It did not answer in time.
    #[error("irqbalance (process {pid}) did not answer within {} s", waited.as_secs())]
    NoAnswer {
        /// Its process.
        pid: Tid,
        /// How long it was waited for.
        waited: Duration,
    },

    /// Its answer is not understood.
    #[error("irqbalance (process {pid}) answered {answer:?}, which is not understood")]
    Malformed {
        /// Its process.
        pid: Tid,
        /// The beginning of what it said.
        answer: String,
    },

    /// One request has no room for them; nothing was sent.
    #[error(
        "irqbalance (process {pid}) cannot be told to leave {count} interrupts alone: it reads {room} bytes of a request"
    )]
    TooMany {
        /// Its process.
        pid: Tid,
        /// How many there would be, those that it leaves alone already included.
        count: usize,
        /// The bytes that it reads.
        room: usize,
    },

    /// It was told, and says otherwise.
    #[error("irqbalance (process {pid}) was told to leave {wanted:?} alone, and says {banned:?}")]
    NotTaken {
        /// Its process.
        pid: Tid,
        /// The interrupts that it was to leave alone.
        wanted: BTreeSet<u32>,
        /// Those that it says it does.
        banned: BTreeSet<u32>,
    },

    /// A call failed in another way.
    #[error("{call} failed for the socket of irqbalance (process {pid})")]
    Call {
        /// The system call.
        call: &'static str,
        /// Its process.
        pid: Tid,
        /// What the operating system said.
        source: io::Error,
    },
}
