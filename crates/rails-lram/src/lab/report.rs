//! The result, as a person reads it.

use super::{
    case::Case,
    contest::Contest,
    goal::Verdict,
    outcome::{Outcome, Sample},
};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use rails_cli::spread::Spread;
use serde::Serialize;
use std::{collections::BTreeSet, fmt, fs, thread};

/// The result of all cases.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The line.
    pub(crate) line: String,
    /// The congestion control of TCP.
    pub(crate) congestion: String,
    /// The kernel's version.
    pub(crate) kernel: String,
    /// The number of processors.
    pub(crate) cpus: usize,
    /// The session's group in the scheduler, with its priority; `None` where the kernel has none.
    pub(crate) autogroup: Option<String>,
    /// The TCP connections of LambdaRAM over each line.
    pub(crate) lanes: u16,
    /// The rounds.
    pub(crate) rounds: usize,
    /// The results by case.
    pub(crate) cases: Vec<CaseReport>,
}

/// The result of a case.
#[derive(Debug, Serialize)]
pub(crate) struct CaseReport {
    /// The case.
    pub(crate) case: Case,
    /// The results by contender.
    pub(crate) outcomes: Vec<Outcome>,
    /// The goals, each with its contender.
    pub(crate) verdicts: Vec<(&'static str, Verdict)>,
    /// All runs that count.
    pub(crate) samples: Vec<Sample>,
}

impl Report {
    /// A report without cases.
    pub(crate) fn new(contest: &Contest) -> Self {
        let mbit = contest.rate.as_bits_per_second() as f64 / 1e6;
        let kernel =
            fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|error| format!("unknown: {error}"));
        Self {
            line: format!("{mbit} Mbit/s, RTT {:?}, loss {}, seed {}", contest.rtt, contest.loss, contest.seed),
            congestion: contest.congestion.clone(),
            kernel: kernel.trim().into(),
            cpus: thread::available_parallelism().map_or(0, usize::from),
            autogroup: fs::read_to_string("/proc/self/autogroup").ok().map(|text| text.trim().into()),
            lanes: contest.lanes,
            rounds: contest.rounds,
            cases: Vec::new(),
        }
    }

    /// Whether every goal is met.
    pub(crate) fn is_met(&self) -> bool {
        self.cases.iter().flat_map(|case| &case.verdicts).all(|(_, verdict)| verdict.met == Some(true))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, congestion, lanes, .. } = self;
        writeln!(f, "line: {line}; TCP with {congestion} for all; {lanes} connection(s) of LambdaRAM")?;
        let loads = || self.cases.iter().flat_map(|case| &case.samples).map(|sample| sample.load);
        let (min, max) = (loads().fold(f64::INFINITY, f64::min), loads().fold(0.0, f64::max));
        let autogroup = self.autogroup.as_deref().unwrap_or("none");
        writeln!(
            f,
            "machine: Linux {}, {} CPUs, load average {min} to {max}, group in the scheduler: {autogroup}",
            self.kernel, self.cpus
        )?;
        writeln!(
            f,
            "medians of {} rounds in mixed order; each run has new processes and lines, and its files in no cache; \
             computing is a pause; no frame was lost unplanned",
            self.rounds
        )?;
        let mut times = table(&TIMES, 2);
        self.cases.iter().for_each(|case| case.times(&mut times));
        let mut goals = table(&GOALS, 3);
        self.cases.iter().for_each(|case| case.goals(&mut goals));
        writeln!(f, "{times}\n{goals}")?;
        let outcomes = self.cases.iter().flat_map(|case| &case.outcomes);
        let versions: BTreeSet<&str> = outcomes.filter_map(|outcome| outcome.version.as_deref()).collect();
        versions.iter().try_for_each(|version| writeln!(f, "rival: {version}"))?;
        self.cases.iter().try_for_each(|case| case.waits(f))
    }
}

impl CaseReport {
    fn times(&self, table: &mut Table) {
        let first = self.outcomes.first().map(|outcome| outcome.seconds.median);
        for outcome in &self.outcomes {
            let of = || self.samples.iter().filter(|sample| sample.name == outcome.name);
            let median = |figure: fn(&Sample) -> u64| {
                Spread::of(of().map(|sample| figure(sample) as f64)).map_or(0.0, |spread| spread.median)
            };
            table.add_row([
                format!("{:?}", self.case),
                outcome.name.to_owned(),
                outcome.seconds.to_string(),
                first.map_or_else(String::new, |first| format!("{:.2}", outcome.seconds.median / first)),
                format!("{:.1}", median(|sample| sample.received) / 1e6),
                format!("{:.0}", median(|sample| sample.retransmitted)),
            ]);
        }
    }

    fn goals(&self, table: &mut Table) {
        for (who, verdict) in &self.verdicts {
            let met = match verdict.met {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "",
            };
            table.add_row([&format!("{:?}", self.case), *who, &verdict.goal, &verdict.found, met]);
        }
    }

    /// Where the first reader's time went, in the round that took the middle of the times.
    fn waits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.outcomes.first() else { return Ok(()) };
        let distance = |sample: &&Sample| (sample.figures.seconds - first.seconds.median).abs();
        let samples = self.samples.iter().filter(|sample| sample.name == first.name);
        let Some(sample) = samples.min_by(|a, b| distance(a).total_cmp(&distance(b))) else { return Ok(()) };
        let figures = &sample.figures;
        let waits: Vec<String> = figures.waits.iter().map(|wait| format!("{:.0}", wait * 1e3)).collect();
        let lateness = sample.links.iter().map(|link| link.from_a.max_lateness.max(link.from_b.max_lateness)).max();
        let megabits = sample.received as f64 * 8.0 / 1e6 / figures.seconds;
        writeln!(
            f,
            "{:?}, {}: {:.3} s, of it {:.3} opening, {:.3} waiting; {megabits:.0} Mbit/s of frames on average, \
             {} segments sent again; the line was late by {:.1} ms at most; load {}",
            self.case,
            first.name,
            figures.seconds,
            figures.opened,
            figures.waited(),
            sample.retransmitted,
            lateness.unwrap_or_default().as_secs_f64() * 1e3,
            sample.load
        )?;
        if !waits.is_empty() {
            writeln!(f, "  ms of waiting by step: {}", waits.join(" "))?;
        }
        if let Some(shared) = figures.shared {
            writeln!(f, "  {shared:?}")?;
        }
        if let Some(blocks) = figures.blocks {
            writeln!(f, "  {blocks:?}")?;
        }
        Ok(())
    }
}

/// A table whose first `names` columns have words, and whose others have figures.
fn table(header: &[&str], names: usize) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header.iter().copied());
    table.column_iter_mut().skip(names).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

const TIMES: [&str; 6] =
    ["case", "reader", "seconds, median [min..max]", "x of the first", "MB received", "segments sent again"];
const GOALS: [&str; 5] = ["case", "reader", "goal", "found", "met"];
