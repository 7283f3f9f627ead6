//! The paired lanes, and those of them that connected.

use super::{Endpoint, Remotes, help_for, not_connected};
use crate::{
    exit::Help,
    purpose::{self, Purpose},
    stop::Stop,
};
use anyhow::{Context, Result};
use rails_multirail::{LaneAddress, MultiRailStream, Pairing, PlanLanesError, error::FailedLane, in_order_by_name};
use serde::Serialize;
use std::fmt;

/// The pairing of two ends, with the results of its lanes.
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
    remote: LaneAddress,
    error: String,
}

impl Endpoint {
    /// Opens a stream for this purpose, greets the peer, and waits for the stream's turn. Prints
    /// the lanes.
    pub(crate) async fn open(
        &self,
        remotes: &Remotes,
        purpose: Purpose,
        stop: &mut Stop,
    ) -> Result<(MultiRailStream, Paired)> {
        let (stream, paired) = self.connect(remotes, purpose, stop).await?;
        let begin = async |stream: &mut MultiRailStream| {
            purpose::greet(stream, purpose).await.map_err(|misfit| misfit.helped(purpose))?;
            purpose::await_turn(stream).await.context("the peer did not come to this stream")
        };
        let ((), stream) = stop.unless(stream, begin).await.with_context(|| format!("--to {remotes}"))?;
        Ok((stream, paired))
    }

    /// Opens a stream without a greeting. With one name or address and several rails, asks the peer
    /// for its lanes and pairs them; otherwise takes rails and addresses in order.
    pub(crate) async fn connect(
        &self,
        remotes: &Remotes,
        purpose: Purpose,
        stop: &mut Stop,
    ) -> Result<(MultiRailStream, Paired)> {
        stop.unless_opened(self.connect_explained(remotes, &purpose.counterpart().to_string())).await
    }

    /// `peer` is the command that should be listening there.
    async fn connect_explained(&self, remotes: &Remotes, peer: &str) -> Result<(MultiRailStream, Paired)> {
        let names = remotes.names();
        let offers = || self.rails.offers(names[0][0].scheme);
        let pairing = match &self.routes {
            Some(routes) => routes.pairing(&offers(), names),
            None if names.len() == 1 && self.rails.len() > 1 => self.ask(remotes, "--to", peer).await?,
            None => in_order_by_name(&offers(), names),
        };
        if pairing.pairs.is_empty() {
            let help = "name the addresses of the peer by --to, one for each lane, to pair them by hand";
            let pairing = pairing.to_string();
            return Err(anyhow::anyhow!("--to {remotes}: no lane can be paired\n{}", pairing.trim_end()).help(help));
        }
        let opened = MultiRailStream::connect_paired(&self.rails, &pairing, &self.options).await;
        let stream = opened.map_err(|error| not_connected(error, remotes, peer))?;
        let paired = Paired::new(pairing, stream.lanes_up(), stream.failed_lanes().iter().map(AsRef::as_ref));
        Ok((stream, paired))
    }

    /// Pairs with the peer that listens at `contacts`, and tries every pair without opening a
    /// stream.
    pub(crate) async fn probe(&self, contacts: &Remotes) -> Result<Paired> {
        let pairing = self.ask(contacts, "--peer", "recv").await?;
        let failed = MultiRailStream::probe(&self.rails, &pairing, &self.options).await?;
        let up = pairing.pairs.len() - failed.len();
        Ok(Paired::new(pairing, up, failed.iter()))
    }

    async fn ask(&self, contacts: &Remotes, flag: &str, peer: &str) -> Result<Pairing> {
        let asked = MultiRailStream::plan_lanes(&self.rails, contacts.all(), &self.options).await;
        asked.map_err(|error| {
            let help = match &error {
                PlanLanesError::Discover { contacts } => contacts.iter().find_map(|(_, error)| help_for(error, peer)),
                _ => None,
            };
            let error = Err::<(), _>(error).with_context(|| format!("{flag} {contacts}")).unwrap_err();
            match help {
                Some(help) => error.help(help),
                None => error,
            }
        })
    }
}

impl Paired {
    fn new<'a>(pairing: Pairing, lanes_up: usize, failed: impl Iterator<Item = &'a FailedLane>) -> Self {
        let told = |lane: &FailedLane| Failed { rail: lane.rail.0, remote: lane.remote, error: lane.to_string() };
        Self { pairing, lanes_up, failed: failed.map(told).collect() }
    }

    /// Whether there are paired lanes, and all of them connected.
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
