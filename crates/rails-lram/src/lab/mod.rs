//! The laboratory: LambdaRAM beside other readers of far arrays, over the same emulated line, with
//! the same data, in the same run.

mod case;
mod contest;
mod data;
mod goal;
mod outcome;
mod plan;
mod process;
mod reader;
mod report;
mod rivals;
mod shared;
mod weather;
mod zarr;

use anyhow::{Context, Result, ensure};
use case::Case;
use clap::ValueEnum;
use contest::Contest;
use data::Data;
use rails_cli::{duration, exit::Exit, print};
use rails_lab::LinkLab;
use rails_topo::Bandwidth;
pub(crate) use reader::{ReaderArgs, read};
use report::{CaseReport, Report};
use rivals::{Rivals, Venv};
use std::{fs, path::PathBuf, time::Duration};

/// Compare with other readers of far arrays, over an emulated line (needs root)
///
/// Each run has a line of its own in user space, with new processes at both ends, and the files in
/// no cache. Every reader proves by a digest that it read what was written.
///
/// Rivals come from PyPI into a virtual environment below `--folder`.
///
/// On a machine that others use, a session whose group the scheduler prefers is nearly alone:
/// setsid --wait sh -c 'echo -20 > /proc/self/autogroup; exec lram lab'
///
/// Example: lram lab globe basin --rounds 3 --rivals fast --json lab.json
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The cases [default: all]
    #[arg(value_name = "CASE")]
    cases: Vec<Case>,
    /// Rounds of each case
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// The readers beside LambdaRAM
    #[arg(long, value_name = "SET", default_value = "all")]
    rivals: Rivals,
    /// The line's rate, of Ethernet frames
    #[arg(long, value_name = "RATE", default_value = "500mbit")]
    rate: Bandwidth,
    /// The line's round-trip time
    #[arg(long, value_name = "TIME", default_value = "19ms", value_parser = duration::parse)]
    rtt: Duration,
    /// The probability that a frame is lost, each way
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    loss: f64,
    /// Data, losses and order come from this
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// The TCP connections of LambdaRAM over each line
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    lanes: u16,
    /// LambdaRAM's package for Python, for the case `xarray`: built by `maturin build --release`,
    /// for that of `cargo xtask python` is not optimized
    #[arg(long, value_name = "FILE")]
    wheel: Option<PathBuf>,
    /// The congestion control of TCP, at both ends
    #[arg(long, value_name = "NAME", default_value = "bbr")]
    congestion: String,
    /// The folder of the data and of the rivals' environment
    #[arg(long, value_name = "DIR", default_value = "target/lram-lab")]
    folder: PathBuf,
    /// Keep the data, which the next run with this seed takes
    #[arg(long)]
    keep: bool,
    /// Write every run and all that is known of it to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the cases and prints the report. The exit code says whether every goal is met.
pub(crate) fn run(args: &Args) -> Result<Exit> {
    ensure!((0.0..1.0).contains(&args.loss), "--loss {}: a probability is from 0 to 1", args.loss);
    LinkLab::check()?;
    fs::create_dir_all(&args.folder).with_context(|| format!("make {}", args.folder.display()))?;
    let folder = args.folder.canonicalize().with_context(|| format!("find {}", args.folder.display()))?;
    let venv = (args.rivals > Rivals::None || args.wheel.is_some()).then(|| Venv::ready(&folder)).transpose()?;
    if let (Some(venv), Some(wheel)) = (&venv, &args.wheel) {
        venv.install(wheel)?;
    }
    let contest = Contest {
        rate: args.rate,
        rtt: args.rtt,
        loss: args.loss,
        seed: args.seed,
        rounds: args.rounds.into(),
        rivals: args.rivals,
        congestion: args.congestion.clone(),
        program: std::env::current_exe().context("find this program")?,
        lanes: args.lanes,
        has_wheel: args.wheel.is_some(),
        venv,
        data: Data::ready(&folder, args.seed)?,
    };
    let cases = if args.cases.is_empty() { Case::value_variants() } else { &args.cases };
    let mut report = Report::new(&contest);
    for case in cases.iter().copied() {
        let mut samples = Vec::new();
        let outcomes = contest.run(case, &mut samples)?;
        let goals = case.goals(args.rtt).into_iter();
        let verdicts = goals.map(|goal| (goal.who(), goal.judge(&outcomes))).collect();
        report.cases.push(CaseReport { case, outcomes, verdicts, samples });
        if let Some(path) = &args.json {
            let json = serde_json::to_string_pretty(&report)?;
            fs::write(path, json).with_context(|| format!("write {}", path.display()))?;
        }
    }
    print::result(&report)?;
    if !args.keep {
        contest.data.remove()?;
    }
    Ok(if report.is_met() { Exit::Done } else { Exit::Failed })
}
