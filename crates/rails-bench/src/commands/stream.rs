//! `stream`: the end of a measurement that calls.

use super::{metrics::MetricsArgs, ping, seconds};
use crate::{
    conversation::{Carrier, Direction, Request, Watch},
    document::{Contents, Document, Schema},
    duration,
    endpoint::{Address, Endpoint, Paired, Remotes, StreamArgs, StripingArgs, socket, sockets},
    exit::Exit,
    measure::{
        Amount,
        flows::{self, FlowKind},
        intervals::Intervals,
        latency,
        report::Measurement,
        striped::{self, Measured, Wish},
    },
    placement::RailsArgs,
    print, report, size,
    stop::Stop,
    thread::block_on,
    tls::ClientTls,
};
use anyhow::{Context, Result, bail};
use rails_multirail::{RailRequest, Rails};
use rails_topo::DataSize;
use serde::Serialize;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

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
    /// How much to send, for example 4GiB; with --both so much each way
    #[arg(long, value_name = "N", value_parser = size::parse)]
    bytes: Option<DataSize>,
    /// Measure the way from the peer, which sends
    #[arg(short = 'R', long, conflicts_with_all = ["plain", "mptcp", "ping"])]
    reverse: bool,
    /// Measure both ways at a time, by a stream each way
    #[arg(long, conflicts_with_all = ["plain", "mptcp", "ping", "reverse"])]
    both: bool,
    /// Report the rate at this interval, over all lanes and on each
    #[arg(short, long, value_name = "S", value_parser = super::report_interval, conflicts_with_all = ["plain", "mptcp", "ping"])]
    interval: Option<Duration>,
    #[command(flatten)]
    placement: RailsArgs,
    #[command(flatten)]
    striping: StripingArgs,
    /// Send plain TCP flows instead of a striped stream, one on each lane: the rate of the links by
    /// themselves. The peer takes them at a port that it names, encrypted by nothing
    #[arg(long, conflicts_with_all = ["policy", "parallel", "window", "zerocopy", "busy_poll"])]
    plain: bool,
    /// Send on one socket of the kernel's MPTCP to the first address; `ip mptcp` decides which
    /// subflows there are. The peer takes it at a port that it names, encrypted by nothing
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
    /// Have the peer tell in its JSON how many bytes it read in each interval of this length, such
    /// as 20ms, and every longer pause
    #[arg(long, value_name = "TIME", conflicts_with = "ping", value_parser = interval)]
    samples: Option<Duration>,
    /// Have the receiver look whether every byte is the one that was sent at its place, and fail
    /// where one is not
    #[arg(long, conflicts_with = "ping")]
    check: bool,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Write this end's newest scheduling decisions to this file in the end, also of a stream that
    /// fails; docs/troubleshooting.md says how they are replayed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plain", "mptcp", "ping"])]
    record_decisions: Option<PathBuf>,
    /// Print the measurement as a JSON object on one line (docs/json.md); --both prints two, and
    /// --interval one more each time
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    stream: StreamArgs<ClientTls>,
}

/// A measurement, and the pairing of its lanes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Report<'a> {
    #[serde(flatten)]
    measurement: &'a Measurement,
    /// With `--explain`, the lanes.
    #[serde(skip_serializing_if = "Option::is_none")]
    paired: Option<&'a Paired>,
}

impl Contents for Report<'_> {
    const SCHEMA: Schema = Schema::STREAM;
}

impl Contents for latency::Report {
    const SCHEMA: Schema = Schema::ROUND_TRIPS;
}

pub(crate) fn run(args: &Args, details: bool) -> Result<Exit> {
    block_on(async {
        let stop = Stop::on_signals()?;
        if args.plain || args.mptcp || !args.ping.is_empty() {
            args.metrics.ensure_none()?;
        }
        let remotes = Remotes::of("--to", &args.to).await?.limited("--to", args.striping.max_addresses());
        // A plain flow has one address.
        let remotes = if args.plain || args.mptcp { remotes.first_of_each() } else { remotes };
        let mut options = args.application.applied(args.stream.options(&args.to)?)?;
        if args.record_decisions.is_some() {
            options = options.record_decisions(RECORDED);
        }
        let endpoint = Endpoint::calling(&remotes, args.from.as_ref(), &args.placement, options)?;
        let endpoint = endpoint.striping(&args.striping)?;
        measure(args, &endpoint, &remotes, details, stop).await
    })
}

