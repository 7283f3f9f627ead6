//! The lanes that a request stands for.

use crate::{chosen_cpus, cpus, interfaces, loopback, nic, on_card, planned, refused, two_packages};
use proptest::prelude::*;
use rails_multirail::{
    RailPlan, RailRequest, plan_rails,
    planner::{LocalEnd, PlanError, RejectedNic, replan_rails},
};
use rails_topo::{InterfaceAddress, Nic, NicKind, PciDevice};

#[test]
fn faster_nics_come_first_and_unknown_speeds_last() {
    let unknown = Nic { speed: None, ..nic("eth0", 0, 1, "10.0.0.1") };
    let nics = vec![unknown, nic("eth1", 0, 10, "10.0.1.1"), nic("eth2", 1, 100, "10.0.2.1"), loopback()];
    let machine = two_packages(nics);
    assert_eq!(interfaces(&planned(&machine, "auto")), ["eth2", "eth1", "eth0"]);
    assert_eq!(interfaces(&planned(&machine, "2")), ["eth2", "eth1"]);
}

#[test]
fn different_cards_come_before_second_ports() {
    let machine = two_packages(vec![
        on_card(nic("eth0", 0, 100, "10.0.0.1"), "0000:18:00.0"),
        on_card(nic("eth1", 0, 100, "10.0.1.1"), "0000:18:00.1"),
        on_card(nic("eth2", 1, 100, "10.0.2.1"), "0000:81:00.0"),
        on_card(nic("eth3", 1, 100, "10.0.3.1"), "0000:81:00.1"),
    ]);
    assert_eq!(interfaces(&planned(&machine, "2")), ["eth0", "eth2"]);
    let plan = planned(&machine, "auto");
    assert_eq!(interfaces(&plan), ["eth0", "eth2", "eth1", "eth3"]);
    assert_eq!(
        plan.notes,
        [
            "eth1 is a port of the same card as eth0: the two share its PCI link",
            "eth3 is a port of the same card as eth2: the two share its PCI link"
        ]
    );
}

/// A virtual function of a card on another bus than the card, and a card whose halves are in two
/// slots.
#[test]
fn card_by_the_drivers_switch_identity() {
    let on_switch = |nic: Nic| Nic { physical_switch: Some("e8ebd3".into()), ..nic };
    let on_port = |nic: Nic| Nic { physical_port: Some("e8ebd30000".into()), ..nic };
    let machine = two_packages(vec![
        on_port(on_switch(on_card(nic("eth0", 0, 100, "10.0.0.1"), "0000:18:00.0"))),
        on_port(on_switch(on_card(nic("eth1", 0, 100, "10.0.1.1"), "0000:19:00.2"))),
        on_switch(on_card(nic("eth2", 1, 100, "10.0.2.1"), "0000:81:00.0")),
        on_card(nic("eth3", 1, 100, "10.0.3.1"), "0000:91:00.0"),
    ]);
    let plan = planned(&machine, "auto");
    assert_eq!(interfaces(&plan), ["eth0", "eth3", "eth2", "eth1"], "the same port last");
    assert_eq!(
        plan.notes,
        [
            "eth2 is a port of the same card as eth0: the two share its PCI link",
            "eth1 is an interface of the same port as eth0: the two share its wire"
        ]
    );
    let asked = planned(&machine, "eth0,eth1,eth0,eth3");
    assert_eq!(
        asked.notes,
        ["eth1 is an interface of the same port as eth0: the two share its wire", "2 rails share the address 10.0.0.1"],
        "also of lanes that were asked for, and once"
    );
}

#[test]
fn different_switches_before_one_switch() {
    let at = |text: &str| PciDevice::at(text.parse().unwrap());
    let below = |text: &str, parent: &str| PciDevice { parent: Some(parent.parse().unwrap()), ..at(text) };
    let machine = two_packages(vec![
        on_card(nic("eth0", 0, 100, "10.0.0.1"), "0000:03:00.0"),
        on_card(nic("eth1", 0, 100, "10.0.1.1"), "0000:04:00.0"),
        on_card(nic("eth2", 0, 100, "10.0.2.1"), "0000:05:00.0"),
    ]);
    let machine = machine.with_pci_devices(vec![
        at("0000:00:01.0"),
        below("0000:01:00.0", "0000:00:01.0"),
        below("0000:02:00.0", "0000:01:00.0"),
        below("0000:02:01.0", "0000:01:00.0"),
        below("0000:03:00.0", "0000:02:00.0"),
        below("0000:04:00.0", "0000:02:01.0"),
        at("0000:00:02.0"),
        below("0000:05:00.0", "0000:00:02.0"),
    ]);
    let plan = planned(&machine, "auto");
    assert_eq!(interfaces(&plan), ["eth0", "eth2", "eth1"]);
    let note = "eth1 is behind the same PCIe switch or port as eth0: the two share its link to the processor";
    assert_eq!(plan.notes, [note]);
}

