//! This program's own `serve` and `stream`.

use super::{ContestError, Figures, MeasuredAt, Rival, Testbed};
use crate::{
    lab::compare::{keys::Keys, peer::Peer},
    measure::report::Measurement,
};
use rails_lab::Side;
use std::{process::Command, time::Duration};

/// A transport of this program, on some of the links.
pub(crate) struct Own {
    links: Vec<usize>,
    /// The address to listen on, if not the links' addresses.
    listen: Option<&'static str>,
    /// The scheme of the lanes' addresses.
    scheme: &'static str,
    keep: Keep,
    both: Vec<String>,
    sender: Vec<String>,
}

/// The security of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Insecure,
    /// Encrypted with a secret.
    Psk,
    /// By TLS, with a certificate that the sender trusts.
    Tls,
}

impl Own {
    /// An adaptive stream on these links.
    pub(super) fn on(links: Vec<usize>) -> Self {
        Self { links, listen: None, scheme: "", keep: Keep::Insecure, both: Vec::new(), sender: Vec::new() }
    }

    /// Makes the receiver listen on this address instead of the links' addresses.
    pub(super) fn listening(self, listen: &'static str) -> Self {
        Self { listen: Some(listen), ..self }
    }

    /// Uses lanes of another transport than TCP: `scheme://`.
    pub(super) fn over(self, scheme: &'static str) -> Self {
        Self { scheme, ..self }
    }

    /// With this security.
    pub(super) fn kept(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }

    /// Adds arguments for both ends.
    pub(super) fn both(self, both: &[&str]) -> Self {
        Self { both: owned(both), ..self }
    }

    /// Adds arguments for the sender.
    pub(super) fn sender(self, sender: &[&str]) -> Self {
        Self { sender: owned(sender), ..self }
    }
}

impl Keep {
    /// Adds the arguments of one end to its command.
    fn tell(self, side: Side, keys: &Keys, command: &mut Command) {
        match (self, side) {
            (Self::Insecure, _) => command.arg("--insecure"),
            (Self::Psk, _) => command.arg("--secret-file").arg(keys.secret()),
            (Self::Tls, Side::A) => command.arg("--tls-ca").arg(keys.certificate()).arg("--tls-name").arg(Keys::NAME),
            (Self::Tls, Side::B) => command.arg("--tls-cert").arg(keys.certificate()).arg("--tls-key").arg(keys.key()),
        };
    }
}

/// Both ends at work.
pub(crate) struct Running {
    pub(crate) receiver: Peer,
    pub(crate) sender: Peer,
}

impl Own {
    /// Starts both ends, with more arguments for the sender.
    pub(crate) fn start(&self, testbed: &Testbed, time: Duration, sender: &[&str]) -> Result<Running, ContestError> {
        let ends = |side| {
            let addresses = self.links.iter().map(|link| testbed.lab.address(side, *link).to_string());
            addresses.collect::<Vec<_>>().join(",")
        };
        let common = ["--json", "--congestion", &testbed.congestion];
        let called: Vec<String> = ends(Side::B).split(',').map(|address| format!("{}{address}", self.scheme)).collect();
        let called = called.join(",");
        let listen = self.listen.unwrap_or(&called);
        let mut serve = testbed.command(Side::B, &testbed.program);
        serve.args(["serve", "--once", "--listen", listen]).args(common).args(&self.both);
        self.keep.tell(Side::B, &testbed.keys, &mut serve);
        let mut receiver = Peer::start(serve, testbed.cpus(Side::B))?;
        receiver.wait_for("listening on")?;
        let mut stream = testbed.command(Side::A, &testbed.program);
        stream.args(["stream", "--to", &called, "--from", &ends(Side::A)]);
        stream
            .args(["--seconds", &time.as_secs_f64().to_string()])
            .args(common)
            .args(&self.both)
            .args(&self.sender)
            .args(sender);
        self.keep.tell(Side::A, &testbed.keys, &mut stream);
        let sender = Peer::start(stream, testbed.cpus(Side::A))?;
        Ok(Running { receiver, sender })
    }
}

impl Rival for Own {
    fn measure(&mut self, testbed: &Testbed) -> Result<Figures, ContestError> {
        let Running { receiver, sender } = self.start(testbed, testbed.time, &[])?;
        let report = sender.finish()?;
        receiver.finish()?;
        let measurement: Measurement = serde_json::from_slice(&report)?;
        let lanes = || measurement.sender.lanes();
        let lost = lanes().chain(measurement.receiver.lanes()).filter_map(|lane| lane.lost.clone());
        Ok(Figures {
            goodput_bits_per_second: measurement.receiver_goodput_bits_per_second,
            bytes: measurement.bytes,
            measured_at: MeasuredAt::Receiver,
            cpu_seconds: Some((measurement.sender.cpu_seconds, measurement.receiver.cpu_seconds)),
            congestion_control: lanes().filter_map(|lane| lane.congestion_control.clone()).collect(),
            warnings: lost.map(|lost| format!("lost: {lost}")).collect(),
        })
    }
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|argument| (*argument).to_owned()).collect()
}
