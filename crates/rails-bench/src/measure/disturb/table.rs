//! A disturbance as a person reads it.

use super::Disturbance;
use crate::measure::compare::{Link, Spread};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
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
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        table.set_header([
            "ms, median (most)",
            "rounds",
            "settled after",
            "settled again",
            "longest pause",
            "used again",
        ]);
        for outcome in &self.results {
            let mark = if outcome.warnings.is_empty() { "" } else { " (!)" };
            let settled = |index: usize| shown(outcome.settled_seconds.get(index).copied().flatten(), "never");
            table.add_row([
                format!("{}{mark}", outcome.contender),
                format!("{} of {}", outcome.rounds.0, outcome.rounds.1),
                settled(0),
                settled(1),
                shown(outcome.longest_pause_seconds, "unknown"),
                shown(outcome.used_again_seconds, "never"),
            ]);
        }
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "settled: within 5 % of the new ceiling; used again: a quarter of the link's rate; `never` in at least one round"
        )?;
        for outcome in &self.results {
            outcome.warnings.iter().try_for_each(|warning| writeln!(f, "(!) {}: {warning}", outcome.contender))?;
        }
        Ok(())
    }
}

fn shown(spread: Option<Spread>, none: &str) -> String {
    let milliseconds = |seconds: f64| (seconds * 1e3).round();
    spread.map_or_else(
        || none.to_owned(),
        |spread| format!("{} ({})", milliseconds(spread.median), milliseconds(spread.most)),
    )
}
