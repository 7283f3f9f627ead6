//! `serve`: the receiving end of measurements.

use super::{metrics::MetricsArgs, ping};
use crate::{
    admission::{Admission, is_passed_over},
    duration,
    endpoint::{Address, Endpoint, StreamArgs, addresses_of, not_listening, say_listening, socket, sockets},
    exit::{Exit, explain, explain_seldom},
    measure::{Received, Watch, mptcp, plain, series::Series, striped},
    placement::RailsArgs,
    print,
    purpose::Purpose,
    report,
    side::Side,
    stop::Stop,
    thread::block_on,
    tls::ServerTls,
};
use anyhow::{Result, bail};
use rails_multirail::LaneAddress;
use serde::Serialize;
use std::time::Duration;

/// Receive the bytes of `stream`, and print their count and rate
///
/// Example: rails-bench serve --listen 10.0.1.2,10.0.2.2 --secret-file secret
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of each lane to listen on: IP or host, with `:PORT` if it is not 7575; port 0 takes
    /// any
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true)]
    listen: Vec<Address>,
    /// End after one measurement
    #[arg(long)]
    once: bool,
    /// Take plain TCP flows, as `stream --plain` sends them, one on each address
    #[arg(long, conflicts_with_all = ["encrypt", "ServerTls", "window", "zerocopy", "busy_poll"])]
    plain: bool,
    /// Take connections of the kernel's MPTCP, as `stream --mptcp` makes them, on the first address
    #[arg(long, conflicts_with_all = ["plain", "window", "zerocopy", "busy_poll", "send_buffer", "receive_buffer", "mss"])]
    mptcp: bool,
    /// Send messages back, as `stream --ping` wants it; of plain flows and MPTCP on the first
    /// address only
    #[arg(long)]
    ping: bool,
    /// Take them through the interface for messages, as `stream --ping --messages` sends them
    #[arg(long, requires = "ping", conflicts_with_all = ["plain", "mptcp"])]
    messages: bool,
    /// The runtime on which the messages are received and sent back
    #[arg(long, value_name = "RUNTIME", default_value = "rail", requires = "ping")]
    application: ping::Application,
    /// Tell in the JSON how many bytes were read in each interval of this length, such as 20ms, and
    /// every longer pause
    #[arg(long, value_name = "TIME", requires = "json", conflicts_with = "ping", value_parser = interval)]
    samples: Option<Duration>,
    /// Look whether every byte is the one that `stream` sent at its place, and fail where one is
    /// not
    #[arg(long, conflicts_with = "ping")]
    check: bool,
    #[command(flatten)]
    placement: RailsArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Print each measurement as a JSON object on a line of its own
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    stream: StreamArgs<ServerTls>,
}

/// The receiver's report of a measurement.
#[derive(Serialize)]
struct Report<'a> {
    bytes: u64,
    seconds: f64,
    receiver_goodput_bits_per_second: f64,
    /// The offset of the first wrong byte, if `--check` found one.
    wrong_at: Option<u64>,
    /// The security of the stream; `None` for plain flows.
    security: Option<String>,
    receiver: &'a Side,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a Series>,
}

pub(crate) fn run(args: &Args, details: bool) -> Result<Exit> {
    block_on(async {
        let stop = Stop::on_signals()?;
        let addresses = addresses_of("--listen", &args.listen).await?;
        let options = args.application.applied(args.stream.options()?)?;
        let endpoint = Endpoint::listening(&addresses, &args.placement, options)?;
        serve(args, &endpoint, &addresses, details, stop).await
    })
}

async fn serve(
    args: &Args,
    endpoint: &Endpoint,
    addresses: &[LaneAddress],
    details: bool,
    mut stop: Stop,
) -> Result<Exit> {
    if args.ping {
        let over = ping::Over::chosen(&args.stream, args.plain, args.mptcp, args.messages)?;
        return ping::answer(endpoint, addresses, over, args.application, args.once, stop).await;
    }
    if args.plain {
        return stop.or(serve_plain(args, endpoint, addresses, details)).await;
    }
    if args.mptcp {
        return stop.or(serve_mptcp(args, endpoint, addresses, details)).await;
    }
    let mut guests = Admission::of(endpoint.listen(addresses).await?, Purpose::Serve);
    let ended = serve_streams(args, endpoint, &mut guests, details, &mut stop).await;
    guests.reset_waiting().await;
    ended
}

