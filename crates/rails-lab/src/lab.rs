//! Two namespaces and the links between them.

use crate::{
    EmulatedCounters, EmulatedLink, InterfaceCounters, LabError, Shape, Side,
    description::Description,
    emulated::{self, Carrier, Outages},
    keeper::Keeper,
    name,
    namespace::{self, Entered, Namespace},
    sweep,
    system::file_error,
    tool::Tools,
};
use nix::{
    errno::Errno,
    unistd::{Uid, geteuid},
};
use std::{
    fs, io,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Two network namespaces joined by veth pairs, with a bridge between or without, and by emulated
/// links; deleted when dropped.
///
/// Links are counted from 0 in the order they were asked for. Link `i` is the subnet
/// `10.77.<i>.0/24` of its own: side A has `.1`, side B `.2`. IPv6 is off inside, since no program
/// would wait for its duplicate address detection. Loopback is up at both ends.
///
/// Methods that take a link's number panic when the lab has no such link.
#[derive(Debug)]
pub struct LinkLab {
    pub(crate) tools: Tools,
    pub(crate) a: Namespace,
    pub(crate) b: Namespace,
    pub(crate) links: Vec<Link>,
    /// Whether the ends of emulated links know each other's hardware address.
    pub(crate) known_neighbours: bool,
    /// The keeper, dropped after `drop` has run, when it has nothing left to do.
    pub(crate) _keeper: Keeper,
}

#[derive(Debug)]
pub(crate) struct Link {
    interface_a: String,
    interface_b: String,
    /// The emulation; `None` for a veth pair, whose frames the kernel carries.
    emulated: Option<Running>,
}

#[derive(Debug)]
struct Running {
    carrier: Carrier,
    outages: Mutex<Outages>,
}

impl LinkLab {
    /// Checks whether labs can be built here.
    ///
    /// # Errors
    ///
    /// [`LabError::NotRoot`], [`LabError::ToolMissing`] or [`LabError::NamespacesRefused`].
    pub fn check() -> Result<(), LabError> {
        check().map(drop)
    }

    /// Deletes the namespaces of labs whose owner is dead, and returns their names. Every build
    /// sweeps too.
    ///
    /// # Errors
    ///
    /// Those of [`LinkLab::check`], and [`LabError::System`] when a namespace cannot be deleted.
    pub fn sweep() -> Result<Vec<String>, LabError> {
        sweep::sweep(&check()?)
    }

    /// One end of the lab, to run programs in.
    pub fn side(&self, side: Side) -> &Namespace {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    /// Moves the current thread to one end of the lab until the guard is dropped:
    /// [`Namespace::enter`].
    ///
    /// # Errors
    ///
    /// Those of [`Namespace::enter`].
    pub fn enter(&self, side: Side) -> Result<Entered, LabError> {
        self.side(side).enter()
    }

    /// The number of links.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// The address of a link at one end.
    pub fn address(&self, side: Side, link: usize) -> IpAddr {
        self.link(link);
        name::address(side, name::octet(link))
    }

    /// The interface of a link at one end, e.g. `rail0a`.
    pub fn interface(&self, side: Side, link: usize) -> &str {
        let link = self.link(link);
        match side {
            Side::A => &link.interface_a,
            Side::B => &link.interface_b,
        }
    }

    /// Changes the shape of a veth pair in both directions, also while it carries traffic. Packets
    /// waiting in a queue that goes away are lost, as on a real link.
    ///
    /// # Errors
    ///
    /// [`LabError::BadShape`], [`LabError::OtherKind`] for an emulated link, or
    /// [`LabError::System`] when `tc` refuses; the ends may then differ.
    pub fn set_rate(&self, link: usize, shape: Shape) -> Result<(), LabError> {
        Description::Veth(shape).validate()?;
        if self.link(link).emulated.is_some() {
            return Err(LabError::OtherKind { link, kind: "an emulated link", call: "set_rate" });
        }
        for side in Side::BOTH {
            let device = ["-n", self.side(side).name(), "qdisc", "replace", "dev", self.interface(side, link), "root"];
            self.tools.tc(device.into_iter().map(str::to_owned).chain(shape.qdisc_arguments()))?;
        }
        Ok(())
    }

    /// Changes an emulated link in both directions, also while it carries traffic. Frames that it
    /// accepted before arrive as before, and none overtakes another; so on an emulated link that
    /// became shorter, the first frames arrive in a bunch. The sequence of losses continues, unless
    /// the seed changes.
    ///
    /// # Errors
    ///
    /// [`LabError::BadEmulatedLink`], [`LabError::OtherKind`] for a veth pair, or
    /// [`LabError::EmulationEnded`].
    pub fn set_emulated(&self, link: usize, emulated: EmulatedLink) -> Result<(), LabError> {
        Description::Emulated(emulated).validate()?;
        let running = self.running(link, "set_emulated")?;
        running.carrier.change(emulated).map_err(|errno| emulation_ended(link, errno))
    }

    /// Takes one end of a link down, or brings it up again. The other end loses and regains its
    /// carrier, unless a bridge lies between. The address stays; open TCP connections wait
    /// until the link is back.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] when `ip` refuses.
    pub fn set_link_up(&self, side: Side, link: usize, up: bool) -> Result<(), LabError> {
        let state = if up { "up" } else { "down" };
        let Some(running) = &self.link(link).emulated else { return self.set_device(side, link, [state]) };
        if !up {
            running.outages().set(side, true, self.dropped(link)?);
        }
        self.set_device(side, link, [state])?;
        // The kernel moves the carrier of a veth pair. For a TAP, this call does.
        self.set_device(side.other(), link, ["carrier", if up { "on" } else { "off" }])?;
        if up {
            if self.known_neighbours {
                // An interface that goes down forgets its neighbours (neigh_ifdown() of net/core/neighbour.c).
                self.introduce_neighbour(side, link)?;
            }
            running.outages().set(side, false, self.dropped(link)?);
        }
        Ok(())
    }

    /// The traffic of a link, seen from one end. No process is started: the current thread enters
    /// the namespace for one read.
    ///
    /// # Errors
    ///
    /// Those of [`Namespace::enter`], [`LabError::System`] and [`LabError::Counters`].
    pub fn counters(&self, side: Side, link: usize) -> Result<InterfaceCounters, LabError> {
        let interface = self.interface(side, link);
        let _inside = self.enter(side)?;
        let text = fs::read_to_string(COUNTERS).map_err(file_error("read", COUNTERS))?;
        InterfaceCounters::parse(&text, interface)
    }

    /// The counts of an emulated link's frames, by direction. They include the kernel's count of
    /// frames that never reached the link's thread, so an emulated link with
    /// [`EmulatedCounters::unplanned_drops`] of 0 has behaved exactly as set.
    ///
    /// # Errors
    ///
    /// [`LabError::OtherKind`] for a veth pair, [`LabError::EmulationEnded`], and those of
    /// [`LinkLab::counters`].
    pub fn emulated_counters(&self, link: usize) -> Result<EmulatedCounters, LabError> {
        let running = self.running(link, "emulated_counters")?;
        let mut counters = running.carrier.counters().map_err(|errno| emulation_ended(link, errno))?;
        let dropped = self.dropped(link)?;
        let by_outage = running.outages().dropped(dropped);
        for (end, line) in [&mut counters.from_a, &mut counters.from_b].into_iter().enumerate() {
            line.overrun = dropped[end].saturating_sub(by_outage[end]);
            line.interface_down += by_outage[end];
        }
        Ok(counters)
    }

    fn running(&self, link: usize, call: &'static str) -> Result<&Running, LabError> {
        self.link(link).emulated.as_ref().ok_or(LabError::OtherKind { link, kind: "a veth pair", call })
    }

    /// The frames that the kernel dropped at the two ends of an emulated link before the link's
    /// thread could take them.
    fn dropped(&self, link: usize) -> Result<[u64; 2], LabError> {
        Ok([self.counters(Side::A, link)?.tx_dropped, self.counters(Side::B, link)?.tx_dropped])
    }

    fn set_device<const N: usize>(&self, side: Side, link: usize, change: [&str; N]) -> Result<(), LabError> {
        let device = ["-n", self.side(side).name(), "link", "set", "dev", self.interface(side, link)];
        self.tools.ip(device.into_iter().chain(change))
    }

    /// Gives one end of an emulated link a neighbour entry for the other, so that it sends no ARP.
    fn introduce_neighbour(&self, side: Side, link: usize) -> Result<(), LabError> {
        let other = self.address(side.other(), link).to_string();
        let hardware = name::hardware_address(side.other(), name::octet(link));
        let device = self.interface(side, link);
        let neighbour = ["neighbour", "replace", &other, "lladdr", &hardware, "nud", "permanent", "dev", device];
        self.tools.ip(["-n", self.side(side).name()].into_iter().chain(neighbour))
    }

    fn link(&self, link: usize) -> &Link {
        let count = self.links.len();
        self.links.get(link).unwrap_or_else(|| panic!("link {link} was asked for in a lab with {count} links"))
    }

    pub(crate) fn make_namespace(&self, side: Side) -> Result<(), LabError> {
        let name = self.side(side).name();
        self.tools.ip(["netns", "add", name])?;
        self.disable_ipv6(side)?;
        self.tools.ip(["-n", name, "link", "set", "dev", "lo", "up"])
    }

    /// Later interfaces inherit the default, so it is set before the links are made.
    fn disable_ipv6(&self, side: Side) -> Result<(), LabError> {
        let _inside = self.enter(side)?;
        match fs::write(DISABLE_IPV6, "1") {
            // A kernel without IPv6 does not have the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            answer => Ok(answer.map_err(file_error("write", DISABLE_IPV6))?),
        }
    }

    pub(crate) fn make_veth(&mut self, shape: Shape) -> Result<(), LabError> {
        let [interface_a, interface_b] = self.next_interfaces();
        self.make_pair(&interface_a, &interface_b, &self.b)?;
        self.finish_veth(interface_a, interface_b, shape)
    }

    /// The bridge is in side A's namespace, which takes no part in the forwarding.
    pub(crate) fn make_bridged(&mut self, shape: Shape) -> Result<(), LabError> {
        let [interface_a, interface_b] = self.next_interfaces();
        let index = self.links.len();
        let bridge = format!("bridge{index}");
        let ports = Side::BOTH.map(|side| name::port(side, name::octet(index)));
        let inside = ["-n", self.a.name()];
        self.tools.ip(inside.into_iter().chain(["link", "add", &bridge, "type", "bridge"]))?;
        self.make_pair(&ports[0], &interface_a, &self.a)?;
        self.make_pair(&ports[1], &interface_b, &self.b)?;
        for port in &ports {
            self.tools.ip(inside.into_iter().chain(["link", "set", "dev", port, "master", &bridge, "up"]))?;
        }
        // With ARP the bridge would answer for all addresses of its namespace (`arp_ignore` of
        // ip-sysctl).
        self.tools.ip(inside.into_iter().chain(["link", "set", "dev", &bridge, "arp", "off", "up"]))?;
        self.finish_veth(interface_a, interface_b, shape)
    }

    /// Makes a veth pair between side A and `there`. The pair is made inside the namespaces, so its
    /// names never clash with the machine's own interfaces.
    fn make_pair(&self, here: &str, peer: &str, there: &Namespace) -> Result<(), LabError> {
        let pair = ["link", "add", here, "type", "veth", "peer", "name", peer, "netns", there.name()];
        self.tools.ip(["-n", self.a.name()].into_iter().chain(pair))
    }

    fn finish_veth(&mut self, interface_a: String, interface_b: String, shape: Shape) -> Result<(), LabError> {
        let index = self.links.len();
        self.links.push(Link { interface_a, interface_b, emulated: None });
        for side in Side::BOTH {
            self.bring_up(side, index)?;
        }
        match shape {
            Shape::Unshaped => Ok(()),
            Shape::Rate { .. } => self.set_rate(index, shape),
        }
    }

    pub(crate) fn make_emulated(&mut self, emulated: EmulatedLink) -> Result<(), LabError> {
        let index = self.links.len();
        let [interface_a, interface_b] = self.next_interfaces();
        let taps = [emulated::open(&self.a, &interface_a)?, emulated::open(&self.b, &interface_b)?];
        let carrier =
            Carrier::start(emulated, taps).map_err(|source| LabError::EmulationNotStarted { link: index, source })?;
        let emulated = Some(Running { carrier, outages: Mutex::default() });
        self.links.push(Link { interface_a, interface_b, emulated });
        for side in Side::BOTH {
            self.set_device(side, index, ["address", &name::hardware_address(side, name::octet(index))])?;
            // A TAP accepts every frame at once and needs no qdisc, while the system's default may
            // pace or drop.
            let device = ["-n", self.side(side).name(), "qdisc", "replace", "dev", self.interface(side, index)];
            self.tools.tc(device.into_iter().chain(["root", "noqueue"]))?;
        }
        Side::BOTH.into_iter().try_for_each(|side| self.bring_up(side, index))
    }

    fn next_interfaces(&self) -> [String; 2] {
        Side::BOTH.map(|side| name::interface(side, name::octet(self.links.len())))
    }

    fn bring_up(&self, side: Side, link: usize) -> Result<(), LabError> {
        let address = format!("{}/24", self.address(side, link));
        let namespace = self.side(side).name();
        self.tools.ip(["-n", namespace, "address", "add", &address, "dev", self.interface(side, link)])?;
        self.set_link_up(side, link, true)
    }
}

impl Running {
    fn outages(&self) -> MutexGuard<'_, Outages> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LinkLab {
    fn drop(&mut self) {
        // Emulated links first: their descriptors would keep the devices, and with them the namespaces,
        // alive.
        self.links.clear();
        for side in Side::BOTH {
            // A half-built lab lacks one or both namespaces, and a drop cannot report errors. The
            // next build after this process has ended sweeps a namespace that is left.
            let _ = self.tools.ip(["netns", "del", self.side(side).name()]);
        }
    }
}

/// Finds the programs that a lab needs, and checks that the kernel allows labs.
pub(crate) fn check() -> Result<Tools, LabError> {
    check_root(geteuid())?;
    let tools = Tools::find()?;
    namespace::check_allowed()?;
    Ok(tools)
}

fn check_root(euid: Uid) -> Result<(), LabError> {
    if euid.is_root() { Ok(()) } else { Err(LabError::NotRoot { euid: euid.as_raw() }) }
}

fn emulation_ended(link: usize, errno: Errno) -> LabError {
    LabError::EmulationEnded { link, source: errno.into() }
}

/// The counters of the thread's own namespace, where `/proc/net` would be that of the process's
/// first thread.
const COUNTERS: &str = "/proc/thread-self/net/dev";
const DISABLE_IPV6: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_may_build() {
        assert!(check_root(Uid::from_raw(0)).is_ok());
        assert!(matches!(check_root(Uid::from_raw(1000)), Err(LabError::NotRoot { euid: 1000 })));
    }
}
