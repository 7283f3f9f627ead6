//! How programs get through a door that is open.

use crate::process::Running;
use std::{fs, net::SocketAddr, path::PathBuf};

/// The part of a program that a door takes hold of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Its whole command, which another one runs.
    Command,
    /// The address that it is told to connect to.
    Destination,
    /// A command that it runs instead of connecting, with host and port behind its words.
    ProxyCommand,
    /// A SOCKS5 server that it is told of.
    Socks,
}

/// How programs get through a door that is open. It closes when this is dropped.
#[derive(Debug, Default)]
pub struct Passage {
    /// The words before a client's command.
    pub client_prefix: Vec<String>,
    /// The words before a service's command.
    pub service_prefix: Vec<String>,
    /// The words to which a client adds host and port, to run that instead of connecting.
    pub proxy_command: Option<Vec<String>>,
    /// The SOCKS5 server of a client's host.
    pub socks: Option<SocketAddr>,
    /// The addresses by which a client reaches services, where they are not the services' own.
    pub destinations: Vec<(SocketAddr, SocketAddr)>,
    /// The programs by which the door is open.
    pub helpers: Vec<Running>,
    /// The cgroup of the clients.
    pub cgroup: Option<Cgroup>,
}

/// A cgroup, which is removed when this is dropped.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl From<PathBuf> for Cgroup {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // One with processes in it stays, and says nothing to anybody.
        let _ = fs::remove_dir(&self.0);
    }
}

impl Passage {
    /// The address by which a client reaches a service.
    pub fn destination(&self, service: SocketAddr) -> SocketAddr {
        let told = self.destinations.iter().find(|(own, _)| *own == service);
        told.map_or(service, |(_, told)| *told)
    }
}
