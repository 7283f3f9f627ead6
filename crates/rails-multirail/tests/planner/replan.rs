//! Rails that run, planned again for a machine that has changed.

use crate::{
    cpus, loopback, nic, planned,
    properties::{cores_of, machines, requests},
    served_by, two_packages,
};
use proptest::prelude::*;
use rails_multirail::{
    RailPlan, RailRequest, plan_rails,
    planner::{LocalEnd, PlannedRail, Replanned, replan_rails},
};
use rails_topo::{CpuId, NodeId, Topology};

fn request(text: &str) -> RailRequest {
    text.parse().unwrap()
}

fn again(machine: &Topology, text: &str, plan: &RailPlan) -> Vec<Replanned> {
    replan_rails(machine, &request(text), &plan.rails).unwrap()
}

fn three_nics() -> Topology {
    two_packages(vec![
        nic("eth0", 0, 100, "10.0.0.1"),
        nic("eth1", 1, 100, "10.0.1.1"),
        nic("eth2", 1, 25, "10.0.2.1"),
        loopback(),
    ])
}

/// The machine with another link state of one NIC.
fn with_link(machine: &Topology, name: &str, up: bool) -> Topology {
    let mut json = serde_json::to_value(machine).unwrap();
    let nics = json["nics"].as_array_mut().unwrap();
    nics.iter_mut().find(|nic| nic["name"] == name).unwrap()["up"] = up.into();
    serde_json::from_value(json).unwrap()
}

fn without_nic(machine: &Topology, name: &str) -> Topology {
    let mut json = serde_json::to_value(machine).unwrap();
    json["nics"].as_array_mut().unwrap().retain(|nic| nic["name"] != name);
    serde_json::from_value(json).unwrap()
}

#[test]
fn nothing_moves_where_nothing_changed() {
    let machine = three_nics();
    for text in ["auto", "2", "loopback:5", "eth0,eth1+cores:2", "peer:10.0.1.9", "eth0@default", "eth1@3/0"] {
        let plan = planned(&machine, text);
        for rail in again(&machine, text, &plan) {
            assert_eq!((rail.reasons, rail.unmet), (vec![], None), "{text}");
        }
    }
}

#[test]
fn a_routed_lane_outlives_its_address() {
    let machine = three_nics();
    let request = RailRequest::routed(["10.0.1.1".parse().unwrap()]);
    let plan = plan_rails(&machine, &request).unwrap();
    let rail = &plan.rails[0];
    assert_eq!((rail.interface.as_deref(), &rail.end), (Some("eth1"), &Some(LocalEnd::Any)));
    assert_eq!((rail.address, rail.addresses.len()), ("10.0.1.1".parse().ok(), 1));
    let renamed = two_packages(vec![nic("eth0", 0, 100, "10.0.0.1"), nic("eth1", 1, 100, "10.0.1.9"), loopback()]);
    let again = replan_rails(&renamed, &request, &plan.rails).unwrap().remove(0);
    assert_eq!((again.reasons, again.unmet), (vec![], None));
    assert_eq!(again.planned.interface.as_deref(), Some("eth1"));
    assert!(plan_rails(&renamed, &request).is_err(), "no route begins at an address that is gone");
}

#[test]
fn lost_cpu_moves_its_rail_alone() {
    let machine = three_nics();
    let plan = planned(&machine, "2");
    assert_eq!(crate::chosen_cpus(&plan), [0, 8]);
    let less = machine.clone().with_allowed(cpus("1-15"));
    let moved = again(&less, "2", &plan);
    assert_eq!(moved[0].planned.cpu, CpuId(1), "the core's other hardware thread is as good as a core of its own");
    assert!(moved[0].is_urgent);
    assert_eq!(moved[0].reasons, ["CPU 0: may not be used here any more"]);
    assert!(moved[1].reasons.is_empty());

    // And back, only if that is better.
    let present: Vec<PlannedRail> = moved.into_iter().map(|rail| rail.planned).collect();
    let back = replan_rails(&machine, &request("2"), &present).unwrap();
    assert!(back.iter().all(|rail| rail.reasons.is_empty()));
}

