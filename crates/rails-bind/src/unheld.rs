//! Refused placements: the property that does not hold, the cause, and the settings that allow it.

use crate::{BindError, Outcome};
use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// A property of a placement that does not hold, with its cause.
///
/// A program works without the property, only slower or less evenly.
/// [`by_refusal`](Self::by_refusal) separates such a refusal from an error of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Unheld {
    /// The property.
    pub property: Property,
    /// The cause.
    pub cause: Cause,
}

/// A property of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Property {
    /// The thread runs on its CPUs and nowhere else.
    Cpus,
    /// The thread's pages come from the nodes of its memory policy.
    MemoryPolicy,
}

/// The cause for which a property does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The system refused a call: the filter of a container, or a kernel without the call.
    Refused {
        /// The system call.
        call: String,
        /// The answer, as in errno(3); `None` if it has no number.
        errno: Option<i32>,
    },
    /// The system accepted the request, and another value reads back.
    Otherwise {
        /// The request.
        wanted: String,
        /// The value that reads back.
        got: String,
    },
    /// The thread has been busy since the request, and sets the property when it is free.
    Pending,
}

/// A setting by which a refused call is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remedy {
    /// The programs that have the setting.
    pub programs: &'static str,
    /// The setting.
    pub setting: &'static str,
}

impl Unheld {
    /// A property that does not hold, and its cause.
    pub fn new(property: Property, cause: Cause) -> Self {
        Self { property, cause }
    }

    /// The property that does not hold because the system refused a call.
    ///
    /// # Errors
    /// The error itself if it is no refusal: a request that cannot be met on this machine, such as
    /// CPUs that do not exist, or a thread that has ended.
    pub fn by_refusal(property: Property, error: BindError) -> Result<Self, BindError> {
        match &error {
            BindError::Unsupported { call, source, .. }
            | BindError::Denied { call, source, .. }
            | BindError::Call { call, source, .. } => {
                let cause = Cause::Refused { call: (*call).to_owned(), errno: source.raw_os_error() };
                Ok(Self::new(property, cause))
            }
            _ => Err(error),
        }
    }

    /// The property, if another value than the requested one was read back.
    pub fn by_outcome<T: fmt::Display>(property: Property, outcome: &Outcome<T>) -> Option<Self> {
        match outcome {
            Outcome::Applied(_) => None,
            Outcome::Partial { wanted, got } => {
                Some(Self::new(property, Cause::Otherwise { wanted: wanted.to_string(), got: got.to_string() }))
            }
        }
    }

    /// The settings of containers and services that allow the refused call; none if it was not
    /// refused, or in a way that filters do not.
    pub fn remedies(&self) -> &'static [Remedy] {
        let Cause::Refused { call, errno: Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EINVAL) } =
            &self.cause
        else {
            return &[];
        };
        match call.as_str() {
            "get_mempolicy" | "set_mempolicy" | "mbind" => MEMORY_POLICY,
            "sched_getaffinity" | "sched_setaffinity" => AFFINITY,
            _ => &[],
        }
    }
}

/// The default profiles of Docker and Podman let these calls pass with the capability, and without
/// it refuse them with `EPERM` or `ENOSYS` (moby/profiles/seccomp/default.json,
/// containers/common/pkg/seccomp/seccomp.json).
const MEMORY_POLICY: &[Remedy] = &[
    Remedy { programs: "Docker, Podman", setting: "--cap-add SYS_NICE" },
    Remedy { programs: "Kubernetes", setting: "securityContext.capabilities.add: [SYS_NICE]" },
    Remedy { programs: "systemd", setting: "no ~@resources in SystemCallFilter=" },
];

/// The default profiles of Docker and Podman let these calls pass; systemd's group `@resources` has
/// the one that sets.
const AFFINITY: &[Remedy] = &[
    Remedy { programs: "Docker, Podman", setting: "no --security-opt seccomp=FILE, or a FILE that allows the call" },
    Remedy { programs: "Kubernetes", setting: "securityContext.seccompProfile.type: RuntimeDefault" },
    Remedy { programs: "systemd", setting: "no ~@resources in SystemCallFilter=" },
];

/// `the memory policy is not set: set_mempolicy is refused: Operation not permitted (os error 1)`.
impl fmt::Display for Unheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.property {
            Property::Cpus => "threads are not bound to their CPUs: ",
            Property::MemoryPolicy => "the memory policy is not set: ",
        })?;
        match &self.cause {
            Cause::Refused { call, errno: Some(errno) } => {
                write!(f, "{call} is refused: {}", io::Error::from_raw_os_error(*errno))
            }
            Cause::Refused { call, errno: None } => write!(f, "{call} failed"),
            Cause::Otherwise { wanted, got } => write!(f, "`{wanted}` was asked for, and `{got}` reads back"),
            Cause::Pending => f.write_str("the thread has not been free since it was moved"),
        }
    }
}

/// `Docker, Podman: --cap-add SYS_NICE`.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.programs, self.setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_topo::CpuSet;

    fn refused(call: &'static str, errno: i32) -> Unheld {
        let error = BindError::of_call(call, "the calling thread", io::Error::from_raw_os_error(errno));
        Unheld::by_refusal(Property::MemoryPolicy, error).expect("the system's refusal")
    }

    #[test]
    fn any_answer_of_a_filter_is_a_refusal() {
        for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EINVAL, libc::ENOMEM] {
            let cause = Cause::Refused { call: "mbind".to_owned(), errno: Some(errno) };
            assert_eq!(refused("mbind", errno), Unheld::new(Property::MemoryPolicy, cause));
        }
        let absent = BindError::CpusUnusable { requested: CpuSet::new(), offline: None, not_allowed: None };
        assert!(Unheld::by_refusal(Property::Cpus, absent).is_err(), "the caller's error");
    }

    #[test]
    fn remedies_of_refused_calls() {
        let unheld = refused("set_mempolicy", libc::EPERM);
        assert_eq!(
            unheld.to_string(),
            "the memory policy is not set: set_mempolicy is refused: Operation not permitted (os error 1)"
        );
        assert_eq!(unheld.remedies()[0].to_string(), "Docker, Podman: --cap-add SYS_NICE");
        assert!(refused("set_mempolicy", libc::ENOMEM).remedies().is_empty(), "no filter's answer");
        assert!(refused("sched_setaffinity", libc::ENOSYS).remedies()[0].setting.contains("seccomp"));
        let pending = Unheld::new(Property::Cpus, Cause::Pending);
        assert!(pending.remedies().is_empty());
    }

    #[test]
    fn another_value_that_reads_back() {
        let set = |text: &str| text.parse::<CpuSet>().expect("a list");
        let outcome = Outcome::Partial { wanted: set("0,9"), got: set("0") };
        let unheld = Unheld::by_outcome(Property::Cpus, &outcome).expect("it holds in part");
        assert_eq!(unheld.to_string(), "threads are not bound to their CPUs: `0,9` was asked for, and `0` reads back");
        assert_eq!(Unheld::by_outcome(Property::Cpus, &Outcome::Applied(set("0"))), None);
        let json = serde_json::to_string(&unheld).expect("it serializes");
        assert_eq!(serde_json::from_str::<Unheld>(&json).expect("and back"), unheld);
    }
}
