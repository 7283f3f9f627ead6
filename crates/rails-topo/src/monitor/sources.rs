//! The sockets on which the kernel reports events.

use super::{Event, MonitorError, cpuset::CpusetWatch, rtnetlink, uevent::Uevent};
use crate::linux::Root;
use netlink_sys::{
    AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket,
    protocols::{NETLINK_KOBJECT_UEVENT, NETLINK_ROUTE},
};
use std::io;

/// The sources of events.
pub(super) struct Sources {
    uevents: TokioSocket,
    route: TokioSocket,
    cpuset: CpusetWatch,
}

impl Sources {
    pub(super) fn open(root: &Root) -> Result<Self, MonitorError> {
        Ok(Self {
            uevents: socket(NETLINK_KOBJECT_UEVENT, KERNEL_UEVENTS).map_err(failed("uevents"))?,
            route: socket(NETLINK_ROUTE, rtnetlink::GROUPS).map_err(failed("rtnetlink"))?,
            cpuset: CpusetWatch::new(root).map_err(failed("inotify"))?,
        })
    }

    /// Watches the files of the cgroup that this process is in now, if that is another one. Whether it is.
    pub(super) fn follow_cgroup(&mut self, root: &Root) -> Result<bool, MonitorError> {
        let moved = self.cpuset.is_stale(root);
        if moved {
            self.cpuset = CpusetWatch::new(root).map_err(failed("inotify"))?;
        }
        Ok(moved)
    }

    /// The next events; they may be none of importance. Cancel safe.
    pub(super) async fn told(&mut self) -> Result<Vec<Event>, MonitorError> {
        tokio::select! {
            biased;
            datagram = self.uevents.recv_from_full() => received(datagram, uevent).map_err(failed("uevents")),
            datagram = self.route.recv_from_full() => received(datagram, rtnetlink::events).map_err(failed("rtnetlink")),
            written = self.cpuset.written() => written.map(|()| vec![Event::Cpuset]).map_err(failed("inotify")),
        }
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
        // Port 0 is the kernel's (netlink(7)): root can send to our port, and may send anything.
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
