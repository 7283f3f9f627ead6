//! The flags of striping, for the end that opens a stream.

use crate::exit::Helped;
use anyhow::Result;
use clap::ValueEnum;
use rails_multirail::{MAX_LANES, Policy, Rails, StreamOptions};

/// The sharing of bytes among the lanes, which only the end that opens the stream decides.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StripingArgs {
    /// How the bytes are shared out among the lanes
    #[arg(long, value_enum, default_value_t = PolicyArg::Adaptive)]
    policy: PolicyArg,
    /// Each rail's share under `--policy weighted`, in the order of the rails [default: the speeds
    /// of their links]
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    weights: Vec<u32>,
    /// TCP connections of each lane, 1 to 64: several help where one does not fill its link
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
}

/// [`Policy`], as clap sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyArg {
    /// A lane with room takes the next chunk
    Adaptive,
    /// Equal shares, even where the lanes' rates differ
    Static,
    /// Shares by weight, even where the lanes' rates differ
    Weighted,
}

impl StripingArgs {
    /// The policy.
    pub(crate) fn policy(&self) -> Policy {
        match self.policy {
            PolicyArg::Adaptive => Policy::Adaptive,
            PolicyArg::Static => Policy::Static,
            PolicyArg::Weighted => Policy::Weighted,
        }
    }

    /// The number of addresses to which a stream can have lanes.
    pub(crate) fn max_addresses(&self) -> usize {
        MAX_LANES / usize::from(self.parallel)
    }

    /// The options of streams over these rails.
    pub(super) fn applied(&self, options: StreamOptions, rails: &Rails) -> Result<StreamOptions> {
        let options = options.policy(self.policy()).parallel(self.parallel.into());
        Ok(match self.policy {
            PolicyArg::Weighted => options.weights(self.weights_of(rails)?),
            _ if !self.weights.is_empty() => {
                let help = "add `--policy weighted`, or leave the weights out";
                return Err(Helped::usage("--weights: only the weighted policy has them", help));
            }
            _ => options,
        })
    }

    fn weights_of(&self, rails: &Rails) -> Result<Vec<u32>> {
        if self.weights.is_empty() {
            return rails.iter().map(speed).collect();
        }
        if self.weights.len() != rails.len() {
            let (given, rails) = (self.weights.len(), rails.len());
            let error = format!("--weights: {given} given, and there are {rails} rails");
            return Err(Helped::usage(error, "give one for each rail, in order"));
        }
        Ok(self.weights.clone())
    }
}

/// The speed of the rail's link in Mbit/s. An unknown speed is an error: for equal shares there is
/// a policy.
fn speed(rail: &rails_multirail::Rail) -> Result<u32> {
    let speed = rail.planned().speed.map(|speed| speed.as_bits_per_second() / 1_000_000).filter(|mbit| *mbit > 0);
    speed.map(|mbit| u32::try_from(mbit).unwrap_or(u32::MAX)).ok_or_else(|| {
        let error = format!("--policy weighted: the speed of rail {}'s link is not known", rail.id());
        Helped::usage(error, "say each rail's share by --weights, such as --weights 4,1")
    })
}
