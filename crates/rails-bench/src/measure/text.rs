//! A measurement as a person reads it.

use super::report::{Measurement, RailReport, Side, Transport};
use rails_bind::affinity::Verdict;
use rails_multirail::Policy;
use std::fmt;

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = self.sender.lanes().count();
        let what = match self.transport {
            Transport::Rails { policy: Policy::Adaptive } => "one stream, adaptive",
            Transport::Rails { policy: Policy::Static } => "one stream, static",
            Transport::PlainTcp => "plain TCP flows",
        };
        let goodput = self.receiver_goodput_bits_per_second / 1e6;
        writeln!(
            f,
            "{goodput:.1} Mbit/s at the receiver: {} bytes in {:.3} s ({what}, {lanes} lane(s))",
            self.bytes, self.seconds
        )?;
        write!(f, "sender\n{}receiver\n{}", self.sender, self.receiver)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel.as_deref().unwrap_or("unknown");
        writeln!(f, "  {:.2} s of CPU; CPUs {} allowed; kernel {kernel}", self.cpu_seconds, self.allowed_cpus)?;
        self.rails.iter().try_for_each(|rail| write!(f, "{rail}"))
    }
}

impl fmt::Display for RailReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = self.cpus.as_ref().map_or("unknown".to_owned(), ToString::to_string);
        let node = self.memory_node.map_or("unknown".to_owned(), |node| node.to_string());
        let busy = self.cpu_seconds.map_or("unknown".to_owned(), |seconds| format!("{seconds:.2} s"));
        let affinity = &self.affinity;
        writeln!(
            f,
            "  rail {}: on CPU {cpus}, memory on node {node}, {busy} of CPU; affinity of interrupt {}, thread {}, memory {}",
            self.rail,
            state(&affinity.interrupt),
            state(&affinity.thread),
            state(&affinity.memory)
        )?;
        for lane in &self.lanes {
            let congestion = lane.congestion_control.as_deref().unwrap_or("unknown");
            let retransmitted = lane.retransmitted_segments.map_or("unknown".to_owned(), |count| count.to_string());
            writeln!(
                f,
                "    {} -> {}: {} bytes, {congestion}, {retransmitted} segments retransmitted",
                lane.local,
                lane.remote,
                lane.bytes_sent.max(lane.bytes_received)
            )?;
            if let Some(lost) = &lane.lost {
                writeln!(f, "    lost: {lost}")?;
            }
        }
        Ok(())
    }
}

fn state(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Holds { .. } => "holds",
        Verdict::Broken { .. } => "BROKEN",
        Verdict::Unknown { .. } => "unknown",
    }
}
