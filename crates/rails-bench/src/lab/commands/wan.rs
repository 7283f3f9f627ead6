//! `wan`: Celeritas beside TCP, RBUDP and QUIC, over an emulated path of long distance.

use super::contest::explained;
use crate::{
    commands::seconds,
    duration,
    exit::Exit,
    lab::wan::{MESSAGE, Messages, Transport, WanContest, WanPath, draw},
    machine::this_machine,
    output_file, print, size,
};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rails_topo::Bandwidth;
use std::{path::PathBuf, time::Duration};

/// Compare Celeritas with TCP, RBUDP and QUIC over an emulated path of long distance that loses
/// packets (needs root)
///
/// Each measurement has a path of its own, in user space. Celeritas sends at a fixed rate just
/// below the path's: it does not look for the rate, and makes way for no other flow. RBUDP has the
/// same rate. QUIC takes part in builds with the feature `quic`.
///
/// Example: rails-bench wan --losses 0,0.001 --rounds 3 --json wan.json
///
/// A slow path with a deep queue: rails-bench wan --rate 2 --queue 1s --losses 0 --warm-up 10
/// --seconds 20
///
/// An application that sends little beside a TCP flow, and then much: rails-bench wan --rate 100
/// --losses 0 --transports adaptive --beside cubic --warm-up 75 --warm-up-messages 2500@20ms
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The path's rate in Mbit/s, of Ethernet frames
    #[arg(long, value_name = "MBIT", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// The path's round-trip time
    #[arg(long, value_name = "TIME", default_value = "19ms", value_parser = duration::parse)]
    rtt: Duration,
    /// The longest a frame waits in the path's queue
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = duration::parse)]
    queue: Duration,
    /// The probabilities that a frame is lost, each way; one case for each
    #[arg(long, value_name = "P", value_delimiter = ',', default_value = "0,0.0001,0.001,0.01", value_parser = super::lab::probability)]
    losses: Vec<f64>,
    /// Transports that take part [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    transports: Vec<Transport>,
    /// A rival that sends over the same path at the same time, with figures of its own
    #[arg(long, value_name = "NAME")]
    beside: Option<Transport>,
    /// The rate of Celeritas and RBUDP in Mbit/s, of IP packets [default: 99 % of the path's]
    #[arg(long, value_name = "MBIT", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    celeritas_rate: Option<u64>,
    /// The windows of QUIC in bytes [default: 8 times the bytes that the path and its queue hold]
    #[cfg(feature = "quic")]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    quic_window: Option<u32>,
    /// How long each measurement sends before it counts: by then a transport has found the path's
    /// rate
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    warm_up: Duration,
    /// Before it counts, Celeritas sends a message of that many bytes each so long, as in
    /// 2500@20ms, and not without a pause; a rival does
    #[arg(long, value_name = "BYTES@TIME", value_parser = messages)]
    warm_up_messages: Option<Messages>,
    /// How long each measurement sends
    #[arg(long, value_name = "S", default_value = "4", value_parser = seconds)]
    seconds: Duration,
    /// Rounds of each case
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Draw the order and the losses from this [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write every sample and everything that is known of it to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw goodput over loss into this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let path = WanPath { rate: Bandwidth::mbps(args.rate), rtt: args.rtt, queue: args.queue };
    // A frame of 1,514 bytes has a packet of 1,500; the rest is for the ends' own frames.
    let own = Bandwidth::bits_per_second(args.rate * 990_000);
    let celeritas = args.celeritas_rate.map_or(own, Bandwidth::mbps);
    ensure!(
        celeritas <= path.rate,
        "--celeritas-rate {}: the path carries {} Mbit/s",
        celeritas.as_bits_per_second() / 1_000_000,
        args.rate
    );
    let transports = match args.transports.is_empty() {
        true => Transport::value_variants().to_vec(),
        false => args.transports.clone(),
    };
    let streams = transports.iter().find(|transport| !transport.sends_messages());
    if let (Some(_), Some(stream)) = (args.warm_up_messages, streams) {
        bail!("--warm-up-messages: {stream} sends none; --transports celeritas,sealed,adaptive do");
    }
    let contest = WanContest {
        path,
        losses: args.losses.clone(),
        transports,
        beside: args.beside,
        celeritas,
        #[cfg(feature = "quic")]
        quic_window: args.quic_window,
        warm_up: args.warm_up,
        warm_up_messages: args.warm_up_messages,
        time: args.seconds,
        rounds: args.rounds.into(),
        seed: args.seed.unwrap_or_else(rand::random),
    };
    let progress = |round, loss, transport| {
        print::note(format_args!("loss {loss}, round {round} of {}: {transport}", args.rounds));
    };
    let comparison = contest.run(&this_machine()?, progress).map_err(explained)?;
    print::text(format_args!("{comparison}\n"))?;
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&comparison)?;
        output_file::write(path, json).with_context(|| format!("--json {}", path.display()))?;
    }
    if let Some(path) = &args.svg {
        draw(&comparison, path).context("--svg")?;
    }
    Ok(Exit::Done)
}

/// Reads `2500@20ms`: the bytes of a message, and the time from one to the next.
fn messages(text: &str) -> Result<Messages, String> {
    let (bytes, every) = text.split_once('@').ok_or(format!("`{text}` is no size and time, as 2500@20ms"))?;
    let (bytes, every) = (size::parse(bytes)?.as_bytes(), duration::parse(every)?);
    if !(1..=MESSAGE as u64).contains(&bytes) {
        return Err(format!("`{text}`: a message has 1 to {MESSAGE} bytes"));
    }
    if every < SHORTEST_PAUSE {
        return Err(format!("`{text}`: there is 1 ms at least from one message to the next"));
    }
    Ok(Messages { bytes: bytes as usize, every })
}

/// tokio's timers have ticks of this.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_a_size_and_a_time() {
        let read = |text| messages(text).map(|messages| (messages.bytes, messages.every.as_micros()));
        assert_eq!(read("2500@20ms"), Ok((2_500, 20_000)));
        assert_eq!((read("1@1ms"), read("20MB@1s")), (Ok((1, 1_000)), Ok((MESSAGE, 1_000_000))));
        for bad in ["", "2500", "@20ms", "2500@", "2500@20", "0@20ms", "20000001@1s", "1@999us", "1@0"] {
            assert!(messages(bad).is_err(), "{bad}");
        }
    }
}
