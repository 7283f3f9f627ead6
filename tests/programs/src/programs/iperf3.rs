//! iperf3: one flow of bytes from memory to memory.

use crate::{
    passage::Passage,
    program::{Ceiling, Program, Sample, Service, Size, Use},
    room::Room,
};
use anyhow::{Context, Result};
use serde::Deserialize;

pub(super) struct Iperf3;

impl Program for Iperf3 {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn executables(&self) -> &'static [&'static str] {
        &["iperf3"]
    }

    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::Stream)
    }

    fn serve(&self, room: &Room, passage: &Passage, _size: Size) -> Result<Service> {
        let address = room.service_address();
        let mut command = room.service(passage, "iperf3");
        command.args(["-s", "-p", &address.port().to_string()]);
        let mut running = room.start(command)?;
        room.wait_until_listening(&mut running, address)?;
        Ok(Service { address, folder: room.folder("iperf3")?, running: vec![running] })
    }

    fn run(&self, this: &Use<'_>) -> Result<Sample> {
        let to = this.destination();
        let mut command = this.room.client(this.passage, "iperf3");
        command.args(["-c", &to.ip().to_string(), "-p", &to.port().to_string(), "--json"]);
        command.args(["-t", &format!("{}", this.size.seconds.ceil())]);
        let printed = this.finish(command)?.output;
        let report: Report = serde_json::from_str(&printed).context("iperf3's report cannot be read")?;
        let received = report.end.sum_received;
        Ok(Sample {
            seconds: received.seconds,
            bytes: Some(received.bytes),
            goodput_bits_per_second: Some(received.bits_per_second),
            ..Sample::default()
        })
    }
}

/// The parts of the client's report that are read.
#[derive(Deserialize)]
struct Report {
    end: End,
}

#[derive(Deserialize)]
struct End {
    sum_received: Sum,
}

#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    bytes: u64,
    bits_per_second: f64,
}
