//! `probe` measures the capacity of a path, and `serve` answers it.

use crate::{
    conversation::{Call, Door, Guest, Reply, Request, Token},
    document::{Contents, Document, Schema},
    endpoint::{Address, Endpoint, Remotes, StreamArgs},
    exit::Exit,
    measure::path::{PathReport, Search, Trial},
    placement::RailsArgs,
    print, rate,
    stop::Stop,
    thread::block_on,
    tls::ClientTls,
    turn::Waits,
};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use rails_celeritas::{CeleritasListener, CeleritasOptions, Connection, ConnectionStats, ReceiveError, SharedRate};
use rails_multirail::Secret;
use rails_topo::{Bandwidth, DataSize};
use std::{net::SocketAddr, num::NonZeroU32, time::Duration};
use tokio::time::{Instant, sleep};

/// Tell a path's capacity, delay, loss and MTU
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The other end runs `rails-bench serve`, and takes the probe at a UDP port that it names. The probe fills the path for a moment: it \
doubles its rate until less arrives than it sends, up to --max-rate. Use it where that hurts nobody.

Example:
  rails-bench probe --to 10.0.1.9 --max-rate 1gbit --secret-file secret")]
pub(crate) struct Args {
    /// Measure the path to a `serve` at this address
    #[arg(long, value_name = "ADDR")]
    to: Address,
    /// Send at no higher rate, such as 1gbit
    #[arg(long, value_name = "RATE", value_parser = rate::parse)]
    max_rate: Bandwidth,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    placement: RailsArgs,
    #[command(flatten)]
    stream: StreamArgs<ClientTls>,
}

impl Contents for PathReport {
    const SCHEMA: Schema = Schema::PROBE;
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    block_on(async {
        let mut stop = Stop::on_signals()?;
        let called = std::slice::from_ref(&args.to);
        let remotes = Remotes::of("--to", called).await?;
        let endpoint = Endpoint::calling(&remotes, None, &args.placement, args.stream.options(called)?)?;
        let (call, _) = endpoint.call(&remotes, &Request::Probe, &mut stop).await?;
        let measured = stop.or(measure(&call, args.max_rate)).await;
        call.end(&measured).await;
        print_report(&measured.with_context(|| format!("--to {remotes}"))?, args.json)?;
        Ok(Exit::Done)
    })
}

async fn measure(call: &Call, max_rate: Bandwidth) -> Result<PathReport> {
    let Door { port: Some(port), token } = call.door()? else { bail!("the peer has named no port for the probe") };
    let mut search = Search::new(max_rate);
    let shared = SharedRate::new(search.next().unwrap_or(max_rate))?;
    let options = CeleritasOptions::shared(&shared, NonZeroU32::MIN).security(secret(token)?);
    // All messages share one block, so the limit on unsent bytes costs no memory.
    let options = options.max_unsent(DataSize::bytes(u64::MAX));
    let mut remote = call.session.peer_addr();
    remote.set_port(port);
    let connection = options.connect(remote).await?;
    while let Some(rate) = search.next() {
        shared.set(rate)?;
        search.take(attempt(&connection, rate).await?);
    }
    let stats = connection.stats();
    Ok(search.report(stats.min_rtt, stats.path_mtu))
}

/// Takes the guest's probe, until the guest closes its session.
pub(super) async fn answer(guest: &mut Guest) -> Result<()> {
    let token = Token::random().context("no random numbers")?;
    let listener = listen(guest.session.local_addr(), token);
    let listener = guest.unless_refused(listener).await?;
    let port = Some(listener.local_addr().port());
    guest.control.say(&Reply::Open(Door { port, token })).await?;
    let waits = guest.waits.clone();
    let probing = async {
        swallow(listener.accept().await?, &waits).await;
        Ok(())
    };
    tokio::select! {
        probed = probing => probed,
        // The peer that is done leaves.
        _ = guest.session.closed() => Ok(()),
    }
}

/// Listens at the address to which the guest has come.
fn listen(local: SocketAddr, token: Token) -> Result<CeleritasListener> {
    let options = CeleritasOptions::fixed(Bandwidth::mbps(1)).security(secret(token)?);
    Ok(options.listen(SocketAddr::new(local.ip(), 0))?)
}

/// The secret of a probe, which lets in nobody but the guest.
fn secret(token: Token) -> Result<Secret> {
    Ok(Secret::pre_shared(token.as_bytes())?)
}

/// Sends at a rate for some round trips.
async fn attempt(connection: &Connection, rate: Bandwidth) -> Result<Trial> {
    let block = Bytes::from(vec![0; BLOCK]);
    let time = (8 * connection.stats().rtt).max(MIN_TIME);
    // The bytes for the whole time and one more round trip.
    let bytes = rate.as_bits_per_second() as f64 / 8.0 * (2.0 * time.as_secs_f64());
    let count = (bytes / BLOCK as f64).ceil() as usize;
    let sending: Result<Vec<_>, _> = (0..count).map(|_| connection.try_send(vec![block.clone()])).collect();
    let sending = sending?;
    // Waits until the queue of the path has filled.
    sleep(time / 2).await;
    let (begin, before) = (Instant::now(), connection.stats());
    sleep(time).await;
    let (seconds, after) = (begin.elapsed().as_secs_f64(), connection.stats());
    for one in sending {
        one.give_up();
    }
    Ok(trial(rate, &before, &after, seconds))
}

/// The outcome of a trial from the figures at its ends.
fn trial(rate: Bandwidth, before: &ConnectionStats, after: &ConnectionStats, seconds: f64) -> Trial {
    let of = |count: fn(&ConnectionStats) -> u64| (count(after) - count(before)) as f64;
    let (bytes, segments) = (of(|stats| stats.sender.bytes), of(|stats| stats.sender.segments).max(1.0));
    // The headers of IP, UDP and Celeritas around each segment.
    let whole = f64::from(after.path_mtu) / (bytes / segments).max(1.0);
    let arrived = of(|stats| stats.sender.acknowledged_bytes) * whole * 8.0 / seconds;
    Trial {
        rate,
        arrived: Bandwidth::bits_per_second(arrived as u64),
        loss: of(|stats| stats.sender.retransmitted_segments) / segments,
        rtt: after.rtt,
    }
}

fn print_report(report: &PathReport, json: bool) -> Result<()> {
    if json {
        Document::of(report).print_line()?;
        return Ok(());
    }
    let at_least = if report.may_carry_more { "at least " } else { "" };
    print::text(format_args!(
        "capacity  {at_least}{} of IP packets\nround trip  {:.1?}, {:.1?} while it is full\nloss  {:.3} %\nMTU  {} bytes\n",
        report.capacity,
        report.min_rtt,
        report.busy_rtt,
        100.0 * report.loss,
        report.mtu_bytes
    ))?;
    Ok(())
}

/// Receives and drops messages until the peer closes.
async fn swallow(connection: Connection, waits: &Waits) {
    while matches!(connection.receive().await, Ok(Some(_)) | Err(ReceiveError::GivenUp(_))) {
        waits.tell(true);
    }
}

const BLOCK: usize = 64 << 10;
/// The minimum time of a trial.
const MIN_TIME: Duration = Duration::from_millis(200);
