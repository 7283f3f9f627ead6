//! The description of a lab, and the counts of its emulated links, in words. All of it goes to
//! stderr: stdout is the command's.

use crate::print;
use rails_lab::{EmulatedCounters, LabError, LineCounters, LinkLab, Side};
use std::fmt;

/// Prints the lab's parts and how to get in; `what` describes each link.
pub(super) fn made(lab: &LinkLab, what: &[String]) {
    for side in Side::BOTH {
        let name = lab.side(side).name();
        print::note(format_args!("side {side}   namespace {name}; enter it: ip netns exec {name} bash"));
    }
    for (link, what) in what.iter().enumerate() {
        let end = |side| format!("{} {}", lab.interface(side, link), lab.address(side, link));
        print::note(format_args!("link {link}   {} <> {}: {what}", end(Side::A), end(Side::B)));
    }
}

/// Prints the counters of the emulated links; links of the other kind have none.
pub(super) fn counters(lab: &LinkLab) {
    for link in 0..lab.link_count() {
        match lab.emulated_counters(link) {
            Ok(counters) => counted(link, &counters),
            Err(LabError::OtherKind { .. }) => {}
            Err(error) => print::note(format_args!("warning: {:#}", anyhow::Error::from(error))),
        }
    }
}

fn counted(link: usize, counters: &EmulatedCounters) {
    for (way, side) in [("a>b", Side::A), ("b>a", Side::B)] {
        print::note(format_args!("link {link}   {way} {}", Line(counters.from(side))));
    }
    let unplanned = counters.unplanned_drops();
    if unplanned > 0 {
        print::note(format_args!(
            "warning: link {link} dropped {unplanned} frames that it was not told to: this machine is too slow or too busy \
             for the rate, and what was measured over it is worthless"
        ));
    }
    if !counters.is_realtime {
        print::note(format_args!(
            "warning: link {link} has no real-time priority (CAP_SYS_NICE), so a busy machine makes it late"
        ));
    }
}

struct Line<'a>(&'a LineCounters);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(line) = self;
        write!(
            f,
            "carried {} frames, {} bytes; dropped {} by loss, {} by the full queue, {} while down, {} unplanned; \
             {} under way; at most {:.1} ms late",
            line.frames,
            line.bytes,
            line.lost,
            line.queue_full,
            line.interface_down,
            line.unplanned_drops(),
            line.under_way,
            line.max_lateness.as_secs_f64() * 1e3,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_count_is_said() {
        let line = LineCounters {
            frames: 1,
            bytes: 2,
            under_way: 3,
            lost: 4,
            queue_full: 5,
            interface_down: 6,
            overrun: 7,
            refused: 8,
            max_lateness: Duration::from_micros(250),
        };
        assert_eq!(
            Line(&line).to_string(),
            "carried 1 frames, 2 bytes; dropped 4 by loss, 5 by the full queue, 6 while down, 15 unplanned; \
             3 under way; at most 0.2 ms late"
        );
    }
}
