//! The errors of a redirect.

use super::limits::{MAX_NETWORKS, MAX_PORT_RANGES};
use ipnet::IpNet;
use std::{fs, io, net::IpAddr, ops::RangeInclusive, path::PathBuf};

/// Why connections cannot be redirected.
///
/// The answer of the operating system is the [`source`](std::error::Error::source), if there is
/// one. [`RedirectError::remedy`] says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// A network cannot be redirected.
    #[error(transparent)]
    Network(#[from] NetworkError),

    /// There is no such cgroup.
    #[error("no cgroup {}", cgroup.display())]
    NoSuchCgroup {
        /// The path that was asked for.
        cgroup: PathBuf,
    },

    /// The cgroup is of version 1, to which programs of connect(2) cannot be attached.
    #[error("the cgroup {} is of version 1", cgroup.display())]
    CgroupVersion1 {
        /// The path that was asked for.
        cgroup: PathBuf,
    },

    /// The path is not a folder of a cgroup2 file system.
    #[error("{} is not a folder of a cgroup2 file system", path.display())]
    NotACgroup {
        /// The path that was asked for.
        path: PathBuf,
    },

    /// The cgroup cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// A process that carries the redirected connections is in the cgroup, and would get its own
    /// connections back.
    #[error("process {pid} ({name}) carries the connections and is in the cgroup {}", cgroup.display())]
    CarrierInside {
        /// The process.
        pid: u32,
        /// The name of its program, as the kernel has it: at most 15 bytes.
        name: String,
        /// The cgroup, the given one or one below it, that the process is in.
        cgroup: PathBuf,
    },

    /// No listener on an address of the loopback interface, or none that can be reached.
    #[error("cannot listen on {address} and connect to it")]
    Listen {
        /// 127.0.0.1 or ::1.
        address: IpAddr,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// Networks of IPv6 are to be redirected, and the network namespace has no ::1.
    #[error("IPv6 networks cannot be redirected: cannot listen on ::1 and connect to it")]
    NoIpv6 {
        /// The answer of the operating system.
        source: io::Error,
    },

    /// This process lacks capabilities.
    #[error("{call} was refused: this process lacks {missing}")]
    MissingCapabilities {
        /// The command of bpf(2).
        call: &'static str,
        /// The capabilities, e.g. `CAP_BPF and CAP_NET_ADMIN`.
        missing: String,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The kernel refuses the call although the process has the capabilities: the kernel is locked
    /// down, a sandbox forbids bpf(2), or the capabilities are of another user namespace than the
    /// machine's own.
    #[error("{call} was refused, although this process has the capabilities (kernel lockdown: {lockdown})")]
    Refused {
        /// The command of bpf(2).
        call: &'static str,
        /// The kernel's lockdown: `none`, `integrity`, `confidentiality` or `unknown`.
        lockdown: String,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The kernel was built without a feature, or is too old.
    #[error("{call} failed: this kernel lacks {feature}")]
    Unsupported {
        /// The command of bpf(2), or the call.
        call: &'static str,
        /// The option of the kernel's configuration, with its first version.
        feature: &'static str,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The kernel's verifier refuses a program.
    #[error("the kernel refuses the program of {program}; its verifier says:\n{log}")]
    Verifier {
        /// The call that the program is for.
        program: &'static str,
        /// The verifier's last words.
        log: String,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// Somebody has attached a program to the cgroup, or to one above, that allows none beside it.
    #[error("a program of {program} is attached to the cgroup {} or one above, and allows no other", cgroup.display())]
    AttachedAlone {
        /// The call that the program is for.
        program: &'static str,
        /// The cgroup.
        cgroup: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// Another failure of the kernel.
    #[error("{call} failed")]
    Kernel {
        /// The command of bpf(2), or the call.
        call: &'static str,
        /// The answer of the operating system.
        source: io::Error,
    },
}

impl RedirectError {
    /// The way out, as a sentence for the person who asked; `None` where only the operating
    /// system's answer tells.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Network(_) => "Change the networks.",
            Self::NoSuchCgroup { .. } => "Start the service first: a cgroup ends with its unit. See `systemd-cgls`.",
            Self::CgroupVersion1 { .. } => {
                "Give the folder of the same name in the cgroup2 file system: see `findmnt -t cgroup2`."
            }
            Self::NotACgroup { .. } => "Give a folder below the cgroup2 file system: see `findmnt -t cgroup2`.",
            Self::CarrierInside { .. } => "Run the process in another cgroup, as a unit of its own.",
            Self::Listen { .. } => "Bring the loopback interface up: `ip link set lo up`.",
            Self::NoIpv6 { .. } => "Leave the IPv6 networks out, or enable IPv6 on the loopback interface.",
            Self::MissingCapabilities { .. } => "Run as root.",
            Self::Refused { .. } => {
                "Run outside of containers and sandboxes, as the machine's root, with a kernel that is not locked down."
            }
            Self::Unsupported { .. } => "Use a kernel of version 6.1 or later with this option.",
            Self::Verifier { .. } => "Use a kernel of version 6.1 or later; with one, report this with the log.",
            Self::AttachedAlone { .. } => {
                "Find the program by `bpftool cgroup tree`, and have its owner attach it with BPF_F_ALLOW_MULTI."
            }
            Self::Unreadable { .. } | Self::Kernel { .. } => return None,
        })
    }

    /// The error of a command of bpf(2) that needs nothing but capabilities and a kernel with BPF.
    pub(super) fn of_call(call: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM) => match missing_capabilities() {
                Some(missing) => Self::MissingCapabilities { call, missing, source },
                None => Self::Refused { call, lockdown: lockdown(), source },
            },
            Some(libc::ENOSYS) => Self::Unsupported { call, feature: "CONFIG_BPF_SYSCALL", source },
            _ => Self::Kernel { call, source },
        }
    }
}

/// Why a network cannot be redirected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The network is part of loopback (127.0.0.0/8, ::1), of the unspecified addresses (0.0.0.0,
    /// ::), which mean this host too, or of the IPv6 link-local addresses (fe80::/10), which mean
    /// nothing without an interface. A wider network may hold them, and they are left out.
    #[error("connections to {network} are never redirected: they stay on this host or on a link")]
    NeverDiverted {
        /// The network.
        network: IpNet,
    },

    /// The range of ports holds none.
    #[error("no port is within {}-{} of {network}", ports.start(), ports.end())]
    NoPort {
        /// The network.
        network: IpNet,
        /// The range.
        ports: RangeInclusive<u16>,
    },

    /// A network, with those that it is part of, has more ranges of ports than a program compares.
    #[error("{network} has {ranges} ranges of ports, its wider networks' included; at most {MAX_PORT_RANGES} fit")]
    TooManyPortRanges {
        /// The network.
        network: IpNet,
        /// The ranges, after those that touch each other were joined.
        ranges: usize,
    },

    /// Too many networks.
    #[error("{networks} networks; at most {MAX_NETWORKS} fit")]
    TooMany {
        /// The networks, as they were given.
        networks: usize,
    },
}