#[test]
fn better_cpu_is_no_need() {
    let machine = two_packages(vec![served_by(nic("eth0", 0, 100, "10.0.0.1"), "2")]);
    let plan = planned(&machine, "eth0");
    let elsewhere = two_packages(vec![served_by(nic("eth0", 0, 100, "10.0.0.1"), "0")]);
    let moved = again(&elsewhere, "eth0", &plan).remove(0);
    assert_eq!((plan.rails[0].cpu, moved.planned.cpu), (CpuId(0), CpuId(2)));
    assert!(!moved.is_urgent);
    assert_eq!(moved.reasons, ["CPU 0: serves the NIC's interrupts, which need its time"]);
}

/// Eight lanes and their tasks on three cores: a lane that left for a core with fewer rails would
/// push its tasks to a fuller one, and all of them would move for ever.
#[test]
fn crowded_rails_come_to_rest() {
    let mut wanted = RailRequest::loopback(8);
    wanted.cores = 2;
    let plan = plan_rails(&Topology::synthetic("package:2 core:4 pu:1", vec![loopback()]).unwrap(), &wanted).unwrap();
    let nics = vec![loopback(), served_by(nic("eth0", 0, 100, "10.0.0.1"), "0")];
    let crowded = Topology::synthetic("package:2 numa:1 core:6 pu:2", nics).unwrap().with_allowed(cpus("0,12,14"));
    let mut present = plan.rails;
    for _ in 0..20 {
        let rails = replan_rails(&crowded, &wanted, &present).unwrap();
        if rails.iter().all(|rail| rail.reasons.is_empty()) {
            return;
        }
        present = rails.into_iter().map(|rail| rail.planned).collect();
    }
    panic!("rails move for ever: {present:?}");
}

#[test]
fn link_that_is_down_gives_way_to_a_spare_one() {
    let machine = three_nics();
    let plan = planned(&machine, "2");
    let down = with_link(&machine, "eth0", false);
    let moved = again(&down, "2", &plan);
    assert_eq!(moved[0].planned.interface.as_deref(), Some("eth2"));
    assert_eq!(moved[0].planned.node, Some(NodeId(1)), "the memory follows");
    assert_eq!(moved[0].reasons[0], "eth0: its link is down");
    assert!(moved[0].is_urgent && moved[0].unmet.is_none());
    assert!(moved[1].reasons.is_empty(), "the other rail stays");

    let gone = again(&without_nic(&machine, "eth0"), "2", &plan);
    assert_eq!(gone[0].planned.interface.as_deref(), Some("eth2"));
    assert_eq!(gone[0].reasons[0], "eth0: is gone");

    // The faster NIC is there again: a rail that works does not reconnect for that.
    let present: Vec<PlannedRail> = moved.into_iter().map(|rail| rail.planned).collect();
    let back = replan_rails(&machine, &request("2"), &present).unwrap();
    assert!(back.iter().all(|rail| rail.reasons.is_empty()), "{back:?}");
}

#[test]
fn rail_without_another_nic_stays_and_says_so() {
    let machine = three_nics();
    for (text, unmet) in [
        ("auto", "no NIC without a rail can be used in place of its own"),
        ("eth0,eth1,eth2", "the link of eth0 is down, and the request names it"),
    ] {
        let plan = planned(&machine, text);
        let index = plan.rails.iter().position(|rail| rail.interface.as_deref() == Some("eth0")).unwrap();
        let stuck = again(&with_link(&machine, "eth0", false), text, &plan).remove(index);
        assert_eq!(stuck.unmet.as_deref(), Some(unmet));
        assert!(stuck.reasons.is_empty(), "{:?}", stuck.reasons);
        assert_eq!(stuck.planned.end, plan.rails[index].end);
    }
    let plan = planned(&machine, "eth0");
    let gone = again(&without_nic(&machine, "eth0"), "eth0", &plan).remove(0);
    assert!(gone.unmet.unwrap().starts_with("there is no interface, GPU or disk `eth0`"));
    assert_eq!(gone.planned.cpu, plan.rails[0].cpu);

    // Such a rail leaves a CPU that it may not use, all the same.
    let less = without_nic(&machine, "eth0").with_allowed(cpus("2-15"));
    let moved = again(&less, "eth0", &plan).remove(0);
    assert_ne!(moved.planned.cpu, CpuId(0));
    assert!(moved.is_urgent && moved.unmet.is_some());
}

