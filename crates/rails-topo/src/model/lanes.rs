//! Virtual interfaces, resolved to the devices under them.

use super::{Nic, NicKind, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The devices at the bottom of an interface: made by [`Topology::lanes_of`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lanes<'a> {
    /// The devices, by name: they carry the packets out of the machine.
    pub devices: Vec<&'a Nic>,
    /// Ends without a device, by name: a bridge's TAP and veth ports, the loopback interface, and
    /// an interface whose lower ones are unknown (they may be in another network namespace, or
    /// the machine is a capture without them).
    pub in_software: Vec<&'a Nic>,
    /// Lower interfaces that are not in the topology, by name.
    pub missing: Vec<&'a str>,
}

impl Lanes<'_> {
    /// Whether these are all devices under the interface: each way down ends at a device.
    pub fn is_complete(&self) -> bool {
        !self.devices.is_empty() && self.in_software.is_empty() && self.missing.is_empty()
    }
}

impl Topology {
    /// The devices that carry the packets of `nic`: `nic` itself if it is a device, else the
    /// devices at the bottom of a bond, team, bridge, VLAN, macvlan or any other interface with
    /// lower ones ([`Nic::lowers`]), through any depth and each once. A VLAN on a bond has the
    /// bond's members.
    ///
    /// A device above another one (a Hyper-V interface above the virtual function that does its
    /// work) is resolved to the lower one. A ring of interfaces, which only an invented machine can
    /// have, has no bottom.
    ///
    /// ```
    /// use rails_topo::{Nic, NicKind, Topology};
    ///
    /// let on = |name, lowers: [&str; 2]| Nic {
    ///     kind: NicKind::Virtual,
    ///     lowers: lowers.map(str::to_owned).to_vec(),
    ///     ..Nic::named(name)
    /// };
    /// let nics = vec![on("bond0", ["eth0", "eth1"]), Nic::named("eth0"), Nic::named("eth1")];
    /// let machine = Topology::synthetic("pu:2", nics)?;
    /// let lanes = machine.lanes_of(&machine.nics()[0]);
    /// assert!(lanes.is_complete());
    /// assert_eq!(lanes.devices.iter().map(|nic| &nic.name).collect::<Vec<_>>(), ["eth0", "eth1"]);
    /// # Ok::<(), rails_topo::SyntheticError>(())
    /// ```
    pub fn lanes_of<'a>(&'a self, nic: &'a Nic) -> Lanes<'a> {
        if nic.lowers.is_empty() {
            return ending_at([nic], BTreeSet::new());
        }
        let by_name: BTreeMap<&str, &Nic> = self.nics.iter().map(|nic| (nic.name.as_str(), nic)).collect();
        let mut seen = BTreeSet::from([nic.name.as_str()]);
        let (mut ends, mut missing) = (BTreeMap::new(), BTreeSet::new());
        let mut ahead = vec![nic];
        while let Some(nic) = ahead.pop() {
            if nic.lowers.is_empty() {
                ends.insert(nic.name.as_str(), nic);
            }
            for lower in nic.lowers.iter().map(String::as_str).filter(|lower| seen.insert(lower)) {
                match by_name.get(lower) {
                    Some(nic) => ahead.push(nic),
                    None => drop(missing.insert(lower)),
                }
            }
        }
        ending_at(ends.into_values(), missing)
    }
}

