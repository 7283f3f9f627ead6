//! Metadata of arrays in Zarr's third version.

use super::{
    array::{Node, manifest, shape},
    attributes::attributes,
    codecs::encoding,
    data_type,
    error::ZarrProblem,
};
use crate::manifest::{ArrayDescription, ArrayManifest, ChunkKey, Separator};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use zarrs::{
    metadata::{
        ChunkKeySeparator,
        v3::{ArrayMetadataV3, MetadataV3},
    },
    metadata_ext::{
        chunk_grid::regular::RegularChunkGridConfiguration,
        chunk_key_encoding::{default::DefaultChunkKeyEncodingConfiguration, v2::V2ChunkKeyEncodingConfiguration},
    },
};

/// The manifest of an array, from its `zarr.json`.
pub(super) fn array(node: Node<'_>, json: &Value) -> Result<ArrayManifest, ZarrProblem> {
    let malformed = |reason: String| ZarrProblem::Malformed { reason };
    let metadata = ArrayMetadataV3::deserialize(json).map_err(|error| malformed(error.to_string()))?;
    let dtype = data_type::v3(&metadata.data_type)?;
    if let Some(transformer) = metadata.storage_transformers.first() {
        return Err(ZarrProblem::Unknown { field: "storage transformer", name: transformer.name().into() });
    }
    if let Some((name, _)) = metadata.additional_fields.iter().find(|(_, field)| field.must_understand()) {
        return Err(ZarrProblem::Unknown { field: "field", name: name.clone() });
    }
    if metadata.chunk_grid.name() != "regular" {
        return Err(ZarrProblem::Unknown { field: "chunk grid", name: metadata.chunk_grid.name().into() });
    }
    let grid: RegularChunkGridConfiguration = configuration(&metadata.chunk_grid)?;
    let chunk_shape: Vec<u64> = grid.chunk_shape.iter().map(|extent| extent.get()).collect();
    let encoding = encoding(&metadata.codecs, dtype, &chunk_shape)?;
    let key = key(&metadata.chunk_key_encoding)?;
    let description = ArrayDescription {
        name: node.name.into(),
        dtype,
        dimension_names: metadata.dimension_names.unwrap_or_else(|| vec![None; metadata.shape.len()]),
        shape: shape(&metadata.shape)?,
        fill_value: Some(data_type::fill_value(&metadata.fill_value, dtype)?),
        attributes: attributes(&metadata.attributes),
    };
    manifest(node, description, chunk_shape, encoding, key)
}

fn key(metadata: &MetadataV3) -> Result<ChunkKey, ZarrProblem> {
    Ok(match metadata.name() {
        "default" => {
            ChunkKey::Default(separator(configuration::<DefaultChunkKeyEncodingConfiguration>(metadata)?.separator))
        }
        "v2" => ChunkKey::V2(separator(configuration::<V2ChunkKeyEncodingConfiguration>(metadata)?.separator)),
        name => return Err(ZarrProblem::Unknown { field: "chunk key encoding", name: name.into() }),
    })
}

pub(super) fn separator(separator: ChunkKeySeparator) -> Separator {
    match separator {
        ChunkKeySeparator::Slash => Separator::Slash,
        ChunkKeySeparator::Dot => Separator::Dot,
    }
}

fn configuration<T: DeserializeOwned>(metadata: &MetadataV3) -> Result<T, ZarrProblem> {
    metadata.to_typed_configuration().map_err(|error| ZarrProblem::Malformed { reason: error.to_string() })
}
