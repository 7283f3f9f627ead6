//! The paired lanes, and those of them that connected.

use super::{Endpoint, Remotes, help_for, not_connected};
use crate::{
    conversation::{Call, Request, Token},
    exit::Help,
    parting::{Parting, part},
    stop::{Stop, Stopped},
    thread::MAX_WAIT,
};
use anyhow::{Context, Result};
use bytes::Bytes;
use rails_multirail::{
    LaneAddress, MultiRailMessages, MultiRailSession, MultiRailStream, Pairing, PlanLanesError, Priority, RailId,
    error::FailedLane, in_order_by_name,
};
use serde::Serialize;
use std::{fmt, pin::pin};
use tokio::time::timeout;

/// The pairing of two ends, with the results of its lanes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Paired {
    #[serde(flatten)]
    pairing: Pairing,
    /// The number of lanes that connected.
    lanes_up: usize,
    /// Lanes that did not connect.
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Failed {
    /// The rail's number.
    rail: usize,
    /// The peer's address.
    remote: LaneAddress,
    /// The error, in words.
    error: String,
}

impl Endpoint {
    /// Opens a session, says what this end wants, and waits until the peer does it. With one name
    /// or address and several rails, asks the peer for its lanes and pairs them; otherwise takes
    /// rails and addresses in order.
    pub(crate) async fn call(&self, remotes: &Remotes, request: &Request, stop: &mut Stop) -> Result<(Call, Paired)> {
        let peer = request.role().to_string();
        let mut open = pin!(self.connect(remotes, &peer));
        let (session, paired) = match stop.or(&mut open).await {
            Err(stopped) if stopped.is::<Stopped>() => {
                // A session that is still opened a moment later is closed in order.
                if let Ok(Ok((session, _))) = timeout(MAX_WAIT, open).await {
                    part(session, Parting::Interrupted).await;
                }
                return Err(stopped);
            }
            opened => opened?,
        };
        match stop.or(Call::over(&session, request)).await {
            Ok(call) => Ok((call, paired)),
            Err(error) => {
                part(session, Parting::of(&error)).await;
                Err(error).with_context(|| format!("--to {remotes}"))
            }
        }
    }

    /// Opens a stream of messages beside a session, over the same lanes.
    pub(crate) async fn open_messages(&self, paired: &Paired, token: Token) -> Result<MultiRailMessages> {
        let stream = MultiRailStream::connect_paired(&self.rails, &paired.pairing, &self.options).await?;
        let mut messages = stream.into_messages()?;
        messages.send(Bytes::copy_from_slice(token.as_bytes()), Priority::NORMAL).await?;
        Ok(messages)
    }

    /// `peer` is the command that should be listening there.
    async fn connect(&self, remotes: &Remotes, peer: &str) -> Result<(MultiRailSession, Paired)> {
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
        let opened = MultiRailSession::connect_paired(&self.rails, &pairing, &self.options).await;
        let session = opened.map_err(|error| not_connected(error, remotes, peer))?;
        let paired = Paired::new(pairing, session.lanes_up(), session.failed_lanes().iter().map(AsRef::as_ref));
        Ok((session, paired))
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

    /// Why a rail has had no lane, as far as it is known.
    pub(crate) fn why_unused(&self, rail: RailId) -> Option<String> {
        let unpaired = self.pairing.unpaired_ours.iter().filter(|unpaired| unpaired.offer.rail == rail);
        let error = |remote: LaneAddress| {
            let failed = self.failed.iter().find(|lane| lane.rail == rail.0 && lane.remote == remote);
            failed.map_or_else(|| format!("{remote} had not answered by the end"), |lane| lane.error.clone())
        };
        let called = self.pairing.lanes().filter(|(caller, _)| *caller == rail).map(|(_, remote)| error(remote));
        let mut reasons: Vec<String> = unpaired.map(|unpaired| unpaired.why.clone()).chain(called).collect();
        reasons.dedup();
        (!reasons.is_empty()).then(|| reasons.join("; "))
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
