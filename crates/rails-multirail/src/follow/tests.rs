//! When rails move, with times as arguments.

use super::{
    FollowOptions,
    follower::{Follower, Step},
};
use crate::{RailId, RailRequest, plan_rails, planner::PlannedRail};
use rails_bind::claims::Resources;
use rails_topo::{Bandwidth, CpuId, CpuSet, InterfaceAddress, Interrupt, Nic, NodeId, Topology};
use std::time::{Duration, Instant};

const SETTLE: Duration = Duration::from_millis(500);
const DWELL: Duration = Duration::from_secs(10);

fn nic(name: &str, node: u32, up: bool, served: u32) -> Nic {
    let cpus = Some(CpuSet::single(CpuId(served)));
    Nic {
        node: Some(NodeId(node)),
        speed: Some(Bandwidth::mbps(10_000)),
        up: Some(up),
        addresses: vec![InterfaceAddress { ip: format!("10.0.{node}.{served}").parse().unwrap(), prefix_len: 24 }],
        interrupts: vec![Interrupt { number: 40 + node, name: None, affinity: cpus.clone(), effective: cpus }],
        ..Nic::named(name)
    }
}

/// Two packages of two cores: CPUs 0 and 1 beside eth0, 2 and 3 beside eth1.
fn machine(links: [bool; 2], served: [u32; 2]) -> Topology {
    let nics = vec![nic("eth0", 0, links[0], served[0]), nic("eth1", 1, links[1], served[1])];
    Topology::synthetic("package:2 numa:1 l3:1 core:2 pu:1", nics).unwrap()
}

struct Set {
    follower: Follower,
    now: Instant,
}

impl Set {
    fn new(request: &str, machine: &Topology, options: FollowOptions) -> Self {
        let request: RailRequest = request.parse().unwrap();
        let plan = plan_rails(machine, &request).unwrap();
        let mut set = Self { follower: Follower::new(request, plan.rails, machine, options), now: Instant::now() };
        set.update_machine(machine);
        assert_eq!(set.steps(), []);
        set
    }

    fn update_machine(&mut self, machine: &Topology) {
        self.follower.update_machine(self.now, machine, Resources::default(), &[]);
    }

    /// The steps of that time from now on, each at its time.
    fn pass(&mut self, time: Duration) -> Vec<(Duration, Step)> {
        let (begin, end) = (self.now, self.now + time);
        let mut steps = Vec::new();
        while let Some(due) = self.follower.poll_timeout().filter(|due| *due <= end) {
            self.now = due;
            steps.extend(self.steps().into_iter().map(|step| (due - begin, step)));
        }
        self.now = end;
        steps
    }

    fn steps(&mut self) -> Vec<Step> {
        std::iter::from_fn(|| self.follower.poll(self.now)).collect()
    }

    fn moved(&mut self, step: &Step, has_moved: bool) {
        let Step::Move { to, reasons } = step else { panic!("{step:?}") };
        self.follower.moved(self.now, to, reasons, has_moved);
    }
}

fn target(step: &Step) -> &PlannedRail {
    let Step::Move { to, .. } = step else { panic!("{step:?}") };
    to
}

#[test]
fn lost_cpu_is_left_at_once() {
    let whole = machine([true, true], [1, 3]);
    let mut set = Set::new("2", &whole, FollowOptions::new());
    let less = whole.clone().with_allowed("1-3".parse().unwrap());
    set.update_machine(&less);
    let steps = set.steps();
    assert_eq!(steps.len(), 1);
    assert_eq!((target(&steps[0]).id, target(&steps[0]).cpu), (RailId(0), CpuId(1)));
    set.moved(&steps[0], true);
    set.update_machine(&less);
    assert_eq!(set.pass(100 * DWELL), []);

    // The CPU is back, and better: the rail returns after a while, unless it is gone again.
    set.update_machine(&whole);
    assert_eq!(set.pass(DWELL / 2), []);
    set.update_machine(&less);
    assert_eq!(set.pass(2 * DWELL), []);
    set.update_machine(&whole);
    let steps = set.pass(2 * DWELL);
    assert_eq!(steps.len(), 1);
    assert_eq!((steps[0].0, target(&steps[0].1).cpu), (DWELL, CpuId(0)));
}