#[test]
fn exclusive_rails_find_no_second_core_in_use() {
    let machine = Topology::synthetic("package:1 core:3 pu:1", vec![loopback()]).unwrap();
    let mut wanted = RailRequest::loopback(2);
    wanted.exclusive = true;
    let plan = plan_rails(&machine, &wanted).unwrap();
    let one_less = machine.clone().with_allowed(cpus("1-2"));
    let moved = replan_rails(&one_less, &wanted, &plan.rails).unwrap();
    assert_eq!((moved[0].planned.cpu, moved[1].planned.cpu), (CpuId(2), CpuId(1)));
    let two_less = machine.with_allowed(cpus("1"));
    let stuck = replan_rails(&two_less, &wanted, &plan.rails).unwrap();
    assert!(stuck[0].unmet.as_deref().unwrap().contains("cores"), "{stuck:?}");
    assert_eq!(stuck[0].planned, plan.rails[0]);
    assert!(stuck[1].reasons.is_empty());
}

#[test]
fn exclusive_rails_name_the_cores_of_all_others() {
    let machine = Topology::synthetic("package:1 core:4 pu:1", vec![loopback()]).unwrap();
    let mut wanted = RailRequest::loopback(2);
    (wanted.exclusive, wanted.cores) = (true, 2);
    let plan = plan_rails(&machine, &wanted).unwrap();
    for rail in replan_rails(&machine, &wanted, &plan.rails).unwrap() {
        let taken = rail.planned.rejected_cpus.iter().filter(|told| told.reason.starts_with("on the core of another"));
        let taken: Vec<_> = taken.map(|told| told.cpus.clone()).collect();
        assert_eq!(taken, [machine.allowed_cpus().difference(&rail.planned.cpus())]);
    }
}

/// A rail has the threads that it was built with.
#[test]
fn other_request_moves_nothing() {
    let machine = three_nics();
    let cores = "the request has 2 cores for it, and it was built with 1";
    let binding = "the request binds it, and it was built unbound, or the other way round";
    for (built, followed, unmet) in
        [("eth0", "eth0+cores:2", cores), ("eth0", "eth0@default", binding), ("eth0@default", "eth0", binding)]
    {
        let plan = planned(&machine, built);
        let stays = again(&machine, followed, &plan).remove(0);
        assert_eq!(stays.unmet.as_deref(), Some(unmet));
        assert_eq!((stays.reasons, stays.planned.task_cpus), (vec![], plan.rails[0].task_cpus.clone()), "{followed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Rails that are planned again on another machine come to a place where they may be, and stay there. Nearly all
    /// are there after two passes; rails of several CPUs that crowd three cores have taken 18.
    #[test]
    fn rails_come_to_rest_where_they_may_be(before in machines(), after in machines(), request in requests()) {
        let Ok(plan) = plan_rails(&before, &request) else { return Ok(()) };
        let mut present = plan.rails;
        for pass in 0.. {
            let Ok(rails) = replan_rails(&after, &request, &present) else { return Ok(()) };
            prop_assert_eq!(rails.len(), present.len());
            for (old, new) in present.iter().zip(&rails) {
                prop_assert_eq!(new.planned.id, old.id);
                prop_assert_eq!(new.planned.task_cpus.len(), old.task_cpus.len());
                prop_assert!(new.reasons.iter().all(|reason| !reason.is_empty()));
                prop_assert!(!new.is_urgent || !new.reasons.is_empty());
                if new.unmet.is_none() {
                    prop_assert!(new.planned.cpus().is_subset(after.allowed_cpus()));
                    let cores = cores_of(&after, &new.planned.cpus());
                    prop_assert!(!cores.intersects(request.claimed.cpus()));
                    if request.exclusive {
                        let others = rails.iter().filter(|other| other.planned.id != old.id && other.unmet.is_none());
                        prop_assert!(others.clone().all(|other| !other.planned.cpus().intersects(&cores)), "{:?}", rails);
                    }
                }
                if new.reasons.is_empty() && old.binding.is_bound() {
                    prop_assert_eq!((new.planned.cpu, new.planned.node), (old.cpu, old.node));
                }
            }
            let is_at_rest = rails.iter().all(|rail| rail.reasons.is_empty());
            present = rails.into_iter().map(|rail| rail.planned).collect();
            if is_at_rest {
                break;
            }
            prop_assert!(pass < 100, "rails move for ever: {:?}", present);
        }
    }
}
