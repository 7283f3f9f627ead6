//! Nodes that cache N-dimensional arrays, and fetch them before they are asked for.
//!
//! A [`Site`] is a place of datasets: files of this machine, or nodes that serve. A program reads
//! selections of their [`Array`]s, and the site watches the order of its reads and fetches the next
//! ones meanwhile. A [`Server`] serves what a site has to other nodes, so a client, a server and a
//! peer between them are one program in three configurations.
//!
//! ```no_run
//! use rails_array::{Region, Shape};
//! use rails_lambdaram::Site;
//!
//! # async fn read() -> Result<(), Box<dyn std::error::Error>> {
//! let site = Site::open("lram://localhost/merra").await?;
//! let wind = site.dataset("merra").await?.array("wind")?;
//! for step in 0..64 {
//!     let plane = Region::new([step, 3, 0, 0], Shape::new([1, 1, 361, 540])?)?;
//!     let elements = wind.read(&plane).await?;
//!     assert_eq!(elements.len(), 361 * 540 * 4);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The repository's `docs/lambdaram.md` shows the use, `docs/lambdaram-wire.md` the bytes on a
//! link.
//!
//! # Map
//! Each module depends only on those above it.
//! - [`description`], [`wire`], [`encoding`]: datasets, messages and blocks as they travel;
//! - `budgets`: rules for the memory of applications;
//! - [`catalogue`], [`storage`]: datasets in files, and the threads that read them;
//! - `node`: the protocol of the cache under one lock, and its memory; `link`: links between nodes;
//! - `library`: the datasets that a node knows, from files or from other nodes;
//! - `grids`, `dataset`, `site`, `server`: the API;
//! - [`trace`], [`replay`]: the reads of a run as a file, and other settings tried on it.
//!
//! # Contract
//! - All elements of a read are of one generation of the source, or the read fails with
//!   [`ReadError::Changed`].
//! - The memory for blocks is taken at the start, and does not grow.
//! - A block that cannot be had fails the reads that want it, with the words of its source.
//! - A link that is lost is opened again for [`SiteOptions::patience`]; reads wait meanwhile.
//!
//! # Features
//! `encryption`, `tls`: protected links. `zarr`: Zarr folders. `zstd`: blocks that travel as
//! Zstandard. All are off by default.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod address;
mod aside;
mod budgets;
pub mod catalogue;
mod dataset;
pub mod description;
pub mod encoding;
mod grids;
mod library;
mod link;
mod node;
mod opened;
mod options;
pub mod replay;
mod server;
#[cfg(test)]
mod simulation;
mod site;
pub mod storage;
pub mod trace;
pub mod wire;

pub use address::{LinkTransport, NodeAddress, SiteAddress, SiteAddressError};
pub use budgets::{BudgetError, BudgetRule, BudgetRuleError};
pub use dataset::{Array, ArrayError, Dataset, Explanation, ReadError, SelectError};
pub use library::DescribeError;
pub use link::{DialError, LinkError};
pub use options::{SiteOptionError, SiteOptions};
pub use rails_cache::Policy;
pub use server::{ServeError, Server, ServerOptions};
pub use site::{Site, SiteError};

/// The code of docs/lambdaram.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/lambdaram.md")]
struct Page;

/// The CRC-32C of a block's bytes.
fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
