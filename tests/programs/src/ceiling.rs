//! Rails' own transfers over the same links, which no program through a door can exceed.

use crate::{
    file,
    passage::Passage,
    process::sibling,
    program::{Ceiling, FILE, Program, Sample, Service, Size, Use},
    room::Room,
};
use anyhow::{Context, Result, ensure};
use rails_lab::Side;
use serde::Deserialize;

impl Program for Ceiling {
    fn name(&self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Send => "send",
        }
    }

    fn executables(&self) -> &'static [&'static str] {
        &[]
    }

    fn lacks(&self) -> Option<String> {
        sibling(RAILS_BENCH).err().map(|error| error.to_string())
    }

    fn writes_files(&self) -> bool {
        *self == Self::Send
    }

    fn serve(&self, room: &Room, passage: &Passage, size: Size) -> Result<Service> {
        let address = room.service_address();
        let folder = room.folder(&format!("{}-{}", self.name(), address.port()))?;
        let mut command = room.service(passage, sibling(RAILS_BENCH)?);
        command.arg(if *self == Self::Stream { "serve" } else { "recv" }).args(common(room));
        command.args(["--listen", &lanes(room, address.port())]);
        if *self == Self::Send {
            file::make(&folder.join(FILE), size.bytes, "send")?;
            command.arg("--into").arg(room.folder(&format!("send-{}-arrived", address.port()))?);
        }
        let mut running = room.start(command)?;
        running.wait_for("listening on")?;
        Ok(Service { address, folder, running: vec![running] })
    }

    fn run(&self, this: &Use<'_>) -> Result<Sample> {
        let (room, port) = (this.room, this.service.address.port());
        let mut command = room.client(this.passage, sibling(RAILS_BENCH)?);
        command.arg(self.name()).args(common(room));
        command.args(["--to", &lanes(room, port), "--from", &room.addresses(Side::A)]);
        match self {
            Self::Stream => {
                command.args(["--json", "--seconds", &this.size.seconds.to_string()]);
                let finished = room.start(command)?.finish(this.patience)?;
                let report: Report = serde_json::from_str(&finished.output).context("the report cannot be read")?;
                Ok(Sample {
                    seconds: this.size.seconds,
                    bytes: Some(report.bytes),
                    goodput_bits_per_second: Some(report.receiver_goodput_bits_per_second),
                    ..Sample::default()
                })
            }
            Self::Send => {
                let sent = this.service.folder.join(FILE);
                command.arg("--quiet").arg(&sent);
                let elapsed = room.start(command)?.finish(this.patience)?.elapsed;
                let arrived = room.folder(&format!("send-{port}-arrived"))?.join(FILE);
                ensure!(file::are_equal(&sent, &arrived)?, "other bytes arrived than were sent");
                // A file that is there would not be sent again.
                std::fs::remove_file(arrived)?;
                Ok(Sample::of(this.size.bytes, elapsed))
            }
        }
    }
}

/// The parts of a measurement that are read.
#[derive(Deserialize)]
struct Report {
    bytes: u64,
    receiver_goodput_bits_per_second: f64,
}

/// The addresses of the receiver's lanes.
fn lanes(room: &Room, port: u16) -> String {
    let address = |link| format!("{}:{port}", room.lab.address(Side::B, link));
    (0..room.lab.link_count()).map(address).collect::<Vec<_>>().join(",")
}

/// No secret: the programs beside it have none either.
fn common(room: &Room) -> [String; 4] {
    ["--insecure", "--no-config", "--congestion", &room.congestion].map(str::to_owned)
}

const RAILS_BENCH: &str = "rails-bench";
