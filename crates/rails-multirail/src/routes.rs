//! The rails towards a peer's addresses, by the routing table.

use rails_proto::{
    LaneAddress,
    pairing::{LaneCandidate, Pairing, RailId, in_order},
};
use rails_topo::{Nic, NicKind, Topology};
use std::net::{IpAddr, SocketAddr};

/// The route to each distinct address of a peer. The addresses of one name that one NIC leads to
/// share a rail: a name often stands for one link by several addresses, of both families for
/// example, and a second rail there adds nothing.
#[derive(Debug)]
pub struct Routes(Vec<Route>);

#[derive(Debug)]
struct Route {
    remote: SocketAddr,
    /// The local address of the packets, and its network.
    local: IpAddr,
    prefix_len: Option<u8>,
    rail: RailId,
}

impl Routes {
    /// The routes to all addresses of these names. `local_address` gives the address that packets
    /// to a remote leave from.
    ///
    /// # Errors
    /// The errors of `local_address`.
    pub fn towards<E>(
        topology: &Topology,
        names: &[Vec<LaneAddress>],
        local_address: impl Fn(SocketAddr) -> Result<IpAddr, E>,
    ) -> Result<Self, E> {
        let mut routes: Vec<Route> = Vec::new();
        let mut rails = 0;
        for name in names {
            let before = routes.len();
            for remote in name.iter().map(|address| address.socket) {
                if routes.iter().any(|route| route.remote == remote) {
                    continue;
                }
                let local = local_address(remote)?;
                let nic = nic_with(topology, local);
                let shares_rail =
                    |other: &&Route| other.local == local || nic.is_some() && nic_with(topology, other.local) == nic;
                let rail = routes[before..].iter().find(shares_rail).map_or(RailId(rails), |other| other.rail);
                rails = rails.max(rail.0 + 1);
                let held = nic.and_then(|nic| nic.addresses.iter().find(|held| held.ip == local));
                routes.push(Route { remote, local, prefix_len: held.map(|held| held.prefix_len), rail });
            }
        }
        Ok(Self(routes))
    }

    /// The first local address of each rail, by number.
    pub fn rails(&self) -> Vec<IpAddr> {
        let mut rails = Vec::new();
        for route in &self.0 {
            if route.rail.0 == rails.len() {
                rails.push(route.local);
            }
        }
        rails
    }

    /// A lane to each address of these names, from the rail of its route. `offers` are the
    /// candidates of all rails.
    pub fn pairing(&self, offers: &[LaneCandidate], names: &[Vec<LaneAddress>]) -> Pairing {
        let mut pairing = in_order(&[], &[]);
        let mut remotes = 0..;
        for name in names {
            let before = pairing.pairs.len();
            for address in name {
                let Some(route) = self.0.iter().find(|route| route.remote == address.socket) else { continue };
                let Some(offer) = offers.iter().find(|offer| offer.rail == route.rail) else { continue };
                let mut ours = LaneCandidate { prefix_len: route.prefix_len, ..offer.clone() };
                ours.address.socket.set_ip(route.local);
                for mut pair in in_order(&[ours], &[*address]).pairs {
                    pair.theirs.rail = RailId(remotes.next().unwrap_or_default());
                    pair.is_further = pairing.pairs.len() > before;
                    pairing.pairs.push(pair);
                }
            }
        }
        pairing
    }
}

/// The NIC that has the address.
fn nic_with(topology: &Topology, address: IpAddr) -> Option<&Nic> {
    let has = |nic: &&Nic| {
        nic.addresses.iter().any(|held| held.ip == address) || (nic.kind == NicKind::Loopback && address.is_loopback())
    };
    topology.nics().iter().find(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_proto::Scheme;
    use rails_topo::InterfaceAddress;
    use std::net::AddrParseError;

    fn address(text: &str) -> LaneAddress {
        text.parse().expect("an address")
    }

    /// Two NICs, of which the first has two addresses.
    fn machine() -> Topology {
        let nic = |name: &str, held: &[&str]| {
            let addresses =
                held.iter().map(|ip| InterfaceAddress { ip: ip.parse().expect("an address"), prefix_len: 24 });
            Nic { addresses: addresses.collect(), ..Nic::named(name) }
        };
        let nics = vec![nic("eth0", &["10.0.0.1", "fd00::1"]), nic("eth1", &["10.0.1.1"])];
        Topology::synthetic("package:1 core:4 pu:1", nics).expect("a machine")
    }

    /// As the routes of that machine lead.
    fn local(remote: SocketAddr) -> Result<IpAddr, AddrParseError> {
        let local = match remote.ip() {
            IpAddr::V6(_) => "fd00::1",
            IpAddr::V4(ip) if ip.octets()[2] == 1 => "10.0.1.1",
            IpAddr::V4(_) => "10.0.0.1",
        };
        local.parse()
    }

    #[test]
    fn a_name_has_one_rail_for_each_nic() {
        let name = ["10.0.0.2:1", "[fd00::2]:1", "10.0.1.2:1", "10.0.0.3:1"].map(address).to_vec();
        let names = [name, vec![address("10.0.0.2:1")], vec![address("10.0.0.4:1")]];
        let routes = Routes::towards(&machine(), &names, local).unwrap();
        let locals = ["10.0.0.1", "10.0.1.1", "10.0.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        assert_eq!(routes.rails(), locals, "addresses given by themselves have rails of their own, each once");
        let offer = |rail: usize| LaneCandidate {
            rail: RailId(rail),
            address: LaneAddress { scheme: Scheme::TCP, socket: SocketAddr::new(locals[rail], 0) },
            prefix_len: Some(24),
            speed_bits_per_second: None,
            node: None,
            interface: None,
        };
        let pairing = routes.pairing(&[0, 1, 2].map(offer), &names);
        let pairs = pairing.pairs.iter();
        let lanes: Vec<_> = pairs.map(|pair| (pair.ours.rail.0, pair.theirs.address, pair.is_further)).collect();
        let expected =
            [(0, 0, 0, false), (0, 0, 1, true), (1, 0, 2, true), (0, 0, 3, true), (0, 1, 0, false), (2, 2, 0, false)];
        assert_eq!(lanes, expected.map(|(rail, name, index, is_further)| (rail, names[name][index], is_further)));
        assert_eq!(pairing.pairs[1].ours.ip(), "fd00::1".parse::<IpAddr>().unwrap(), "as the route leads");
        assert!(routes.pairing(&[], &names).pairs.is_empty(), "no rail has a lane");
    }
}
