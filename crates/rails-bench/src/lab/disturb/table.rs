//! A disturbance as a person reads it.

use super::{Disturbance, Figure, Measure};
use crate::{lab::compare::Link, print};
use std::fmt;

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links: Vec<String> = self.links.iter().map(Link::to_string).collect();
        writeln!(f, "{}, on the last of {} link(s): {}", self.scenario, links.len(), links.join(", "))?;
        let ceilings = self.ceilings_bits_per_second.iter().map(|bits| format!("{:.0}", bits / 1e6));
        let ceilings = match ceilings.collect::<Vec<_>>() {
            none if none.is_empty() => "unknown, for want of plain flows".to_owned(),
            some => format!("{} Mbit/s", some.join(", ")),
        };
        let (control, seed) = (&self.congestion_control, self.seed);
        writeln!(f, "ceilings before, while and after: {ceilings}; {control} on all sockets; order from seed {seed}")?;
        let head = |outcome: &super::DisturbOutcome| {
            let mark = if outcome.warnings.is_empty() { "" } else { " (!)" };
            // Names are long, and there are several columns.
            let name = outcome.contender.to_string().replace(", ", ",\n");
            format!("{name}{mark}\n{} of {} rounds", outcome.rounds.0, outcome.rounds.1)
        };
        let named = ["median (max)".to_owned(), "target".to_owned()];
        let mut table = print::table(1, named.into_iter().chain(self.results.iter().map(head)));
        for (row, measure) in Measure::ALL.into_iter().enumerate() {
            let target = measure.target(self.scenario).map(|max| match measure.show(max) {
                none if max == 0.0 => none,
                max => format!("<= {max}"),
            });
            let figures = self.results.iter().map(|outcome| shown(&outcome.figures[row]));
            table.add_row([measure.to_string(), target.unwrap_or_default()].into_iter().chain(figures));
        }
        writeln!(f, "{table}")?;
        for outcome in &self.results {
            outcome.warnings.iter().try_for_each(|warning| writeln!(f, "(!) {}: {warning}", outcome.contender))?;
        }
        Ok(())
    }
}

fn shown(figure: &Figure) -> String {
    let value = |value: Option<f64>| value.map_or("never".to_owned(), |value| figure.measure.show(value));
    if figure.median.is_none() && figure.never == 0 {
        return "unknown".to_owned();
    }
    let mark = match figure.is_met {
        Some(false) => " missed",
        _ => "",
    };
    let never = if figure.never > 0 { format!(", {}x never", figure.never) } else { String::new() };
    let max = figure.max.map(|max| format!(" ({})", figure.measure.show(max))).unwrap_or_default();
    format!("{}{max}{never}{mark}", value(figure.median))
}
