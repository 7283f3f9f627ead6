//! Running a contest: one contender after the other, in an order drawn from the seed.

use super::{
    Comparison, Contender, ContestError, Entry, Link, Sample, Setting, Terms, Testbed,
    rivals::{self, Figures, Rival},
    testbed::{Counted, halves},
};
use rails_topo::Topology;
use rand::{SeedableRng, seq::SliceRandom};
use std::{path::PathBuf, time::Duration};

/// A contest to be run.
#[derive(Debug, Clone)]
pub(crate) struct Contest {
    /// The links, by number.
    pub(crate) links: Vec<Link>,
    /// The contenders; those that would add no information on these links are left out.
    pub(crate) contenders: Vec<Contender>,
    /// The time that each measurement sends.
    pub(crate) time: Duration,
    /// The terms of the contest.
    pub(crate) terms: Terms,
    /// The path of `ucx_perftest`, if it is not along `PATH`.
    pub(crate) ucx: Option<PathBuf>,
}

impl Contest {
    /// Makes the links, runs every round, and takes the links down again. Calls `absent` with each
    /// contender that cannot take part, before the first measurement, and `progress` before
    /// each one.
    ///
    /// # Errors
    /// [`ContestError`]. Links that were made are taken down.
    ///
    /// # Privileges
    /// Root, for the namespaces.
    pub(crate) fn run(
        &self,
        topology: &Topology,
        mut absent: impl FnMut(Contender, &str),
        mut progress: impl FnMut(usize, Contender),
    ) -> Result<Comparison, ContestError> {
        let cpus = halves(topology.allowed_cpus());
        let testbed = Testbed::build(&self.links, cpus, self.time, &self.terms)?;
        let setting = Setting::of(topology, &testbed, self.time, &self.terms);
        let (mut entries, mut field) = (Vec::new(), Vec::new());
        for contender in self.contenders.iter().copied().filter(|one| one.makes_sense_on(self.links.len())) {
            let (version, reason) = match rivals::enter(contender, &testbed, self.ucx.as_deref()) {
                Ok(rival) => {
                    let version = rival.version();
                    field.push((contender, rival));
                    (version, None)
                }
                Err(reason) => {
                    absent(contender, &reason);
                    (None, Some(reason))
                }
            };
            entries.push(Entry { contender, version, absent: reason });
        }
        let mut order = rand::rngs::ChaCha8Rng::seed_from_u64(self.terms.seed);
        let mut samples = Vec::new();
        // Round 0 warms caches, page tables and the CPU's clock, and does not count.
        for round in 0..=self.terms.rounds {
            field.shuffle(&mut order);
            for (contender, rival) in &mut field {
                progress(round, *contender);
                let sample = measure(&testbed, round, *contender, rival.as_mut())?;
                if round > 0 {
                    samples.push(sample);
                }
            }
        }
        Ok(Comparison::new(self.links.clone(), setting, entries, samples))
    }
}

/// Runs one contender once, with the kernel's counters read before and after.
fn measure(
    testbed: &Testbed,
    round: usize,
    contender: Contender,
    rival: &mut dyn Rival,
) -> Result<Sample, ContestError> {
    let before = testbed.counters()?;
    let figures = rival.measure(testbed)?;
    let counted = testbed.since(&before)?;
    let Figures { goodput_bits_per_second, bytes, measured_at, cpu_seconds, congestion_control, mut warnings } =
        figures;
    if contender.has_all_links() {
        warnings.extend(unused(&counted));
    }
    let by_side = cpu_seconds;
    let cpu_seconds = by_side.map_or(counted.children.as_secs_f64(), |(sender, receiver)| sender + receiver);
    let per_core = |seconds: f64| (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds);
    Ok(Sample {
        round,
        contender,
        bytes,
        goodput_bits_per_second,
        measured_at,
        cpu_seconds,
        cpu_seconds_per_gigabyte: cpu_seconds / (bytes as f64 / 1e9),
        cpu_seconds_by_side: by_side,
        machine_seconds_per_gigabyte: counted.busy.as_secs_f64() / (bytes as f64 / 1e9),
        goodput_per_sender_core_bits_per_second: by_side.and_then(|(sender, _)| per_core(sender)),
        goodput_per_receiver_core_bits_per_second: by_side.and_then(|(_, receiver)| per_core(receiver)),
        link_tx_bytes: counted.tx_bytes,
        retransmitted_segments: counted.retransmitted,
        congestion_control,
        warnings,
    })
}

/// A warning about links that carried next to nothing, by the kernel's counters: a good rate does
/// not show that.
fn unused(counted: &Counted) -> Option<String> {
    let all: u64 = counted.tx_bytes.iter().sum();
    let idle = counted.tx_bytes.iter().enumerate().filter(|(_, bytes)| **bytes < all / MIN_SHARE);
    let idle: Vec<String> = idle.map(|(link, _)| link.to_string()).collect();
    (!idle.is_empty()).then(|| format!("link {} carried less than 1/{MIN_SHARE} of the bytes", idle.join(", ")))
}

/// The share of an unused link is below one in this number: a link with a hundredth of the others'
/// rate is above, handshakes and acknowledgements are far below.
const MIN_SHARE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_left_alone_is_noticed() {
        let counted = |tx_bytes: &[u64]| Counted {
            tx_bytes: tx_bytes.to_vec(),
            retransmitted: 0,
            children: Duration::ZERO,
            busy: Duration::ZERO,
        };
        assert_eq!(unused(&counted(&[400_000_000, 4_000_000])), None);
        assert_eq!(
            unused(&counted(&[400_000_000, 4_000, 0])).unwrap(),
            "link 1, 2 carried less than 1/1000 of the bytes"
        );
        assert_eq!(unused(&counted(&[5])), None);
    }
}
