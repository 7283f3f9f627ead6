//! Ends that other machines reach: from addresses on the command line to rails, addresses and
//! options.

mod address;
mod celeritas;
mod paired;
mod remotes;
mod routes;
mod striping;
mod tcp;

use super::Endpoint;
use crate::{
    exit::{Help, PORTS_TAKEN, help_for_connection},
    machine::this_machine,
    placement::{self, RailsArgs},
    print,
    secret::{self, JoinArgs},
    size,
    stop::Stop,
    tls::{self, TlsArgs},
};
pub(crate) use address::Address;
use anyhow::{Result, ensure};
use celeritas::CeleritasArgs;
use clap::ValueEnum;
use nix::libc;
pub(crate) use paired::Paired;
use rails_multirail::{
    Driver, EndpointError, HandshakeError, LaneAddress, MultiRailListener, OpenError, RailRequest, Refusal, Routes,
    Scheme, Security, StreamOptions,
    error::JoinError,
    planner::{LocalEnd, PlanError, RejectedNic, plan_rails},
};
use rails_net::TcpTransport;
use rails_topo::{NicKind, Topology};
pub(crate) use remotes::Remotes;
use std::{io, net::SocketAddr, time::Duration};
pub(crate) use striping::StripingArgs;
use tcp::TcpArgs;

/// The flags that both ends share, and the TLS flags of each.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StreamArgs<T: TlsArgs> {
    #[command(flatten)]
    lanes: LaneArgs,
    #[command(flatten)]
    celeritas: CeleritasArgs,
    #[command(flatten)]
    join: JoinArgs,
    #[command(flatten)]
    tls: T,
}

/// The flags of a stream over TCP lanes, whoever may join it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LaneArgs {
    #[command(flatten)]
    tcp: TcpArgs,
    /// Which threads drive the lanes of this end
    #[arg(long, value_enum, default_value_t = DriverArg::PerCpu)]
    driver: DriverArg,
    /// How long a stream waits for a lane to come back when none is left, as TCP does for a silent
    /// machine; 0 fails at once. A peer that closes or refuses every lane gets 10 s at most
    /// [default: 900]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    outage_limit: Option<Duration>,
    /// How much of a stream this end takes in ahead of its reader; where all lanes carry more than
    /// that in two round trips, raise it, together with the kernel's `tcp_rmem` [default:
    /// 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = window)]
    window: Option<u64>,
}

/// [`Driver`], as clap sees it.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DriverArg {
    /// The lanes of all rails on a CPU by one thread
    PerCpu,
    /// Each lane by its own rail's thread
    PerRail,
    /// Every lane by the first rail's thread
    Single,
}

impl LaneArgs {
    /// Which threads drive the lanes.
    fn driver(&self) -> Driver {
        match self.driver {
            DriverArg::PerCpu => Driver::PerCpu,
            DriverArg::PerRail => Driver::PerRail,
            DriverArg::Single => Driver::Single,
        }
    }

    /// The options of a stream with a security that comes later. Must be called inside a runtime,
    /// because it tries the lanes' options on a socket.
    pub(crate) fn options(&self) -> Result<impl Fn(Security) -> StreamOptions + Clone + Send + Sync + 'static> {
        let (tcp, driver) = (self.tcp.transport()?, self.driver());
        let (outage_limit, window) = (self.outage_limit, self.window);
        Ok(move |security| {
            let mut options = StreamOptions::new(security).transport(tcp.clone()).driver(driver);
            if let Some(limit) = outage_limit {
                options = options.outage_limit(limit);
            }
            if let Some(window) = window {
                options = options.window(window);
            }
            options
        })
    }
}

impl<T: TlsArgs> StreamArgs<T> {
    /// The signals that end a command which listens; SIGHUP renews its certificate, if it has one.
    pub(crate) fn stop(&self) -> io::Result<Stop> {
        Stop::renewing(self.tls.renewal())
    }

    /// The requested congestion control.
    pub(crate) fn congestion(&self) -> Option<&str> {
        self.lanes.tcp.congestion()
    }

    /// TCP with the options. Must be called inside a runtime, because it tries them on a socket.
    pub(crate) fn tcp(&self) -> Result<TcpTransport> {
        self.lanes.tcp.transport()
    }

    /// Which threads drive the lanes.
    pub(crate) fn driver(&self) -> Driver {
        self.lanes.driver()
    }

    /// The options of a stream over lanes to or at `addresses`; a certificate is of the first that
    /// an end calls. Must be called inside a runtime, because it tries the lanes' options on a
    /// socket.
    pub(crate) fn options(&self, addresses: &[Address]) -> Result<StreamOptions> {
        self.celeritas.check_lanes(addresses)?;
        let called = addresses.first().map(Address::host);
        let security = self.join.security(self.tls.security(called.as_deref())?)?;
        let celeritas = self.celeritas.transport(&security)?;
        Ok(self.lanes.options()?(security).transport(celeritas))
    }
}