#[test]
fn only_nics_that_can_carry_a_rail_are_taken() {
    let address = |ip: &str| vec![InterfaceAddress { ip: ip.parse().unwrap(), prefix_len: 64 }];
    let down = Nic { up: Some(false), ..nic("eth0", 0, 100, "10.0.0.1") };
    let software = Nic { kind: NicKind::Virtual, ..nic("veth0", 0, 100, "10.0.1.1") };
    let link_local = Nic { addresses: address("fe80::1"), ..nic("eth1", 0, 100, "10.0.2.1") };
    let machine = two_packages(vec![down, software, link_local, loopback()]);
    let advice = "this machine has no NIC for a rail (eth0: its link is down; eth1: it has link-local addresses \
         alone; lo: the loopback interface: name it, or ask for `loopback`; veth0: made in software: name it to use \
         it); `loopback:2` plans rails without one";
    assert_eq!(refused(&machine, "auto"), advice);
    assert_eq!(refused(&machine, "3"), advice);
}

fn in_software(name: &str, address: &str, lowers: &[&str]) -> Nic {
    let lowers = lowers.iter().map(|lower| (*lower).to_owned()).collect();
    Nic { kind: NicKind::Virtual, lowers, ..nic(name, 0, 10, address) }
}

fn without_address(nic: Nic) -> Nic {
    Nic { addresses: Vec::new(), ..nic }
}

/// The interfaces of a container are all made in software.
#[test]
fn software_interfaces_where_there_is_no_device() {
    let port = without_address(in_software("veth2", "10.0.2.1", &[]));
    let down = Nic { up: Some(false), ..in_software("veth3", "10.0.3.1", &[]) };
    let ends = [in_software("veth0", "10.0.0.1", &[]), in_software("veth1", "10.0.1.1", &[]), port, down, loopback()];
    let machine = two_packages(ends.to_vec());
    for request in ["auto", "2"] {
        let plan = planned(&machine, request);
        assert_eq!(interfaces(&plan), ["veth0", "veth1"]);
        let skipped = [
            "lo: the loopback interface: name it, or ask for `loopback`",
            "veth2: it has no address",
            "veth3: its link is down",
        ];
        assert_eq!(RejectedNic::by_reason(&plan.rejected_nics), skipped);
    }
    assert_eq!(refused(&machine, "3").split_once(':').unwrap().0, "3 rails were asked for, and 2 can carry one");

    let hidden = Nic { hidden: Some("another's".to_owned()), ..nic("eth0", 0, 10, "10.0.9.1") };
    let with_hidden = two_packages(ends.iter().cloned().chain([hidden]).collect());
    assert_eq!(interfaces(&planned(&with_hidden, "auto")), ["veth0", "veth1"]);

    let down = Nic { up: Some(false), ..nic("eth0", 0, 10, "10.0.9.1") };
    let with_device = two_packages(ends.into_iter().chain([down]).collect());
    let said = refused(&with_device, "auto");
    assert!(said.contains("veth0, veth1, veth2, veth3: made in software: name it"), "a link may come back: {said}");
    assert!(said.contains("(eth0: its link is down; "), "{said}");
}

#[test]
fn bonds_and_bridges_that_have_the_addresses() {
    let members = || [nic("eth0", 0, 100, "10.0.0.1"), nic("eth1", 1, 100, "10.0.1.1")].map(without_address);
    let stacks: [&[Nic]; 3] = [
        &[in_software("bond0", "10.0.9.1", &["eth0", "eth1"])],
        &[
            without_address(in_software("bond0", "10.0.9.1", &["eth0", "eth1"])),
            in_software("bond0.5", "10.0.5.1", &["bond0"]),
        ],
        &[in_software("br0", "10.0.8.1", &["eth0"]), in_software("eth1.7", "10.0.7.1", &["eth1"])],
    ];
    let others =
        [in_software("docker0", "172.17.0.1", &["veth9"]), without_address(in_software("veth9", "10.0.6.1", &[]))];
    let why_not = |plan: &RailPlan, name: &str| {
        plan.rejected_nics
            .iter()
            .find(|nic| nic.name == name)
            .unwrap_or_else(|| panic!("{name}: {plan}"))
            .reason
            .clone()
    };
    for (stack, taken) in stacks.into_iter().zip([&["bond0"][..], &["bond0.5"], &["br0", "eth1.7"]]) {
        let plan = planned(&two_packages([&members(), stack, &others].concat()), "auto");
        assert_eq!(interfaces(&plan), taken, "{plan}");
        for (member, holder) in ["eth0", "eth1"].into_iter().zip(taken.iter().cycle()) {
            assert_eq!(why_not(&plan, member), format!("it has no address: {holder}, which is over it, has one"));
        }
        assert_eq!(why_not(&plan, "docker0"), "made in software, over no device: name it to use it");

        let plain = nic("eth2", 0, 10, "10.0.2.1");
        let plan = planned(&two_packages([&members(), stack, &others, &[plain]].concat()), "auto");
        assert_eq!(interfaces(&plan), ["eth2"], "{plan}");
        for name in taken.iter().chain(&["docker0"]) {
            assert_eq!(why_not(&plan, name), "made in software: name it to use it");
        }
    }
}

