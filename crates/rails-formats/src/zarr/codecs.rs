//! Codecs and shards, from their metadata.

use super::error::ZarrProblem;
use crate::{
    data_type::{DataType, Endianness},
    manifest::{Codec, IndexPlace, Shard},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use zarrs::{
    metadata::{Endianness as ZarrsEndianness, v3::MetadataV3},
    metadata_ext::codec::{
        bytes::BytesCodecConfigurationV1,
        crc32c::{Crc32cCodecConfiguration, Crc32cCodecConfigurationLocation},
        sharding::{ShardingCodecConfigurationV1, ShardingIndexLocation},
        shuffle::ShuffleCodecConfigurationV1,
        transpose::TransposeCodecConfigurationV1,
    },
};

/// The codecs of a chunk, and the shard around it.
pub(super) struct Encoding {
    pub(super) codecs: Vec<Codec>,
    pub(super) shard: Option<InShard>,
}

/// The chunks of a shard.
pub(super) struct InShard {
    pub(super) chunk_shape: Vec<u64>,
    pub(super) layout: Shard,
}

/// The encoding of the codecs of an array whose chunks, or shards, have that shape.
pub(super) fn encoding(metadata: &[MetadataV3], dtype: DataType, shape: &[u64]) -> Result<Encoding, ZarrProblem> {
    let is_shard = |codec: &MetadataV3| codec.name() == SHARDING;
    let Some(sharding) = metadata.iter().find(|codec| is_shard(codec)) else {
        return Ok(Encoding { codecs: codecs(metadata, dtype)?, shard: None });
    };
    if metadata.len() != 1 {
        return Err(not_understood(SHARDING, "other codecs are beside it"));
    }
    let configuration: ShardingCodecConfigurationV1 = configuration(sharding)?;
    if configuration.codecs.iter().any(is_shard) {
        return Err(not_understood(SHARDING, "a shard is within a shard"));
    }
    let chunk_shape: Vec<u64> = configuration.chunk_shape.iter().map(|extent| extent.get()).collect();
    let is_filled = chunk_shape.len() == shape.len() && shape.iter().zip(&chunk_shape).all(|(all, one)| all % one == 0);
    if !is_filled {
        return Err(ZarrProblem::Shard { chunk_shape, shard_shape: shape.into() });
    }
    let has_checksum = match &codecs(&configuration.index_codecs, DataType::Uint64)?[..] {
        [Codec::Bytes { endianness: Endianness::Little }] => false,
        [Codec::Bytes { endianness: Endianness::Little }, Codec::Crc32c] => true,
        _ => return Err(not_understood(SHARDING, "the index has other codecs than `bytes` and `crc32c`")),
    };
    let layout = Shard {
        chunks: shape.iter().zip(&chunk_shape).map(|(all, one)| all / one).collect(),
        index_place: match configuration.index_location {
            ShardingIndexLocation::Start => IndexPlace::Start,
            ShardingIndexLocation::End => IndexPlace::End,
        },
        has_checksum,
    };
    Ok(Encoding { codecs: codecs(&configuration.codecs, dtype)?, shard: Some(InShard { chunk_shape, layout }) })
}

/// A codec of Zarr's second version, which has the codecs from bytes to bytes alone.
pub(super) fn v2(id: &str, configuration: &Map<String, Value>) -> Result<Codec, ZarrProblem> {
    let metadata = MetadataV3::new_with_configuration(id, configuration.clone());
    match id {
        "blosc" | "crc32c" | "gzip" | "shuffle" | "zlib" | "zstd" => codec(&metadata, DataType::Uint8),
        _ => Err(not_understood(id, "it is unknown")),
    }
}

fn codecs(metadata: &[MetadataV3], dtype: DataType) -> Result<Vec<Codec>, ZarrProblem> {
    metadata.iter().map(|metadata| codec(metadata, dtype)).collect()
}

/// The codec of a name; numcodecs' names have a prefix in the third version.
fn codec(metadata: &MetadataV3, dtype: DataType) -> Result<Codec, ZarrProblem> {
    let name = metadata.name();
    Ok(match name.strip_prefix("numcodecs.").unwrap_or(name) {
        "bytes" | "endian" => {
            let endian = configuration::<BytesCodecConfigurationV1>(metadata)?.endian;
            let endianness = match endian {
                Some(ZarrsEndianness::Little) => Endianness::Little,
                Some(ZarrsEndianness::Big) => Endianness::Big,
                None if dtype.bytes() == 1 => Endianness::NATIVE,
                None => return Err(not_understood(name, "it has no order of bytes")),
            };
            Codec::Bytes { endianness }
        }
        "transpose" => Codec::Transpose { order: configuration::<TransposeCodecConfigurationV1>(metadata)?.order.0 },
        "shuffle" => {
            let element_bytes = configuration::<ShuffleCodecConfigurationV1>(metadata)?.elementsize as u64;
            if element_bytes == 0 {
                return Err(not_understood(name, "its elements have no bytes"));
            }
            Codec::Shuffle { element_bytes }
        }
        "crc32c" => match configuration::<Crc32cCodecConfiguration>(metadata)? {
            Crc32cCodecConfiguration::Numcodecs(numcodecs)
                if numcodecs.location == Crc32cCodecConfigurationLocation::Start =>
            {
                return Err(not_understood(name, "its checksum is at the start"));
            }
            _ => Codec::Crc32c,
        },
        // Their streams say all that a decoder needs.
        "blosc" => Codec::Blosc,
        "gzip" => Codec::Gzip,
        "zlib" => Codec::Zlib,
        "zstd" => Codec::Zstd,
        _ => return Err(not_understood(name, "it is unknown")),
    })
}

fn configuration<T: DeserializeOwned>(metadata: &MetadataV3) -> Result<T, ZarrProblem> {
    metadata.to_typed_configuration().map_err(|error| not_understood(metadata.name(), error.to_string()))
}

fn not_understood(codec: &str, reason: impl Into<String>) -> ZarrProblem {
    ZarrProblem::Codec { codec: codec.into(), reason: reason.into() }
}

const SHARDING: &str = "sharding_indexed";
