//! Running a contest: both ends as processes in their namespaces, one contender after the other.

use super::{Comparison, Contender, Sample, Setting};
use crate::measure::report::Measurement;
use rails_bind::{BindError, thread};
use rails_lab::{LabError, LinkLab, Shape, Side};
use rails_topo::{CpuSet, Topology};
use rand::{SeedableRng, seq::SliceRandom};
use std::{
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::mpsc,
    time::Duration,
};

/// A contest to be run.
#[derive(Debug, Clone)]
pub struct Contest {
    /// The links, by number.
    pub links: Vec<Shape>,
    /// How long each measurement sends.
    pub time: Duration,
    /// Rounds that count.
    pub rounds: usize,
    /// What the order is drawn from.
    pub seed: u64,
    /// Congestion control of all sockets.
    pub congestion: String,
    /// The program whose `serve` and `stream` are run: this one.
    pub program: PathBuf,
}

/// Why a contest has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContestError {
    /// The links could not be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The processes could not be given their CPUs.
    #[error("the processes could not be given their CPUs")]
    Bind(#[from] BindError),
    /// A process could not be run.
    #[error("`{command}` could not be run")]
    Run {
        /// The command.
        command: String,
        /// The cause.
        source: io::Error,
    },
    /// A process failed.
    #[error("`{command}` failed ({status}): {said}")]
    Failed {
        /// The command.
        command: String,
        /// Its exit status.
        status: String,
        /// What it said.
        said: String,
    },
    /// A process said what cannot be read as a measurement.
    #[error("the measurement cannot be read")]
    Report(#[from] serde_json::Error),
}

impl Contest {
    /// Makes the links, runs every round, and takes the links down again. `progress` is told of each measurement before it starts.
    ///
    /// # Errors
    /// [`ContestError`]; whatever was made is taken down.
    ///
    /// # Privileges
    /// Root, for the namespaces.
    pub fn run(
        &self,
        topology: &Topology,
        mut progress: impl FnMut(usize, Contender),
    ) -> Result<Comparison, ContestError> {
        let lab = LinkLab::builder().links(self.links.iter().copied()).build()?;
        let (sender_cpus, receiver_cpus) = halves(topology.allowed_cpus());
        let setting = Setting {
            cpu_model: topology.machine().cpu_model.clone(),
            kernel: topology.machine().kernel.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sender_cpus,
            receiver_cpus,
            congestion_control: self.congestion.clone(),
            seconds: self.time.as_secs_f64(),
            rounds: self.rounds,
            seed: self.seed,
        };
        let mut order = rand_chacha::ChaCha8Rng::seed_from_u64(self.seed);
        let mut samples = Vec::new();
        // Round 0 warms caches, page tables and the CPU's clock, and does not count.
        for round in 0..=self.rounds {
            let mut contenders = Contender::on(self.links.len());
            contenders.shuffle(&mut order);
            for contender in contenders {
                progress(round, contender);
                let sample = self.measure(&lab, &setting, round, contender)?;
                if round > 0 {
                    samples.push(sample);
                }
            }
        }
        Ok(Comparison::new(self.links.clone(), setting, samples))
    }

    fn measure(
        &self,
        lab: &LinkLab,
        setting: &Setting,
        round: usize,
        contender: Contender,
    ) -> Result<Sample, ContestError> {
        let links = match contender {
            Contender::PlainBestLink => vec![fastest(&self.links)],
            _ => (0..self.links.len()).collect(),
        };
        let ends = |side| -> Vec<String> { links.iter().map(|link| lab.address(side, *link).to_string()).collect() };
        let common = |command: &mut Command| {
            command.args(["--insecure", "--json", "--congestion", &self.congestion]);
            match contender {
                Contender::PlainFlows | Contender::PlainBestLink => command.arg("--plain"),
                Contender::RailsAdaptive | Contender::RailsStatic => command,
            };
        };
        let before = counters(lab)?;
        let mut serve = lab.side(Side::B).command(&self.program);
        serve.args(["serve", "--once", "--listen", &ends(Side::B).join(",")]);
        common(&mut serve);
        let mut receiver = Peer::start(serve, &setting.receiver_cpus)?;
        receiver.wait_for("listening on")?;
        let mut stream = lab.side(Side::A).command(&self.program);
        let seconds = self.time.as_secs_f64().to_string();
        stream.args(["stream", "--to", &ends(Side::B).join(","), "--from", &ends(Side::A).join(",")]);
        stream.args(["--seconds", &seconds]);
        if contender == Contender::RailsStatic {
            stream.args(["--policy", "static"]);
        }
        common(&mut stream);
        let report = Peer::start(stream, &setting.sender_cpus)?.finish()?;
        receiver.finish()?;
        let after = counters(lab)?;
        let measurement: Measurement = serde_json::from_slice(&report.stdout)?;
        let lanes = || measurement.sender.lanes();
        Ok(Sample {
            round,
            contender,
            receiver_goodput_bits_per_second: measurement.receiver_goodput_bits_per_second,
            cpu_seconds_per_gigabyte: (measurement.sender.cpu_seconds + measurement.receiver.cpu_seconds)
                / (measurement.bytes as f64 / 1e9),
            link_tx_bytes: after.iter().zip(&before).map(|(after, before)| after - before).collect(),
            retransmitted_segments: lanes().filter_map(|lane| lane.retransmitted_segments).sum(),
            congestion_control: lanes().filter_map(|lane| lane.congestion_control.clone()).collect(),
        })
    }
}

/// A process at one end; it does not outlive this.
struct Peer {
    command: String,
    child: Child,
    /// What it says on standard error, line by line.
    said: mpsc::Receiver<String>,
    heard: Vec<String>,
}

impl Peer {
    /// Starts the command on these CPUs: a child inherits those of the thread that starts it.
    fn start(mut command: Command, cpus: &CpuSet) -> Result<Self, ContestError> {
        let shown = format!("{command:?}");
        // A secret in the environment would contradict the `--insecure` that the peers are given.
        command.env_remove("RAILS_SECRET");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let bound = thread::bind_current(cpus)?;
        let child = command.spawn();
        bound.restore()?;
        let mut child = child.map_err(|source| ContestError::Run { command: shown.clone(), source })?;
        let stderr = child.stderr.take().expect("it was asked for");
        Ok(Self { command: shown, child, said: lines(stderr), heard: Vec::new() })
    }

    /// Waits until it says something that starts so.
    fn wait_for(&mut self, start: &str) -> Result<(), ContestError> {
        while let Ok(line) = self.said.recv_timeout(PATIENCE) {
            let found = line.starts_with(start);
            self.heard.push(line);
            if found {
                return Ok(());
            }
        }
        Err(self.failed("it did not get ready".to_owned()))
    }

    /// Waits for its end, and gives its output.
    fn finish(mut self) -> Result<Output, ContestError> {
        let mut stdout = Vec::new();
        let run = |source| ContestError::Run { command: self.command.clone(), source };
        let mut pipe = self.child.stdout.take().expect("it was asked for");
        pipe.read_to_end(&mut stdout).map_err(run)?;
        let status = self.child.wait().map_err(run)?;
        self.heard.extend(self.said.iter());
        if !status.success() {
            return Err(self.failed(status.to_string()));
        }
        Ok(Output { status, stdout, stderr: Vec::new() })
    }

    fn failed(&self, status: String) -> ContestError {
        ContestError::Failed { command: self.command.clone(), status, said: self.heard.join("\n") }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Where it has ended already there is nothing to end, and that is well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stderr: ChildStderr) -> mpsc::Receiver<String> {
    let (sender, said) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    said
}

fn counters(lab: &LinkLab) -> Result<Vec<u64>, LabError> {
    (0..lab.link_count()).map(|link| lab.counters(Side::A, link).map(|counters| counters.tx_bytes)).collect()
}

/// The link with the highest rate; the first of equals.
fn fastest(links: &[Shape]) -> usize {
    let rate = |link: &Shape| match link {
        Shape::Unshaped => u64::MAX,
        Shape::Rate { mbit, .. } => *mbit,
    };
    (0..links.len()).rev().max_by_key(|index| rate(&links[*index])).unwrap_or(0)
}

/// The CPUs of the sender and of the receiver: a half each, so that the two do not compete; all of them where there is one.
fn halves(allowed: &CpuSet) -> (CpuSet, CpuSet) {
    if allowed.len() < 2 {
        return (allowed.clone(), allowed.clone());
    }
    let half = allowed.len() / 2;
    (allowed.iter().take(half).collect(), allowed.iter().skip(half).collect())
}

/// How long a process may take to get ready.
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_link_is_found_and_the_cpus_are_halved() {
        assert_eq!(fastest(&[Shape::mbit(100), Shape::mbit(400), Shape::mbit(400)]), 1);
        assert_eq!(fastest(&[Shape::mbit(100), Shape::Unshaped]), 1);
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        assert_eq!(halves(&set("0-4")), (set("0-1"), set("2-4")));
        assert_eq!(halves(&set("3")), (set("3"), set("3")));
    }
}