fn ending_at<'a>(ends: impl IntoIterator<Item = &'a Nic>, missing: BTreeSet<&'a str>) -> Lanes<'a> {
    let (devices, in_software) = ends.into_iter().partition(|nic| nic.kind == NicKind::Device);
    Lanes { devices, in_software, missing: missing.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn on(name: &str, lowers: &[&str]) -> Nic {
        let lowers = lowers.iter().map(|lower| (*lower).to_owned()).collect();
        Nic { kind: NicKind::Virtual, lowers, ..Nic::named(name) }
    }

    fn machine(nics: Vec<Nic>) -> Topology {
        Topology::synthetic("pu:1", nics).unwrap()
    }

    /// Devices, ends in software and missing names under the interface of that name.
    fn lanes(machine: &Topology, name: &str) -> [Vec<String>; 3] {
        let lanes = machine.lanes_of(machine.nic(name).unwrap());
        let names = |nics: &[&Nic]| nics.iter().map(|nic| nic.name.clone()).collect();
        let missing = lanes.missing.iter().map(|name| (*name).to_owned()).collect();
        [names(&lanes.devices), names(&lanes.in_software), missing]
    }

    #[test]
    fn layers_are_resolved_to_their_bottom() {
        let machine = machine(vec![
            on("br0", &["bond0.5", "tap0"]),
            on("bond0.5", &["bond0"]),
            on("bond0", &["eth1", "eth0"]),
            on("macvlan0", &["bond0"]),
            on("tap0", &[]),
            Nic::named("eth0"),
            Nic::named("eth1"),
            Nic { kind: NicKind::Loopback, ..Nic::named("lo") },
        ]);
        assert_eq!(lanes(&machine, "eth0"), [vec!["eth0"], vec![], vec![]]);
        assert_eq!(lanes(&machine, "bond0.5"), [vec!["eth0", "eth1"], vec![], vec![]]);
        assert_eq!(lanes(&machine, "macvlan0"), [vec!["eth0", "eth1"], vec![], vec![]]);
        assert_eq!(lanes(&machine, "br0"), [vec!["eth0", "eth1"], vec!["tap0"], vec![]]);
        assert_eq!(lanes(&machine, "lo"), [vec![], vec!["lo"], vec![]]);
        let complete = |name: &str| machine.lanes_of(machine.nic(name).unwrap()).is_complete();
        assert!(complete("eth0") && complete("macvlan0"));
        assert!(!complete("br0") && !complete("tap0"));
    }

    #[test]
    fn device_on_another_is_resolved_to_that() {
        let synthetic = Nic { lowers: vec!["vf0".to_owned()], ..Nic::named("eth0") };
        assert_eq!(lanes(&machine(vec![synthetic, Nic::named("vf0")]), "eth0"), [vec!["vf0"], vec![], vec![]]);
    }

    #[test]
    fn rings_and_missing_names_end() {
        let machine =
            machine(vec![on("a", &["b", "a", "gone"]), on("b", &["a", "eth0"]), on("c", &["c"]), Nic::named("eth0")]);
        assert_eq!(lanes(&machine, "a"), [vec!["eth0"], vec![], vec!["gone"]]);
        assert_eq!(lanes(&machine, "b"), [vec!["eth0"], vec![], vec!["gone"]]);
        let ring = machine.lanes_of(machine.nic("c").unwrap());
        assert_eq!((&ring, ring.is_complete()), (&Lanes::default(), false));
    }

    #[test]
    fn depth_and_breadth_have_no_limit() {
        let name = |index: usize| format!("v{index:05}");
        let mut nics: Vec<Nic> = (0..5000).map(|index| on(&name(index), &[&name(index + 1), "eth0"])).collect();
        nics.push(Nic::named(&name(5000)));
        nics.push(Nic::named("eth0"));
        assert_eq!(lanes(&machine(nics), "v00000"), [vec!["eth0".to_owned(), name(5000)], vec![], vec![]]);
    }

    proptest! {
        #[test]
        fn every_end_is_an_end(edges in proptest::collection::vec((0..8_usize, 0..10_usize), 0..20)) {
            let name = |index: usize| format!("i{index}");
            let lowers = |index: usize| edges.iter().filter(move |(from, _)| *from == index).map(|(_, to)| name(*to));
            let nic = |index: usize| {
                let kind = if index.is_multiple_of(2) { NicKind::Device } else { NicKind::Virtual };
                Nic { kind, lowers: lowers(index).collect(), ..Nic::named(&name(index)) }
            };
            let machine = machine((0..8).map(nic).collect());
            for nic in machine.nics() {
                let lanes = machine.lanes_of(nic);
                prop_assert!(lanes.devices.iter().all(|end| end.lowers.is_empty() && end.kind == NicKind::Device));
                prop_assert!(lanes.in_software.iter().all(|end| end.lowers.is_empty() && end.kind != NicKind::Device));
                prop_assert!(lanes.missing.iter().all(|name| machine.nic(name).is_none()));
            }
        }
    }
}
