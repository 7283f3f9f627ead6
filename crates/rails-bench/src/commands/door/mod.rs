//! The parts that the doors to the gate of this host share.

mod ways;

use crate::duration;
use anyhow::{Context, Result, ensure};
use nix::unistd::Uid;
use rails_gate::{Door, DoorKind};
use std::{env, fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream, lookup_host},
    time::timeout,
};
pub(super) use ways::{Room, Ways, raise_descriptors, source};

/// The gate of this host.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DoorArgs {
    /// The socket of this host's gate [default: /run/rails/gate.sock for root, and
    /// $XDG_RUNTIME_DIR/rails/gate.sock for others; where it is not, the system's]
    #[arg(long, value_name = "SOCKET", env = "RAILS_GATE")]
    gate: Option<PathBuf>,
    /// How long this host's gate may take to hear a question, before a connection goes plain
    /// [default: 50ms]
    #[arg(long, value_name = "TIME", env = "RAILS_GATE_WITHIN", value_parser = duration::parse)]
    gate_within: Option<Duration>,
}

impl DoorArgs {
    /// The socket for a gate of this user whose policy names none.
    pub(super) fn own(&self) -> PathBuf {
        self.gate.clone().unwrap_or_else(own_gate)
    }

    /// A door of that kind.
    pub(super) fn door(&self, kind: DoorKind) -> Door {
        let door = Door::new(kind, self.gate.clone().unwrap_or_else(usual_gate));
        match self.gate_within {
            Some(time) => door.alive_within(time),
            None => door,
        }
    }
}

/// The socket of the gate that this user runs.
fn own_gate() -> PathBuf {
    let of_user = || env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    match Uid::effective().is_root() {
        false => of_user().map_or_else(|| SYSTEM_GATE.into(), |folder| PathBuf::from(folder).join("rails/gate.sock")),
        true => SYSTEM_GATE.into(),
    }
}

/// The socket of the gate that this user has, or else the system has.
fn usual_gate() -> PathBuf {
    let own = own_gate();
    if own.exists() { own } else { SYSTEM_GATE.into() }
}

/// The socket of the system's gate.
const SYSTEM_GATE: &str = "/run/rails/gate.sock";

/// A service as people write it: a name or an address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    host: String,
    port: u16,
}

impl Service {
    /// The service at a port of a host, which may be an address in brackets.
    pub(super) fn new(host: &str, port: u16) -> Result<Self> {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = inner.unwrap_or(host);
        let is_sound = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/' || c == '=');
        ensure!(is_sound, "`{host}` is no host's name and no address");
        Ok(Self { host: host.to_owned(), port })
    }

    /// The addresses of the service, as the resolver prefers them.
    pub(super) async fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let found =
            lookup_host((&*self.host, self.port)).await.with_context(|| format!("cannot find {}", self.host))?;
        let found: Vec<_> = found.collect();
        ensure!(!found.is_empty(), "{} has no address", self.host);
        Ok(found)
    }
}

impl FromStr for Service {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (host, port) = text.rsplit_once(':').with_context(|| format!("`{text}` has no port: it is HOST:PORT"))?;
        let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
        ensure!(!is_bare_ipv6, "`{text}`: an IPv6 address stands in brackets, as [::1]:80");
        let number = port.parse().ok().filter(|number| *number > 0);
        Self::new(host, number.with_context(|| format!("`{port}` is no port from 1 to 65535"))?)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A connection whose two ends are in this process: one for a program, one for the gate. Only TCP
/// tells a reset from an end.
pub(super) async fn pair() -> Result<(TcpStream, TcpStream)> {
    // Where the loopback interface is down, nothing answers.
    let both = timeout(PATIENCE, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let near = TcpStream::connect(listener.local_addr()?).await?;
        loop {
            let (far, caller) = listener.accept().await?;
            // Any program of this host may call the port.
            if caller == near.local_addr()? {
                return std::io::Result::Ok((near, far));
            }
        }
    });
    let both = both.await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    both.context("no connection over 127.0.0.1, by which this process and the gate would be joined")
}

/// A connection over the loopback interface takes microseconds.
const PATIENCE: Duration = Duration::from_secs(1);
