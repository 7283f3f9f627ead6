//! `serve` answers `stream` and `probe`.

use super::{metrics::MetricsArgs, ping, probe};
use crate::{
    conversation::{Carrier, Guest, Host, Request, Role, Terms},
    document::{Contents, Document, Schema},
    endpoint::{Address, Endpoint, StreamArgs, addresses_of, idle_timeout},
    exit::{Exit, explain_seldom},
    measure::{
        Received,
        flows::{self, FlowKind, Listeners},
        intervals::Intervals,
        series::Series,
        striped::{self, Sent, Served},
    },
    placement::RailsArgs,
    print, report,
    side::Side,
    stop::{Stop, Stopped},
    thread::block_on,
    tls::ServerTls,
    turn::GaveWay,
};
use anyhow::{Result, bail};
use rails_multirail::{LaneAddress, Scheme, StreamStats};
use serde::Serialize;
use std::{net::SocketAddr, time::Duration};

/// Be the other end of `stream` and `probe`, as they want it, for several of them at a time
///
/// Plain flows and probes come to further ports, which the kernel chooses and the callers are told.
///
/// Example: rails-bench serve --listen 10.0.1.2,10.0.2.2 --secret-file secret
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of each lane to listen on: IP or host, with `:PORT` if it is not 7575; port 0 takes
    /// any. `0.0.0.0` and `[::]` stand for a rail on each NIC, as `plan --rails auto` chooses them
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true)]
    listen: Vec<Address>,
    /// End after one measurement
    #[arg(long)]
    once: bool,
    /// How long nothing may come from a caller before it gives way to another that waits for its
    /// place: 64 are served at a time
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = idle_timeout)]
    idle_timeout: Duration,
    /// The runtime on which messages are received and sent back
    #[arg(long, value_name = "RUNTIME", default_value = "rail")]
    application: ping::Application,
    /// Report the rate of each caller of `stream` at this interval, over all lanes and on each;
    /// plain flows and MPTCP are left out
    #[arg(short, long, value_name = "S", value_parser = super::report_interval)]
    interval: Option<Duration>,
    #[command(flatten)]
    placement: RailsArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Print each measurement of `stream` as a JSON object on a line of its own (docs/json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    stream: StreamArgs<ServerTls>,
}

/// The receiver's report of a measurement.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Report<'a> {
    /// Bytes that the application read.
    bytes: u64,
    /// The time from the source's turn to the last byte.
    seconds: f64,
    /// Bytes over seconds, in bits; of several plain flows, over the time while all of them ran.
    receiver_goodput_bits_per_second: f64,
    /// The offset of the first wrong byte, if `stream --check` asked for them and one was found.
    wrong_at: Option<u64>,
    /// The security of the stream; `None` for plain flows.
    security: Option<&'a str>,
    /// This process.
    receiver: &'a Side,
    /// The number of other callers that this end served meanwhile.
    served_beside: u64,
    /// Whether a signal ended the measurement before the last byte.
    interrupted: bool,
    /// The arrivals over time, if `stream --samples` asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a Series>,
}

impl Contents for Report<'_> {
    const SCHEMA: Schema = Schema::SERVE;
}

/// The report of bytes that were sent for a caller.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SentReport<'a> {
    #[serde(flatten)]
    sent: &'a Sent,
    /// The security of the stream.
    security: String,
    /// Whether a signal ended the measurement before the last byte.
    interrupted: bool,
}

impl Contents for SentReport<'_> {
    const SCHEMA: Schema = Schema::SERVE_SENT;
}

pub(crate) fn run(args: &Args, details: bool) -> Result<Exit> {
    block_on(async {
        let mut stop = args.stream.stop()?;
        let addresses = addresses_of("--listen", &args.listen).await?;
        let options = args.application.applied(args.stream.options(&args.listen)?)?;
        let endpoint = Endpoint::listening("--listen", &addresses, &args.placement, options)?;
        let host = Host::of(endpoint.listen(&addresses).await?, Role::Serve);
        let terms = Terms { places: if args.once { 1 } else { PLACES }, once: args.once };
        let server = Server { args, endpoint: &endpoint, addresses: &addresses, details };
        let asked = stop.clone();
        host.serve(terms, &mut stop, |guest| server.serve(guest, asked.clone())).await
    })
}

/// The work for one caller.
#[derive(Clone, Copy)]
struct Server<'a> {
    args: &'a Args,
    endpoint: &'a Endpoint,
    addresses: &'a [LaneAddress],
    details: bool,
}

