//! `netvideo`: frames over a pipeline of rails, beside the scheduler's placement.

use super::contest::{CaseArgs, ContestArgs, explained};
use crate::{
    commands::seconds,
    exit::Exit,
    lab::netvideo::{Device, Film, NetvideoContest, frame_bytes},
    machine::this_machine,
    print,
};
use anyhow::Result;
use std::{path::PathBuf, time::Duration};

/// Stream video frames over a pipeline of stages on rails, and with the scheduler's placement
/// (needs root)
///
/// The command makes the links. Source, compute stage and striped stream are at one end; stream and
/// display at the other. The display is a checksum of every frame. In each round both placements
/// and the ceiling (a plain TCP flow per link) run once, in random order; the first round does not
/// count. Planned rails and the ceiling have half of the CPUs for each end, and the scheduler's
/// placement has all CPUs for both. Without --rates and --emulated there is one case, 1000,1000.
///
/// Example: rails-bench netvideo --rates 1000,1000 --rounds 5 --json netvideo.json
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cases: CaseArgs,
    #[command(flatten)]
    contest: ContestArgs,
    /// How long each measurement makes frames
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Frames a second of a source that drops those that find no room [default: one as soon as
    /// there is room]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    fps: Option<u32>,
    /// Width and height of a frame, in pixels of four bytes
    #[arg(long, value_name = "WxH", default_value = "3840x2160", value_parser = size)]
    size: (u32, u32),
    /// Frames that are at the sender at a time
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    buffers: u16,
    /// The device that computes; a GPU has up to three frames at a time, so give it as many more
    /// --buffers
    #[arg(long, value_enum, default_value_t = Device::Host)]
    device: Device,
    /// A file or block device of raw frames, read over and over on a rail beside its disks
    /// [default: made-up frames]
    #[arg(long, value_name = "PATH", conflicts_with = "fps")]
    file: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    args.device.check()?;
    let cases = args.cases.cases(&["1000,1000"])?;
    let topology = this_machine()?;
    let terms = args.contest.terms()?;
    let frame_bytes = frame_bytes(args.size);
    let film = args.file.clone().map(|path| Film::of(path, frame_bytes)).transpose()?;
    let mut reports = Vec::new();
    for links in cases {
        let contest = NetvideoContest {
            links,
            time: args.seconds,
            fps: args.fps,
            size: args.size,
            buffers: args.buffers.into(),
            device: args.device,
            film: film.clone(),
            terms: terms.clone(),
        };
        let report = contest.run(&topology, |round, who| args.contest.say(round, who)).map_err(explained)?;
        print::text(format_args!("{report}\n"))?;
        reports.push(report);
    }
    args.contest.write(&reports)?;
    Ok(Exit::Done)
}

/// Reads `3840x2160`.
fn size(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    let possible = |side: u32| (1..=LONGEST).contains(&side);
    parsed
        .filter(|(width, height)| possible(*width) && possible(*height))
        .ok_or_else(|| format!("`{text}` is not a width and a height from 1 to {LONGEST}, such as 3840x2160"))
}

/// Pixels of a side: 1 GiB a frame at most.
const LONGEST: u32 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_width_and_a_height() {
        assert_eq!(size("3840x2160"), Ok((3840, 2160)));
        for text in ["", "3840", "3840x", "0x1", "1x16385", "-1x1", "1x1x1", "axb"] {
            assert!(size(text).unwrap_err().contains("such as 3840x2160"), "{text}");
        }
    }
}
