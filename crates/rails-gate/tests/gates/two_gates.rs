//! Two gates that are peers, `near` and `far`, and doors to the near one.

use rails_gate::{
    Door, DoorKind, Gate, GateOptions, GateSecurity, Plain, Way,
    policy::{PeerName, Policy},
};
use rails_multirail::{PeerSecrets, RailRequest, Rails, Secret, Security, StreamOptions, plan_rails};
use rails_topo::Topology;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::OnceLock,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Two gates. The near one sends all of 127.0.0.0/8 through the far one.
pub(crate) struct TwoGates {
    pub(crate) near: Gate,
    pub(crate) far: Gate,
    folder: TempDir,
}

impl TwoGates {
    /// Gates of which the far one lets the near one reach `reach`.
    pub(crate) async fn start(reach: &str) -> Self {
        Self::with(reach, "").await
    }

    /// As [`start`](Self::start), with further lines of the far policy's peer.
    pub(crate) async fn with(reach: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let far = gate(format!(
            "listen = ['127.0.0.1:0', '127.0.0.2:0']\n[[peer]]\nname = 'near'\nsecret_file = 's'\nreach = [{reach}]\n{more}\n"
        ));
        let far = far.await;
        let dial: Vec<_> = far.local_addrs().iter().map(|address| format!("'{}'", address.socket)).collect();
        let socket = folder.path().join("gate.sock");
        let near = gate(format!(
            "socket = '{}'\n[[peer]]\nname = 'far'\nsecret_file = 's'\ndial = [{}]\nnetworks = ['127.0.0.0/8', '::1']\nanswer_within = '10s'\n",
            socket.display(),
            dial.join(", ")
        ));
        let gates = Self { near: near.await, far, folder };
        gates.until(|gates| gates.near.status().peers[0].sessions == 1).await;
        gates
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("gate.sock")
    }

    pub(crate) fn door(&self) -> Door {
        Door::new(DoorKind::Forward, self.socket()).alive_within(Duration::from_secs(20))
    }

    /// A connection of a program that goes through the gates to a service.
    pub(crate) async fn connect(&self, destination: SocketAddr) -> TcpStream {
        carried(&self.door(), destination).await
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        until(&[&self.near, &self.far], || holds(self)).await;
    }
}

/// Waits until a condition of gates holds.
pub(crate) async fn until(gates: &[&Gate], holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        let states: Vec<_> = gates.iter().map(|gate| gate.status()).collect();
        assert!(began.elapsed() < Duration::from_secs(60), "{states:#?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A connection of a program through the gate of a door; the reason if it goes plain.
pub(crate) async fn connect(door: &Door, destination: SocketAddr) -> Result<TcpStream, Plain> {
    match door.ask(destination, None).await {
        Way::Through(passage) => {
            let (program, handed_over) = pair().await;
            passage.hand_over(handed_over).await.unwrap();
            Ok(program)
        }
        Way::Plain(why) => Err(why),
    }
}

/// As [`connect`], for a connection that goes through.
pub(crate) async fn carried(door: &Door, destination: SocketAddr) -> TcpStream {
    connect(door, destination).await.unwrap_or_else(|why| panic!("{destination} goes plain: {why}"))
}

/// A service that gives every connection its bytes back.
pub(crate) async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let Ok((mut connection, _)) = listener.accept().await else {
                // This process is out of descriptors.
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            };
            tokio::spawn(async move {
                let (mut read, mut write) = connection.split();
                // A connection may be reset.
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// Whether bytes go through a connection to [`echo`] and back.
pub(crate) async fn is_echoed(program: &mut TcpStream) -> bool {
    let mut back = [0; 5];
    program.write_all(b"hello").await.is_ok() && program.read_exact(&mut back).await.is_ok() && &back == b"hello"
}

/// Two ends of a TCP connection.
pub(crate) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

pub(crate) fn rails() -> Rails {
    static RAILS: OnceLock<Rails> = OnceLock::new();
    RAILS
        .get_or_init(|| {
            let plan = plan_rails(&Topology::detect().unwrap(), &RailRequest::loopback(2)).unwrap();
            Rails::build(&plan).unwrap()
        })
        .clone()
}

/// A gate with that policy. Every gate has one secret, whatever the policy's files are called.
pub(crate) async fn gate(policy: String) -> Gate {
    let (policy, security) = settings(&policy);
    let stream = Box::new(StreamOptions::new);
    Gate::start(GateOptions { rails: rails(), policy, security, stream }).await.unwrap()
}

pub(crate) fn secret() -> Secret {
    Secret::pre_shared(b"sixteen bytes at least").unwrap()
}

/// What a gate is started with, or takes later.
pub(crate) fn settings(policy: &str) -> (Policy, GateSecurity) {
    let policy = Policy::parse(policy).unwrap();
    let dial: BTreeMap<PeerName, Security> =
        policy.peers().iter().map(|peer| (peer.name.clone(), Security::psk(secret()))).collect();
    // Only the names that the policy has are known.
    let known: Vec<_> = policy.peers().iter().map(|peer| (peer.name.as_str().to_owned(), secret())).collect();
    let listen = PeerSecrets::new(known).ok().map(Security::psk_of);
    (policy, GateSecurity { listen, dial })
}