impl Server<'_> {
    /// Does what the guest wants, and ends its session.
    async fn serve(self, mut guest: Guest, mut stop: Stop) -> Result<Exit> {
        let limit = self.args.idle_timeout;
        let (peer, waits, company) = (guest.session.peer_addr(), guest.waits.clone(), guest.company.clone());
        let served = tokio::select! {
            served = self.work(&mut guest, &mut stop) => served,
            () = waits.last(limit, || company.waiting() > 0) => Err(GaveWay::Stalled { peer, limit }.into()),
        };
        guest.end(&served).await;
        served
    }

    async fn work(self, guest: &mut Guest, stop: &mut Stop) -> Result<Exit> {
        let Endpoint { topology, rails, options, .. } = self.endpoint;
        if let Request::Count { over: Carrier::Stream, watch, direction } = guest.request {
            let intervals = Intervals::new(self.args.interval, self.args.json);
            let (wish, security, here) = ((direction, watch), options.security().mode(), (topology, rails));
            let Served { received, sent, interrupted, stats } =
                striped::serve(guest, wish, security, here, intervals, stop).await?;
            let sent = sent.as_ref().map(|sent| (sent, interrupted.is_some()));
            self.say(received.as_ref(), sent, Some(&stats))?;
            return interrupted.map_or(Ok(Exit::Done), |signal| Err(Stopped(signal).into()));
        }
        stop.or(self.work_beside(guest)).await
    }

    /// Does work that takes no stream of the session but the conversation's.
    async fn work_beside(self, guest: &mut Guest) -> Result<Exit> {
        let Endpoint { topology, rails, .. } = self.endpoint;
        let received = match guest.request.clone() {
            Request::Files { .. } => unreachable!("a host that serves hears no senders of files"),
            Request::Echo { over } => {
                let answered = ping::answer(guest, over, self.args.application, rails, || self.listeners(over)).await?;
                print::note(format_args!("answered {answered} messages"));
                return Ok(Exit::Done);
            }
            Request::Probe => {
                probe::answer(guest).await?;
                print::note(format_args!("the path from {} was measured", guest.session.peer_addr().ip()));
                return Ok(Exit::Done);
            }
            Request::Count { over, watch, .. } => {
                let listeners = self.listeners(over).await;
                let listeners = guest.unless_refused(listeners).await?;
                flows::receive(guest, listeners, over.flows(), watch, topology, rails).await?
            }
        };
        self.say(Some(&received), None, None)?;
        Ok(Exit::Done)
    }

    /// Sockets for the flows of a carrier.
    async fn listeners(self, over: Carrier) -> Result<Listeners> {
        let tcp = self.addresses.iter().filter(|address| address.scheme == Scheme::TCP);
        let mut addresses: Vec<SocketAddr> = tcp.map(|address| address.socket).collect();
        let kind = match over {
            Carrier::Mptcp => {
                addresses.truncate(1);
                FlowKind::Mptcp(self.args.stream.congestion().map(str::to_owned))
            }
            _ => FlowKind::Plain(Box::new(self.args.stream.tcp()?)),
        };
        Listeners::bind(kind, &addresses, &self.endpoint.rails).await
    }

    /// Tells of a measurement. One of several whose results cannot be written is no reason to
    /// refuse those to come.
    fn say(self, received: Option<&Received>, sent: Option<(&Sent, bool)>, stats: Option<&StreamStats>) -> Result<()> {
        let told = [
            received.map_or(Ok(()), |received| self.tell(received)),
            sent.map_or(Ok(()), |(sent, interrupted)| self.tell_sent(sent, interrupted)),
            self.args.metrics.write(stats),
        ];
        for written in told {
            match written {
                Err(error) if !self.args.once => explain_seldom(&error),
                written => written?,
            }
        }
        match received.and_then(|received| received.count.wrong_at) {
            Some(at) => bail!("byte {at} is another than the one that was sent"),
            None => Ok(()),
        }
    }

    fn tell(self, received: &Received) -> Result<()> {
        let Received { count, goodput_bits_per_second: goodput, side: receiver, series, .. } = received;
        if !self.args.json {
            return report::counted(received, self.details);
        }
        let report = Report {
            bytes: count.bytes,
            seconds: count.seconds(),
            receiver_goodput_bits_per_second: *goodput,
            wrong_at: count.wrong_at,
            security: received.security.as_deref(),
            receiver,
            served_beside: received.served_beside,
            interrupted: received.interrupted,
            series: series.as_ref(),
        };
        Document::of(report).print_line()
    }

    fn tell_sent(self, sent: &Sent, interrupted: bool) -> Result<()> {
        let security = self.endpoint.options.security().mode().to_string();
        if !self.args.json {
            return report::given(sent, &security, interrupted, self.details);
        }
        Document::of(SentReport { sent, security, interrupted }).print_line()
    }
}

/// The number of callers that are served at a time.
const PLACES: usize = 64;
