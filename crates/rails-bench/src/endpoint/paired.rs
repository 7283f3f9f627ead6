//! Which lanes were paired, and what came of them.

use super::{Endpoint, help_for, not_connected};
use crate::ending::Help;
use anyhow::{Context, Result};
use rails_multirail::{MultiRailStream, Pairing, PlanLanesError, error::FailedLane, pairing::in_order};
use serde::Serialize;
use std::{fmt, net::SocketAddr};

/// The pairing of two ends, and how its lanes fared.
#[derive(Debug, Serialize)]
pub(crate) struct Paired {
    #[serde(flatten)]
    pairing: Pairing,
    lanes_up: usize,
    /// Lanes that did not connect.
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
struct Failed {
    rail: usize,
    remote: SocketAddr,
    error: String,
}

impl Endpoint {
    /// Opens a stream, and says over which lanes: where there is one address and more than one rail, the other end is asked for its
    /// lanes and they are paired, otherwise rails and addresses are taken in order. `peer` is the command that should be listening there.
    pub(crate) async fn open_explained(&self, remotes: &[SocketAddr], peer: &str) -> Result<(MultiRailStream, Paired)> {
        let pairing = match remotes {
            [contact] if self.rails.len() > 1 => self.ask(*contact, "--to", peer).await?,
            _ => in_order(&self.rails.offers(), remotes),
        };
        if pairing.pairs.is_empty() {
            let help = "name the addresses of the other end by --to, one for each lane, to pair them by hand";
            return Err(anyhow::anyhow!(
                "--to {}: no lane can be paired\n{}",
                listed(remotes),
                pairing.to_string().trim_end()
            )
            .help(help));
        }
        let opened = MultiRailStream::connect_paired(&self.rails, &pairing, &self.options).await;
        let stream = opened.map_err(|error| not_connected(error, remotes, peer))?;
        let paired = Paired::new(pairing, stream.lanes_up(), stream.failed_lanes());
        Ok((stream, paired))
    }

    /// Pairs with whoever listens at `contact`, and tries every pair without opening a stream.
    pub(crate) async fn probe(&self, contact: SocketAddr) -> Result<Paired> {
        let pairing = self.ask(contact, "--peer", "recv").await?;
        let failed = MultiRailStream::probe(&self.rails, &pairing, &self.options).await?;
        let up = pairing.pairs.len() - failed.len();
        Ok(Paired::new(pairing, up, &failed))
    }

    async fn ask(&self, contact: SocketAddr, flag: &str, peer: &str) -> Result<Pairing> {
        let asked = MultiRailStream::plan(&self.rails, contact, &self.options).await;
        asked.map_err(|error| {
            let help = match &error {
                PlanLanesError::Ask { source, .. } => help_for(source, peer),
                _ => None,
            };
            let error = Err::<(), _>(error).with_context(|| format!("{flag} {contact}")).unwrap_err();
            match help {
                Some(help) => error.help(help),
                None => error,
            }
        })
    }
}

impl Paired {
    fn new(pairing: Pairing, lanes_up: usize, failed: &[FailedLane]) -> Self {
        let told = |lane: &FailedLane| Failed { rail: lane.rail.0, remote: lane.remote, error: lane.to_string() };
        Self { pairing, lanes_up, failed: failed.iter().map(told).collect() }
    }

    /// Whether every lane that was paired connects, and there is one.
    pub(crate) fn is_complete(&self) -> bool {
        self.lanes_up > 0 && self.lanes_up == self.pairing.pairs.len()
    }
}

impl fmt::Display for Paired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pairing)?;
        self.failed.iter().try_for_each(|lane| writeln!(f, "did not connect: {}", lane.error))?;
        let paired = self.pairing.pairs.len();
        write!(f, "{} of {paired} lanes up", self.lanes_up)?;
        match paired.saturating_sub(self.lanes_up + self.failed.len()) {
            0 => Ok(()),
            late => write!(f, ", {late} still being tried"),
        }
    }
}

fn listed(remotes: &[SocketAddr]) -> String {
    remotes.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
}
