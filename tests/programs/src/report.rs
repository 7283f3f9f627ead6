//! The samples of a measurement with its terms, as JSON and as a table of medians.

use crate::{
    door::Door,
    process::find,
    program::{Program, Sample, Size},
    terms::Terms,
};
use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use nix::sys::utsname::uname;
use serde::Serialize;
use std::{collections::BTreeMap, process::Command, thread};

/// Everything that a measurement came to.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The terms.
    pub(crate) facts: Facts,
    /// The ceiling of each program that has one, by names.
    pub(crate) ceilings: BTreeMap<&'static str, &'static str>,
    /// The programs and doors that were left out, with the reason.
    pub skipped: Vec<String>,
    /// Every use, in the order in which they were made.
    pub taken: Vec<Taken>,
}

/// The terms of a measurement, and the machine.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    kernel: String,
    cpus: usize,
    links: Vec<String>,
    congestion_control: String,
    rounds: usize,
    size: Size,
    pulled: Option<String>,
    folder: String,
    versions: BTreeMap<&'static str, String>,
}

/// One use of a program.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// The program, or the ceiling.
    pub program: String,
    /// The door; `None` for a ceiling.
    pub door: Option<Door>,
    /// The round, from 0.
    pub round: usize,
    /// What it came to; `None` if it failed.
    pub sample: Option<Sample>,
    /// Why it failed.
    pub failure: Option<String>,
    /// CPU time of client, service and door, in the order of [`Part::ALL`](crate::Part::ALL);
    /// `None` if the system does not count.
    pub cpu_seconds: Option<[f64; 3]>,
    /// The longest time in which no byte was written at the receiver, between the first and the
    /// last; `None` where nothing was watched.
    pub longest_gap_seconds: Option<f64>,
    /// Whether a link was pulled in the middle; `None` where none was to be.
    pub pulled: Option<bool>,
}

impl Taken {
    /// The CPU time of all parts for each byte that arrived, in nanoseconds.
    fn cpu_nanoseconds_per_byte(&self) -> Option<f64> {
        let bytes = self.sample?.bytes.filter(|bytes| *bytes > 0)?;
        Some(self.cpu_seconds?.iter().sum::<f64>() * 1e9 / bytes as f64)
    }

    fn contender(&self) -> &str {
        self.door.map_or("rails itself", Door::name)
    }

    /// One line for whoever waits.
    pub(crate) fn line(&self) -> String {
        let head = format!("round {}: {} {}", self.round, self.program, self.contender());
        match (&self.sample, &self.failure) {
            (Some(sample), _) => {
                let goodput = sample.goodput_bits_per_second.map(|bits| format!("{:.0} Mbit/s", bits / 1e6));
                let requests = sample.requests_per_second.map(|rate| format!("{rate:.0} requests/s"));
                format!("{head}: {}", goodput.or(requests).unwrap_or_default())
            }
            (None, failure) => format!("{head}: FAILED: {}", failure.as_deref().unwrap_or("without a reason")),
        }
    }
}

impl Facts {
    pub(crate) fn gather(terms: &Terms, programs: &[Box<dyn Program>]) -> Result<Self> {
        let system = uname().context("uname")?;
        let executables = programs.iter().flat_map(|program| program.executables());
        Ok(Self {
            kernel: system.release().to_string_lossy().into_owned(),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            links: terms.links.iter().map(ToString::to_string).collect(),
            congestion_control: terms.congestion.clone(),
            rounds: terms.rounds,
            size: terms.size,
            pulled: terms.pull.map(|pull| format!("link {} for {:?}", pull.link, pull.duration)),
            folder: terms.folder.display().to_string(),
            versions: executables.filter_map(|name| Some((*name, version(name)?))).collect(),
        })
    }
}

