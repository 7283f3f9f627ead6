//! The errors of memory.

use super::MemoryPolicy;
use crate::{BindError, thread::Tid};
use rails_topo::{DataSize, NodeSet};
use std::io;

/// The error of making a buffer or a pool, of moving memory, or of reading its nodes.
///
/// The answer of the operating system is the [`source`](std::error::Error::source), if there is
/// one. No call is left half-done: new memory is unmapped, and moved memory has its former policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The policy cannot be set: it names no node, or none with memory, or the kernel does not have
    /// it.
    #[error(transparent)]
    Policy(#[from] BindError),

    /// The caller passed zero; no call was made.
    #[error("{what} must not be zero")]
    Zero {
        /// The value that was zero.
        what: &'static str,
    },

    /// The request exceeds the machine's memory, even if all of it were free; no call was made.
    #[error("{} are more than the {} of memory{}", size(*bytes), size((*existing).into()), on(.nodes))]
    BeyondMemory {
        /// The request; `u128`, because a product of two numbers may be beyond all addresses.
        bytes: u128,
        /// The machine's memory.
        existing: u64,
        /// The nodes of that memory, if the policy is strict; otherwise it is the machine's.
        nodes: Option<NodeSet>,
    },

    /// The pool would have too many buffers; no call was made.
    #[error("a pool of {count} buffers is asked for, and has {max} at most")]
    TooManyBuffers {
        /// The request.
        count: usize,
        /// The maximum of a pool.
        max: usize,
    },

    /// There is too little free memory, so that making the pages would end in the OOM killer; no
    /// page was made.
    #[error("{} are more than the {} available{}", size((*bytes).into()), size((*available).into()), on(.nodes))]
    Exhausted {
        /// The part of the request without a page.
        bytes: u64,
        /// The memory that is free or could be freed: caches count, processes do not.
        available: u64,
        /// The nodes of that memory, if the policy is strict; otherwise it is the machine's.
        nodes: Option<NodeSet>,
    },

    /// Pages could not be brought to the nodes of a strict policy, which is not set.
    #[error("{left} of {pages} pages could not be placed by the policy `{policy}`")]
    Misplaced {
        /// The policy.
        policy: MemoryPolicy,
        /// The pages that lie elsewhere, or nowhere.
        left: u64,
        /// All pages.
        pages: u64,
        /// The last refusal of the kernel, if there was one; pages that the kernel uses can also
        /// fail silently.
        source: Option<io::Error>,
    },

    /// There are not enough huge pages of this size; the administrator reserves them.
    #[error("too few huge pages of {page_kib} KiB are free for {pages} of them; reserve more: echo N > {file}")]
    NoHugePages {
        /// The size of a page, in KiB.
        page_kib: u64,
        /// The requested number.
        pages: u64,
        /// The file to which root writes their number.
        file: String,
        /// The answer of the kernel.
        source: io::Error,
    },

    /// This machine has no huge pages of this size.
    #[error("this machine has no huge pages of {}, but of: {}", DataSize::bytes(*bytes), sizes(existing))]
    HugePageSize {
        /// The requested size.
        bytes: u64,
        /// The sizes there are, in bytes.
        existing: Vec<u64>,
    },

    /// Transparent huge pages are switched off, or the kernel is built without them.
    #[error("transparent huge pages cannot be had: {reason}")]
    NoTransparentHugePages {
        /// The evidence.
        reason: String,
    },

    /// The pages may not be locked: there is a limit for users without `CAP_IPC_LOCK`.
    #[error("mlock of {} was refused; RLIMIT_MEMLOCK is {}", DataSize::bytes(*bytes), limit_of(*limit))]
    LockRefused {
        /// The bytes to lock.
        bytes: u64,
        /// The limit, in bytes, on all that the process locks; `None` if it could not be read.
        limit: Option<u64>,
        /// The answer of the kernel.
        source: io::Error,
    },

    /// There is no such process, or the process has ended.
    #[error("process {pid} does not exist")]
    NoSuchProcess {
        /// The process.
        pid: Tid,
    },

    /// Pages cannot go to these nodes, or come from them: there are no such nodes, or they have no
    /// memory.
    #[error("pages cannot be moved from the nodes `{from}` to `{to}`; the nodes with memory are `{with_memory}`")]
    NodesUnusable {
        /// The nodes that pages were to come from.
        from: NodeSet,
        /// The nodes that pages were to go to.
        to: NodeSet,
        /// The nodes that have memory.
        with_memory: NodeSet,
        /// The answer of the kernel.
        source: io::Error,
    },

    /// The process belongs to another user.
    #[error("{call} was refused for process {pid}; it takes the same user or {capability}")]
    NotPermitted {
        /// The request.
        call: &'static str,
        /// The process.
        pid: Tid,
        /// The capability that would allow the call.
        capability: &'static str,
        /// The answer of the kernel.
        source: io::Error,
    },

    /// The kernel lacks a feature.
    #[error("this kernel does not support {what}")]
    Unsupported {
        /// The missing feature.
        what: &'static str,
        /// The answer of the kernel.
        source: io::Error,
    },

    /// The kernel's answer contradicts its documentation.
    #[error("{file} has the line `{line}`, which is not understood")]
    Unreadable {
        /// The file.
        file: String,
        /// The line.
        line: String,
    },

    /// The call failed in another way.
    #[error("{call} failed for {subject}")]
    Call {
        /// The system call, or the file.
        call: &'static str,
        /// The request.
        subject: String,
        /// The answer of the kernel.
        source: io::Error,
    },
}

fn on(nodes: &Option<NodeSet>) -> String {
    nodes.as_ref().map_or(" of the machine".to_owned(), |nodes| format!(" on the nodes `{nodes}`"))
}

/// A size that may be beyond all addresses.
fn size(bytes: u128) -> String {
    u64::try_from(bytes).map_or_else(|_| format!("{bytes} B"), |bytes| DataSize::bytes(bytes).to_string())
}

fn sizes(all: &[u64]) -> String {
    all.iter().map(|bytes| DataSize::bytes(*bytes).to_string()).collect::<Vec<_>>().join(", ")
}

fn limit_of(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "not known".to_owned(), |bytes| DataSize::bytes(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_call_the_subject_and_the_limit() {
        let source = || io::Error::from_raw_os_error(libc::ENOMEM);
        let error = MemoryError::LockRefused { bytes: 4096, limit: Some(1024), source: source() };
        assert_eq!(error.to_string(), "mlock of 4 KiB was refused; RLIMIT_MEMLOCK is 1 KiB");
        let nodes = Some("1".parse().expect("a list"));
        let error = MemoryError::Exhausted { bytes: 2, available: 1, nodes };
        assert_eq!(error.to_string(), "2 B are more than the 1 B available on the nodes `1`");
        let error = MemoryError::BeyondMemory { bytes: 3 << 40, existing: 3 << 29, nodes: None };
        assert_eq!(error.to_string(), "3 TiB are more than the 1.5 GiB of memory of the machine");
        let error = MemoryError::HugePageSize { bytes: 4096, existing: vec![2 << 20, 1 << 30] };
        assert_eq!(error.to_string(), "this machine has no huge pages of 4 KiB, but of: 2 MiB, 1 GiB");
    }
}
