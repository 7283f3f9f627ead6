//! One array, from either version to a manifest.

use super::{codecs::Encoding, error::ZarrProblem};
use crate::manifest::{
    ArrayDescription, ArrayManifest, ChunkKey, KeyedChunks, ManifestProblem, ObjectPath, Placement, Section,
};
use rails_array::Shape;

/// The place of an array in its hierarchy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    /// The name.
    pub(super) name: &'a str,
    /// The folder.
    pub(super) folder: &'a ObjectPath,
}

/// The manifest of an array whose chunks, or shards, have that shape.
pub(super) fn manifest(
    node: Node<'_>,
    description: ArrayDescription,
    chunk_shape: Vec<u64>,
    encoding: Encoding,
    key: ChunkKey,
) -> Result<ArrayManifest, ZarrProblem> {
    let (chunk_shape, shard) = match encoding.shard {
        Some(inner) => (inner.chunk_shape, Some(inner.layout)),
        None => (chunk_shape, None),
    };
    let section = Section {
        extent: description.shape.extents().first().copied().unwrap_or(1),
        chunk_shape: shape(&chunk_shape)?,
        codecs: encoding.codecs,
        placement: Placement::Keyed(KeyedChunks { folder: node.folder.clone(), key, shard }),
    };
    Ok(ArrayManifest::new(description, 0, vec![section])?)
}

pub(super) fn shape(extents: &[u64]) -> Result<Shape, ZarrProblem> {
    Ok(Shape::new(extents.iter().copied()).map_err(ManifestProblem::from)?)
}
