//! The policy of a gate: the peers that may come, the destinations that each may reach, and the
//! networks that go through each.
//!
//! A policy is a file in TOML. An unknown key, and a value that means nothing, is an error.
//!
//! ```
//! # let policy = rails_gate::policy::Policy::parse(r#"
//! listen = ["0.0.0.0:7600"]
//! socket = "/run/rails/gate.sock"
//! socket_mode = "0660"
//! socket_group = "rails"
//!
//! [[peer]]
//! name = "beta"
//! dial = ["10.99.0.2:7600", "10.99.1.2:7600"]
//! secret_file = "/etc/rails/beta.secret"
//! networks = ["10.99.0.0/16", "fd00::/64", "192.0.2.7:443"]
//! reach = ["127.0.0.1:5432", "10.99.0.1:80,443", "10.0.0.0/24:8000-8100"]
//! proxy_protocol = ["10.99.0.1:80"]
//! streams = 4096
//! bytes = "256 MiB"
//! connections_per_second = 1000
//! answer_within = "50ms"
//! # "#)?;
//! # assert_eq!(policy.route("10.99.7.7:22".parse().unwrap()).unwrap().name.as_str(), "beta");
//! # Ok::<(), rails_gate::policy::PolicyError>(())
//! ```
//!
//! | key at the top | meaning | default |
//! |---|---|---|
//! | `listen` | the addresses at which lanes of peers come in, `HOST:PORT` or `SCHEME://HOST:PORT` | none: this gate only dials |
//! | `socket` | the Unix socket at which doors ask | none: no door can use this gate |
//! | `socket_mode` | the mode of the socket, octal, as text; whoever may write to it may use the gate | `"0660"` |
//! | `socket_group` | the group of the socket, by name or number | the group of the gate |
//! | `encrypt` | whether sessions with peers that have a secret are encrypted (AES-256-GCM), at both gates or at neither; those with a `pin` are always encrypted | `true` |
//! | `certificate` | the file with this end's certificate and those that signed it (PEM), for peers with a `pin` | none |
//! | `certificate_key` | the file with its private key (PEM) | none |
//! | `authorities` | the file with the certificates (PEM) that signed those of peers which come in | none |
//!
//! | key of a `[[peer]]` | meaning | default |
//! |---|---|---|
//! | `name` | 1 to 64 of `A-Z a-z 0-9 . _ -`, another one for each peer | it must be there |
//! | `dial` | the addresses of its lanes, `HOST:PORT` or `SCHEME://HOST:PORT` | none: the peer dials |
//! | `secret_file` | the file with the secret that both gates have | this or `pin` must be there |
//! | `pin` | the SHA-256 of its certificate's key, hexadecimal or base64, `sha256/` in front or not | this or `secret_file` must be there |
//! | `networks` | the destinations that go through it, as a [`Target`] is written; without ports all of them | none |
//! | `reach` | the destinations that its connections may reach from here; ports must be stated, `*` is all | nothing |
//! | `proxy_protocol` | the services among those that get a header of the PROXY protocol, version 2, with the program's address; ports must be stated | none |
//! | `streams` | the number of connections at a time, 1 to 1,000,000 | 4096 |
//! | `bytes` | the bytes that wait here for the sockets of all its connections, 64 KiB to 1 TiB | `"256 MiB"` |
//! | `connections_per_second` | the number of connections that it may open in a second, 1 to 1,000,000 | 1000 |
//! | `answer_within` | the time in which it has to have answered a new connection, 1 ms to 60 s; a slower one goes plain | `"50ms"` |
//!
//! The target with the longest prefix that contains a destination, address and port, decides on the
//! peer. Two peers cannot have the same network with a common port. Paths are relative to the
//! folder of the file.
//!
//! Loopback addresses are in no wider network: see [`Target`].

mod check;
mod document;
mod error;
#[cfg(test)]
mod generate;
mod name;
mod peer;
mod ports;
mod rate;
mod target;
mod target_map;
#[cfg(test)]
mod tests;

