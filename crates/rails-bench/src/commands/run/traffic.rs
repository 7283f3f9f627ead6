//! The NICs that carry the traffic of a program, by the kernel's counts of its TCP connections.

use rails_bind::{
    process::{Process, ProcessError},
    socket::{self, TcpTraffic, TrafficReader},
    thread::Tid,
};
use rails_topo::Topology;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
};

/// The traffic of a program.
///
/// A connection that begins and ends between two looks is missed, and so are datagrams, which the
/// kernel does not count by socket.
#[derive(Debug)]
pub(super) struct Traffic {
    reader: TrafficReader,
    own_addresses: BTreeMap<IpAddr, String>,
    interfaces: BTreeMap<u32, String>,
    connections: BTreeMap<u64, Connection>,
    looks: u64,
    total: BTreeMap<String, Bytes>,
}

/// The bytes of one NIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Bytes {
    /// Bytes sent and acknowledged.
    pub(super) sent: u64,
    /// Bytes received.
    pub(super) received: u64,
}

/// A connection that earlier looks saw.
#[derive(Debug)]
enum Connection {
    /// Another program has it.
    Foreign,
    /// The program has it.
    Own { way: Way, seen: Bytes },
}

/// The NICs of a connection; `None` for those of no NIC, as the loopback interface, and unknown
/// ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Way {
    /// The NIC that sends: the kernel's route.
    out: Option<String>,
    /// The NIC that has the address to which the peer sends.
    back: Option<String>,
}

/// The traffic since the former look.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The bytes of each NIC, in both directions.
    pub(super) by_nic: BTreeMap<String, u64>,
    /// The process whose sockets the system does not show.
    pub(super) hidden: Option<ProcessError>,
}

impl Traffic {
    /// Begins to read.
    ///
    /// # Errors
    /// The operating system's, if it does not tell of connections.
    pub(super) fn new(topology: &Topology) -> io::Result<Self> {
        let mut reader = TrafficReader::new()?;
        // A kernel without this says so at the first question.
        reader.read()?;
        let addresses =
            topology.nics().iter().flat_map(|nic| nic.addresses.iter().map(|address| (address.ip, nic.name.clone())));
        let interfaces = topology.nics().iter().filter_map(|nic| Some((nic.index?, nic.name.clone())));
        Ok(Self {
            reader,
            own_addresses: addresses.collect(),
            interfaces: interfaces.collect(),
            connections: BTreeMap::new(),
            looks: 0,
            total: BTreeMap::new(),
        })
    }

    /// All bytes so far, by NIC.
    pub(super) fn total(&self) -> &BTreeMap<String, Bytes> {
        &self.total
    }

    /// Reads the connections of these processes.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn look(&mut self, processes: &[Tid]) -> io::Result<Seen> {
        let mut now = self.reader.read()?;
        // A connection that is not accepted yet has no inode, and is looked at once it has.
        now.retain(|one| one.inode != 0 && self.leaves_the_machine(one));
        self.looks += 1;
        // A socket can be handed to the program by another one.
        let is_sorted_again = self.looks.is_multiple_of(FOREIGN_FOR);
        let there: BTreeSet<u64> = now.iter().map(|one| one.cookie).collect();
        self.connections.retain(|cookie, connection| {
            there.contains(cookie) && !(is_sorted_again && matches!(connection, Connection::Foreign))
        });
        let mut seen = Seen::default();
        // Descriptors are read only where a connection is new, which few looks see.
        if now.iter().any(|one| !self.connections.contains_key(&one.cookie)) {
            let inodes = inodes(processes, &mut seen.hidden);
            for one in now.iter().filter(|one| !self.connections.contains_key(&one.cookie)).collect::<Vec<_>>() {
                let connection = match inodes.contains(&one.inode) {
                    true => Connection::Own { way: self.way(one), seen: Bytes::default() },
                    false => Connection::Foreign,
                };
                self.connections.insert(one.cookie, connection);
            }
        }
        for one in &now {
            let Some(Connection::Own { way, seen: before }) = self.connections.get_mut(&one.cookie) else { continue };
            let sent = one.sent.saturating_sub(before.sent);
            let received = one.received.saturating_sub(before.received);
            *before = Bytes { sent: one.sent, received: one.received };
            for (nic, of) in [(&way.out, Bytes { sent, received: 0 }), (&way.back, Bytes { sent: 0, received })] {
                let Some(nic) = nic else { continue };
                *seen.by_nic.entry(nic.clone()).or_default() += of.sent + of.received;
                let total = self.total.entry(nic.clone()).or_default();
                total.sent += of.sent;
                total.received += of.received;
            }
        }
        seen.by_nic.retain(|_, bytes| *bytes > 0);
        Ok(seen)
    }

    /// Whether a connection goes to another machine: one between this machine's own addresses goes
    /// through the loopback interface.
    fn leaves_the_machine(&self, one: &TcpTraffic) -> bool {
        !one.remote.ip().is_loopback() && !self.own_addresses.contains_key(&one.remote.ip())
    }

    fn way(&self, one: &TcpTraffic) -> Way {
        if let Some(device) = one.device {
            let name = self.interfaces.get(&device).cloned();
            return Way { out: name.clone(), back: name };
        }
        let back = self.own_addresses.get(&one.local.ip()).cloned();
        // Where the route cannot be told, the address is a better guess than none.
        let out = socket::interface_of_connection(one.local, one.remote).ok().or_else(|| back.clone());
        Way { out, back }
    }
}

/// The inodes of the sockets of these processes, and the first process that does not show them.
fn inodes(processes: &[Tid], hidden: &mut Option<ProcessError>) -> BTreeSet<u64> {
    let mut inodes = BTreeSet::new();
    for process in processes {
        match Process::of(*process).socket_inodes() {
            Ok(more) => inodes.extend(more),
            Err(ProcessError::NoSuchProcess { .. }) => {}
            Err(error) => {
                hidden.get_or_insert(error);
            }
        }
    }
    inodes
}

/// The number of looks after which foreign connections are sorted again.
const FOREIGN_FOR: u64 = 16;
