//! A stream over links that do what links do, for a long time, with every byte compared.

mod ends;
mod faults;
mod host_stall;
mod payload;

use crate::{print, stop::Stop};
use anyhow::{Context, Result, ensure};
use ends::{End, Ended, Gap};
use faults::{Fault, Faults, Happening};
use host_stall::Watch;
use rails_lab::{LinkLab, Shape, Side};
use rails_multirail::{Secret, StreamOptions};
use rails_topo::{DataSize, Topology};
use std::{
    fmt,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

/// How a soak went.
#[derive(Debug)]
pub(crate) struct Soaked {
    began: Instant,
    time: Duration,
    faults: usize,
    /// Side A, which opened the stream, then side B.
    ends: [Result<Ended>; 2],
    /// When nothing ran on this machine.
    standstills: Vec<Gap>,
}

/// Makes the links, streams both ways for `time` or until the user has enough, and takes the links down.
pub(crate) async fn run(machine: &Topology, links: usize, time: Duration, seed: u64, stop: &Stop) -> Result<Soaked> {
    let lab = Arc::new(LinkLab::builder().links(vec![whole(); links]).build()?);
    ensure_resets(&lab)?;
    let options = StreamOptions::new(Secret::pre_shared(&rand::random::<[u8; 32]>())?);
    let watch = Watch::start()?;
    let (a, b) = ends::start(&lab, machine, &options, seed)?;
    let (began, mut happened) = (Instant::now(), 0);
    let mut faults = Faults::new(seed, links);
    let mut told = 0;
    while began.elapsed() < time && stop.so_far().is_none() && !a.has_ended() && !b.has_ended() {
        for happening in faults.at(began.elapsed()) {
            carry_out(&lab, &happening)?;
            happened += usize::from(happening.begins);
            print::note(format_args!("{:>7.1} s  {happening}", began.elapsed().as_secs_f64()));
        }
        let minutes = began.elapsed().as_secs() / 60;
        if minutes > told {
            told = minutes;
            print::note(format_args!("{:>5} min  {} there, {} back", minutes, size(b.received()), size(a.received())));
        }
        tokio::time::sleep(TICK).await;
    }
    for happening in faults.end() {
        carry_out(&lab, &happening)?;
    }
    let time = began.elapsed();
    [&a, &b].into_iter().for_each(End::stop_sending);
    let ends = [a, b].map(End::finish);
    Ok(Soaked { began, time, faults: happened, ends, standstills: watch.finish() })
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
                Ok(Ended { stats, gaps }) => {
                    writeln!(
                        f,
                        "{way:<5}  {} received and compared, {} of them twice",
                        size(stats.bytes_read),
                        size(stats.bytes_duplicated)
                    )?;
                    let gap = |gap: &Gap| {
                        let at = gap.from.saturating_duration_since(self.began).as_secs_f64();
                        let still = match host_stall::during(gap, &self.standstills) {
                            Duration::ZERO => String::new(),
                            still => {
                                format!(" (this machine stood still for {:.0} ms of it)", still.as_secs_f64() * 1e3)
                            }
                        };
                        format!("{:.0} ms at {at:.1} s{still}", gap.length.as_secs_f64() * 1e3)
                    };
                    let gaps: Vec<String> = gaps.iter().map(gap).collect();
                    writeln!(f, "       longest times without any: {}", gaps.join(", "))?;
                }
                Err(error) => writeln!(f, "{way:<5}  FAILED: {error:#}")?,
            }
        }
        let verdict =
            if self.has_passed() { "every byte arrived, once and in order" } else { "NOT every byte arrived" };
        writeln!(f, "{verdict}, through {} faults in {:.0} s", self.faults, self.time.as_secs_f64())
    }
}

fn carry_out(lab: &LinkLab, happening: &Happening) -> Result<()> {
    let Happening { link, fault, begins } = *happening;
    match fault {
        Fault::Rate { mbit } => lab.set_rate(link, if begins { Shape::mbit(mbit) } else { whole() })?,
        Fault::Down(side) => lab.set_link_up(side, link, !begins)?,
        Fault::BlackHole(side) => lab.set_black_hole(side, link, begins)?,
        Fault::FullBlackHole => Side::BOTH.into_iter().try_for_each(|side| lab.set_black_hole(side, link, begins))?,
        Fault::Reset if begins => reset(lab, link)?,
        Fault::Reset => {}
    }
    Ok(())
}

/// Has the kernel reset the connections of a link (`SOCK_DESTROY` of sock_diag(7)).
fn reset(lab: &LinkLab, link: usize) -> Result<()> {
    let mut command = lab.side(Side::A).command("ss");
    command.args(["-K", "dst", &lab.address(Side::B, link).to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().context("`ss -K`").map(drop)
}

/// That it does so: where the kernel cannot (`CONFIG_INET_DIAG_DESTROY`), it says so for any socket. That no socket matches is no
/// error.
fn ensure_resets(lab: &LinkLab) -> Result<()> {
    let mut command = lab.side(Side::A).command("ss");
    let output = command.args(["-K", "dst", "192.0.2.1"]).output().context("`ss -K`, of iproute2")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ss -K` cannot reset connections in this kernel: {}", said.trim());
    Ok(())
}

fn whole() -> Shape {
    Shape::mbit(RATE)
}

fn size(bytes: u64) -> DataSize {
    DataSize::bytes(bytes)
}

/// Of each link, in Mbit/s.
const RATE: u64 = 200;
/// How often it is looked at what is due.
const TICK: Duration = Duration::from_millis(20);
