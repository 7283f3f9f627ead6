//! Errors of building, changing and reading a lab.

use crate::SystemError;
use std::io;

/// A failure to build, change or read a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The process is not root, and so may not make network namespaces.
    #[error("network namespaces need root, and the effective user id is {euid}")]
    NotRoot {
        /// The effective user id of this process.
        euid: u32,
    },
    /// The process is root, but the kernel or the container it runs in refuses new network
    /// namespaces.
    #[error("unshare(CLONE_NEWNET) failed although the process is root (a container without CAP_SYS_ADMIN?)")]
    NamespacesRefused {
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program that the lab is built with is not installed.
    #[error("`{tool}` is not installed; it comes with the package {package}")]
    ToolMissing {
        /// The program's name.
        tool: &'static str,
        /// The package of the usual distributions that holds it.
        package: &'static str,
    },
    /// The lab has no links.
    #[error("a lab needs at least one link")]
    NoLinks,
    /// More links than the address plan has room for.
    #[error("a lab has at most {max} links, and {wanted} were asked for", max = crate::MAX_LINKS)]
    TooManyLinks {
        /// The number that was requested.
        wanted: usize,
    },
    /// No token bucket can have the shape.
    #[error("a link cannot be shaped to {shape:?}: {reason}")]
    BadShape {
        /// The shape as requested.
        shape: crate::Shape,
        /// The fault.
        reason: &'static str,
    },
    /// The values of an emulated link are impossible.
    #[error("{link} cannot be emulated: {reason}")]
    BadEmulatedLink {
        /// The link as requested.
        link: crate::EmulatedLink,
        /// The fault.
        reason: &'static str,
    },
    /// A method for the other kind of link.
    #[error("link {link} is {kind}; {call} is for the other kind")]
    OtherKind {
        /// The link's number.
        link: usize,
        /// The link's kind: `a veth pair` or `an emulated link`.
        kind: &'static str,
        /// The method that was called.
        call: &'static str,
    },
    /// A TAP device could not be made.
    #[error("cannot make the TAP device {interface} by /dev/net/tun (is the module tun there?)")]
    Tap {
        /// The interface's name.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An emulated link's thread could not be started.
    #[error("cannot start the thread of link {link}'s emulation")]
    EmulationNotStarted {
        /// The link's number.
        link: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An emulated link carries no frames any more, because one of its TAP devices was removed.
    #[error("the emulation of link {link} has ended")]
    EmulationEnded {
        /// The link's number.
        link: usize,
        /// The error of the link's thread.
        source: io::Error,
    },
    /// A program or a file failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The thread could not be moved into a namespace.
    #[error("setns failed for the network namespace {namespace}")]
    Enter {
        /// The namespace's name.
        namespace: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel's counters have no line for the interface, or one that cannot be read.
    #[error("no counters for the interface {interface} in /proc/net/dev: {reason}")]
    Counters {
        /// The interface's name.
        interface: String,
        /// The text that was found instead.
        reason: &'static str,
    },
}