impl Report {
    /// The medians as a table, below the terms. The first round warms up, and counts only if it is
    /// alone.
    pub fn table(&self) -> String {
        let facts = &self.facts;
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "program",
            "through",
            "Mbit/s",
            "x plain",
            "x ceiling",
            "p50 us",
            "requests/s",
            "CPU ns/B",
            "of it door",
            "longest gap ms",
            "failed",
        ]);
        let mut rows: Vec<(&str, &str)> = Vec::new();
        for taken in &self.taken {
            let row = (taken.program.as_str(), taken.contender());
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        for (program, contender) in rows {
            table.add_row(self.row(program, contender));
        }
        let pulled = facts.pulled.as_ref().map_or_else(String::new, |pulled| format!("; pulled: {pulled}"));
        let counted = match facts.rounds {
            1 => "one round".to_owned(),
            rounds => format!("medians of {} rounds after one that warms up", rounds - 1),
        };
        let mut text = format!(
            "Linux {}, {} CPUs; links: {}; congestion control {}; {counted}{pulled}\n{table}\n",
            facts.kernel,
            facts.cpus,
            facts.links.join(", "),
            facts.congestion_control,
        );
        for skipped in &self.skipped {
            text += &format!("SKIPPED {skipped}\n");
        }
        text
    }

    fn row(&self, program: &str, contender: &str) -> Vec<String> {
        let of = |name: &str, contender: &str, figure: fn(&Taken) -> Option<f64>| {
            let matching = self.counted().filter(|one| one.program == name && one.contender() == contender);
            median(matching.filter_map(figure).collect())
        };
        let goodput = |taken: &Taken| taken.sample?.goodput_bits_per_second;
        let own = of(program, contender, goodput);
        let requests = |taken: &Taken| taken.sample?.requests_per_second;
        let plain = of(program, Door::Plain.name(), goodput);
        let ceiling = self.ceilings.get(program).and_then(|name| of(name, "rails itself", goodput));
        let ratio = |to: Option<f64>| own.zip(to).map(|(own, to)| own / to);
        let rate = of(program, contender, requests);
        let plain_rate = of(program, Door::Plain.name(), requests);
        let by_rate = rate.zip(plain_rate).map(|(own, plain)| own / plain);
        let door_share = |taken: &Taken| {
            let [client, service, door] = taken.cpu_seconds?;
            Some(door / (client + service + door)).filter(|share| share.is_finite())
        };
        let failed = self.taken.iter().filter(|one| one.program == program && one.contender() == contender);
        let failed = failed.filter(|one| one.failure.is_some()).count();
        vec![
            program.to_owned(),
            contender.to_owned(),
            shown(own.map(|bits| bits / 1e6), 0),
            shown(ratio(plain).or(by_rate), 2),
            shown(ratio(ceiling), 3),
            shown(of(program, contender, |taken| taken.sample?.p50_microseconds), 0),
            shown(rate, 0),
            shown(of(program, contender, Taken::cpu_nanoseconds_per_byte), 2),
            shown(of(program, contender, door_share), 2),
            shown(of(program, contender, |taken| taken.longest_gap_seconds).map(|seconds| seconds * 1e3), 0),
            if failed == 0 { String::new() } else { failed.to_string() },
        ]
    }

    fn counted(&self) -> impl Iterator<Item = &Taken> {
        let is_alone = self.facts.rounds < 2;
        self.taken.iter().filter(move |taken| is_alone || taken.round > 0)
    }
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 {
        figures.get(middle).copied()
    } else {
        Some((figures.get(middle.checked_sub(1)?)? + figures.get(middle)?) / 2.0)
    }
}

fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(String::new, |figure| format!("{figure:.digits$}"))
}

/// The first line that an executable says of its version.
fn version(name: &str) -> Option<String> {
    let flag = match name {
        "nginx" => "-v",
        "sshd" | "ssh" => "-V",
        "ssh-keygen" | "scp" | "git-daemon" => return None,
        _ => "--version",
    };
    let output = Command::new(find(name)?).arg(flag).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Some(String::from_utf8_lossy(&text).lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_none_is_none() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
