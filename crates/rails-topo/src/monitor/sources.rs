//! The sockets on which the kernel reports events.

use super::{Event, MonitorError, cpuset::CpusetWatch, rtnetlink, uevent::Uevent};
use crate::linux::Root;
use netlink_sys::{
    AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket,
    protocols::{NETLINK_KOBJECT_UEVENT, NETLINK_ROUTE},
};
use std::{future::pending, io};

/// The sources of events. The system may refuse one, which is `None` then: the poll finds its
/// changes.
pub(super) struct Sources {
    uevents: Option<TokioSocket>,
    route: Option<TokioSocket>,
    cpuset: Option<CpusetWatch>,
}

impl Sources {
    /// Opens the sources, and returns the errors of those that could not be opened: address
    /// families that are not allowed (systemd's `RestrictAddressFamilies=`), or too many watches on
    /// the machine (`/proc/sys/fs/inotify/max_user_instances`).
    pub(super) fn open(root: &Root) -> (Self, Vec<MonitorError>) {
        let mut refused = Vec::new();
        let sources = Self {
            uevents: kept(socket(NETLINK_KOBJECT_UEVENT, KERNEL_UEVENTS), "uevents", &mut refused),
            route: kept(socket(NETLINK_ROUTE, rtnetlink::GROUPS), "rtnetlink", &mut refused),
            cpuset: kept(CpusetWatch::new(root), "inotify", &mut refused),
        };
        (sources, refused)
    }

    /// Whether the kernel reports links and addresses.
    pub(super) fn reports_links(&self) -> bool {
        self.route.is_some()
    }

    /// Watches the files of the cgroup that this process is in now, if that is another one and they
    /// can be watched.
    pub(super) fn follow_cgroup(&mut self, root: &Root) {
        if self.cpuset.as_ref().is_some_and(|watch| watch.is_stale(root))
            && let Ok(watch) = CpusetWatch::new(root)
        {
            self.cpuset = Some(watch);
        }
    }

    /// The next events; possibly none. Cancel safe.
    pub(super) async fn next_events(&mut self) -> Result<Vec<Event>, MonitorError> {
        tokio::select! {
            biased;
            datagram = next(&mut self.uevents) => received(datagram, uevent).map_err(failed("uevents")),
            datagram = next(&mut self.route) => received(datagram, rtnetlink::events).map_err(failed("rtnetlink")),
            written = written(&self.cpuset) => written.map(|()| vec![Event::Cpuset]).map_err(failed("inotify")),
        }
    }
}

fn kept<T>(opened: io::Result<T>, source_name: &'static str, refused: &mut Vec<MonitorError>) -> Option<T> {
    opened.map_err(|source| refused.push(failed(source_name)(source))).ok()
}

/// The next datagram of a source; waits for ever without one.
async fn next(socket: &mut Option<TokioSocket>) -> io::Result<(Vec<u8>, SocketAddr)> {
    match socket {
        Some(socket) => socket.recv_from_full().await,
        None => pending().await,
    }
}

/// The next write to a watched file; waits for ever without a watch.
async fn written(watch: &Option<CpusetWatch>) -> io::Result<()> {
    match watch {
        Some(watch) => watch.written().await,
        None => pending().await,
    }
}

fn socket(protocol: isize, groups: u32) -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(protocol)?;
    socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
    Ok(socket)
}

fn uevent(datagram: &[u8]) -> Vec<Event> {
    Uevent::parse(datagram).and_then(|uevent| uevent.event()).into_iter().collect()
}

fn received(
    datagram: io::Result<(Vec<u8>, SocketAddr)>,
    events: impl Fn(&[u8]) -> Vec<Event>,
) -> io::Result<Vec<Event>> {
    match datagram {
        // Port 0 is the kernel's (netlink(7)): root can send anything to our port.
        Ok((bytes, sender)) if sender.port_number() == 0 => Ok(events(&bytes)),
        Ok(_) => Ok(Vec::new()),
        Err(error) if error.raw_os_error() == Some(nix::libc::ENOBUFS) => Ok(vec![Event::Lost]),
        Err(error) => Err(error),
    }
}

fn failed(source_name: &'static str) -> impl Fn(io::Error) -> MonitorError {
    move |source| MonitorError::Source { source_name, source }
}

/// The kernel's own group; the other one is udev's (`UDEV_MONITOR_UDEV` in systemd's libudev).
const KERNEL_UEVENTS: u32 = 1;
