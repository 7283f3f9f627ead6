//! The flags that `compare`, `latency`, `disturb`, `netvideo`, `overlap` and `ping-pong` have in
//! common.

use crate::{
    exit::{Help, Helped},
    lab::{
        compare::{Contender, ContestError, Link, Terms},
        links,
    },
    machine::this_machine,
    output_file, print,
};
use anyhow::{Context, Result, ensure};
use clap::{
    ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use rails_lab::LabError;
use rails_topo::Topology;
use serde::Serialize;
use std::{fmt::Display, path::PathBuf};

/// The rounds, their order, and the destination of the samples.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ContestArgs {
    /// Rounds of each case that count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Draw the order of those who take part from this [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Congestion control of all sockets
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
    /// Write every sample and everything that is known of it to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The links of several cases.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct CaseArgs {
    /// Links of one case: the rate of each in Mbit/s, or `unshaped`; `100x8` is eight of 100,
    /// `400/128KiB` lets 128 KiB through at once instead of 64; repeat for more cases
    #[arg(long, value_name = "RATE[,RATE...]")]
    rates: Vec<String>,
    /// Emulated links of one case, in user space with delay: the rate and the round-trip time of
    /// each, as 400@1ms,400@50ms; repeat for more
    #[arg(long, value_name = "RATE@RTT[,...]")]
    emulated: Vec<String>,
}

/// A chosen contender, or all of them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Chosen {
    All,
    One(Contender),
}

impl ContestArgs {
    /// The terms of every case.
    pub(super) fn terms(&self) -> Result<Terms> {
        Ok(Terms {
            rounds: self.rounds.into(),
            seed: self.seed.unwrap_or_else(rand::random),
            congestion: self.congestion.clone(),
            program: std::env::current_exe().context("this program's own path")?,
        })
    }

    /// Announces the next measurement; round 0 is the one that does not count.
    pub(super) fn say(&self, round: usize, who: impl Display) {
        match round {
            0 => print::note(format_args!("warm-up: {who}")),
            _ => print::note(format_args!("round {round} of {}: {who}", self.rounds)),
        }
    }

    /// Writes the results of all cases where asked for.
    pub(super) fn write(&self, outcomes: &impl Serialize) -> Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let json = serde_json::to_vec_pretty(outcomes)?;
        output_file::write(path, json).with_context(|| format!("--json {}", path.display()))
    }
}

impl CaseArgs {
    /// The links of every case; of these where there is none.
    pub(super) fn cases(&self, default: &[&str]) -> Result<Vec<Vec<Link>>> {
        if self.rates.is_empty() && self.emulated.is_empty() {
            return default.iter().map(|rates| links::veths(rates)).collect();
        }
        let emulated = self.emulated.iter().map(|emulated| links::emulated(emulated));
        self.rates.iter().map(|rates| links::veths(rates)).chain(emulated).collect()
    }
}

impl Chosen {
    /// Reads names, and `all`.
    pub(super) fn parser() -> impl TypedValueParser<Value = Self> {
        let names = Contender::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let all = PossibleValue::new(ALL).help("Everybody");
        PossibleValuesParser::new(names.chain([all])).map(|name| match name.as_str() {
            ALL => Self::All,
            name => Self::One(Contender::from_str(name, false).expect("it is one of the names")),
        })
    }

    /// The contenders that take part: the chosen ones, in their usual order, or the usual ones.
    pub(super) fn contenders(chosen: &[Self], usual: Vec<Contender>) -> Vec<Contender> {
        let is_chosen = |contender: &Contender| {
            chosen.iter().any(|one| match one {
                Self::All => true,
                Self::One(one) => one == contender,
            })
        };
        if chosen.is_empty() { usual } else { Contender::ALL.into_iter().filter(is_chosen).collect() }
    }
}

/// Fails if a flag has a value twice, which would be in the results twice.
pub(super) fn all_different<T: PartialEq + Display>(flag: &str, values: &[T]) -> Result<()> {
    let twice = values.iter().enumerate().find(|(index, value)| values[..*index].contains(value));
    match twice {
        Some((_, value)) => Err(Helped::usage(format!("{flag}: {value} is given twice"), "give each once")),
        None => Ok(()),
    }
}

/// This machine, if it has a CPU for each end.
pub(super) fn machine_of_two_cpus() -> Result<Topology> {
    let topology = this_machine()?;
    ensure!(topology.allowed_cpus().len() > 1, "there is one CPU, and each end takes one of its own");
    Ok(topology)
}

/// Adds a remedy.
pub(super) fn explained(error: ContestError) -> anyhow::Error {
    let not_root = matches!(error, ContestError::Lab(LabError::NotRoot { .. }));
    let error = anyhow::Error::from(error);
    if not_root { error.help("run it as root: it makes network namespaces, and removes them again") } else { error }
}

const ALL: &str = "all";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_contenders_and_all_by_one_word() {
        let usual = || vec![Contender::PlainFlows];
        assert_eq!(Chosen::contenders(&[], usual()), usual());
        assert_eq!(Chosen::contenders(&[Chosen::All], usual()), Contender::ALL);
        let two = [Chosen::One(Contender::RailsTls), Chosen::One(Contender::Mptcp)];
        assert_eq!(Chosen::contenders(&two, usual()), [Contender::Mptcp, Contender::RailsTls]);
    }
}