#[test]
fn lost_binding_is_made_again() {
    let whole = machine([true, true], [1, 3]);
    let mut set = Set::new("2", &whole, FollowOptions::new());
    set.follower.update_machine(set.now, &whole, Resources::default(), &[RailId(1)]);
    let steps = set.steps();
    assert_eq!(steps.len(), 1);
    assert_eq!((target(&steps[0]).id, target(&steps[0]).cpu), (RailId(1), CpuId(2)), "where it was");
}

#[test]
fn rail_leaves_a_cpu_that_another_one_needs_at_once() {
    let machine = Topology::synthetic(
        "package:2 numa:1 l3:1 core:4 pu:1",
        vec![nic("eth0", 0, true, 20), nic("eth1", 1, true, 21)],
    );
    let machine = machine.unwrap();
    let mut set = Set::new("eth0,eth1", &machine.clone().with_allowed("4-5".parse().unwrap()), FollowOptions::new());
    // Rail 0 has a better CPU now, and rail 1 none.
    set.update_machine(&machine.with_allowed("0,4,6-7".parse().unwrap()));
    let steps = set.steps();
    let cpus: Vec<CpuId> = steps.iter().map(|step| target(step).cpu).collect();
    assert_eq!(cpus, [CpuId(0), CpuId(4)], "rail 0 goes first");
}

#[test]
fn link_that_flaps_moves_nothing() {
    let both = machine([true, true], [1, 3]);
    let mut set = Set::new("1", &both, FollowOptions::new());
    for _ in 0..20 {
        set.update_machine(&machine([false, true], [1, 3]));
        assert_eq!(set.pass(SETTLE - Duration::from_millis(1)), []);
        set.update_machine(&both);
        assert_eq!(set.pass(SETTLE), []);
    }
    set.update_machine(&machine([false, true], [1, 3]));
    // Looking again does not begin the time anew.
    assert_eq!(set.pass(SETTLE / 2), []);
    set.update_machine(&machine([false, true], [1, 3]));
    let steps = set.pass(SETTLE);
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].0, SETTLE / 2);
    assert_eq!(target(&steps[0].1).interface.as_deref(), Some("eth1"));
    set.moved(&steps[0].1, true);
    set.update_machine(&both);
    assert_eq!(set.pass(100 * DWELL), [], "it does not return for the sake of it");
}

#[test]
fn interrupts_that_wander_move_a_rail_once_in_a_dwell() {
    let mut set = Set::new("1", &machine([true, true], [1, 3]), FollowOptions::new());
    let mut moves = Vec::new();
    for second in 1..=60 {
        let served = if second % 2 == 0 { 1 } else { 0 };
        set.update_machine(&machine([true, true], [served, 3]));
        moves.extend(set.pass(Duration::from_secs(1)));
    }
    assert_eq!(moves, [], "no place was better for long enough");
    set.update_machine(&machine([true, true], [0, 3]));
    let steps = set.pass(DWELL);
    assert_eq!(steps.len(), 1);
    set.moved(&steps[0].1, true);
    set.update_machine(&machine([true, true], [1, 3]));
    assert_eq!(set.pass(DWELL - Duration::from_millis(1)), []);
    assert_eq!(set.pass(Duration::from_millis(1)).len(), 1);
}

#[test]
fn interrupt_is_put_back_instead() {
    let mut set = Set::new("1", &machine([true, true], [1, 3]), FollowOptions::new().put_interrupts_back());
    let moved = machine([true, true], [0, 3]);
    set.update_machine(&moved);
    let back = |found: u32| Step::PutBack {
        interrupt: 40,
        cpus: CpuSet::single(CpuId(1)),
        found: Some(CpuSet::single(CpuId(found))),
    };
    assert_eq!(set.pass(SETTLE), [(SETTLE, back(0))]);
    let restored = machine([true, true], [1, 3]);
    set.update_machine(&restored);
    // Another program moves the interrupt at once: it is put back again, and not before its time.
    set.update_machine(&moved);
    assert_eq!(set.pass(DWELL - Duration::from_millis(1)), []);
    assert_eq!(set.pass(Duration::from_millis(1))[0].1, back(0));
    set.update_machine(&restored);
    assert_eq!(set.pass(100 * DWELL), [], "the rail has not moved meanwhile");
    // The rail follows an interrupt that cannot be put back.
    set.update_machine(&moved);
    assert_eq!(set.pass(SETTLE), [(SETTLE, back(0))]);
    set.follower.put_back(40, false);
    set.update_machine(&moved);
    let steps = set.pass(DWELL);
    assert_eq!(steps.iter().filter(|(_, step)| matches!(step, Step::Move { .. })).count(), 1);
    set.update_machine(&restored);
    set.steps();
    // Interrupts of NICs without a rail are not the follower's business.
    set.update_machine(&machine([true, true], [1, 2]));
    assert_eq!(set.pass(100 * DWELL), []);
}