async fn measure(args: &Args, endpoint: &Endpoint, remotes: &Remotes, details: bool, mut stop: Stop) -> Result<Exit> {
    if !args.ping.is_empty() {
        return ask(args, endpoint, remotes, stop).await;
    }
    let amount = match (args.bytes, args.seconds) {
        (Some(size), _) => Amount::Bytes(size.as_bytes()),
        (None, time) => Amount::Time(time.unwrap_or(DEFAULT_TIME)),
    };
    let Endpoint { topology, rails, options, .. } = endpoint;
    let (kind, over, called) = args.carrier(rails, remotes)?;
    let watch = Watch { interval_us: args.samples.map(|time| time.as_micros() as u64), check: args.check };
    let direction = match (args.reverse, args.both) {
        (true, _) => Direction::FromPeer(amount.into()),
        (_, true) => Direction::Both(amount.into()),
        _ => Direction::ToPeer,
    };
    let request = Request::Count { over, watch, direction };
    let (mut call, paired) = endpoint.call(remotes, &request, &mut stop).await?;
    if args.explain && !args.json {
        print::note(format_args!("{paired}"));
    }
    let measured = match &kind {
        Some(kind) => {
            let measuring = async {
                let open = flows::open(&mut call, &request, kind, rails, &called, over.flows()).await?;
                flows::send(&mut call, open, kind, amount, topology, rails).await
            };
            stop.or(measuring).await.map(|sent| (vec![sent], None, None))
        }
        None => {
            let wish = Wish {
                amount,
                direction,
                watch,
                policy: args.striping.policy(),
                driver: args.stream.driver(),
                security: options.security().mode(),
                intervals: Intervals::new(args.interval, args.json),
            };
            let measured = striped::measure(&mut call, wish, topology, rails, &mut stop).await;
            measured.map(|Measured { to_peer, from_peer, interrupted, stats }| {
                (to_peer.into_iter().chain(from_peer).collect(), interrupted, Some(stats))
            })
        }
    };
    let measured = call.explained(measured).await;
    // A handle of the decisions would keep the session's events from their end.
    let written = super::write_decisions(args.record_decisions.as_deref(), &call.session.decisions());
    call.end(&measured).await;
    written?;
    let (measurements, interrupted, stats): (Vec<Measurement>, _, _) =
        measured.with_context(|| format!("--to {remotes}"))?;
    let measurements = measurements.into_iter().map(|one| one.explained(|rail| paired.why_unused(rail)));
    let measurements: Vec<Measurement> = measurements.collect();
    for measurement in &measurements {
        if args.json {
            let paired = args.explain.then_some(&paired);
            Document::of(Report { measurement, paired }).print_line()?;
        } else {
            report::measured(measurement, details)?;
        }
    }
    args.metrics.write(stats.as_ref())?;
    if let Some(at) = measurements.iter().find_map(|measurement| measurement.wrong_at) {
        bail!("--check: byte {at} is another than the one that was sent");
    }
    let mut lanes = measurements.iter().flat_map(|one| one.sender.lanes().chain(one.receiver.lanes()));
    Ok(match interrupted {
        Some(signal) => Exit::Signal(signal),
        None if lanes.any(|lane| lane.lost.is_some()) => Exit::Failed,
        None => Exit::Done,
    })
}

/// Measures round trips, and prints their times.
async fn ask(args: &Args, endpoint: &Endpoint, remotes: &Remotes, mut stop: Stop) -> Result<Exit> {
    let (kind, over, called) = args.carrier(&endpoint.rails, remotes)?;
    let request = Request::Echo { over };
    let (mut call, paired) = endpoint.call(remotes, &request, &mut stop).await?;
    let asking = async {
        let channel = match (&kind, over) {
            (Some(kind), _) => {
                let mut flows = flows::open(&mut call, &request, kind, &endpoint.rails, &called, 1).await?;
                ping::Channel::Flow(flows.swap_remove(0).1)
            }
            (None, Carrier::Messages) => {
                let messages = endpoint.open_messages(&paired, call.door()?.token).await?;
                call.all_open(&request).await?;
                ping::Channel::Messages(messages)
            }
            (None, _) => ping::Channel::stream(call.session.open_bi().await?),
        };
        ping::ask(&mut call, channel, args.application, &endpoint.rails, args.ping.clone(), args.round_trips).await
    };
    let asked = stop.or(asking).await;
    let asked = call.explained(asked).await;
    call.end(&asked).await;
    let figures = asked.with_context(|| format!("--to {remotes}"))?;
    if args.json {
        Document::of(latency::Report { round_trips: figures }).print_line()?;
        return Ok(Exit::Done);
    }
    for one in &figures {
        let (bytes, count, p50, p99) = (one.bytes, one.count, one.p50_us, one.p99_us);
        print::text(format_args!("{bytes} bytes: {count} round trips, p50 {p50:.1} us, p99 {p99:.1} us\n"))?;
    }
    let mode = kind.is_none().then(|| endpoint.options.security().mode().to_string());
    print::text(report::security(mode.as_deref()))?;
    Ok(Exit::Done)
}

impl Args {
    /// The sort of the flows that the flags choose, if they choose flows; the carrier, as the peer
    /// is told; and the addresses that flows are opened to.
    fn carrier(&self, rails: &Rails, remotes: &Remotes) -> Result<(Option<FlowKind>, Carrier, Vec<SocketAddr>)> {
        Ok(match (self.plain, self.mptcp, self.messages) {
            (true, ..) => {
                let called = sockets(&remotes.all())?;
                let flows = if self.ping.is_empty() { rails.len().max(called.len()) } else { 1 };
                let kind = FlowKind::Plain(Box::new(self.stream.tcp()?));
                (Some(kind), Carrier::Plain { flows: u16::try_from(flows)? }, called)
            }
            (_, true, _) => {
                let kind = FlowKind::Mptcp(self.stream.congestion().map(str::to_owned));
                (Some(kind), Carrier::Mptcp, vec![socket(&remotes.firsts()[0])?])
            }
            (.., true) => (None, Carrier::Messages, Vec::new()),
            _ => (None, Carrier::Stream, Vec::new()),
        })
    }
}

/// Reads the length of an interval.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    let fits = (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&interval);
    fits.then_some(interval).ok_or_else(|| "an interval is 1ms to 60s".to_owned())
}

const DEFAULT_TIME: Duration = Duration::from_secs(10);
/// The number of decisions and events that are kept.
const RECORDED: usize = 1 << 16;
