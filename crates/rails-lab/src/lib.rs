//! Test links and test machines for rails.
//!
//! - [`LinkLab`]: two network namespaces joined by shaped veth pairs.
//! - [`guest`]: a two-socket machine with four NICs, emulated, to run tests in. It is where placement is proven on a
//!   machine that has one node only. Remote memory costs nothing extra there, so it says nothing about speed.
//!
//! # Links
//!
//! A machine with one NIC can still show what a stream does over several: the two ends of a [`LinkLab`] are
//! namespaces with their own interfaces, addresses and TCP stacks, and every link between them is a veth pair of
//! its own whose rate is set by a token bucket at both ends. Traffic stays inside; nothing of the machine's own
//! network is touched.
//!
//! ```no_run
//! use rails_lab::{LinkLab, Shape, Side};
//!
//! # fn main() -> Result<(), rails_lab::LabError> {
//! let lab = LinkLab::builder().link(Shape::mbit(400)).link(Shape::mbit(100)).build()?;
//! let server = lab.address(Side::B, 0);
//! let mut ping = lab.side(Side::A).command("ping");
//! ping.args(["-c", "1", &server.to_string()]);
//! # Ok(())
//! # }
//! ```
//!
//! # Contract
//!
//! - **What a lab made is gone when the lab is.** [`LinkLab`]'s drop deletes both namespaces, also on a panic that
//!   unwinds. A small keeper process does it when the owner dies without running its drop (Ctrl-C, `SIGKILL`,
//!   abort); should the keeper be killed as well, the next build, or [`LinkLab::sweep`], removes what dead owners left.
//! - **Processes are left alone.** Deleting a namespace takes its name and, when its last process has gone, its
//!   interfaces. Children started by [`Namespace::command`] belong to the caller: end and reap them before the lab is
//!   dropped. On Ctrl-C the terminal signals them too, being of the owner's process group.
//! - The pid of the owner is part of a namespace's name, so processes that share `/run/netns` must share a pid
//!   namespace; otherwise one would take the other's labs for stale.
//!
//! # Privileges
//!
//! For a [`LinkLab`]: root (`CAP_SYS_ADMIN` and `CAP_NET_ADMIN`), and the programs `ip` and `tc` of iproute2. [`LinkLab::check`] says
//! whether a lab can be built, and which of these is missing.
//!
//! # Modules
//!
//! `lab` builds and changes links, `namespace` runs programs and threads inside, `shape` says what a link is like,
//! `counters` reads an interface's byte counts, `keeper` and `sweep` clean up, `tool` runs `ip` and `tc`. [`guest`] stands alone.
//!
//! # What it does not do
//!
//! No delay, loss or reordering: that needs netem, which is not in every kernel, or a wire in user space. No
//! interrupts either: a veth pair has none. New namespaces start with the kernel's default congestion control, which
//! may be BBR, and BBR measures a token bucket badly; set it per socket where a figure depends on it.
#![forbid(unsafe_code)]

mod counters;
mod error;
pub mod guest;
mod keeper;
mod lab;
mod name;
mod namespace;
mod shape;
mod sweep;
mod tool;

pub use counters::InterfaceCounters;
pub use error::LabError;
pub use lab::{LinkLab, LinkLabBuilder, MAX_LINKS};
pub use name::Side;
pub use namespace::{Entered, Namespace};
pub use shape::Shape;
