//! Two namespaces and the links between them.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::unistd::{Uid, geteuid};

use crate::keeper::Keeper;
use crate::name::{self, NamespaceName};
use crate::namespace::{self, Entered, Namespace};
use crate::sweep;
use crate::tool::Tools;
use crate::{InterfaceCounters, LabError, Shape, Side};

/// Two network namespaces joined by veth pairs, deleted when dropped.
///
/// Links are counted from 0 in the order they were asked for. Link `i` is the subnet `10.77.<i>.0/24` of its own:
/// side A has `.1`, side B `.2`. IPv6 is off inside, since nothing would wait for its duplicate address detection.
/// Loopback is up at both ends.
///
/// Methods that take a link's number panic when the lab has no such link.
#[derive(Debug)]
pub struct LinkLab {
    tools: Tools,
    a: Namespace,
    b: Namespace,
    links: Vec<Link>,
    /// Dropped after `drop` has run, and so told that there is nothing left to do.
    _keeper: Keeper,
}

#[derive(Debug)]
struct Link {
    interface_a: String,
    interface_b: String,
}

impl LinkLab {
    /// A lab yet without links.
    pub fn builder() -> LinkLabBuilder {
        LinkLabBuilder::default()
    }

    /// Says whether labs can be built here.
    ///
    /// # Errors
    ///
    /// [`LabError::NotRoot`], [`LabError::ToolMissing`] or [`LabError::NamespacesRefused`].
    pub fn check() -> Result<(), LabError> {
        check().map(drop)
    }

    /// Deletes the namespaces of labs whose owner no longer lives, and returns their names. Every build does it too.
    ///
    /// # Errors
    ///
    /// Those of [`LinkLab::check`], and [`LabError::Command`] when a namespace cannot be deleted.
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

    /// Moves the current thread to one end of the lab until the guard is dropped: [`Namespace::enter`].
    ///
    /// # Errors
    ///
    /// Those of [`Namespace::enter`].
    pub fn enter(&self, side: Side) -> Result<Entered, LabError> {
        self.side(side).enter()
    }

    /// How many links there are.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// The address of a link at one end.
    pub fn address(&self, side: Side, link: usize) -> IpAddr {
        self.link(link);
        name::address(side, octet(link))
    }

    /// The interface of a link at one end, e.g. `rail0a`.
    pub fn interface(&self, side: Side, link: usize) -> &str {
        let link = self.link(link);
        match side {
            Side::A => &link.interface_a,
            Side::B => &link.interface_b,
        }
    }

    /// Changes a link's shape in both directions, also while it carries traffic. Packets waiting in a queue that goes
    /// away are lost, as on a real link.
    ///
    /// # Errors
    ///
    /// [`LabError::BadShape`], or [`LabError::Command`] when `tc` refuses; the ends may then differ.
    pub fn set_rate(&self, link: usize, shape: Shape) -> Result<(), LabError> {
        shape.validate()?;
        for side in Side::BOTH {
            let device = ["-n", self.side(side).name(), "qdisc", "replace", "dev", self.interface(side, link), "root"];
            self.tools.tc(device.into_iter().map(str::to_owned).chain(shape.qdisc_arguments()))?;
        }
        Ok(())
    }

    /// Takes one end of a link down, or brings it up again. The other end sees its carrier go and come. The address
    /// stays; open TCP connections wait until the link is back.
    ///
    /// # Errors
    ///
    /// [`LabError::Command`] when `ip` refuses.
    pub fn set_link_up(&self, side: Side, link: usize, up: bool) -> Result<(), LabError> {
        let state = if up { "up" } else { "down" };
        self.tools.ip(["-n", self.side(side).name(), "link", "set", "dev", self.interface(side, link), state])
    }

    /// What a link has carried, seen from one end. It costs no process: the current thread enters the namespace for
    /// the time of one read.
    ///
    /// # Errors
    ///
    /// Those of [`Namespace::enter`], [`LabError::File`] and [`LabError::Counters`].
    pub fn counters(&self, side: Side, link: usize) -> Result<InterfaceCounters, LabError> {
        let interface = self.interface(side, link);
        let _inside = self.enter(side)?;
        let text = fs::read_to_string(COUNTERS).map_err(|source| file_error("read", COUNTERS, source))?;
        InterfaceCounters::parse(&text, interface)
    }

    fn link(&self, link: usize) -> &Link {
        let count = self.links.len();
        self.links.get(link).unwrap_or_else(|| panic!("link {link} was asked for in a lab with {count} links"))
    }

    fn make_namespace(&self, side: Side) -> Result<(), LabError> {
        let name = self.side(side).name();
        self.tools.ip(["netns", "add", name])?;
        self.disable_ipv6(side)?;
        self.tools.ip(["-n", name, "link", "set", "dev", "lo", "up"])
    }

    /// Interfaces made later take the default, so this comes before the links.
    fn disable_ipv6(&self, side: Side) -> Result<(), LabError> {
        let _inside = self.enter(side)?;
        match fs::write(DISABLE_IPV6, "1") {
            // A kernel without IPv6 has nothing to switch off.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            answer => answer.map_err(|source| file_error("write", DISABLE_IPV6, source)),
        }
    }