pub use error::{PolicyError, PolicyProblem, ReadPolicyError};
pub use name::{NameError, PeerName};
pub use peer::{Peer, PeerKey, PeerLimits};
pub use ports::{PortRange, Ports, PortsError};
pub use rate::Rate;
use std::{
    fs::File,
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
pub use target::{Target, TargetError, canonical};
use target_map::TargetMap;

/// A policy that was read and checked: see the [module](self).
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// The addresses at which lanes of peers come in, each as `rails_multirail` takes it. Empty:
    /// this gate only dials.
    pub listen: Vec<String>,
    /// The Unix socket at which doors ask.
    pub socket: Option<PathBuf>,
    /// The mode of the socket.
    pub socket_mode: u32,
    /// The group of the socket, by name or number; `None`: that of the gate.
    pub socket_group: Option<String>,
    /// Whether sessions with peers that have a secret are encrypted: at both gates, or at neither.
    pub encrypt: bool,
    /// The certificate of this end; every peer with a pin has one to see.
    pub identity: Option<IdentityFiles>,
    peers: Vec<Arc<Peer>>,
    /// Peers by their index.
    routes: TargetMap<usize>,
}

/// The files of this end's certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityFiles {
    /// The certificate, and those that signed it.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The certificates that signed those of peers which come in. It is there if peers with pins
    /// can come in.
    pub authorities: Option<PathBuf>,
}

impl Policy {
    /// The largest size of a policy file, in bytes.
    pub const MAX_BYTES: usize = 1 << 20;

    /// The default of [`socket_mode`](Self::socket_mode): owner and group may use the gate.
    pub const SOCKET_MODE: u32 = 0o660;

    /// Reads a policy from text; paths stay as they are written.
    ///
    /// # Errors
    /// [`PolicyError`] names line and key: for more than [`MAX_BYTES`](Self::MAX_BYTES), for text
    /// that is no TOML, for unknown keys, and for values that mean nothing or do not fit each
    /// other.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        check::parse(text, Path::new(""))
    }

    /// Reads a policy file; relative paths in it start at its folder. No other file is read.
    ///
    /// # Errors
    /// [`ReadPolicyError`]: the file cannot be read, or is no text, or as from
    /// [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, ReadPolicyError> {
        let mut bytes = Vec::new();
        let limit = Self::MAX_BYTES as u64 + 1;
        let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        read.map_err(|source| ReadPolicyError::Read { path: path.to_owned(), source })?;
        let wrong = |error| ReadPolicyError::Policy { path: path.to_owned(), source: Box::new(error) };
        if bytes.len() > Self::MAX_BYTES {
            // The cut may have split a character.
            return Err(wrong(check::whole(PolicyProblem::TooLong { max_bytes: Self::MAX_BYTES })));
        }
        let text = String::from_utf8(bytes).map_err(|_| ReadPolicyError::NotText { path: path.to_owned() })?;
        check::parse(&text, path.parent().unwrap_or(Path::new(""))).map_err(wrong)
    }

    /// The peers, in the order of the file.
    pub fn peers(&self) -> &[Arc<Peer>] {
        &self.peers
    }

    /// The peer of that name.
    pub fn peer(&self, name: &str) -> Option<&Arc<Peer>> {
        self.peers.iter().find(|peer| peer.name.as_str() == name)
    }

    /// The peer that connections to this destination go through; `None`: they go plain.
    pub fn route(&self, destination: SocketAddr) -> Option<&Arc<Peer>> {
        self.routes.get(destination).map(|index| &self.peers[index])
    }

    /// The destinations that go through peers.
    pub fn networks(&self) -> impl Iterator<Item = (&Target, &Arc<Peer>)> {
        self.peers.iter().flat_map(|peer| peer.networks.iter().map(move |target| (target, peer)))
    }
}
