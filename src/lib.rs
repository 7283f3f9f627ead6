//! Rails: a NIC lane, its interrupt, the cores beside it and the memory beside them, as one unit.
//!
//! A server has several NIC lanes, several memory nodes and many cores, and a program that ignores
//! this loses much of them: its threads run far from the NIC, its buffers lie on the wrong node,
//! and its one TCP stream uses one lane. A *rail* is one NIC lane, its interrupt, and the cores and
//! memory beside it, owned by one pinned tokio runtime. A program asks for rails, gets one runtime
//! per rail, and moves one logical stream over all of them.
//!
//! # Smallest use
//!
//! Two rails on the loopback interface, one stream over both. It needs no privilege and no second
//! NIC; with NICs, [`RailRequest::auto()`](multirail::RailRequest::auto()) plans a rail on each.
//!
//! ```
//! use rails::multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, plan_rails};
//! use rails::topo::Topology;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // The machine, the plan of the rails, and then one pinned runtime per rail.
//!     let topology = Topology::detect()?;
//!     let plan = plan_rails(&topology, &RailRequest::loopback(2))?;
//!     let rails = Rails::build(&plan)?;
//!
//!     // Both ends know the secret, of 16 bytes at least. A peer that does not know it joins no stream.
//!     let options = StreamOptions::new(Secret::pre_shared(b"at least sixteen bytes")?);
//!     let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await?;
//!     let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?;
//!     let mut far = listener.accept().await?;
//!
//!     // From here on it is a stream like any other.
//!     near.write_all(b"hello").await?;
//!     near.shutdown().await?;
//!     let mut received = Vec::new();
//!     far.read_to_end(&mut received).await?;
//!     assert_eq!(received, b"hello");
//!     Ok(())
//! }
//! ```
//!
//! # In a `Cargo.toml`
//!
//! ```toml
//! [dependencies]
//! rails-toolkit = "0.1"
//! tokio = { version = "1", features = ["io-util", "macros", "rt"] }
//!
//! [profile.dev.package.rails-proto] # checksums every byte: debug builds carry 2.8 GB/s with this, 0.8 without
//! opt-level = 2
//! ```
//!
//! hwloc reads the machine: Debian and Ubuntu have it as `pkg-config libhwloc-dev libudev-dev`,
//! Fedora as `pkgconf hwloc-devel systemd-devel`. Without these headers the build script of
//! hwlocality-sys panics; `default-features = false` builds without hwloc, and without `captures`,
//! `config`, `svg` and `xml`, which can be named.
//!
//! # Where tasks run
//!
//! A task on a rail's runtime ([`RailRuntime::spawn`](multirail::runtime::RailRuntime::spawn)) runs
//! beside the rail's lanes, which wake it on their own thread. On another runtime each wake crosses
//! threads, which slows small requests down, but not bulk data.
//!
//! The folder `examples/` has larger programs, in the order of its `README.md`.
//!
//! # Crates
//!
//! This crate only re-exports the others. Each of them can be used alone, and depends only on those
//! above it.
//!
//! | module | crate | holds |
//! |---|---|---|
//! | [`topo`] | `rails-topo` | the machine: packages, nodes, caches, cores, NICs, their queues and interrupts |
//! | [`bind`] | `rails-bind` | threads and memory bound, read back and undone; whether a rail is one |
//! | [`task`] | `rails-task` | task queues on the topology: each task on its CPU set, by the nearest idle core |
//! | [`net`] | `rails-net` | transports of lanes; TCP from an address or a device, with its options and statistics |
//! | `celeritas` | `rails-celeritas` | messages, bytes and lanes over UDP at a rate, for long and lossy paths |
//! | [`proto`] | `rails-proto` | the protocol of a stream as state machines, for drivers of their own |
//! | [`multirail`] | `rails-multirail` | plans, pinned runtimes, and streams over several lanes |
//! | `cuda` | `rails-cuda` | a GPU as a stage of a pipeline |
//!
//! # Guarantees
//!
//! - Planning, applying, reading back and undoing are four steps. A plan changes nothing and gives
//!   a reason for every choice.
//! - A binding is reported as it was read back. An unknown value is `None` with a reason, never 0.
//! - Losing a lane loses no byte as long as another is up.
//! - Bytes from the network cause neither a panic nor memory beyond a stream's window.
//!
//! # Limits
//!
//! Streams are encrypted only with the security options that encrypt: a secret alone decides which
//! peers may join, and does not keep others from reading. Rails move no interrupt: the planner
//! considers the CPU that serves an interrupt when it chooses a rail's CPU.
//!
//! # Platforms and privileges
//!
//! Linux only; the lower crates refuse to build elsewhere. Binding to a device (`SO_BINDTODEVICE`)
//! takes Linux 5.7 or `CAP_NET_RAW`; all else works without privileges.
//!
//! # Features
//!
//! - `hwloc` (on by default): packages, nodes, caches and cores as hwloc sees them; it needs
//!   libhwloc 2.8 or newer and libudev with their headers. Without it the kernel's own files are
//!   read, and no C library is needed.
//! - `captures`, `svg` and `xml` (on by default): machines captured in a `.tar.gz`, drawn, and
//!   written as hwloc's XML.
//! - `config` (on by default): TOML files that add, override and hide facts of the machine.
//! - `celeritas`: the module `celeritas`, a rate-based transport over UDP.
//! - `cuda`: the module `cuda`, a GPU as a stage of a pipeline. Nothing of CUDA is needed to build;
//!   its driver is loaded at run time.
//! - `encryption`: `Security::encrypted`, which encrypts every lane with keys made of a secret. It
//!   brings aws-lc-rs, which takes a C compiler to build.
//! - `tls`: `Security::tls_client` and `Security::tls_server`, streams that are opened by TLS 1.3.
//!   It brings rustls, and `encryption`.
//! - `prometheus`: `StreamMetrics`, `RailMetrics` and `StreamStats::to_prometheus`, statistics as
//!   the text that Prometheus reads.
//! - `axum`: `MultiRailListener` is an `axum::serve::Listener`.
//! - `h3`: `multirail::h3`, sessions as connections of hyperium's h3 (HTTP/3).
//! - `hyper`: `RailRuntime` is an executor of hyper's.
//! - `tonic`: `MultiRailStream` is a connection of tonic's server.
//! - `web-transport`: `multirail::web_transport`, sessions and their streams as those of
//!   web-transport-trait.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub use rails_bind as bind;
#[cfg(feature = "celeritas")]
#[cfg_attr(docsrs, doc(cfg(feature = "celeritas")))]
pub use rails_celeritas as celeritas;
#[cfg(feature = "cuda")]
#[cfg_attr(docsrs, doc(cfg(feature = "cuda")))]
pub use rails_cuda as cuda;
pub use rails_multirail as multirail;
pub use rails_net as net;
pub use rails_proto as proto;
pub use rails_task as task;
pub use rails_topo as topo;

/// The README's code, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The code of docs/celeritas.md, compiled.
#[cfg(all(doctest, feature = "celeritas"))]
#[doc = include_str!("../docs/celeritas.md")]
struct Celeritas;

/// The code of docs/placement.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/placement.md")]
struct Placement;
