//! Datasets and arrays, as a node tells of them.

use rails_array::{Region, Shape};
use rails_formats::manifest::{ArrayDescription, Attributes};
use serde::{Deserialize, Serialize};

/// The facts about a dataset that a reader needs before its first read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatasetDescription {
    /// The name.
    pub name: String,
    /// The state of the source, as the describing node numbers it: a source that has changed has a
    /// higher one.
    pub generation: u64,
    /// A digest of the content's identity, which is equal on nodes that serve copies of the same
    /// files: names, types, shapes and attributes of the arrays, the elements of small ones, and
    /// the sizes and times of the files.
    pub digest: [u8; 32],
    /// The attributes of the whole.
    pub attributes: Attributes,
    /// The arrays.
    pub arrays: Vec<ArraySummary>,
}

/// The facts about one array of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArraySummary {
    /// The name, type, shape, dimensions and attributes.
    pub description: ArrayDescription,
    /// The shape of the blocks in which the describing node caches the array.
    pub block_shape: Shape,
    /// Regions that are read again and again, and that readers cache in blocks of their own: those
    /// of the dataset file, at most [`MAX_VIEWS`](crate::wire::MAX_VIEWS).
    pub views: Vec<Region>,
    /// The elements of a small array, such as a coordinate, little-endian, in C order; `None` for
    /// an array that has to be read.
    pub inline: Option<Vec<u8>>,
}

/// A dataset in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetEntry {
    /// The name.
    pub name: String,
    /// The number of arrays.
    pub arrays: u32,
    /// The size of all elements in bytes.
    pub bytes: u64,
}
