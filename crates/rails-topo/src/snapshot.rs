//! Models as JSON.

use crate::{Topology, bounded_file};
use std::{
    io,
    path::{Path, PathBuf},
};

/// A model in JSON could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file itself could not be read.
    #[error("cannot read `{path}`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The file is not JSON, or the JSON is no model.
    #[error("`{path}` is no model of a machine", path = path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
        /// The position and the fault.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The model contradicts itself.
    #[error("`{path}` contradicts itself: {reason}", path = path.display())]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        reason: &'static str,
    },
}

impl Topology {
    /// Reads a model that was written as JSON (`rails-bench topo --json`, or [`serde`] with
    /// `serde_json`). Its origin is that of the model.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`]: the file cannot be read, is longer than 256 MiB, is something else, or
    /// contradicts itself.
    pub fn from_snapshot(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        let path = path.as_ref();
        let json =
            bounded_file::read_model(path).map_err(|source| SnapshotError::Read { path: path.to_owned(), source })?;
        let topology: Self = serde_json::from_slice(&json)
            .map_err(|source| SnapshotError::NotAModel { path: path.to_owned(), source: Box::new(source) })?;
        match topology.contradiction() {
            Some(reason) => Err(SnapshotError::Contradiction { path: path.to_owned(), reason }),
            None => Ok(topology.in_order()),
        }
    }

    /// The rules that the methods depend on, and that a JSON file may break.
    fn contradiction(&self) -> Option<&'static str> {
        let square = |count: usize, values: usize| count.checked_mul(count) == Some(values);
        let online = &self.online_cpus;
        let of_what_is_online = || {
            let packages = self.packages.iter().map(|package| &package.cpus);
            let nodes = self.nodes.iter().map(|node| &node.cpus);
            let caches = self.caches.iter().map(|cache| &cache.cpus);
            let cores = self.cores.iter().map(|core| &core.cpus);
            packages.chain(nodes).chain(caches).chain(cores).all(|cpus| cpus.is_subset(online))
        };
        match &self.distances {
            _ if online.is_empty() => Some("no CPU is online"),
            _ if !self.allowed_cpus.is_subset(online) => Some("CPUs are allowed that are not online"),
            _ if !of_what_is_online() => Some("CPUs are in places and are not online"),
            Some(distances) if !square(distances.nodes.len(), distances.values.len()) => {
                Some("there are more or fewer distances than pairs of nodes")
            }
            _ => None,
        }
    }
}
