//! The work of each rail for a batch or a measurement, as a person reads it.

#[cfg(feature = "cli")]
pub(crate) mod documents;
#[cfg(feature = "cli")]
mod results;
mod table;

use crate::{
    placement::with_remedies,
    side::{RailReport, Side},
};
use rails_bind::{
    Unheld,
    affinity::{AffinityReport, Verdict},
};
use rails_topo::DataSize;
#[cfg(feature = "cli")]
pub(crate) use results::{compared, counted, given, measured, received, security, sent};
use std::{fmt::Write, time::Duration};
pub(crate) use table::{Column, table};

/// One end of a stream, with its figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The end's name where there are two.
    pub(crate) name: &'static str,
    /// Whether the end's traffic is the bytes it sent, or those it received.
    pub(crate) sends: bool,
    pub(crate) side: &'a Side,
}

/// Bytes, the time they took, and the one over the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goodput {
    bytes: u64,
    time: Duration,
    bits_per_second: f64,
}

impl Goodput {
    pub(crate) fn new(bytes: u64, time: Duration) -> Self {
        Self { bytes, time, bits_per_second: bytes as f64 * 8.0 / time.as_secs_f64() }
    }

    /// The goodput with this rate in place of the mean: flows that end at different times carry
    /// more while all of them run.
    pub(crate) fn at(self, bits_per_second: f64) -> Self {
        Self { bits_per_second, ..self }
    }
}

impl std::fmt::Display for Goodput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.time.as_secs_f64();
        write!(f, "{} in {seconds:.2} s", DataSize::bytes(self.bytes))?;
        if self.bytes > 0 && seconds > 0.0 {
            let rate = self.bits_per_second;
            write!(f, ": goodput {} ({})", scaled(rate, "bit/s"), scaled(rate / 8.0, "B/s"))?;
        }
        Ok(())
    }
}

/// A rate with three digits, in the decimal unit that suits it.
pub(crate) fn scaled(rate: f64, unit: &str) -> String {
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    // A figure that rounds to 1000 is one of the next unit.
    let (scale, prefix) = prefixes.into_iter().find(|(scale, _)| rate >= 0.9995 * scale).unwrap_or((1.0, ""));
    let figure = rate / scale;
    let decimals = if figure < 9.995 { 2 } else { usize::from(figure < 99.95) };
    format!("{figure:.decimals$} {prefix}{unit}")
}

/// A line for each lane that was lost on the way.
pub(crate) fn lost(parts: &[Part<'_>]) -> String {
    let lost = parts.iter().flat_map(|part| part.side.lanes()).filter_map(|lane| lane.lost.as_ref());
    lost.map(|how| format!("lost: {how}\n")).collect()
}

/// A line for each rail without a lane, with the reason.
pub(crate) fn unused(parts: &[Part<'_>]) -> String {
    let mut text = String::new();
    for part in parts {
        for rail in &part.side.rails {
            let Some(why) = &rail.unused else { continue };
            let interface = rail.interface.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
            let _ = writeln!(text, "no lane: {}{interface}: {why}", name(part, rail, parts.len() > 1));
        }
    }
    text
}

/// The properties that the placement of the rails lacks, each with the settings that allow it.
pub(crate) fn unheld(parts: &[Part<'_>]) -> String {
    let mut told: Vec<&Unheld> = Vec::new();
    for unheld in parts.iter().flat_map(|part| &part.side.unheld) {
        if !told.contains(&unheld) {
            told.push(unheld);
        }
    }
    let lacks = |unheld: &&Unheld| {
        let of = parts.iter().filter(|part| part.side.unheld.contains(unheld)).map(|part| part.name);
        let of = if parts.len() > 1 { format!(" ({})", of.collect::<Vec<_>>().join(", ")) } else { String::new() };
        format!("not held{of}: {}", with_remedies(unheld))
    };
    told.iter().map(lacks).collect()
}

/// The verdicts on the three affinities with their reasons: a line for each different verdict, with
/// its rails.
pub(crate) fn verdicts(parts: &[Part<'_>]) -> String {
    let mut text = String::new();
    let all: usize = parts.iter().map(|part| part.side.rails.len()).sum();
    let properties: [(&str, Property); 3] = [
        ("interrupt affine", |report| &report.interrupt),
        ("thread affine", |report| &report.thread),
        ("memory affine", |report| &report.memory),
    ];
    for (property, verdict) in properties {
        let mut groups: Vec<(&Verdict, Vec<String>)> = Vec::new();
        for part in parts {
            for rail in &part.side.rails {
                let (verdict, name) = (verdict(&rail.affinity), name(part, rail, parts.len() > 1));
                match groups.iter_mut().find(|(known, _)| *known == verdict) {
                    Some((_, names)) => names.push(name),
                    None => groups.push((verdict, vec![name])),
                }
            }
        }
        for (index, (verdict, names)) in groups.iter().enumerate() {
            let property = if index == 0 { property } else { "" };
            let whose = if names.len() == all { "every rail".to_owned() } else { names.join(", ") };
            let _ = writeln!(text, "{property:<17} {verdict} ({whose})");
        }
    }
    text
}

/// One of the three verdicts of a report.
type Property = fn(&AffinityReport) -> &Verdict;

fn name(part: &Part<'_>, rail: &RailReport, with_part: bool) -> String {
    if with_part { format!("{} {}", part.name, rail.rail) } else { format!("rail {}", rail.rail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_with_units_and_no_division_by_zero() {
        let shown = |bytes, millis| Goodput::new(bytes, Duration::from_millis(millis)).to_string();
        assert_eq!(shown(1 << 30, 2000), "1 GiB in 2.00 s: goodput 4.29 Gbit/s (537 MB/s)");
        assert_eq!(shown(0, 10), "0 B in 0.01 s");
        assert_eq!(shown(5, 0), "5 B in 0.00 s");
    }

    #[test]
    fn rates_with_three_digits_in_their_unit() {
        let rates =
            [3.83e8, 9.996e8, 9.994e9, 9.996e9, 99.96e9, 4e11, 12.34e3, 7.0, 0.0].map(|rate| scaled(rate, "bit/s"));
        let expected = [
            "383 Mbit/s",
            "1.00 Gbit/s",
            "9.99 Gbit/s",
            "10.0 Gbit/s",
            "100 Gbit/s",
            "400 Gbit/s",
            "12.3 kbit/s",
            "7.00 bit/s",
            "0.00 bit/s",
        ];
        assert_eq!(rates, expected);
    }
}
