//! A stream over links with the faults of real links, for a long time, with every byte compared.

mod ends;
mod faults;
mod host_stall;

use crate::{lab::compare::Link, measure::series::Pause, print, stop::Stop};
use anyhow::{Context, Result};
use ends::{End, Ended};
use faults::Faults;
use host_stall::Watch;
use rails_lab::{LinkLab, Shape};
use rails_multirail::{Secret, StreamOptions};
use rails_topo::{DataSize, Topology};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// The result of a soak.
#[derive(Debug)]
pub(crate) struct Soaked {
    time: Duration,
    faults: usize,
    /// Side A, which opened the stream, then side B.
    ends: [Result<Ended>; 2],
    /// The stalls of this machine.
    standstills: Vec<Pause>,
}

/// Makes the links, streams both ways for `time` or until the user stops it, and takes the links
/// down.
pub(crate) async fn run(machine: &Topology, links: usize, time: Duration, seed: u64, stop: &Stop) -> Result<Soaked> {
    let lab = Arc::new(LinkLab::builder().links(vec![Shape::mbit(RATE); links]).build()?);
    // There are no connections yet: the call finds a kernel that cannot reset them.
    lab.reset_connections(0).context("connections cannot be reset")?;
    let options = StreamOptions::new(Secret::pre_shared(&rand::random::<[u8; 32]>())?);
    let zero = Instant::now();
    let watch = Watch::start(zero)?;
    let (a, b) = ends::start(&lab, machine, &options, seed, zero)?;
    let (began, mut happened) = (Instant::now(), 0);
    let mut faults = Faults::new(seed, links);
    let mut told = 0;
    while began.elapsed() < time && stop.so_far().is_none() && !a.has_ended() && !b.has_ended() {
        for happening in faults.at(began.elapsed()) {
            happening.happen(&lab, WHOLE)?;
            happened += usize::from(happening.begins);
            print::note(format_args!("{:>7.1} s  {happening}", zero.elapsed().as_secs_f64()));
        }
        let minutes = began.elapsed().as_secs() / 60;
        if minutes > told {
            told = minutes;
            print::note(format_args!("{:>5} min  {} there, {} back", minutes, size(b.received()), size(a.received())));
        }
        tokio::time::sleep(TICK).await;
    }
    for happening in faults.end() {
        happening.happen(&lab, WHOLE)?;
    }
    let time = began.elapsed();
    [&a, &b].into_iter().for_each(End::stop_sending);
    let ends = [a, b].map(End::finish);
    Ok(Soaked { time, faults: happened, ends, standstills: watch.finish() })
}

impl Soaked {
    /// Whether both ends had every byte.
    pub(crate) fn has_passed(&self) -> bool {
        self.ends.iter().all(Result::is_ok)
    }
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (end, way) in self.ends.iter().rev().zip(["there", "back"]) {
            match end {
                Ok(Ended { stats, pauses }) => {
                    writeln!(
                        f,
                        "{way:<5}  {} received and compared, {} of them twice",
                        size(stats.bytes_read),
                        size(stats.bytes_duplicated)
                    )?;
                    let pause = |pause: &Pause| {
                        let still: f64 = self.standstills.iter().map(|still| pause.overlap(still)).sum();
                        let still = match still {
                            0.0 => String::new(),
                            still => format!(" (this machine stood still for {:.0} ms of it)", still * 1e3),
                        };
                        format!("{:.0} ms at {:.1} s{still}", pause.seconds * 1e3, pause.start_seconds)
                    };
                    let pauses: Vec<String> = pauses.iter().map(pause).collect();
                    writeln!(f, "       longest times without any: {}", pauses.join(", "))?;
                }
                Err(error) => writeln!(f, "{way:<5}  FAILED: {error:#}")?,
            }
        }
        let verdict =
            if self.has_passed() { "every byte arrived, once and in order" } else { "NOT every byte arrived" };
        writeln!(f, "{verdict}, through {} faults in {:.0} s", self.faults, self.time.as_secs_f64())
    }
}

fn size(bytes: u64) -> DataSize {
    DataSize::bytes(bytes)
}

/// The rate of each link, in Mbit/s.
const RATE: u64 = 200;
/// A link without a fault.
const WHOLE: Link = Link::Veth(Shape::mbit(RATE));
/// The interval at which due faults are applied.
const TICK: Duration = Duration::from_millis(20);
