//! UCX's own benchmark, over TCP on all links: `ucx_perftest -t tag_bw` with messages of 4 MiB.
//!
//! The benchmark sends a number of messages, not for a time; the number is worked out from the
//! links' rates for the warm-up, and from its earlier rate for every later round. The benchmark
//! prints only the sender's view: messages of this size are sent by rendezvous, so the receiver has
//! confirmed them, but it is a figure of the sender. The congestion control of its sockets is the
//! system's, which the testbed sets.

use super::{ContestError, Figures, MeasuredAt, Rival, Testbed, program};
use crate::lab::compare::peer::Peer;
use rails_lab::Side;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A UCX that is installed or unpacked.
pub(super) struct Ucx {
    program: PathBuf,
    /// The folder of libraries beside the program, if there is one: a wheel has them there, and its
    /// program no path to them.
    libraries: Option<PathBuf>,
    version: String,
    /// The rate of the last measurement.
    bits_per_second: Option<f64>,
}

impl Ucx {
    /// Finds the named program, or the one along `PATH`.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, String> {
        let program = match named {
            Some(named) if program::is_executable(named) => named.to_owned(),
            Some(named) => return Err(format!("{} is no program", named.display())),
            None => program::find(NAME).ok_or(format!("{NAME} is not in PATH; --ucx names it ({HOW})"))?,
        };
        let beside = program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
        let libraries = beside.filter(|folder| folder.join("libucp.so.0").exists());
        let mut ucx = Self { program, libraries, version: String::new(), bits_per_second: None };
        let mut info = Command::new(ucx.program.with_file_name("ucx_info"));
        ucx.version = program::first_line(ucx.with_libraries(&mut info).arg("-v"))?.trim_start_matches("# ").to_owned();
        Ok(ucx)
    }

    fn with_libraries<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match &self.libraries {
            Some(folder) => command.env("LD_LIBRARY_PATH", folder),
            None => command,
        }
    }

    fn start(&self, testbed: &Testbed, side: Side, arguments: &[&str]) -> Result<Peer, ContestError> {
        let devices: Vec<&str> = (0..testbed.links.len()).map(|link| testbed.lab.interface(side, link)).collect();
        let mut command = testbed.command(side, &self.program);
        // Without this, UCX would use shared memory between two processes of one machine.
        command.env("UCX_TLS", "tcp").env("UCX_NET_DEVICES", devices.join(","));
        // By default UCX uses two rails at most.
        command.env("UCX_MAX_RNDV_RAILS", devices.len().to_string());
        self.with_libraries(&mut command).args(["-p", PORT_TEXT]).args(arguments);
        Peer::start(command, testbed.cpus(side))
    }

    /// The number of messages that take about the testbed's time.
    fn messages(&self, testbed: &Testbed) -> u64 {
        let links = testbed.links.iter().map(|link| link.mbit().unwrap_or(GUESSED_MBIT) as f64 * 1e6);
        let rate = self.bits_per_second.unwrap_or_else(|| links.sum());
        ((rate * testbed.time.as_secs_f64() / 8.0 / MESSAGE as f64) as u64).clamp(4, 1_000_000)
    }
}

impl Rival for Ucx {
    fn version(&self) -> Option<String> {
        Some(format!("{}, tag_bw, {} MiB messages", self.version, MESSAGE >> 20))
    }

    fn measure(&mut self, testbed: &Testbed) -> Result<Figures, ContestError> {
        let mut server = self.start(testbed, Side::B, &[])?;
        server.wait_until(|| Ok(testbed.lab.is_listening(Side::B, PORT)?))?;
        let (messages, address) = (self.messages(testbed), testbed.lab.address(Side::B, 0).to_string());
        let (size, count) = (MESSAGE.to_string(), messages.to_string());
        let test = ["-t", "tag_bw", "-s", &size, "-n", &count, "-w", "1", "-f", "-v"];
        let client = self.start(testbed, Side::A, &[&[address.as_str()], test.as_slice()].concat())?;
        let output = String::from_utf8_lossy(&client.finish()?).into_owned();
        server.finish()?;
        let rate = bits_per_second(&output).ok_or(ContestError::Figure { program: NAME, output })?;
        self.bits_per_second = Some(rate);
        Ok(Figures {
            goodput_bits_per_second: rate,
            bytes: messages * MESSAGE,
            measured_at: MeasuredAt::Sender,
            cpu_seconds: None,
            congestion_control: Vec::new(),
            warnings: Vec::new(),
        })
    }
}

/// The overall bandwidth of the comma-separated output: a line of names, then one of values in MiB
/// (2^20) per second.
fn bits_per_second(output: &str) -> Option<f64> {
    let mut lines = output.lines().skip_while(|line| !line.contains("overall_bw"));
    let column = lines.next()?.split(',').position(|name| name.trim() == "overall_bw")?;
    let mebibytes: f64 = lines.last()?.split(',').nth(column)?.trim().parse().ok()?;
    Some(mebibytes * f64::from(1 << 20) * 8.0).filter(|rate| rate.is_finite() && *rate >= 0.0)
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(output: &str) {
    if let Some(rate) = bits_per_second(output) {
        assert!(rate.is_finite() && rate >= 0.0);
    }
}

const NAME: &str = "ucx_perftest";
/// Debian's package is 1.13, which uses a single rail over TCP.
const HOW: &str = "a new one: `pip download --no-deps libucx-cu12`, unzip the wheel, --ucx libucx/bin/ucx_perftest";
const MESSAGE: u64 = 4 << 20;
const PORT: u16 = 13_777;
const PORT_TEXT: &str = "13777";
/// The rate of an unshaped link for the warm-up.
const GUESSED_MBIT: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bandwidth_is_found_by_its_name() {
        let output = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n  \
                      20,6.459,49757.695,49757.695,70.00,80.00,20,20\n";
        assert_eq!(bits_per_second(output), Some(80.0 * 8_388_608.0));
        assert_eq!(bits_per_second(""), None);
        for nothing in ["overall_bw\n", "overall_bw\nnan\n", "overall_bw\n-1\n", "overall_bw\n1e308\n"] {
            assert_eq!(bits_per_second(nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn no_output_makes_it_panic(output in "(overall_bw|[a-z0-9.,\\-\n ]){0,12}") {
            let _ = bits_per_second(&output);
        }
    }
}