/// The needed capabilities that the calling thread lacks; `None` if it has them, or nobody can
/// tell.
fn missing_capabilities() -> Option<String> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    missing_of(u64::from_str_radix(effective.trim(), 16).ok()?)
}

/// `CAP_SYS_ADMIN` includes both (capabilities(7)).
fn missing_of(effective: u64) -> Option<String> {
    const SYS_ADMIN: u32 = 21;
    const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (12, "CAP_NET_ADMIN")];
    let has = |capability: u32| effective & 1 << capability != 0;
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(number, _)| !has(*number) && !has(SYS_ADMIN)).map(|(_, name)| *name).collect();
    (!missing.is_empty()).then(|| missing.join(" and "))
}

/// The word in brackets of e.g. `none [integrity] confidentiality` (kernel_lockdown(7)).
fn lockdown() -> String {
    fs::read_to_string("/sys/kernel/security/lockdown")
        .ok()
        .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned()))
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named() {
        assert_eq!(missing_of(0).as_deref(), Some("CAP_BPF and CAP_NET_ADMIN"));
        assert_eq!(missing_of(1 << 39).as_deref(), Some("CAP_NET_ADMIN"));
        assert_eq!(missing_of(1 << 39 | 1 << 12), None);
        assert_eq!(missing_of(1 << 21), None);
    }
}