impl Endpoint {
    /// An end that waits for streams on `addresses`: a rail for each. If all of them are
    /// unspecified (0.0.0.0, ::), a rail on each NIC, and without a NIC one that is bound to
    /// none, as a NIC may come up later.
    ///
    /// Errors name `flag`.
    pub(crate) fn listening(
        flag: &'static str,
        addresses: &[LaneAddress],
        placement: &RailsArgs,
        options: StreamOptions,
    ) -> Result<Self> {
        let topology = this_machine()?;
        let ips = || addresses.iter().map(|address| address.socket.ip());
        let rails = if !ips().all(|ip| ip.is_unspecified()) {
            RailRequest::on(addresses.iter().map(|address| LocalEnd::at(address.socket)))
        } else if let Err(PlanError::NoNic { rejected }) = plan_rails(&topology, &RailRequest::auto()) {
            say_skipped(&topology, &rejected);
            RailRequest::on(ips().take(1).map(LocalEnd::Address))
        } else {
            RailRequest::auto()
        };
        Self::following(topology, &rails, placement, options, flag)
    }

    /// An end that opens streams to `remotes`: the rails of `from`, or else, for each name, one
    /// rail on each NIC by which the routes to its addresses lead.
    pub(crate) fn calling(
        remotes: &Remotes,
        from: Option<&RailRequest>,
        placement: &RailsArgs,
        options: StreamOptions,
    ) -> Result<Self> {
        let topology = this_machine()?;
        match from {
            Some(from) => Self::following(topology, from, placement, options, "--from"),
            None => {
                let routes = Routes::towards(&topology, remotes.names(), routes::local_address)?;
                let rails = RailRequest::routed(routes.rails());
                let built = Self::following(topology, &rails, placement, options, "--to");
                built.map(|end| Self { routes: Some(routes), ..end }).map_err(|error| match error.is::<PlanError>() {
                    true => error.help("name the interfaces or addresses to send from by --from"),
                    false => error,
                })
            }
        }
    }

    /// This end with the striping options.
    pub(crate) fn striping(mut self, striping: &StripingArgs) -> Result<Self> {
        self.options = striping.applied(self.options, &self.rails)?;
        Ok(self)
    }

    /// Listens, and prints the addresses.
    pub(crate) async fn listen(&self, addresses: &[LaneAddress]) -> Result<MultiRailListener> {
        let listener = MultiRailListener::bind(&self.rails, addresses, &self.options).await;
        let listener = listener.map_err(|error| not_listening(error.into(), addresses))?;
        say_listening(listener.local_addrs());
        Ok(listener)
    }

    /// An end whose rails follow the machine, if the flags let them.
    fn following(
        topology: Topology,
        rails: &RailRequest,
        args: &RailsArgs,
        options: StreamOptions,
        flag: &'static str,
    ) -> Result<Self> {
        let request = args.of(rails);
        let (plan, rails) = placement::build(&topology, &request, flag)?;
        say_skipped(&topology, &plan.rejected_nics);
        let end = Self::new(topology, plan, rails, options);
        args.follow(&end.rails, &request)?;
        Ok(end)
    }
}

/// Prints which interfaces got no rail, and why, where the planner chose among them. Nobody expects
/// a rail on the loopback interface.
fn say_skipped(topology: &Topology, rejected: &[RejectedNic]) {
    let is_loopback = |name: &str| topology.nic(name).is_some_and(|nic| nic.kind == NicKind::Loopback);
    for skipped in RejectedNic::by_reason(rejected.iter().filter(|nic| !is_loopback(&nic.name))) {
        print::note(format_args!("no rail on {skipped}"));
    }
}

