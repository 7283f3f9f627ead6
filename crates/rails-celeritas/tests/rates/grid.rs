//! Paths of many rates, lengths and queues: each flow alone, beside models of TCP on the same path.

use crate::{
    bottleneck::{Bottleneck, Counts, Line},
    flows::{Flow, Plan, adaptive},
    rivals::{bbr, cubic},
};
use std::{
    env, fmt,
    time::{Duration, Instant},
};

/// A path, and how each flow does on it when it is alone.
struct Cell {
    mbps: f64,
    rtt: Duration,
    queue: u32,
    time: Duration,
    own: Counts,
    cubic: Counts,
    bbr: Counts,
}

impl Cell {
    fn run(mbps: f64, milliseconds: u64, queue: u32) -> Self {
        let rtt = Duration::from_millis(milliseconds);
        let four_packets = Duration::from_secs_f64(4.0 * 12_000.0 / (mbps * 1e6));
        let line =
            Line { bits_per_second: mbps * 1e6, queue: (rtt * queue).max(four_packets), delay: rtt / 2, loss: 0.0 };
        let time = Duration::from_secs(if mbps > 50.0 { 8 } else { 20 }).max(160 * rtt);
        let alone = |make: &dyn Fn(Instant, Duration) -> Box<dyn Flow>| {
            let mut path = Bottleneck::new(1, line);
            path.add(make);
            let mut counts = path.run(time)[0];
            // Packets that are still in the queue.
            counts.passed -= path.queued().as_secs_f64() * line.bits_per_second;
            counts
        };
        let own = alone(&|now, rtt| adaptive(Plan::endless())(now, rtt));
        Self { mbps, rtt, queue, time, own, cubic: alone(&cubic), bbr: alone(&bbr) }
    }

    /// No more drops than CUBIC has, but for one in a thousand. Twice the queue of BBR and two
    /// packets, or two fifths of a round trip: flows of one queue need that to share it. And 0.9 of
    /// the better rate.
    fn is_good(&self) -> bool {
        let two_packets = 2.0 * 12_000.0 / (self.mbps * 1e6);
        let queue = (2.0 * self.bbr.wait() + two_packets).max(0.4 * self.rtt.as_secs_f64());
        self.own.drops() <= self.cubic.drops() + 0.001
            && self.own.wait() <= queue
            && self.own.passed >= 0.9 * self.cubic.passed.max(self.bbr.passed)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_good() { ' ' } else { '!' };
        write!(f, "{mark} {:>3} Mbit/s {:>3} ms x{:>2} |", self.mbps, self.rtt.as_millis(), self.queue)?;
        for counts in [&self.own, &self.cubic, &self.bbr] {
            let (rate, wait) = (counts.mbps(self.time), counts.wait() * 1e3);
            write!(f, " {rate:>6.1} {wait:>7.1} ms {:>6.2} % |", counts.drops() * 100.0)?;
        }
        Ok(())
    }
}

/// The whole grid takes a minute: `RAILS_SEEDS=0..1 cargo test -p rails-celeritas --test rates
/// grid`.
#[test]
fn no_worse_than_tcp_on_any_path() {
    let is_whole = env::var_os("RAILS_SEEDS").is_some();
    let all = [1.0, 2.0, 5.0, 20.0, 100.0, 500.0]
        .into_iter()
        .flat_map(|mbps| [5, 20, 100].into_iter().flat_map(move |rtt| [1, 10, 50].map(|queue| (mbps, rtt, queue))));
    // A few of those that cost little.
    let sample = all.enumerate().filter(|(index, (mbps, ..))| is_whole || *mbps < 50.0 && index % 4 == 2);
    let cells: Vec<Cell> = sample.map(|(_, (mbps, rtt, queue))| Cell::run(mbps, rtt, queue)).collect();
    let table: Vec<String> = cells.iter().map(Cell::to_string).collect();
    assert!(
        cells.iter().all(Cell::is_good),
        "each with its rate, its mean time in the queue and its drops: Celeritas, CUBIC, BBR\n{}",
        table.join("\n")
    );
}