async fn serve_streams(
    args: &Args,
    endpoint: &Endpoint,
    guests: &mut Admission,
    details: bool,
    stop: &mut Stop,
) -> Result<Exit> {
    loop {
        let received = async {
            let stream = stop.or(guests.next()).await?;
            striped::receive(stream, &endpoint.topology, &endpoint.rails, args.watch(), stop).await
        };
        match received.await {
            Ok(received) => say(args, endpoint, &received, details)?,
            Err(error) if is_passed_over(&error, args.once) => {
                explain(&error);
                continue;
            }
            Err(error) => return Err(error),
        }
        if args.once {
            return Ok(Exit::Done);
        }
    }
}

async fn serve_plain(args: &Args, endpoint: &Endpoint, addresses: &[LaneAddress], details: bool) -> Result<Exit> {
    let (rails, tcp) = (&endpoint.rails, args.stream.tcp()?);
    let listeners = plain::Listeners::bind(rails, &sockets(addresses)?, &tcp).await;
    let mut listeners = listeners.map_err(|error| not_listening(error, addresses))?;
    say_listening(&listeners.local_addrs().into_iter().map(Into::into).collect::<Vec<_>>());
    loop {
        match listeners.receive(rails, &endpoint.topology, args.watch()).await {
            Ok(received) => say(args, endpoint, &received, details)?,
            Err(error) if is_passed_over(&error, args.once) => {
                explain(&error);
                continue;
            }
            Err(error) => return Err(error),
        }
        if args.once {
            return Ok(Exit::Done);
        }
    }
}

async fn serve_mptcp(args: &Args, endpoint: &Endpoint, addresses: &[LaneAddress], details: bool) -> Result<Exit> {
    let listener = mptcp::Listener::bind(socket(&addresses[0])?, args.stream.congestion());
    let listener = listener.map_err(|error| not_listening(error.into(), &addresses[..1]))?;
    say_listening(&[listener.local_addr()?.into()]);
    let mut sink = mptcp::Sink::of(listener, &endpoint.rails).await?;
    loop {
        match sink.receive(&endpoint.rails, &endpoint.topology, args.watch()).await {
            Ok(received) => say(args, endpoint, &received, details)?,
            Err(error) if is_passed_over(&error, args.once) => {
                explain(&error);
                continue;
            }
            Err(error) => return Err(error),
        }
        if args.once {
            return Ok(Exit::Done);
        }
    }
}

/// Tells of a measurement. One of several whose results cannot be written is no reason to refuse
/// those to come.
fn say(args: &Args, endpoint: &Endpoint, received: &Received, details: bool) -> Result<()> {
    for written in [tell(args, endpoint, received, details), args.metrics.write(received.stats.as_ref())] {
        match written {
            Err(error) if !args.once => explain_seldom(&error),
            written => written?,
        }
    }
    match received.count.wrong_at {
        Some(at) => bail!("--check: byte {at} is another than the one that was sent"),
        None => Ok(()),
    }
}

fn tell(args: &Args, endpoint: &Endpoint, received: &Received, details: bool) -> Result<()> {
    let Received { count, goodput_bits_per_second: goodput, side: receiver, series, .. } = received;
    let (bytes, seconds, wrong_at) = (count.bytes, count.seconds(), count.wrong_at);
    if args.json {
        let security = (!args.plain && !args.mptcp).then(|| endpoint.options.security().mode().to_string());
        let (receiver_goodput_bits_per_second, series) = (*goodput, series.as_ref());
        let report = Report { bytes, seconds, receiver_goodput_bits_per_second, wrong_at, security, receiver, series };
        print::result(format_args!("{}\n", serde_json::to_string(&report)?))?;
        Ok(())
    } else {
        report::counted(count, *goodput, receiver, details)
    }
}

impl Args {
    fn watch(&self) -> Watch {
        Watch { interval: self.samples, check: self.check }
    }
}

/// Reads the length of an interval.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    let fits = (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&interval);
    fits.then_some(interval).ok_or_else(|| "an interval is 1ms to 60s".to_owned())
}