#[test]
fn rail_stays_on_a_software_interface() {
    let veth = in_software("veth0", "10.0.0.1", &[]);
    let request = RailRequest::auto();
    let plan = plan_rails(&two_packages(vec![veth.clone()]), &request).unwrap();
    let more = two_packages(vec![nic("eth0", 0, 100, "10.0.1.1"), veth.clone()]);
    let again = replan_rails(&more, &request, &plan.rails).unwrap();
    assert_eq!((again[0].planned.interface.as_deref(), &again[0].unmet), (Some("veth0"), &None));
    let down = two_packages(vec![nic("eth0", 0, 100, "10.0.1.1"), Nic { up: Some(false), ..veth }]);
    let again = replan_rails(&down, &request, &plan.rails).unwrap();
    assert_eq!(again[0].planned.interface.as_deref(), Some("eth0"));
    assert_eq!(again[0].reasons[0], "veth0: its link is down");
}

/// Any stack of devices and interfaces made in software, each with its address, its link and the
/// lower ones among those before it.
fn stacks() -> impl Strategy<Value = Vec<Nic>> {
    let one = (0u8..4, any::<bool>(), any::<bool>(), any::<u8>());
    prop::collection::vec(one, 0..8).prop_map(|nics| {
        let build = |(index, (kind, addressed, up, lowers)): (usize, (u8, bool, bool, u8))| {
            let one = nic(&format!("if{index}"), 0, 10, &format!("10.0.{index}.1"));
            let one = if addressed { one } else { without_address(one) };
            let lowers = (0..index).filter(|lower| lowers & 1 << lower != 0).map(|lower| format!("if{lower}"));
            let lowers = if kind < 2 { lowers.collect() } else { Vec::new() };
            Nic { kind: if kind < 2 { NicKind::Virtual } else { NicKind::Device }, up: Some(up), lowers, ..one }
        };
        nics.into_iter().enumerate().map(build).collect()
    })
}

