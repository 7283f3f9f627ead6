//! A comparison as a person reads it.

use super::{Messages, WanComparison};
use crate::{lab::compare::Spread, print};
use std::fmt;

impl fmt::Display for WanComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        writeln!(
            f,
            "emulated path: {}, round trip {} ms, queue {} ms; Celeritas and RBUDP at {} of IP packets",
            path.rate,
            path.rtt.as_secs_f64() * 1e3,
            path.queue.as_secs_f64() * 1e3,
            self.celeritas
        )?;
        writeln!(
            f,
            "{} s each after {} s that do not count; order and losses from seed {}; both ends are threads of one process, placed by \
             the scheduler",
            self.seconds, self.warm_up_seconds, self.seed
        )?;
        if let Some(Messages { bytes, every }) = self.warm_up_messages {
            let every = every.as_secs_f64() * 1e3;
            writeln!(f, "before it counts, Celeritas sends a message of {bytes} bytes every {every} ms")?;
        }
        for setting in &self.settings {
            writeln!(f, "{setting}")?;
        }
        let unknown = || "unknown".to_owned();
        let (cpu, kernel) = (self.cpu_model.clone(), self.kernel.clone());
        writeln!(
            f,
            "{}, kernel {}, rails-bench {}",
            cpu.unwrap_or_else(unknown),
            kernel.unwrap_or_else(unknown),
            env!("CARGO_PKG_VERSION")
        )?;
        let mut header = vec!["loss", "", "Mbit/s, median", "min", "max", "sent again", "queue drops", "CPU s/GB"];
        let rival = self.beside.map(|rival| format!("beside: {rival}"));
        header.extend(rival.as_deref());
        let mut table = print::table(2, header);
        for outcome in &self.results {
            let mbit = |bits: f64| format!("{:.1}", bits / 1e6);
            let percent = |share: f64| format!("{:.3} %", share * 100.0);
            let goodput = &outcome.goodput_bits_per_second;
            let mark = if outcome.unplanned_drops == 0 { "" } else { " (void)" };
            let rival = |rival: &Spread| format!("{} [{}, {}]", mbit(rival.median), mbit(rival.min), mbit(rival.max));
            let figures = [
                outcome.loss.to_string(),
                format!("{}{mark}", outcome.transport),
                mbit(goodput.median),
                mbit(goodput.min),
                mbit(goodput.max),
                percent(outcome.retransmitted_share),
                percent(outcome.queue_drop_share),
                outcome.cpu_seconds_per_gigabyte.map_or_else(unknown, |seconds| format!("{seconds:.2}")),
            ];
            table.add_row(figures.into_iter().chain(outcome.beside.as_ref().map(rival)));
        }
        writeln!(f, "{table}")?;
        writeln!(f, "raw samples (Mbit/s of goodput):")?;
        for sample in &self.samples {
            writeln!(
                f,
                "  loss {} round {} {:<22} {:>8.1}   {} sent again, {} lost, {} dropped by the queue",
                sample.loss,
                sample.round,
                sample.transport,
                sample.goodput_bits_per_second / 1e6,
                sample.retransmitted_segments,
                sample.emulated.from_a.lost,
                sample.emulated.from_a.queue_full
            )?;
        }
        let void = self.results.iter().filter(|outcome| outcome.unplanned_drops > 0);
        for outcome in void {
            writeln!(
                f,
                "(void) loss {}, {}: the emulated path lost {} frames that it should not have lost",
                outcome.loss, outcome.transport, outcome.unplanned_drops
            )?;
        }
        Ok(())
    }
}
