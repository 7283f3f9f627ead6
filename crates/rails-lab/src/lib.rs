//! Test links and test machines for rails.
//!
//! - [`LinkLab`]: two network namespaces joined by shaped veth pairs, and by emulated links with
//!   delay and loss.
//! - [`guest`]: a two-socket machine with four NICs, emulated, to run tests in. It is where
//!   placement is proven on a machine that has one node only. Remote memory costs nothing extra
//!   there, so it says nothing about speed.
//! - [`captures`]: other people's machines, as files.
//! - [`Sandbox`]: programs and tests that run where calls are refused, files are hidden and
//!   resources are limited.
//!
//! # Links
//!
//! A machine with one NIC can still show how a stream uses several: the two ends of a [`LinkLab`]
//! are namespaces with their own interfaces, addresses and TCP stacks, and every link between them
//! is a veth pair of its own whose rate is set by a token bucket at both ends, or an
//! [`EmulatedLink`]: a thread that carries frames as a long line would, at a rate, with a delay, a
//! queue that ends, and losses drawn from a seed. Traffic stays inside; nothing of the machine's
//! own network is touched.
//!
//! ```no_run
//! use rails_lab::{EmulatedLink, LinkLab, Shape, Side};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), rails_lab::LabError> {
//! let far = EmulatedLink::mbit(500).rtt(Duration::from_millis(19)).loss(1e-3).seed(7);
//! let lab = LinkLab::builder().link(Shape::mbit(400)).link(Shape::mbit(100)).emulated(far).build()?;
//! let server = lab.address(Side::B, 0);
//! let mut ping = lab.side(Side::A).command("ping");
//! ping.args(["-c", "1", &server.to_string()]);
//! # Ok(())
//! # }
//! ```
//!
//! # Contract
//!
//! - **A lab leaves nothing behind.** [`LinkLab`]'s drop deletes both namespaces, also on a panic
//!   that unwinds. A small keeper process does it when the owner dies without running its drop
//!   (Ctrl-C, `SIGKILL`, abort), and kills the programs inside before, as nobody else would; should
//!   the keeper be killed as well, the next build, or [`LinkLab::sweep`], removes the namespaces of
//!   dead owners, with the programs in them.
//! - **A drop leaves processes alone.** Deleting a namespace takes its name and, when its last
//!   process has gone, its interfaces. Children started by [`Namespace::command`] belong to the
//!   caller: end and reap them before the lab is dropped. On Ctrl-C the terminal signals them too,
//!   being of the owner's process group.
//! - The pid of the owner is part of a namespace's name, so processes that share `/run/netns` must
//!   share a pid namespace; otherwise one would take the other's labs for stale.
//!
//! - **An emulated link follows its plan, or says so.** [`LinkLab::emulated_counters`] counts the
//!   frames it carried, those it dropped by plan (loss, a full queue, an end that is down), and
//!   those lost for any other reason. A measurement over an emulated link with unplanned drops is
//!   void. Its TAP devices go with its process, however that ends.
//!
//! # Privileges
//!
//! For a [`LinkLab`]: root (`CAP_SYS_ADMIN` and `CAP_NET_ADMIN`), the programs `ip` and `tc` of
//! iproute2, and for emulated links `/dev/net/tun`. [`LinkLab::check`] says whether a lab can be
//! built, and which of these is missing.
//!
//! # Modules
//!
//! `builder` takes the description of a lab, `lab` makes and changes links, `emulated` carries
//! frames in user space, `namespace` runs programs and threads inside, `shape` describes a link,
//! `counters` reads an interface's byte counts, `transport` sets and reads the state of TCP and
//! MPTCP, `fault` drops packets, `keeper` and `sweep` clean up, `tool` runs `ip` and `tc`.
//! [`guest`], [`captures`] and `sandbox` stand alone.
//!
//! # How far an emulated link goes
//!
//! Measured on a virtual machine of 2 cores (Linux 6.18, an iperf3 3.12 at each end, one flow of
//! TCP, 10 s, release build), while other programs were compiled on it:
//!
//! | link | TCP | goodput at the receiver | dropped by the queue | unplanned drops | greatest lateness | the link's CPU |
//! |---|---|---|---|---|---|---|
//! | 500 Mbit/s, RTT 19 ms, queue 20 ms | cubic | 470 to 472 Mbit/s (three runs) | 474 to 485 | 0 | 1.5 to 19 ms | 0.38 to 0.46 cores |
//! | the same with loss 1e-3 | cubic | 20 Mbit/s | 0 | 0 | 1.1 ms | 0.12 cores |
//! | the same with loss 1e-3 | BBR | 466 Mbit/s | 3119 | 0 | 13 ms | 0.33 cores |
//! | 1 Gbit/s, RTT 19 ms | cubic | 938 Mbit/s | 0 | 0 | 10 ms | 0.54 cores |
//! | 2 Gbit/s, RTT 19 ms (5 s) | cubic | 1154 Mbit/s | 0 | 0 | 6.6 ms | 0.6 cores |
//!
//! So an emulated link of up to 1 Gbit/s is a link, and above that it is the machine that is
//! measured. The ceiling of 500 Mbit/s for TCP's payload is 478 Mbit/s. A flood of datagrams at 1.5
//! Gbit/s into 500 lost the datagrams that did not fit the queue and nothing else. Round trips of a
//! single datagram took 19.2 ms.
//!
//! # Limits
//!
//! A veth pair has no delay and no loss, and neither kind of link reorders. Losses of an emulated
//! link are independent of each other: no bursts. An emulated link has no offloads, so it costs the
//! machine more than a veth pair does, and it ends where a thread's reads and writes end. No
//! interrupts: neither kind of interface has any. New namespaces start with the kernel's default
//! congestion control, which may be BBR, and BBR measures a token bucket badly; set it per socket
//! where a figure depends on it.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod builder;
pub mod captures;
mod counters;
mod description;
mod emulated;
mod error;
mod fault;
pub mod guest;
mod keeper;
mod lab;
mod name;
mod namespace;
mod sandbox;
mod shape;
mod sweep;
mod system;
mod tool;
mod transport;

pub use builder::LinkLabBuilder;
pub use counters::InterfaceCounters;
pub use emulated::{EmulatedCounters, EmulatedLink, LineCounters};
pub use error::LabError;
pub use lab::LinkLab;
pub use name::{MAX_LINKS, Side};
pub use namespace::{Entered, Namespace};
pub use sandbox::Sandbox;
pub use shape::Shape;
pub use system::SystemError;
pub use transport::TransportCounters;
