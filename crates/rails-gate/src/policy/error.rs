//! The faults of policy files.

use super::{
    name::{NameError, PeerName},
    ports::PortRange,
    target::TargetError,
};
use ipnet::IpNet;
use rails_topo::ParseQuantityError;
use std::{io, path::PathBuf};

/// A policy that means nothing: the line and the key of the fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("line {line}, {key}: {problem}")]
#[non_exhaustive]
pub struct PolicyError {
    /// The line, counted from 1.
    pub line: usize,
    /// The key with its table, such as `peer.beta.reach`; of text that is no TOML, the line itself.
    pub key: String,
    /// The fault.
    pub problem: PolicyProblem,
}

/// The fault of a policy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyProblem {
    /// The text is too long.
    #[error("the policy has more than {max_bytes} bytes, which no policy needs; write networks with shorter prefixes")]
    TooLong {
        /// The limit.
        max_bytes: usize,
    },
    /// The text is no TOML, a key is unknown, or a value is of another type.
    #[error("{reason}")]
    Malformed {
        /// The reason, as the parser states it.
        reason: String,
    },
    /// There is no peer.
    #[error("the policy has no peer; add a table [[peer]]")]
    NoPeer,
    /// A name is too short or too long, or has other characters.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Two peers have one name.
    #[error("two peers have the name `{name}`; rename one of them")]
    DuplicateName {
        /// The name.
        name: PeerName,
    },
    /// An address has no host or no port.
    #[error("`{text}` is no address; write HOST:PORT, with an IPv6 address in brackets")]
    Address {
        /// The text.
        text: String,
    },
    /// The mode of the socket is no octal number of three digits.
    #[error("`{text}` is no mode of a file; write an octal number such as \"0660\"")]
    Mode {
        /// The text.
        text: String,
    },
    /// A key is given, and the one that it belongs to is not.
    #[error("there is no `{other}`; add it, or leave this out")]
    Alone {
        /// The key that is missing.
        other: &'static str,
    },
    /// A peer has neither a secret nor a pin.
    #[error("the peer has no key; add `secret_file`, or `pin`")]
    NoKey,
    /// A peer has a secret and a pin.
    #[error("the peer has a secret and a pin; leave one of them out")]
    TwoKeys,
    /// The pin is none.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Pin(#[from] rails_multirail::PinError),
    /// A peer has a pin, and this build has no TLS.
    #[error("this build has no TLS; build it with the feature `tls`, or use `secret_file`")]
    NoTls,
    /// A peer has a pin, and this end has no certificate to show to it.
    #[error("TLS takes a certificate of this end; add `certificate` and `certificate_key` at the top")]
    NoCertificate,
    /// Peers with pins may come, and there is no authority that signed their certificates.
    #[error(
        "peers with pins come in at `listen`, and whoever reaches it could; add `authorities` at the top, with the peers' certificates or those that signed them"
    )]
    NoAuthorities,
    /// No session with the peer can come about.
    #[error("the peer can neither be dialed nor come in; add `dial` to it, or `listen` at the top")]
    Unreachable,
    /// A destination is none.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A destination goes through two peers.
    #[error(
        "{net} with the ports {ports} goes through `{}` and through `{}`; leave it out of one of them, or divide it by longer prefixes", peers[0], peers[1]
    )]
    Overlap {
        /// The network that both have.
        net: IpNet,
        /// The ports that both have.
        ports: PortRange,
        /// The peers.
        peers: [PeerName; 2],
    },
    /// A size is none.
    #[error(transparent)]
    Size(#[from] ParseQuantityError),
    /// A duration is none.
    #[error("`{text}` is no duration: {reason}; write a number with its unit, such as 50ms")]
    Duration {
        /// The text.
        text: String,
        /// The reason.
        reason: String,
    },
    /// A limit is too low or too high.
    #[error("{value} is out of range; take {min} to {max}")]
    OutOfRange {
        /// The value, as it is written.
        value: String,
        /// The lowest value.
        min: String,
        /// The highest value.
        max: String,
    },
}

/// The error of a policy file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadPolicyError {
    /// The file cannot be read.
    #[error("cannot read the policy file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is no text.
    #[error("the policy file {} is no UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The file's text means no policy.
    #[error("the policy file {}", path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        source: Box<PolicyError>,
    },
}
