//! Ways to services: through the gate, or plain.

use crate::print;
use anyhow::{Context, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rails_gate::{Door, Passage, Plain, Way, carry_plain};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

/// The ways of the connections that come in by a door. This process asks for a bounded number of
/// them at a time, and carries a bounded number of plain ones.
pub(in crate::commands) struct Ways {
    door: Door,
    asking: Arc<Semaphore>,
    plain: Arc<Semaphore>,
}

/// The room of a connection for which this process asks.
pub(in crate::commands) type Room = OwnedSemaphorePermit;

impl Ways {
    pub(in crate::commands) fn new(door: Door) -> Self {
        let (asking, plain) = room_of(raise_descriptors());
        Self { door, asking: Arc::new(Semaphore::new(asking)), plain: Arc::new(Semaphore::new(plain)) }
    }

    /// Waits until one more connection may come in.
    pub(in crate::commands) async fn room(&self) -> Room {
        self.asking.clone().acquire_owned().await.expect(NEVER_CLOSED)
    }

    /// A connection was not accepted, as where descriptors are out: says so, and pauses.
    pub(in crate::commands) async fn not_accepted(&self, error: &io::Error) {
        print::note_seldom(&format!("a connection was not taken: {error}"));
        sleep(PAUSE).await;
    }

    /// A connection to the first of these addresses that has one: through the gate, or else plain.
    /// The next connection may come in once the gate has answered.
    pub(in crate::commands) async fn reach(
        &self,
        addresses: &[SocketAddr],
        source: Option<SocketAddr>,
        room: Room,
    ) -> io::Result<Reached> {
        for address in addresses {
            match self.door.ask(*address, source).await {
                Way::Through(passage) => return Ok(Reached::Gate(passage)),
                Way::Plain(Plain::NotRouted) => {}
                Way::Plain(why) => print::note_seldom(&format!("{address}: plain connections, because {why}")),
            }
        }
        let Ok(plain) = timeout(PATIENCE, self.plain.clone().acquire_owned()).await else {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                "this process carries as many plain connections as its limit on open files allows",
            ));
        };
        // Connections that take long to be made, or last long, hold up none that go through the gate.
        drop(room);
        let plain = plain.expect(NEVER_CLOSED);
        TcpStream::connect(addresses).await.map(|stream| Reached::Plain(stream, plain))
    }
}

/// A connection to a service; a plain one with its room in this process.
pub(in crate::commands) enum Reached {
    Gate(Passage),
    Plain(TcpStream, Room),
}

impl Reached {
    /// This host's address of the connection, if this process has it.
    pub(in crate::commands) fn local(&self) -> SocketAddr {
        let unknown = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        match self {
            Self::Gate(_) => unknown,
            Self::Plain(stream, _) => stream.local_addr().unwrap_or(unknown),
        }
    }

    /// Carries a program's connection there: in the gate, or in this process until it ends.
    pub(in crate::commands) async fn carry(self, program: TcpStream) -> Result<()> {
        match self {
            Self::Gate(passage) => passage.hand_over(program).await.context("the gate is gone"),
            Self::Plain(stream, _room) => {
                carry_plain(program, stream).await;
                Ok(())
            }
        }
    }
}

/// The address from which this host would connect to `destination`, with the port of the program.
pub(in crate::commands) fn source(destination: SocketAddr, port: u16) -> Option<SocketAddr> {
    let any = match destination {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Sends nothing: the kernel looks the route up.
    socket.connect(destination).ok()?;
    Some(SocketAddr::new(socket.local_addr().ok()?.ip(), port))
}

/// Allows this process as many descriptors as it may have at all. Returns their number.
pub(in crate::commands) fn raise_descriptors() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((USUAL_DESCRIPTORS, USUAL_DESCRIPTORS));
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// The connections for which a process with so many descriptors asks at a time, and the plain ones
/// that it carries.
fn room_of(descriptors: u64) -> (usize, usize) {
    let asking = (descriptors / 8).clamp(1, MAX_ASKING);
    let left = descriptors.saturating_sub(asking * OF_ASKING + OWN).min(2 * MAX_PLAIN);
    (asking as usize, (left / 2).max(1) as usize)
}

/// How long a plain connection waits for room.
const PATIENCE: Duration = Duration::from_secs(10);
const NEVER_CLOSED: &str = "the semaphore is never closed";
/// The connections at a time for which a process asks; more wait.
const MAX_ASKING: u64 = 1024;
/// The plain connections that a process carries at most; more wait for [`PATIENCE`], and are
/// refused.
const MAX_PLAIN: u64 = 1 << 16;
/// The descriptors of a connection for which a process asks: the program's, and that to the gate or
/// to the resolver.
const OF_ASKING: u64 = 2;
/// The descriptors for a process's own purposes.
const OWN: u64 = 64;
/// The usual limit of Linux.
const USUAL_DESCRIPTORS: u64 = 1024;
/// The pause after a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_the_limit_on_descriptors() {
        for descriptors in [256, 1024, 4096, 1 << 19, 1 << 30, u64::MAX] {
            let (asking, plain) = room_of(descriptors);
            assert!(asking > 0 && plain > 0);
            assert!(asking as u64 * OF_ASKING + 2 * plain as u64 + OWN <= descriptors, "{descriptors}");
        }
        assert_eq!(room_of(1 << 30), (1024, 1 << 16));
        assert_eq!(room_of(0), (1, 1), "what the system refuses then is said");
    }
}
