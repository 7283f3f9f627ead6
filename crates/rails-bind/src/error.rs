//! The errors of binding threads and their memory, and of reading bindings.

use crate::{memory::MemoryPolicy, thread::Tid};
use rails_topo::{CpuSet, Id, IdSet, NodeSet};
use std::{fmt, io};

/// The error of a binding, or of reading one.
///
/// The answer of the operating system is the [`source`](std::error::Error::source), if there is
/// one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The requested set is empty; no call was made.
    #[error("cannot bind {what} to an empty set")]
    EmptySet {
        /// The thing to bind.
        what: &'static str,
    },

    /// This thread can use none of the CPUs.
    #[error("no CPU of {requested} can be used{}", because("not online", offline, not_allowed))]
    CpusUnusable {
        /// The requested CPUs.
        requested: CpuSet,
        /// The CPUs among them that do not exist or are not online; `None` if unknown.
        offline: Option<CpuSet>,
        /// The CPUs among them that are online, but outside the thread's cpuset, or going offline
        /// at the moment; `None` if unknown.
        not_allowed: Option<CpuSet>,
    },

    /// This thread cannot use nodes of the policy.
    #[error("the policy `{policy}` cannot be set{}", because("without memory", without_memory, not_allowed))]
    NodesUnusable {
        /// The requested policy.
        policy: MemoryPolicy,
        /// Nodes of the policy that do not exist or have no memory; `None` if unknown.
        without_memory: Option<NodeSet>,
        /// Nodes of the policy that have memory, but are outside the thread's cpuset; `None` if
        /// unknown.
        not_allowed: Option<NodeSet>,
    },

    /// There is no such thread, or the thread has ended.
    #[error("thread {tid} does not exist")]
    NoSuchThread {
        /// The thread.
        tid: Tid,
    },

    /// This kernel does not have the call (`ENOSYS`; with memory policies: it is built without
    /// NUMA) or the policy.
    #[error("this kernel does not support {call} for {subject}")]
    Unsupported {
        /// The system call.
        call: &'static str,
        /// The request.
        subject: String,
        /// The answer of the kernel.
        source: io::Error,
    },

    /// The call was refused (`EPERM`) for lack of a privilege, or by a seccomp filter, as in
    /// containers.
    #[error("{call} was refused for {subject}: it needs {needs}")]
    Denied {
        /// The system call.
        call: &'static str,
        /// The request.
        subject: String,
        /// The privilege, as measured.
        needs: String,
        /// The answer of the kernel.
        source: io::Error,
    },

    /// A value outside the kernel's range; no call was made.
    #[error("{what} {value} is not within {lowest} to {highest}")]
    OutOfRange {
        /// The name of the value.
        what: &'static str,
        /// The value.
        value: i64,
        /// The lowest value.
        lowest: i64,
        /// The highest value.
        highest: i64,
    },

    /// A name that a thread cannot have; no call was made.
    #[error("a thread cannot be named {name:?}: {reason}")]
    NameUnusable {
        /// The name.
        name: String,
        /// The fault.
        reason: &'static str,
    },

    /// Values that do not go together, or that can be read but not set; no call was made.
    #[error("a thread cannot be placed so: {reason}")]
    Contradiction {
        /// The contradiction.
        reason: &'static str,
    },

    /// Only a thread's own process can set its name.
    #[error("thread {tid} is another process's, and only its own process can name it")]
    ForeignName {
        /// The thread.
        tid: Tid,
    },

    /// A step failed, and the steps before it could not all be undone.
    #[error("{undone} was left behind by a placement that failed half-way ({failed})")]
    HalfUndone {
        /// The step's failure.
        failed: Box<BindError>,
        /// The step that could not be undone.
        undone: &'static str,
        /// The failure of the undoing.
        source: Box<BindError>,
    },

    /// The thread has a memory policy that this crate has no name for (a newer mode, or a mode with
    /// flags).
    #[error("the memory policy has mode {mode:#x} and nodes `{nodes}`, which has no name here")]
    UnknownPolicy {
        /// The kernel's mode and mode flags.
        mode: i32,
        /// The nodes.
        nodes: NodeSet,
    },

    /// A guard put a value back, and another value reads back.
    #[error("the thread's {what} was {former} and could not be put back: it is {now}")]
    NotRestored {
        /// The value that was to be put back.
        what: &'static str,
        /// The value before the guard.
        former: String,
        /// The value that reads back.
        now: String,
    },

    /// A buffer of no bytes lies on no page.
    #[error("an empty buffer lies on no node")]
    EmptyBuffer,

    /// The call failed in another way.
    #[error("{call} failed for {subject}")]
    Call {
        /// The system call.
        call: &'static str,
        /// The request.
        subject: String,
        /// The answer of the kernel.
        source: io::Error,
    },
}

impl BindError {
    /// The error of a failed call, by the kernel's answer.
    pub(crate) fn of_call(call: &'static str, subject: impl fmt::Display, source: io::Error) -> Self {
        let subject = subject.to_string();
        match source.raw_os_error() {
            Some(libc::ENOSYS) => Self::Unsupported { call, subject, source },
            Some(libc::EPERM) => Self::Denied { call, subject, needs: UNFILTERED.to_owned(), source },
            _ => Self::Call { call, subject, source },
        }
    }
}

/// The requirement of a call that takes no privilege.
const UNFILTERED: &str = "a seccomp filter that lets it pass, which those of containers often do not";

/// ` (7 not online, 2-3 outside the thread's cpuset)`, without the unknown parts.
fn because<T: Id>(lack: &str, lacking: &Option<IdSet<T>>, not_allowed: &Option<IdSet<T>>) -> String {
    let reasons: Vec<String> = [(lacking, lack), (not_allowed, "outside the thread's cpuset")]
        .into_iter()
        .filter_map(|(set, reason)| set.as_ref().filter(|set| !set.is_empty()).map(|set| format!("{set} {reason}")))
        .collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_topo::NodeId;

    #[test]
    fn messages_with_the_known_causes_alone() {
        let set = |text: &str| text.parse().expect("a list");
        let error =
            BindError::CpusUnusable { requested: set("2-3,7"), offline: Some(set("7")), not_allowed: Some(set("2-3")) };
        assert_eq!(error.to_string(), "no CPU of 2-3,7 can be used (7 not online, 2-3 outside the thread's cpuset)");
        let error = BindError::CpusUnusable { requested: set("7"), offline: None, not_allowed: None };
        assert_eq!(error.to_string(), "no CPU of 7 can be used");
        let error = BindError::NodesUnusable {
            policy: MemoryPolicy::Preferred(NodeId(9)),
            without_memory: Some(NodeSet::single(NodeId(9))),
            not_allowed: Some(NodeSet::new()),
        };
        assert_eq!(error.to_string(), "the policy `preferred 9` cannot be set (9 without memory)");
    }

    #[test]
    fn missing_system_call_or_seccomp_filter() {
        let error = |code| BindError::of_call("set_mempolicy", "`local`", io::Error::from_raw_os_error(code));
        assert!(matches!(error(libc::ENOSYS), BindError::Unsupported { call: "set_mempolicy", .. }));
        assert!(matches!(error(libc::EPERM), BindError::Denied { call: "set_mempolicy", .. }));
        assert!(matches!(error(libc::EFAULT), BindError::Call { call: "set_mempolicy", .. }));
        assert_eq!(error(libc::ENOSYS).to_string(), "this kernel does not support set_mempolicy for `local`");
    }
}
