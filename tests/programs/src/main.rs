//! `rails-programs measure`, `matrix`, `idle` and `list`: other people's programs through doors,
//! side by side with plain TCP.

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use rails_lab::Shape;
use rails_programs::{Door, Program, Pull, Room, Size, Terms, all, find_program, idle, matrix, measure};
use rails_topo::DataSize;
use std::{env, fs, path::PathBuf, time::Duration};

/// Other people's programs between two hosts of the laboratory; needs root.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure programs through doors, with rails' own transfers as the ceiling.
    Measure(Measure),
    /// Use a socket in every way through each door, and print where that differs from plain TCP.
    Matrix(Common),
    /// Open connections on which nothing happens, and print what they cost each door's programs.
    Idle(Idle),
    /// Print the programs, and those that are missing here.
    List,
}

#[derive(Args)]
struct Common {
    /// The links: rates in Mbit/s, or `unshaped`.
    #[arg(long, default_value = "400,400", value_delimiter = ',', value_parser = link)]
    links: Vec<Shape>,
    /// The doors.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "plain,mptcpize")]
    doors: Vec<Door>,
    /// The congestion control of every connection.
    #[arg(long, default_value = "bbr")]
    congestion: String,
    /// Where the room's folder lies; the system's temporary folder by default.
    #[arg(long)]
    folder: Option<PathBuf>,
}

#[derive(Args)]
struct Idle {
    #[command(flatten)]
    common: Common,
    /// The number of connections.
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// For how many seconds nothing happens.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

#[derive(Args)]
struct Measure {
    #[command(flatten)]
    common: Common,
    /// The programs; all by default.
    #[arg(long = "program", value_delimiter = ',')]
    programs: Vec<String>,
    /// How often everything is done; the first time warms up.
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// The size of a file.
    #[arg(long, default_value = "64MiB")]
    bytes: DataSize,
    /// The time of a flow, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The number of requests.
    #[arg(long, default_value_t = 20_000)]
    requests: u64,
    /// Pull this link when a quarter of a file has arrived.
    #[arg(long, value_name = "LINK")]
    pull: Option<usize>,
    /// For how many seconds it is out.
    #[arg(long, default_value_t = 2.0, requires = "pull")]
    pull_seconds: f64,
    /// Write every sample to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Measure(flags) => flags.run(),
        Command::Matrix(flags) => flags.matrix(),
        Command::Idle(flags) => flags.run(),
        Command::List => {
            for program in all() {
                println!("{}: {}", program.name(), program.missing().unwrap_or_else(|| "here".to_owned()));
            }
            Ok(())
        }
    }
}

impl Measure {
    fn run(self) -> Result<()> {
        let named = |name: &String| find_program(name).with_context(|| format!("no program is called `{name}`"));
        let programs: Vec<Box<dyn Program>> = match self.programs.is_empty() {
            true => all(),
            false => self.programs.iter().map(named).collect::<Result<_>>()?,
        };
        ensure!(self.rounds > 0, "--rounds 0 measures nothing");
        ensure!(self.pull.is_none_or(|link| link < self.common.links.len()), "--pull names a link that is not there");
        let terms = Terms {
            folder: self.common.folder(),
            links: self.common.links,
            congestion: self.common.congestion,
            doors: self.common.doors,
            rounds: self.rounds,
            size: Size { bytes: self.bytes.as_bytes(), seconds: self.seconds, requests: self.requests },
            pull: self.pull.map(|link| Pull { link, duration: Duration::from_secs_f64(self.pull_seconds) }),
        };
        let report = measure(&programs, &terms)?;
        if let Some(path) = self.json {
            fs::write(&path, serde_json::to_vec_pretty(&report)?)
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        print!("{}", report.table());
        let failed = report.taken.iter().filter(|one| one.failure.is_some()).count();
        ensure!(failed == 0, "{failed} of {} uses failed; their reasons are above", report.taken.len());
        Ok(())
    }
}

impl Idle {
    fn run(self) -> Result<()> {
        let room = Room::build(&self.common.links, &self.common.congestion, &self.common.folder())?;
        for door in &self.common.doors {
            let passage = door.open(&room)?;
            let costs = idle(&room, &passage, self.connections, Duration::from_secs_f64(self.seconds))?;
            println!("{}: {} idle connections, {} programs of its own", door.name(), self.connections, costs.len());
            for cost in costs {
                println!(
                    "  process {}: {:.0} bytes for each connection, {} wake-ups in {} s",
                    cost.process, cost.bytes_per_connection, cost.wake_ups, self.seconds
                );
            }
        }
        Ok(())
    }
}

impl Common {
    fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(env::temp_dir)
    }

    fn matrix(self) -> Result<()> {
        let room = Room::build(&self.links, &self.congestion, &self.folder())?;
        let plain = matrix(&room, &Door::Plain.open(&room)?)?;
        println!("plain: {} rows", plain.len());
        for door in self.doors.iter().filter(|door| **door != Door::Plain) {
            let rows = matrix(&room, &door.open(&room)?)?;
            let differences = rails_sockets::compare(&plain, &rows);
            println!("{}: {} rows, {} differences", door.name(), rows.len(), differences.len());
            differences.iter().for_each(|difference| println!("  {difference}"));
        }
        Ok(())
    }
}

fn link(text: &str) -> Result<Shape, String> {
    match text {
        "unshaped" => Ok(Shape::Unshaped),
        _ => text.parse().map(Shape::mbit).map_err(|_| format!("`{text}` is neither a rate in Mbit/s nor `unshaped`")),
    }
}
