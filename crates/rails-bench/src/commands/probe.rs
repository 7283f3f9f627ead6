//! `rails-bench probe`

use crate::{
    endpoint::{Address, Remotes, addresses_of, say_listening},
    exit::{Exit, Help, Helped, explain, help_for_connection},
    measure::path::{PathReport, Search, Trial},
    print, rate,
    secret::JoinArgs,
    stop::Stop,
    thread::block_on,
};
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use rails_celeritas::{CeleritasOptions, Connection, ConnectionStats, OpenConnectionError, ReceiveError, SharedRate};
use rails_multirail::{LaneAddress, Security, connect_first};
use rails_net::ConnectError;
use rails_topo::{Bandwidth, DataSize};
use std::{num::NonZeroU32, time::Duration};
use tokio::time::{Instant, sleep};

/// Tell a path's capacity, delay, loss and MTU
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
The other end runs `rails-bench probe --listen ADDR`. The probe fills the path for a moment: it doubles its rate until less arrives \
than it sends, up to --max-rate. Use it where that hurts nobody.

Examples:
  rails-bench probe --listen 10.0.1.9 --secret-file secret
  rails-bench probe --to 10.0.1.9 --max-rate 1gbit --secret-file secret")]
pub(crate) struct Args {
    /// Measure the path to a `probe --listen` at this address
    #[arg(long, value_name = "ADDR", required_unless_present = "listen", requires = "max_rate")]
    to: Option<Address>,
    /// Let peers measure the path to this address
    #[arg(long, value_name = "ADDR", conflicts_with = "to")]
    listen: Option<Address>,
    /// Send at no higher rate, such as 1gbit
    #[arg(long, value_name = "RATE", value_parser = rate::parse, conflicts_with = "listen")]
    max_rate: Option<Bandwidth>,
    /// Print JSON
    #[arg(long, conflicts_with = "listen")]
    json: bool,
    /// End after one peer
    #[arg(long, conflicts_with = "to")]
    once: bool,
    #[command(flatten)]
    join: JoinArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    block_on(async {
        let stop = Stop::on_signals()?;
        let security = args.join.security(None)?;
        match (&args.to, &args.listen, args.max_rate) {
            (Some(to), _, Some(max_rate)) => {
                let to = Remotes::of("--to", std::slice::from_ref(to)).await?;
                measure(to, security, max_rate, args.json, stop).await
            }
            (_, Some(listen), _) => {
                let listen = addresses_of("--listen", std::slice::from_ref(listen)).await?[0];
                answer(listen, security, args.once, stop).await
            }
            _ => Err(Helped::usage("neither --to nor --listen", "`rails-bench probe --help` has examples")),
        }
    })
}

async fn measure(to: Remotes, security: Security, max_rate: Bandwidth, json: bool, mut stop: Stop) -> Result<Exit> {
    let mut search = Search::new(max_rate);
    let shared = SharedRate::new(search.next().unwrap_or(max_rate))?;
    let options = CeleritasOptions::shared(&shared, NonZeroU32::MIN).security(security);
    // All messages share one block, so the limit on unsent bytes costs no memory.
    let options = options.max_unsent(DataSize::bytes(u64::MAX));
    let report = stop.or(async {
        let connect = async |to: LaneAddress| options.connect(to.socket).await;
        let connection = connect_first(&to.all(), connect).await;
        let (to, connection) = connection.map_err(|failed| not_connected(failed, &to))?;
        while let Some(rate) = search.next() {
            shared.set(rate)?;
            search.take(attempt(&connection, rate).await.with_context(|| format!("--to {to}"))?);
        }
        let stats = connection.stats();
        Ok(search.report(stats.min_rtt, stats.path_mtu))
    });
    print_report(&report.await?, json)?;
    Ok(Exit::Done)
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
        print::result(format_args!("{}\n", serde_json::to_string(report)?))?;
        return Ok(());
    }
    let at_least = if report.may_carry_more { "at least " } else { "" };
    print::result(format_args!(
        "capacity  {at_least}{} of IP packets\nround trip  {:.1?}, {:.1?} while it is full\nloss  {:.3} %\nMTU  {} bytes\n",
        report.capacity,
        report.min_rtt,
        report.busy_rtt,
        100.0 * report.loss,
        report.mtu_bytes
    ))?;
    Ok(())
}

async fn answer(address: LaneAddress, security: Security, once: bool, mut stop: Stop) -> Result<Exit> {
    let options = CeleritasOptions::fixed(Bandwidth::mbps(1)).security(security);
    let listener =
        options.listen(address.socket).map_err(|error| crate::endpoint::not_listening(error.into(), &[address]))?;
    say_listening(&[LaneAddress { socket: listener.local_addr(), ..address }]);
    loop {
        let accepted = stop.or(async { Ok(listener.accept().await) }).await?;
        match accepted {
            Ok(connection) => {
                let peer = connection.peer_addr();
                stop.or(swallow(connection)).await?;
                print::note(format_args!("the path from {} was measured", peer.ip()));
            }
            Err(error @ (OpenConnectionError::Accept(_) | OpenConnectionError::Ended { .. })) => {
                return Err(error.into());
            }
            Err(error) if !once => drop(explain(&error.into())),
            Err(error) => return Err(error.into()),
        }
        if once {
            return Ok(Exit::Done);
        }
    }
}

/// Receives and drops messages until the peer closes.
async fn swallow(connection: Connection) -> Result<()> {
    loop {
        match connection.receive().await {
            Ok(Some(_)) | Err(ReceiveError::GivenUp(_)) => {}
            Ok(None) | Err(_) => return Ok(()),
        }
    }
}

/// The errors of all addresses, and a remedy for the first.
fn not_connected(failed: Vec<(LaneAddress, OpenConnectionError)>, to: &Remotes) -> anyhow::Error {
    let help = failed.first().and_then(|(_, error)| match error {
        OpenConnectionError::Connect(ConnectError::Refused { .. } | ConnectError::SelfConnect { .. }) => {
            Some("start `rails-bench probe --listen` there first")
        }
        OpenConnectionError::Connect(error) => help_for_connection(error),
        OpenConnectionError::Foreign { .. } => Some("something else listens there; look at the address and the port"),
        OpenConnectionError::Secured { .. }
        | OpenConnectionError::Unsecured { .. }
        | OpenConnectionError::Handshake { .. } => Some("give both ends the same secret, or both --insecure"),
        _ => None,
    });
    // Each error names its address.
    let errors = failed.into_iter().map(|(_, error)| format!("{:#}", anyhow::Error::new(error)));
    let error = anyhow!("--to {to}: {}", errors.collect::<Vec<_>>().join("; "));
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

const BLOCK: usize = 64 << 10;
/// The minimum time of a trial.
const MIN_TIME: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_address_is_told_once_with_its_error() {
        let addresses = ["127.0.0.1:1", "127.0.0.2:1"].map(|text| text.parse::<Address>().unwrap());
        let to = Remotes::of("--to", &addresses).await.unwrap();
        let foreign = |address: LaneAddress| (address, OpenConnectionError::Foreign { remote: address.socket });
        let error = not_connected(to.all().into_iter().map(foreign).collect(), &to);
        let told = "--to 127.0.0.1:1,127.0.0.2:1: 127.0.0.1:1 does not speak this protocol; 127.0.0.2:1 does not speak \
                    this protocol";
        assert_eq!(format!("{error:#}"), told);
    }
}
