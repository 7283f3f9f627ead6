//! A report as a person reads it.

use super::NetvideoReport;
use crate::{lab::compare::Link, print};
use rails_multirail::pipeline::StageStats;
use std::{collections::BTreeSet, fmt};

impl fmt::Display for NetvideoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links: Vec<String> = self.links.iter().map(Link::to_string).collect();
        let (setting, (width, height)) = (&self.setting, self.size);
        writeln!(f, "{} link(s): {}", links.len(), links.join(", "))?;
        let pace =
            self.fps.map_or("as fast as they go".to_owned(), |fps| format!("{fps} a second, dropped without room"));
        writeln!(
            f,
            "frames of {width} x {height} RGBA ({:.1} MB), {pace}, {} at the sender at a time, computed by {}",
            self.frame_bytes as f64 / 1e6,
            self.buffers,
            self.device
        )?;
        if let Some(film) = &self.film {
            writeln!(f, "{film}")?;
            let readers: BTreeSet<&String> =
                self.samples.iter().filter_map(|sample| sample.reader_cpus.as_ref()).collect();
            let readers: Vec<&str> = readers.into_iter().map(String::as_str).collect();
            match &readers[..] {
                [] => writeln!(
                    f,
                    "read by the first rail: no CPU that the sender may use is known to be beside the disks"
                )?,
                cpus => writeln!(f, "read by a rail beside the disks, on CPUs {}", cpus.join(" or "))?,
            }
        }
        writeln!(
            f,
            "{} rounds of {} s each after a warm-up, order from seed {}; {} on all sockets",
            setting.rounds, setting.seconds, setting.seed, setting.congestion_control
        )?;
        writeln!(
            f,
            "planned rails and plain flows (two processes): sender on CPUs {}, receiver on CPUs {}; \
             scheduler's default: both on all of them",
            setting.sender_cpus, setting.receiver_cpus
        )?;
        writeln!(f, "{}", setting.machine())?;
        if let Some(ceiling) = self.ceiling_fps {
            let (median, min, max) = (ceiling.median, ceiling.min, ceiling.max);
            writeln!(
                f,
                "ceiling (plain TCP flows, from the first connection on): {median:.2} frames/s, {min:.2} to {max:.2}"
            )?;
        }
        self.figures(f)?;
        self.stages(f)
    }
}

impl NetvideoReport {
    fn figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = print::table(
            1,
            [
                "",
                "frames/s, median",
                "min",
                "max",
                "of the ceiling",
                "shown",
                "dropped",
                "latency p50, ms",
                "p95",
                "p99",
            ],
        );
        for outcome in &self.results {
            let share = outcome.share_of_ceiling.map_or("unknown".to_owned(), |share| format!("{share:.3}"));
            let fps = [outcome.fps.median, outcome.fps.min, outcome.fps.max].map(|fps| format!("{fps:.2}"));
            let latency = [outcome.latency_p50_ms, outcome.latency_p95_ms, outcome.latency_p99_ms];
            let [p50, p95, p99] = latency.map(|millis| format!("{millis:.0}"));
            let [median, min, max] = fps;
            let (frames, dropped) = (outcome.frames.to_string(), outcome.dropped.to_string());
            table.add_row([outcome.placing.to_string(), median, min, max, share, frames, dropped, p50, p95, p99]);
        }
        writeln!(f, "{table}")
    }

    /// The stages in the last round of each placing.
    fn stages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table =
            print::table(1, ["last round", "stage", "busy, s", "starved", "blocked", "items in", "items out"]);
        for outcome in &self.results {
            let Some(sample) = self.samples.iter().rfind(|sample| sample.placing == outcome.placing) else { continue };
            for stage in sample.sender.stages.iter().chain(&sample.receiver.stages) {
                let StageStats { stage, busy, starved, blocked, items_in, items_out, .. } = stage;
                let [busy, starved, blocked] =
                    [busy, starved, blocked].map(|time| format!("{:.2}", time.as_secs_f64()));
                let (items_in, items_out) = (items_in.to_string(), items_out.to_string());
                table.add_row([sample.placing.to_string(), stage.clone(), busy, starved, blocked, items_in, items_out]);
            }
        }
        writeln!(f, "{table}")
    }
}