proptest! {
    #[test]
    fn software_interfaces_in_place_of_devices(nics in stacks()) {
        let machine = two_packages(nics);
        let nic = |name: &str| machine.nic(name).unwrap();
        let devices = || machine.nics().iter().filter(|nic| nic.kind == NicKind::Device);
        let over = |device: &Nic, upper: &Nic| {
            machine.lanes_of(upper).devices.iter().any(|under| under.name == device.name)
        };
        match plan_rails(&machine, &RailRequest::auto()) {
            Ok(plan) => {
                for taken in interfaces(&plan).into_iter().map(nic) {
                    prop_assert!(taken.up == Some(true));
                    if taken.kind == NicKind::Virtual {
                        prop_assert!(!taken.addresses.is_empty());
                        prop_assert!(devices().all(|device| device.addresses.is_empty()), "{}", plan);
                        prop_assert!(devices().count() == 0 || devices().any(|device| over(device, taken)), "{}", plan);
                    }
                }
                prop_assert_eq!(plan.rails.len() + plan.rejected_nics.len(), machine.nics().len());
            }
            Err(PlanError::NoNic { rejected }) => {
                prop_assert_eq!(rejected.len(), machine.nics().len());
                let fit = |nic: &&Nic| nic.up == Some(true) && !nic.addresses.is_empty();
                prop_assert!(!machine.nics().iter().any(|nic| fit(&nic) && nic.kind == NicKind::Device));
                prop_assert!(devices().count() > 0 || !machine.nics().iter().any(|nic| fit(&nic)));
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn nics_are_shared_on_request_alone() {
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1"), nic("eth1", 1, 10, "10.0.1.1")]);
    assert_eq!(
        refused(&machine, "3"),
        "3 rails were asked for, and 2 can carry one: eth0, eth1; rails on one NIC add no bandwidth, and a NIC that is \
         named twice gets them"
    );
    let mut request = RailRequest::count(3);
    request.share_nics = true;
    let plan = plan_rails(&machine, &request).unwrap();
    assert_eq!((interfaces(&plan), chosen_cpus(&plan)), (vec!["eth0", "eth1", "eth0"], vec![0, 8, 2]));
    let note = "3 rails share 2 usable NICs, starting over at eth0: rails on one NIC add no bandwidth";
    assert_eq!(plan.notes, [note, "2 rails share the address 10.0.0.1"]);
    let expected = plan.expected.unwrap();
    assert_eq!(expected.to_string(), "3 x 10 Gbit/s x 0.67 = 20 Gbit/s (rails share eth0)");
}

#[test]
fn nics_on_different_nodes_come_first() {
    let on = |name: &str, node| nic(name, node, 10, &format!("10.0.{}.1", &name[3..]));
    let machine = two_packages(vec![on("eth0", 0), on("eth1", 0), on("eth2", 1), on("eth3", 1)]);
    assert_eq!(interfaces(&planned(&machine, "2")), ["eth0", "eth2"]);
    assert_eq!(interfaces(&planned(&machine, "auto")), ["eth0", "eth2", "eth1", "eth3"]);
}

#[test]
fn unknown_interfaces_and_addresses() {
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1"), loopback()]);
    assert_eq!(refused(&machine, "eth9"), "there is no interface, GPU or disk `eth9`; there are: eth0, lo");
    assert_eq!(refused(&machine, "10.0.0.2"), "no interface has the address 10.0.0.2; there are: 10.0.0.1 (eth0)");
    assert_eq!(refused(&two_packages(vec![]), "eth0"), "there is no interface, GPU or disk `eth0`; there are: none");
    assert_eq!(refused(&two_packages(vec![]), "10.0.0.2"), "no interface has the address 10.0.0.2; there are: none");
}

#[test]
fn lane_by_address_is_on_the_interface_that_has_it() {
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1"), nic("eth1", 1, 10, "10.0.1.1"), loopback()]);
    let plan = planned(&machine, "10.0.1.1,127.0.0.9");
    assert_eq!((interfaces(&plan), chosen_cpus(&plan)), (vec!["eth1", "lo"], vec![8, 0]));
    assert_eq!(plan.rails[1].end, Some(LocalEnd::Address("127.0.0.9".parse().unwrap())));
    let anywhere = planned(&machine, "0.0.0.0");
    assert_eq!((&anywhere.rails[0].interface, &anywhere.rails[0].end), (&None, &Some(LocalEnd::Any)));
    assert_eq!(anywhere.rails[0].reasons[0], "lane by the interface of the route");
}

#[test]
fn loopback_rails_per_core_and_at_least_two() {
    let machine = two_packages(vec![loopback()]);
    let plan = planned(&machine, "loopback");
    assert_eq!(chosen_cpus(&plan), [0, 2, 4, 6, 8, 10, 12, 14]);
    let last = plan.rails.last().unwrap();
    assert_eq!(last.address, Some("127.0.0.8".parse().unwrap()));
    let few = planned(&two_packages(vec![loopback()]).with_allowed(cpus("3-5")), "loopback");
    assert_eq!(chosen_cpus(&few), [3, 4], "CPUs 4 and 5 are one core");
    let one = planned(&two_packages(vec![loopback()]).with_allowed(cpus("3")), "loopback");
    assert_eq!(chosen_cpus(&one), [3, 3]);
    assert_eq!(planned(&machine, "loopback:1").rails.len(), 1);
    assert_eq!(planned(&machine, "loopback:64").rails.len(), 64);
}

#[test]
fn refused_numbers_of_rails() {
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1"), loopback()]);
    let many = RailRequest::on(vec![LocalEnd::Device("eth0".to_owned()); 65]);
    for count in [65, 300, usize::MAX] {
        let refused = Err(PlanError::TooMany { count });
        assert_eq!(plan_rails(&machine, &RailRequest::loopback(count)), refused);
        assert_eq!(plan_rails(&machine, &RailRequest::count(count)), refused);
    }
    assert_eq!(plan_rails(&machine, &many), Err(PlanError::TooMany { count: 65 }));
    for none in [RailRequest::count(0), RailRequest::loopback(0), RailRequest::on([])] {
        assert_eq!(plan_rails(&machine, &none), Err(PlanError::NoRails));
    }
}

#[test]
fn of_more_nics_than_a_stream_takes_the_best_are_used() {
    let nics = (0..70).map(|index| nic(&format!("eth{index}"), 0, 10 + index, &format!("10.0.{index}.1"))).collect();
    let plan = planned(&two_packages(nics), "auto");
    assert_eq!((plan.rails.len(), interfaces(&plan)[0]), (64, "eth69"));
    assert_eq!(plan.rejected_nics.len(), 6);
    assert_eq!(plan.rejected_nics[0].reason, "64 other NICs are the better ones, or as good");
}

#[test]
fn no_cpu_no_plan() {
    let machine = two_packages(vec![loopback()]).with_allowed(cpus(""));
    assert_eq!(plan_rails(&machine, &RailRequest::loopback(None)), Err(PlanError::NoCpu));
}
