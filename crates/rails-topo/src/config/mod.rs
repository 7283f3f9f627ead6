//! Configuration files: facts that a machine does not state, or states wrongly.
//!
//! Firmware may put every device on node -1, a virtual machine may hide the locality of its NICs,
//! and a lane may belong to another program: a TOML file adds, overrides or hides such facts, and
//! [`Topology::overrides`](crate::Topology::overrides) states the origin of each.
//!
//! ```toml
//! [nic.eth0]
//! node = 1                    # and with it the node's CPUs, unless local_cpus are given
//! speed = "25 Gbit/s"
//!
//! [nic.eth1]
//! hide = "belongs to the storage network"   # planning leaves it alone; it is still shown
//!
//! [nic.eth9]                  # an interface that the kernel does not show
//! add = true
//! addresses = ["10.0.0.9/24"]
//!
//! [gpu.card0]                 # and so [rdma.mlx5_0], [disk.nvme0n1]
//! node = 1
//! local_cpus = "8-15"
//!
//! [pci."0000:3b:00.0"]
//! link = "16 GT/s x8"
//!
//! [node.2]
//! tier = 1
//! memory = "64 GiB"
//! [[node.2.performance]]
//! from = "0-15"
//! read_bandwidth = "400 Gbit/s"
//! read_latency_ns = 250
//!
//! [[distance]]                # in both directions, unless the file gives the other one too
//! from = 0
//! to = 2
//! value = 24
//! ```
//!
//! The JSON schema `docs/topology.schema.json` of the project's repository describes every key.
//!
//! # Layers
//!
//! Files are applied one after the other, and the last one that gives a fact wins. Within one file
//! a fact has one value: a contradiction is an error. [`layers`] reads the optional and the named
//! files; [`apply()`] does no I/O.
//!
//! ```
//! use rails_topo::{Nic, NodeId, Topology, config};
//!
//! let machine = Topology::synthetic("numa:2 core:4 pu:1", vec![Nic::named("eth0")])?;
//! let file = config::Config::parse("rails.toml", "nic.eth0.node = 1")?;
//! let machine = config::apply(&machine, &file)?;
//! assert_eq!(machine.nic("eth0").unwrap().node, Some(NodeId(1)));
//! assert_eq!(machine.nic("eth0").unwrap().locality(&machine).unwrap().to_string(), "4-7");
//! assert_eq!(machine.overrides()[0].to_string(), "rails.toml:1 (instead of unknown)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! [`ConfigError`] names file, line, column and key. A file with an error changes nothing.

mod apply;
mod document;
mod errors;
mod files;
mod located;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;
mod values;

pub use apply::apply;
use document::Document;
pub use errors::{ConfigError, Position, Problem};
pub use files::{MAX_BYTES, SYSTEM_FILE, layers, user_file};
use located::Span;
use std::path::{Path, PathBuf};

/// A configuration file, checked as far as that needs no machine.
#[derive(Debug, Clone)]
pub struct Config {
    file: PathBuf,
    text: String,
    document: Document,
}

impl Config {
    /// Reads the text of a file; errors and overrides call it `file`.
    ///
    /// # Errors
    /// [`ConfigError::Wrong`] where the text is no TOML, has a key that does not exist, or a value
    /// of the wrong kind.
    pub fn parse(file: impl Into<PathBuf>, text: &str) -> Result<Self, ConfigError> {
        let file = file.into();
        match toml::from_str(text) {
            Ok(document) => Ok(Self { file, text: text.to_owned(), document }),
            Err(error) => Err(located::of_parser(&file, text, &error)),
        }
    }

    /// Whether the text is TOML. Files of other kinds that describe machines (XML, JSON, archives)
    /// never are.
    pub fn is_toml(text: &str) -> bool {
        toml::de::DeTable::parse(text).is_ok()
    }

    /// The file, as it was named.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The position of a span in the file.
    fn position(&self, span: &Span, key: impl Into<String>) -> Position {
        Position::of(&self.file, &self.text, span.start, key.into())
    }

    /// A fault at that position.
    fn wrong(&self, span: &Span, key: impl Into<String>, problem: Problem) -> ConfigError {
        ConfigError::Wrong { at: self.position(span, key), problem: problem.into() }
    }
}
