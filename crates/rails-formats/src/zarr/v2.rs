//! Metadata of arrays in Zarr's second version.

use super::{
    array::{Node, manifest, shape},
    attributes::attributes,
    codecs::{self, Encoding},
    data_type as types,
    error::ZarrProblem,
    v3::separator,
};
use crate::{
    data_type::DataType,
    manifest::{ArrayDescription, ArrayManifest, ChunkKey, Codec},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use zarrs::metadata::{
    FillValueMetadata,
    v2::{ArrayMetadataV2, ArrayMetadataV2Order, DataTypeMetadataV2},
};

/// The manifest of an array, from its `.zarray` and its `.zattrs`.
pub(super) fn array(node: Node<'_>, zarray: &Value, zattrs: &Map<String, Value>) -> Result<ArrayManifest, ZarrProblem> {
    let metadata =
        ArrayMetadataV2::deserialize(zarray).map_err(|error| ZarrProblem::Malformed { reason: error.to_string() })?;
    let DataTypeMetadataV2::Simple(name) = &metadata.dtype else {
        return Err(ZarrProblem::DataType { data_type: zarray["dtype"].to_string() });
    };
    let (dtype, endianness) = types::v2(name)?;
    let rank = metadata.shape.len();
    let order = match metadata.order {
        ArrayMetadataV2Order::C => None,
        ArrayMetadataV2Order::F => Some(Codec::Transpose { order: (0..rank).rev().collect() }),
    };
    let steps = metadata.filters.iter().flatten().chain(&metadata.compressor);
    let steps = steps.map(|codec| codecs::v2(codec.id(), codec.configuration())).collect::<Result<Vec<_>, _>>()?;
    let bytes = Codec::Bytes { endianness };
    let fill_value = match &metadata.fill_value {
        FillValueMetadata::Null => None,
        // The character NUL, as a text of no bytes and in base64.
        FillValueMetadata::String(text) if dtype == DataType::Char && matches!(text.as_str(), "" | "AA==") => {
            Some(vec![0])
        }
        value => Some(types::fill_value(value, dtype)?),
    };
    let description = ArrayDescription {
        name: node.name.into(),
        dtype,
        dimension_names: dimension_names(zattrs, rank),
        shape: shape(&metadata.shape)?,
        fill_value,
        attributes: attributes(zattrs),
    };
    let chunk_shape = metadata.chunks.iter().map(|extent| extent.get()).collect();
    let encoding = Encoding { codecs: order.into_iter().chain([bytes]).chain(steps).collect(), shard: None };
    manifest(node, description, chunk_shape, encoding, ChunkKey::V2(separator(metadata.dimension_separator)))
}

/// The names of the axes by the convention of Xarray: a list of names in `_ARRAY_DIMENSIONS`. One
/// that does not fit the axes names none.
fn dimension_names(zattrs: &Map<String, Value>, rank: usize) -> Vec<Option<String>> {
    let names = zattrs.get("_ARRAY_DIMENSIONS").and_then(Value::as_array).filter(|names| names.len() == rank);
    match names {
        Some(names) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        None => vec![None; rank],
    }
}
