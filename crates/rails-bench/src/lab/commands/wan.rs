//! `wan`: Celeritas beside TCP, RBUDP and QUIC, over an emulated path of long distance.

use super::contest::explained;
use crate::{
    commands::seconds,
    duration,
    exit::Exit,
    lab::wan::{Transport, WanContest, WanPath, draw},
    machine::this_machine,
    print,
};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rails_topo::Bandwidth;
use std::{path::PathBuf, time::Duration};

/// Compare Celeritas with TCP, RBUDP and QUIC over an emulated path of long distance that loses packets (needs root)
///
/// Each measurement has a path of its own, in user space. Celeritas sends at a fixed rate just below the path's: it does not
/// look for the rate, and shares with nobody. RBUDP has the same rate. QUIC takes part in builds with the feature
/// `quic`.
///
/// Example: rails-bench wan --losses 0,0.001 --rounds 3 --json wan.json
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
    /// Those who take part [default: all]
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
    /// How long each measurement sends before it counts: by then a transport has found the path's rate
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    warm_up: Duration,
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
    let contest = WanContest {
        path,
        losses: args.losses.clone(),
        transports: if args.transports.is_empty() {
            Transport::value_variants().to_vec()
        } else {
            args.transports.clone()
        },
        beside: args.beside,
        celeritas,
        #[cfg(feature = "quic")]
        quic_window: args.quic_window,
        warm_up: args.warm_up,
        time: args.seconds,
        rounds: args.rounds.into(),
        seed: args.seed.unwrap_or_else(rand::random),
    };
    let progress = |round, loss, transport| {
        print::note(format_args!("loss {loss}, round {round} of {}: {transport}", args.rounds));
    };
    let comparison = contest.run(&this_machine()?, progress).map_err(explained)?;
    print::result(format_args!("{comparison}\n"))?;
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&comparison)?;
        std::fs::write(path, json).with_context(|| format!("--json {}", path.display()))?;
    }
    if let Some(path) = &args.svg {
        draw(&comparison, path).context("--svg")?;
    }
    Ok(Exit::Done)
}
