//! `stream`: the sending end of a measurement.

use super::{metrics::MetricsArgs, ping, seconds};
use crate::{
    endpoint::{Address, Endpoint, Remotes, StreamArgs, StripingArgs, socket, sockets},
    exit::Exit,
    measure::{Amount, mptcp, plain, striped},
    placement::RailsArgs,
    print,
    purpose::Purpose,
    report, size,
    stop::Stop,
    thread::block_on,
    tls::ClientTls,
};
use anyhow::{Context, Result};
use rails_multirail::RailRequest;
use rails_topo::DataSize;
use std::{path::PathBuf, time::Duration};

/// Measure one stream from memory to memory, over one rail or several
///
/// The peer is `rails-bench serve`. The figure counts the bytes its application read, by its clock,
/// from when it was ready for this stream to the last byte; nothing is sent before.
///
/// Example: rails-bench stream --to 10.0.1.2,10.0.2.2 --seconds 10 --secret-file secret
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of each lane of the peer: IP or host, with `:PORT` if it is not 7575; a host's name
    /// stands for all its addresses. With one address or name and several rails of --from the
    /// peer is asked for its lanes, and they are paired by subnet and speed
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true)]
    to: Vec<Address>,
    /// Local end of each lane: an address or an interface, with @CPUS on these CPUs, or `auto` for
    /// every NIC that is up; as the routes lead by default
    #[arg(long, value_name = "ADDR_OR_IFACE,...")]
    from: Option<RailRequest>,
    /// Say which lanes are paired and why, and which did not connect
    #[arg(long, conflicts_with_all = ["plain", "mptcp", "ping"])]
    explain: bool,
    /// How long to send; 10 s by default
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "bytes")]
    seconds: Option<Duration>,
    /// How much to send, for example 4GiB
    #[arg(long, value_name = "N", value_parser = size::parse)]
    bytes: Option<DataSize>,
    #[command(flatten)]
    placement: RailsArgs,
    #[command(flatten)]
    striping: StripingArgs,
    /// Send plain TCP flows instead of a striped stream, one on each lane: the rate of the links by
    /// themselves
    #[arg(long, conflicts_with_all = ["policy", "parallel", "encrypt", "ClientTls", "window", "zerocopy", "busy_poll"])]
    plain: bool,
    /// Send on one socket of the kernel's MPTCP to the first address; `ip mptcp` decides which
    /// subflows there are
    #[arg(long, conflicts_with_all = ["plain", "policy", "parallel", "window", "zerocopy", "busy_poll", "send_buffer", "receive_buffer"])]
    mptcp: bool,
    /// Send messages of these lengths one at a time, wait for each to come back, and say how long
    /// that took; plain flows and MPTCP go to the first address
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = super::message, conflicts_with_all = ["seconds", "bytes"])]
    ping: Vec<u32>,
    /// Send them through the interface for messages instead of the stream of bytes
    #[arg(long, requires = "ping", conflicts_with_all = ["plain", "mptcp"])]
    messages: bool,
    /// The runtime on which the messages are sent and received
    #[arg(long, value_name = "RUNTIME", default_value = "rail", requires = "ping")]
    application: ping::Application,
    /// How many messages of each length
    #[arg(long, value_name = "N", default_value_t = 2000, requires = "ping", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    round_trips: u32,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Write this end's newest scheduling decisions to this file in the end, also of a stream that
    /// fails; docs/troubleshooting.md says how they are replayed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plain", "mptcp", "ping"])]
    record_decisions: Option<PathBuf>,
    /// Print the measurement as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    stream: StreamArgs<ClientTls>,
}

pub(crate) fn run(args: &Args, details: bool) -> Result<Exit> {
    block_on(async {
        let stop = Stop::on_signals()?;
        let remotes = Remotes::of("--to", &args.to).await?.limited("--to", args.striping.max_addresses());
        // A plain flow has one address.
        let remotes = if args.plain || args.mptcp { remotes.first_of_each() } else { remotes };
        let mut options = args.application.applied(args.stream.options()?)?;
        if args.record_decisions.is_some() {
            options = options.record_decisions(RECORDED);
        }
        let endpoint = Endpoint::calling(&remotes, args.from.as_ref(), &args.placement, options)?;
        let endpoint = endpoint.striping(&args.striping)?;
        measure(args, &endpoint, &remotes, details, stop).await
    })
}

async fn measure(args: &Args, endpoint: &Endpoint, remotes: &Remotes, details: bool, mut stop: Stop) -> Result<Exit> {
    let amount = match (args.bytes, args.seconds) {
        (Some(size), _) => Amount::Bytes(size.as_bytes()),
        (None, time) => Amount::Time(time.unwrap_or(DEFAULT_TIME)),
    };
    if !args.ping.is_empty() {
        let over = ping::Over::chosen(&args.stream, args.plain, args.mptcp, args.messages)?;
        return ping::ask(endpoint, remotes, over, args.application, (&args.ping, args.round_trips), args.json, stop)
            .await;
    }
    let Endpoint { topology, rails, options, .. } = endpoint;
    let mut explained = None;
    let measurement = if args.plain {
        let (remotes, tcp) = (sockets(&remotes.all())?, args.stream.tcp()?);
        let sent = plain::send(rails, &remotes, &tcp, amount, topology);
        stop.or(sent).await.context("--to")?
    } else if args.mptcp {
        let congestion = args.stream.congestion().map(str::to_owned);
        stop.or(mptcp::send(rails, socket(&remotes.firsts()[0])?, congestion, amount, topology))
            .await
            .context("--to")?
    } else {
        let (stream, paired) = endpoint.open(remotes, Purpose::Stream, &mut stop).await?;
        explained = args.explain.then_some(paired);
        if let Some(paired) = explained.as_ref().filter(|_| !args.json) {
            print::note(format_args!("{paired}"));
        }
        let (policy, kept) = (args.striping.policy(), options.security().mode());
        let decisions = stream.decisions();
        let sent = striped::send(stream, amount, (policy, args.stream.driver(), kept), topology, rails, stop).await;
        super::write_decisions(args.record_decisions.as_deref(), &decisions)?;
        sent?
    };
    if args.json {
        let mut measured = serde_json::to_value(&measurement)?;
        if let (Some(measured), Some(paired)) = (measured.as_object_mut(), explained) {
            measured.insert("paired".to_owned(), serde_json::to_value(paired)?);
        }
        print::result(format_args!("{measured}\n"))?;
    } else {
        report::measured(&measurement, details)?;
    }
    args.metrics.write(measurement.stats.as_ref())?;
    let lost = measurement.sender.lanes().chain(measurement.receiver.lanes()).any(|lane| lane.lost.is_some());
    Ok(if lost { Exit::Failed } else { Exit::Done })
}

const DEFAULT_TIME: Duration = Duration::from_secs(10);
/// The number of decisions and events that are kept.
const RECORDED: usize = 1 << 16;