/// Reads a time in seconds that may be none.
///
/// # Errors
/// The bounds, if it is beyond them.
pub(crate) fn seconds(text: &str) -> Result<Duration> {
    let seconds: f64 = text.parse()?;
    ensure!((0.0..=86_400.0).contains(&seconds), "it is from 0 to 86400, which is a day");
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads the time for which a peer may stall.
///
/// # Errors
/// The bounds, if it is beyond them.
pub(crate) fn idle_timeout(text: &str) -> Result<Duration> {
    let time = seconds(text)?;
    ensure!(time >= Duration::from_millis(100), "it is from 0.1 to 86400, which is a day");
    Ok(time)
}

/// A size that a window may have.
fn window(text: &str) -> Result<u64> {
    let window = size::parse(text).map_err(anyhow::Error::msg)?.as_bytes();
    StreamOptions::new(Security::insecure()).window(window).validate()?;
    Ok(window)
}

/// Prints to stderr where this end listens, which is how another program learns a port that the
/// kernel chose.
pub(crate) fn say_listening(addresses: &[LaneAddress]) {
    print::note(format_args!("listening on {}", listed(addresses)));
}

/// Adds the flag's name to an error, and a remedy if the address is the cause.
pub(crate) fn not_listening(error: anyhow::Error, addresses: &[LaneAddress]) -> anyhow::Error {
    let error = error.context(format!("--listen {}", listed(addresses)));
    let takes_any = addresses.iter().all(|address| address.socket.port() == 0);
    match help_for_listener(&error, takes_any) {
        Some(help) => error.help(help),
        None => error,
    }
}

/// A remedy if the address of a listener is the cause; `takes_any`: the kernel was to choose the
/// port.
pub(crate) fn help_for_listener(error: &anyhow::Error, takes_any: bool) -> Option<&'static str> {
    Some(match error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error())? {
        libc::EADDRINUSE if takes_any => PORTS_TAKEN,
        libc::EADDRINUSE => "`ss -ltn` lists the ports that are taken",
        libc::EADDRNOTAVAIL => "`rails-bench topo` prints this machine's addresses",
        libc::EACCES => "ports below `sysctl net.ipv4.ip_unprivileged_port_start` are for root; take a higher one",
        _ => return None,
    })
}

fn listed(addresses: &[LaneAddress]) -> String {
    addresses.iter().map(LaneAddress::to_string).collect::<Vec<_>>().join(", ")
}

/// Adds the flag's name to an error, and a remedy if the lanes' errors suggest one.
fn not_connected(error: OpenError, remotes: &Remotes, peer: &str) -> anyhow::Error {
    let help = match &error {
        OpenError::AllFailed { lanes } => lanes.iter().find_map(|lane| help_for(&lane.error, peer)),
        OpenError::Endpoint(EndpointError::NoTransport(_)) => Some(TRANSPORTS.to_owned()),
        _ => None,
    };
    let error = anyhow::Error::new(error).context(format!("--to {remotes}"));
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

fn help_for(error: &JoinError, peer: &str) -> Option<String> {
    Some(match error {
        JoinError::Handshake(HandshakeError::Secret | HandshakeError::Refused(Refusal::Secret)) => {
            "give both ends the same secret; compare `sha256sum` of the two files".to_owned()
        }
        JoinError::Handshake(HandshakeError::Mode { ours, theirs }) => secret::remedy(*ours, *theirs),
        JoinError::Handshake(HandshakeError::Tls(error)) => tls::remedy(error)?.to_owned(),
        JoinError::Handshake(HandshakeError::Refused(Refusal::Tls)) => "the peer's log has the reason".to_owned(),
        JoinError::Handshake(HandshakeError::NotRails { .. }) => {
            format!("something else than `rails-bench {peer}` listens there; look at the address and the port")
        }
        JoinError::NoTransport(_) => TRANSPORTS.to_owned(),
        JoinError::Connect(rails_net::ConnectError::Refused { .. } | rails_net::ConnectError::SelfConnect { .. }) => {
            format!("start `rails-bench {peer}` there first, and give the addresses that it prints")
        }
        JoinError::Connect(error) => help_for_connection(error)?.to_owned(),
        JoinError::Io(error)
            if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) =>
        {
            format!(
                "the peer takes connections and closes them without a word: something else than `rails-bench {peer}`, or a \
                 proxy in front of it; look at the address and the port"
            )
        }
        JoinError::Timeout => {
            format!("see that `rails-bench {peer}` is not stopped there, and that nothing else listens at the address")
        }
        _ => return None,
    })
}

/// The addresses to listen on: the first of each name in a flag.
pub(crate) async fn addresses_of(flag: &str, addresses: &[Address]) -> Result<Vec<LaneAddress>> {
    Ok(Remotes::of(flag, addresses).await?.firsts())
}

/// The address of a plain flow, which must be of TCP.
///
/// # Errors
/// For an address of another transport.
pub(crate) fn socket(address: &LaneAddress) -> Result<SocketAddr> {
    ensure!(address.scheme == Scheme::TCP, "{address}: plain flows go over TCP alone");
    Ok(address.socket)
}

/// The addresses of plain flows, as [`socket`] gives one.
///
/// # Errors
/// As [`socket`].
pub(crate) fn sockets(addresses: &[LaneAddress]) -> Result<Vec<SocketAddr>> {
    addresses.iter().map(socket).collect()
}

/// The error for an address of another transport.
const TRANSPORTS: &str = "lanes go over TCP (tcp://HOST:PORT, or HOST:PORT alone) or Celeritas (celeritas://HOST:PORT)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_no_time_is_one() {
        assert_eq!(seconds("0").unwrap(), Duration::ZERO);
        assert_eq!(seconds("1.5").unwrap(), Duration::from_millis(1500));
        for wrong in ["-1", "86401", "NaN", "inf", "soon"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