    fn make_link(&mut self, shape: Shape) -> Result<(), LabError> {
        let index = self.links.len();
        let [interface_a, interface_b] = Side::BOTH.map(|side| name::interface(side, octet(index)));
        // The pair is born inside, so its names never clash with the machine's own interfaces.
        self.tools.ip([
            "-n",
            self.a.name(),
            "link",
            "add",
            &interface_a,
            "type",
            "veth",
            "peer",
            "name",
            &interface_b,
            "netns",
            self.b.name(),
        ])?;
        self.links.push(Link { interface_a, interface_b });
        for side in Side::BOTH {
            let address = format!("{}/24", self.address(side, index));
            let namespace = self.side(side).name();
            self.tools.ip(["-n", namespace, "address", "add", &address, "dev", self.interface(side, index)])?;
            self.set_link_up(side, index, true)?;
        }
        match shape {
            Shape::Unshaped => Ok(()),
            Shape::Rate { .. } => self.set_rate(index, shape),
        }
    }
}

impl Drop for LinkLab {
    fn drop(&mut self) {
        for side in Side::BOTH {
            // A lab that failed half-way lacks one or both, and a drop has nobody to report to; whatever stays for
            // another reason is stale once this process ends, and swept by the next build.
            let _ = self.tools.ip(["netns", "del", self.side(side).name()]);
        }
    }
}

/// Collects the links of a lab.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder makes nothing until it is built"]
pub struct LinkLabBuilder {
    shapes: Vec<Shape>,
}

impl LinkLabBuilder {
    /// Adds a link of this shape.
    pub fn link(mut self, shape: Shape) -> Self {
        self.shapes.push(shape);
        self
    }

    /// Adds a link of each of these shapes.
    pub fn links(mut self, shapes: impl IntoIterator<Item = Shape>) -> Self {
        self.shapes.extend(shapes);
        self
    }

    /// Sweeps what dead owners left, then makes the namespaces and the links; a failure half-way leaves nothing.
    ///
    /// # Errors
    ///
    /// [`LabError::NoLinks`], [`LabError::TooManyLinks`] and [`LabError::BadShape`] before anything is touched, those of
    /// [`LinkLab::check`], and [`LabError::Command`] when `ip` or `tc` refuses.
    ///
    /// # Privileges
    ///
    /// Root.
    pub fn build(self) -> Result<LinkLab, LabError> {
        match self.shapes.len() {
            0 => return Err(LabError::NoLinks),
            wanted if wanted > MAX_LINKS => return Err(LabError::TooManyLinks { wanted }),
            _ => {}
        }
        self.shapes.iter().try_for_each(|shape| shape.validate())?;
        let tools = check()?;
        sweep::sweep(&tools)?;

        let (pid, lab) = (process::id(), NEXT_LAB.fetch_add(1, Ordering::Relaxed));
        let [a, b] =
            Side::BOTH.map(|side| Namespace::new(NamespaceName { pid, lab, side }.to_string(), tools.ip.clone()));
        // The keeper comes first: from here on every way out of this function cleans up.
        let keeper = Keeper::start(&tools.ip, [a.name(), b.name()])?;
        let mut lab = LinkLab { tools, a, b, links: Vec::new(), _keeper: keeper };
        for side in Side::BOTH {
            lab.make_namespace(side)?;
        }
        for shape in self.shapes {
            lab.make_link(shape)?;
        }
        Ok(lab)
    }
}

fn check() -> Result<Tools, LabError> {
    check_root(geteuid())?;
    let tools = Tools::find()?;
    namespace::check_allowed()?;
    Ok(tools)
}

fn check_root(euid: Uid) -> Result<(), LabError> {
    if euid.is_root() { Ok(()) } else { Err(LabError::NotRoot { euid: euid.as_raw() }) }
}

fn file_error(call: &'static str, path: &str, source: io::Error) -> LabError {
    LabError::File { call, path: Path::new(path).to_owned(), source }
}

fn octet(link: usize) -> u8 {
    u8::try_from(link).expect("a lab has at most MAX_LINKS links, one per value of an octet")
}

/// How many links a lab can have: the link's number is one octet of its addresses.
pub const MAX_LINKS: usize = 256;

static NEXT_LAB: AtomicU32 = AtomicU32::new(0);

/// Of the thread's own namespace, where `/proc/net` would be that of the process's first thread.
const COUNTERS: &str = "/proc/thread-self/net/dev";
const DISABLE_IPV6: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_that_cannot_be_are_refused_before_anything_is_touched() {
        assert!(matches!(LinkLab::builder().build(), Err(LabError::NoLinks)));
        let many = LinkLab::builder().links([Shape::Unshaped; MAX_LINKS + 1]);
        assert!(matches!(many.build(), Err(LabError::TooManyLinks { wanted: 257 })));
        let still = LinkLab::builder().link(Shape::mbit(0));
        assert!(matches!(still.build(), Err(LabError::BadShape { .. })));
    }

    #[test]
    fn only_root_may_build() {
        assert!(check_root(Uid::from_raw(0)).is_ok());
        assert!(matches!(check_root(Uid::from_raw(1000)), Err(LabError::NotRoot { euid: 1000 })));
    }
}
