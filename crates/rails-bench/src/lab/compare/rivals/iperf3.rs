//! iperf3: a pair of processes for each link, all at once. Before 3.16 it had one thread at any
//! `-P`, so only processes measure every version fairly. iperf3's time is in whole seconds; the
//! testbed's is rounded up.

use super::{ContestError, Figures, MeasuredAt, Rival, Testbed, program};
use crate::lab::compare::peer::Peer;
use rails_lab::Side;
use serde::Deserialize;
use std::{path::PathBuf, process::Command};

/// An installed iperf3.
pub(super) struct Iperf3 {
    program: PathBuf,
    version: String,
}

/// The parts of the client's `--json` that are read.
#[derive(Deserialize)]
struct Report {
    end: End,
}

#[derive(Deserialize)]
struct End {
    sum_received: Sum,
    sender_tcp_congestion: Option<String>,
}

#[derive(Deserialize)]
struct Sum {
    bytes: u64,
    bits_per_second: f64,
}

impl Iperf3 {
    /// Looks for iperf3 along `PATH`.
    pub(super) fn find() -> Result<Self, String> {
        let program = program::find("iperf3").ok_or("iperf3 is not in PATH (package iperf3)")?;
        let version = program::first_line(Command::new(&program).arg("--version"))?;
        Ok(Self { program, version })
    }
}

impl Rival for Iperf3 {
    fn version(&self) -> Option<String> {
        Some(self.version.clone())
    }

    fn measure(&mut self, testbed: &Testbed) -> Result<Figures, ContestError> {
        let (mut servers, mut clients) = (Vec::new(), Vec::new());
        for link in 0..testbed.links.len() {
            let (port, address) = (FIRST_PORT + link as u16, testbed.lab.address(Side::B, link).to_string());
            let mut command = testbed.command(Side::B, &self.program);
            command.args(["-s", "-1", "-B", &address, "-p", &port.to_string()]);
            let mut server = Peer::start(command, testbed.cpus(Side::B))?;
            server.wait_until(|| Ok(testbed.lab.is_listening(Side::B, port)?))?;
            servers.push(server);
        }
        let seconds = testbed.time.as_secs_f64().ceil().to_string();
        for link in 0..testbed.links.len() {
            let [from, to] = [Side::A, Side::B].map(|side| testbed.lab.address(side, link).to_string());
            let mut command = testbed.command(Side::A, &self.program);
            command.args(["-c", &to, "-B", &from, "-p", &(FIRST_PORT + link as u16).to_string()]);
            command.args(["-t", &seconds, "-C", &testbed.congestion, "-J"]);
            clients.push(Peer::start(command, testbed.cpus(Side::A))?);
        }
        let outputs: Vec<Vec<u8>> = clients.into_iter().map(Peer::finish).collect::<Result<_, _>>()?;
        servers.into_iter().try_for_each(|server| server.finish().map(drop))?;
        let ends = outputs.iter().map(|output| serde_json::from_slice(output).map(|report: Report| report.end));
        let ends: Vec<End> = ends.collect::<Result<_, _>>()?;
        Ok(Figures {
            // The flows run at the same time, equally long.
            goodput_bits_per_second: ends.iter().map(|end| end.sum_received.bits_per_second).sum(),
            bytes: ends.iter().map(|end| end.sum_received.bytes).sum(),
            measured_at: MeasuredAt::Receiver,
            cpu_seconds: None,
            congestion_control: ends.into_iter().filter_map(|end| end.sender_tcp_congestion).collect(),
            warnings: Vec::new(),
        })
    }
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(output: &[u8]) {
    if let Ok(Report { end }) = serde_json::from_slice(output) {
        assert!(end.sum_received.bits_per_second.is_finite(), "JSON has no other numbers");
    }
}

const FIRST_PORT: u16 = 5701;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_rate_is_read_and_not_the_senders() {
        let json = r#"{"start":{},"end":{"sum_sent":{"bytes":9,"bits_per_second":9.0},
            "sum_received":{"start":0,"bytes":7,"bits_per_second":56.5,"sender":true},
            "sender_tcp_congestion":"cubic"}}"#;
        let end = serde_json::from_str::<Report>(json).unwrap().end;
        assert_eq!((end.sum_received.bytes, end.sum_received.bits_per_second), (7, 56.5));
        assert_eq!(end.sender_tcp_congestion.as_deref(), Some("cubic"));
    }
}
