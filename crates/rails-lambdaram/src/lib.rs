//! Nodes that cache N-dimensional arrays, and fetch them before they are asked for.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod address;
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
mod server;
#[cfg(test)]
mod simulation;
mod site;
pub mod storage;
pub mod wire;

pub use address::{LinkTransport, NodeAddress, SiteAddress, SiteAddressError};
pub use dataset::{Array, ArrayError, Dataset, Explanation, ReadError, SelectError};
pub use library::DescribeError;
pub use link::{DialError, LinkError};
pub use options::{SiteOptionError, SiteOptions};
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
