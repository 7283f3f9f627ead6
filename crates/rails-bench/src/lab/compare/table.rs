//! A comparison as a person reads it.

use super::{Comparison, Link, Outcome};
use crate::print;
use std::fmt;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links: Vec<String> = self.links.iter().map(Link::to_string).collect();
        let setting = &self.setting;
        writeln!(f, "{} link(s): {}", links.len(), links.join(", "))?;
        writeln!(
            f,
            "{} rounds of {} s each after a warm-up, order from seed {}; {} on all sockets; sender on CPUs {}, receiver on CPUs {}",
            setting.rounds,
            setting.seconds,
            setting.seed,
            setting.congestion_control,
            setting.sender_cpus,
            setting.receiver_cpus
        )?;
        writeln!(f, "{}", setting.machine())?;
        self.entries(f)?;
        self.figures(f)?;
        self.raw(f)
    }
}

impl Comparison {
    /// The contenders, and the missing ones.
    fn entries(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            match (&entry.absent, &entry.version) {
                (Some(reason), _) => writeln!(f, "NOT MEASURED: {}: {reason}", entry.contender)?,
                (None, Some(version)) => writeln!(f, "{}: {version}", entry.contender)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = [
            "",
            "Mbit/s, median",
            "min",
            "max",
            "of the ceiling",
            "CPU s/GB",
            "of the machine",
            "Gbit/s per busy core, sender and receiver",
        ];
        let mut table = print::table(1, header);
        for outcome in &self.results {
            let mbit = |bits: f64| format!("{:.0}", bits / 1e6);
            let goodput = &outcome.goodput_bits_per_second;
            let mark = if outcome.warnings.is_empty() { "" } else { " (!)" };
            table.add_row([
                format!("{}{mark}", outcome.contender),
                mbit(goodput.median),
                mbit(goodput.min),
                mbit(goodput.max),
                outcome.share_of_ceiling.map_or("unknown".to_owned(), |share| format!("{share:.3}")),
                format!("{:.2}", outcome.cpu_seconds_per_gigabyte.median),
                format!("{:.2}", outcome.machine_seconds_per_gigabyte.median),
                per_core(outcome),
            ]);
        }
        writeln!(f, "{table}")?;
        for outcome in &self.results {
            outcome.warnings.iter().try_for_each(|warning| writeln!(f, "(!) {}: {warning}", outcome.contender))?;
        }
        Ok(())
    }

    fn raw(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "raw samples (Mbit/s of goodput; MB that each link carried, by the kernel's counters):")?;
        for sample in &self.samples {
            let links: Vec<String> = sample.link_tx_bytes.iter().map(|bytes| (bytes / 1_000_000).to_string()).collect();
            writeln!(
                f,
                "  round {} {:<38} {:>8.1}   {} ({} retransmitted){}",
                sample.round,
                sample.contender,
                sample.goodput_bits_per_second / 1e6,
                links.join(" + "),
                sample.retransmitted_segments,
                if sample.warnings.is_empty() { "" } else { " (!)" }
            )?;
        }
        Ok(())
    }
}

fn per_core(outcome: &Outcome) -> String {
    let of = outcome.goodput_per_sender_core_bits_per_second.zip(outcome.goodput_per_receiver_core_bits_per_second);
    of.map_or_else(
        || "unknown".to_owned(),
        |(sender, receiver)| format!("{:.2}, {:.2}", sender.median / 1e9, receiver.median / 1e9),
    )
}
