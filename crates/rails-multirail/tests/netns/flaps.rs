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

/// A link goes down at one end and comes back.
#[derive(Debug, Clone)]
struct Flap {
    /// Lanes over each link.
    parallel: usize,
    links: usize,
    /// Whether the peer of the end that goes down keeps its carrier.
    bridged: bool,
    congestion: &'static str,
    /// At which end the first link goes down, and for how long.
    side: Side,
    down: Duration,
    /// Who writes all the time.
    writers: Vec<Side>,
}

impl Flap {
    /// Of a stream with one lane.
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

    /// How long it took, after the link was back, until every lane was usable at both ends.
    fn until_usable(&self) -> Duration {
        let ends = self.open();
        let all = ends.usable_lanes(Side::A);
        assert_eq!(all.len(), self.links * self.parallel);
        self.happen(&ends);
        let took = ends
            .wait_until("every lane is usable again", || Side::BOTH.iter().all(|side| ends.usable_lanes(*side) == all));
        // Each of them carries something, both ways.
        let before = Side::BOTH.map(|side| ends.arrived(side));
        ends.write();
        ends.wait_until("every lane carries bytes again", || {
            let now = Side::BOTH.map(|side| ends.arrived(side));
            before.iter().zip(&now).all(|(before, now)| all.iter().all(|lane| now[lane] > before[lane]))
        });
        ends.finish();
        took
    }

    /// How long it took, after the link was back, until its lane had carried so much that it must be in use; and what happened.
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

/// `RAILS_RUNS=20` has each of all cases happen so many times; without it, there are few of the short ones.
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
        // Of the short ones, each is met in half of the cases.
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

/// Runs each of these so many times, some at a time; gives those that took too long.
fn run_all(cases: &[Flap], runs: usize) -> Vec<String> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let index = next.fetch_add(1, Relaxed)
            && let Some(flap) = cases.get(index / runs)
        {
            let (took, story) = flap.until_used();
            println!("{flap:?}: used after {took:?}");
            if took > LONGEST {
                failed.lock().expect("nothing panics with it").push(format!("{flap:?}: {took:?}\n{story}"));
            }
        }
    };
    std::thread::scope(|scope| (0..AT_A_TIME).for_each(|_| drop(scope.spawn(work))));
    failed.into_inner().expect("nothing panics with it")
}

/// Of a link, in Mbit/s.
const RATE: u64 = 50;
/// Before something happens.
const SETTLE: Duration = Duration::from_millis(300);
/// A lane is usable, and used, again so soon after its link is back.
const LONGEST: Duration = Duration::from_secs(2);
/// So many bytes are more than a lane has in flight: it was given others.
const IN_USE: u64 = 1 << 20;
/// How many streams there are at a time: what they wait for is time, most of it.
const AT_A_TIME: usize = 4;