#[test]
fn rail_that_cannot_move_says_so_once() {
    let mut set = Set::new("2", &machine([true, true], [1, 3]), FollowOptions::new());
    for _ in 0..3 {
        set.update_machine(&machine([false, true], [1, 3]));
    }
    let reason = "no NIC without a rail can be used in place of its own".to_owned();
    assert_eq!(set.steps(), [Step::Unmet { rail: RailId(0), reason }]);
    assert_eq!(set.pass(100 * DWELL), []);
}

#[test]
fn move_that_failed_is_tried_again_later() {
    let whole = machine([true, true], [1, 3]);
    let mut set = Set::new("1", &whole, FollowOptions::new());
    set.update_machine(&whole.with_allowed("1-3".parse().unwrap()));
    let steps = set.steps();
    set.moved(&steps[0], false);
    let again = set.pass(3 * DWELL);
    assert_eq!(again, [(DWELL, steps[0].clone())]);
}

#[test]
fn move_that_failed_rests_while_the_machine_changes() {
    let whole = machine([true, true], [1, 3]);
    for after in [whole.clone().with_allowed("1-3".parse().unwrap()), machine([false, true], [1, 3])] {
        let mut set = Set::new("1", &whole, FollowOptions::new());
        set.update_machine(&after);
        let steps = set.pass(SETTLE);
        set.moved(&steps[0].1, false);
        let mut again = Vec::new();
        for _ in 0..9 {
            set.update_machine(&after);
            again.extend(set.pass(DWELL / 10));
        }
        assert_eq!(again, [], "it was tried a moment ago");
        assert_eq!(set.pass(2 * DWELL).len(), 1);
        // Another place is no second try.
        set.update_machine(&whole);
        set.update_machine(&after);
        assert_eq!(set.pass(SETTLE).len(), 1);
    }
}

#[test]
fn interrupt_that_is_gone_is_not_put_back() {
    let both = machine([true, true], [1, 3]);
    let mut set = Set::new("1", &both, FollowOptions::new().put_interrupts_back());
    set.update_machine(&machine([true, true], [0, 3]));
    let gone = Topology::synthetic("package:2 numa:1 l3:1 core:2 pu:1", vec![nic("eth1", 1, true, 3)]).unwrap();
    set.update_machine(&gone);
    let steps = set.pass(10 * DWELL);
    let is_put_back = |(_, step): &&(Duration, Step)| matches!(step, Step::PutBack { .. });
    assert_eq!(steps.iter().filter(is_put_back).count(), 0, "{steps:?}");
}

#[test]
fn rail_that_was_moved_by_hand_is_followed_from_there() {
    let whole = machine([true, true], [1, 3]);
    let mut set = Set::new("1", &whole, FollowOptions::new());
    let mut moved = plan_rails(&whole, &"1".parse().unwrap()).unwrap().rails;
    moved[0].cpu = CpuId(3);
    set.follower.update_rails(moved);
    set.update_machine(&whole.with_allowed("0-2".parse().unwrap()));
    let steps = set.steps();
    assert_eq!(steps.len(), 1);
    assert_eq!(target(&steps[0]).cpu, CpuId(0), "CPU 3 is lost, so it leaves it at once");
}

#[test]
fn odd_times_neither_overflow_nor_spin() {
    let whole = machine([true, true], [1, 3]);
    let options = FollowOptions::new().settle(Duration::MAX).dwell(Duration::MAX);
    let mut set = Set::new("1", &whole, options);
    set.update_machine(&machine([false, true], [0, 3]));
    assert_eq!(set.steps(), []);
    let less = whole.clone().with_allowed("1-3".parse().unwrap());
    let mut set = Set::new("1", &whole, FollowOptions::new().dwell(Duration::ZERO));
    set.update_machine(&less);
    let steps = set.steps();
    set.moved(&steps[0], false);
    assert_eq!(set.steps(), [], "not again at the same moment");
    assert_eq!(set.pass(DWELL).len(), 1);
}
