//! Links that go down and come back.

use crate::ends::Ends;
use rails_lab::{LinkLab, Shape, Side};
use rails_multirail::{Secret, StreamOptions};
use rails_net::TcpTransport;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// A case: a link goes down at one end and comes back.
#[derive(Debug, Clone)]
struct Flap {
    /// The number of lanes over each link.
    parallel: usize,
    links: usize,
    /// Whether a bridge lies between the ends, so that the peer's interface keeps its carrier.
    bridged: bool,
    congestion: &'static str,
    /// The end at which the first link goes down, and for how long.
    side: Side,
    down: Duration,
    /// The ends that write all the time.
    writers: Vec<Side>,
}

impl Flap {
    /// The case for a stream with one lane.
    fn of_one_lane(side: Side, writers: &[Side]) -> Self {
        let (down, writers) = (Duration::from_millis(400), writers.to_vec());
        Self { parallel: 1, links: 1, bridged: true, congestion: "cubic", side, down, writers }
    }

    fn open(&self) -> Ends {
        let lab = (0..self.links).fold(LinkLab::builder(), |lab, _| match self.bridged {
            true => lab.bridged(Shape::mbit(RATE)),
            false => lab.link(Shape::mbit(RATE)),
        });
        let lane = TcpTransport::new().congestion(self.congestion);
        let options = StreamOptions::new(Secret::pre_shared(b"0123456789abcdef").unwrap()).transport(lane);
        let ends = Ends::open(lab.build().unwrap(), &options.parallel(self.parallel), &self.writers);
        ends.pass(SETTLE);
        ends
    }

    fn happen(&self, ends: &Ends) {
        ends.lab.set_link_up(self.side, 0, false).unwrap();
        ends.pass(self.down);
        ends.lab.set_link_up(self.side, 0, true).unwrap();
    }

    /// The time from the return of the link until every lane is usable at both ends.
    fn until_usable(&self) -> Duration {
        let ends = self.open();
        let all = ends.usable_lanes(Side::A);
        assert_eq!(all.len(), self.links * self.parallel);
        self.happen(&ends);
        let took = ends
            .wait_until("every lane is usable again", || Side::BOTH.iter().all(|side| ends.usable_lanes(*side) == all));
        // Each lane carries bytes both ways.
        let before = Side::BOTH.map(|side| ends.arrived(side));
        ends.write();
        ends.wait_until("every lane carries bytes again", || {
            let now = Side::BOTH.map(|side| ends.arrived(side));
            before.iter().zip(&now).all(|(before, now)| all.iter().all(|lane| now[lane] > before[lane]))
        });
        ends.finish();
        took
    }

    /// The time from the return of the link until its lane has carried enough bytes to be in use;
    /// and the events.
    fn until_used(&self) -> (Duration, String) {
        let ends = self.open();
        self.happen(&ends);
        let readers: Vec<Side> = self.writers.iter().map(|side| side.other()).collect();
        let carried = || readers.iter().map(|side| ends.arrived(*side)[&0]).sum::<u64>();
        let before = carried();
        let took = ends.wait_until("the lane is used again", || carried() - before >= IN_USE);
        let story = ends.story();
        ends.finish();
        (took, story)
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_flap_that_one_end_saw_is_got_over() {
    for side in Side::BOTH {
        for writers in [&[][..], &[Side::A], &[Side::B], &[Side::A, Side::B]] {
            let took = Flap::of_one_lane(side, writers).until_usable();
            println!("down at {side}, written at {writers:?}: usable after {took:?}");
            assert!(took < LONGEST, "down at {side}, written at {writers:?}: {took:?}");
        }
    }
}

/// `RAILS_RUNS=20` runs every case 20 times. Without it, a third of the short cases run once.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_rail_is_used_soon_after_it_is_back() {
    let runs = std::env::var("RAILS_RUNS").ok().map(|text| text.parse::<usize>().expect("RAILS_RUNS is a number"));
    let downs: &[u64] = if runs.is_some() { &[300, 1_000, 4_000, 30_000] } else { &[300, 1_000] };
    let mut cases = Vec::new();
    for down in downs.iter().copied().map(Duration::from_millis) {
        for congestion in ["cubic", "bbr"] {
            for (side, writer) in Side::BOTH.into_iter().flat_map(|side| Side::BOTH.map(|writer| (side, writer))) {
                for bridged in [true, false] {
                    let writers = vec![writer];
                    cases.push(Flap { parallel: 1, links: 2, bridged, congestion, side, down, writers });
                }
            }
        }
    }
    if runs.is_none() {
        // Every third case, so that each value of each parameter still occurs.
        cases = cases.into_iter().step_by(3).collect();
    }
    let failed = run_all(&cases, runs.unwrap_or(1));
    assert!(
        failed.is_empty(),
        "{} of {} were late:\n{}",
        failed.len(),
        cases.len() * runs.unwrap_or(1),
        failed.join("\n")
    );
}

/// The only link is silent for longer than a handshake may take, than a peer that closes is waited
/// for, and than the kernel repeats a segment.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_stream_outlives_a_silence_of_16_s() {
    let flap = Flap { down: Duration::from_secs(16), ..Flap::of_one_lane(Side::A, &Side::BOTH) };
    let (took, story) = flap.until_used();
    println!("used after {took:?}\n{story}");
}

/// Runs each case `runs` times, several at a time, and gives those that took too long.
fn run_all(cases: &[Flap], runs: usize) -> Vec<String> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let index = next.fetch_add(1, Relaxed)
            && let Some(flap) = cases.get(index / runs)
        {
            let (took, story) = flap.until_used();
            println!("{flap:?}: used after {took:?}");
            if took > LONGEST {
                failed
                    .lock()
                    .expect("no thread panics while it holds the lock")
                    .push(format!("{flap:?}: {took:?}\n{story}"));
            }
        }
    };
    std::thread::scope(|scope| (0..AT_A_TIME).for_each(|_| drop(scope.spawn(work))));
    failed.into_inner().expect("no thread panics while it holds the lock")
}

/// The rate of a link, in Mbit/s.
const RATE: u64 = 50;
/// Before something happens.
const SETTLE: Duration = Duration::from_millis(300);
/// The longest time until a lane is usable and used again after its link is back.
const LONGEST: Duration = Duration::from_secs(2);
/// More bytes than a lane has in flight: a lane that has carried them was given new ones.
const IN_USE: u64 = 1 << 20;
/// The number of concurrent streams, which mostly wait.
const AT_A_TIME: usize = 4;
