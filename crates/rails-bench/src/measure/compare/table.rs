//! A comparison as a person reads it.

use super::Comparison;
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use rails_lab::Shape;
use std::fmt;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links: Vec<String> = self.links.iter().map(Shape::to_string).collect();
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
        let unknown = || "unknown".to_owned();
        writeln!(
            f,
            "{}, kernel {}, rails-bench {}",
            setting.cpu_model.clone().unwrap_or_else(unknown),
            setting.kernel.clone().unwrap_or_else(unknown),
            setting.version
        )?;
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        table.set_header(["", "Mbit/s, median", "least", "most", "of the ceiling", "CPU s/GB"]);
        for outcome in &self.results {
            let mbit = |bits: f64| format!("{:.0}", bits / 1e6);
            let goodput = &outcome.receiver_goodput_bits_per_second;
            table.add_row([
                outcome.contender.to_string(),
                mbit(goodput.median),
                mbit(goodput.least),
                mbit(goodput.most),
                format!("{:.3}", outcome.share_of_plain_flows),
                format!("{:.2}", outcome.cpu_seconds_per_gigabyte.median),
            ]);
        }
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        writeln!(f, "{table}")?;
        writeln!(f, "raw samples (Mbit/s at the receiver; MB on each link):")?;
        for sample in &self.samples {
            let links: Vec<String> = sample.link_tx_bytes.iter().map(|bytes| (bytes / 1_000_000).to_string()).collect();
            writeln!(
                f,
                "  round {} {:<50} {:>8.1}   {} ({} retransmitted)",
                sample.round,
                sample.contender.to_string(),
                sample.receiver_goodput_bits_per_second / 1e6,
                links.join(" + "),
                sample.retransmitted_segments
            )?;
        }
        Ok(())
    }
}
