//! The memory that a decoded manifest takes, counted in the encoded one.

use super::{
    array::{ArrayManifest, UncheckedArray},
    codec::Codec,
    keyed::{ChunkKey, IndexPlace},
    section::{ByteRange, ChunkSource, Section},
    weight::{AttributesWeight, DescriptionWeight, Entry, List, Text},
};
use crate::data_type::Endianness;
use serde::Deserialize;

/// [`UncheckedManifest`](super::UncheckedManifest).
#[derive(Deserialize)]
pub(super) struct ManifestWeight {
    objects: List<Text>,
    arrays: List<ArrayWeight>,
    attributes: AttributesWeight,
}

impl ManifestWeight {
    /// The memory of the manifest in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.objects.bytes + self.arrays.bytes + self.attributes.bytes
    }
}

/// [`UncheckedArray`]. The description is in place, as it is there.
#[derive(Deserialize)]
struct ArrayWeight {
    description: DescriptionWeight,
    _along: usize,
    sections: List<SectionWeight>,
}

/// [`Section`].
#[derive(Deserialize)]
struct SectionWeight {
    _extent: u64,
    chunk_shape: List<u64>,
    codecs: List<CodecWeight>,
    placement: PlacementWeight,
}

/// [`Placement`](super::Placement).
#[derive(Deserialize)]
enum PlacementWeight {
    Regular { _object: u32, _offset: u64, strides: List<u64>, _length: u64 },
    Listed(List<ChunkWeight>),
    Keyed(KeyedWeight),
}

/// [`KeyedChunks`](super::KeyedChunks).
#[derive(Deserialize)]
struct KeyedWeight {
    folder: Text,
    _key: ChunkKey,
    shard: Option<ShardWeight>,
}

/// [`Shard`](super::Shard).
#[derive(Deserialize)]
struct ShardWeight {
    chunks: List<u64>,
    _index_place: IndexPlace,
    _has_checksum: bool,
}

/// [`Codec`].
#[derive(Deserialize)]
enum CodecWeight {
    Bytes { _endianness: Endianness },
    Transpose { order: List<usize> },
    Shuffle { _element_bytes: u64 },
    Gzip,
    Zlib,
    Zstd,
    Blosc,
    Crc32c,
}

/// [`ChunkSource`].
#[derive(Deserialize)]
enum ChunkWeight {
    Range(#[expect(dead_code, reason = "the range is part of the encoding")] ByteRange),
    Inline(List<u8>),
    Missing,
}

impl Entry for ArrayWeight {
    // Both are there, while arrays are checked one after the other.
    const BYTES: usize = size_of::<UncheckedArray>() + size_of::<ArrayManifest>();

    fn behind(&self) -> u64 {
        self.description.behind() + self.sections.bytes
    }
}

impl Entry for SectionWeight {
    // An array has the beginning of each section, too.
    const BYTES: usize = size_of::<Section>() + size_of::<u64>();

    fn behind(&self) -> u64 {
        let chunks = match &self.placement {
            PlacementWeight::Regular { strides, .. } => strides.bytes,
            PlacementWeight::Listed(chunks) => chunks.bytes,
            PlacementWeight::Keyed(chunks) => {
                chunks.folder.bytes + chunks.shard.as_ref().map_or(0, |shard| shard.chunks.bytes)
            }
        };
        self.chunk_shape.bytes + self.codecs.bytes + chunks
    }
}

impl Entry for ChunkWeight {
    const BYTES: usize = size_of::<ChunkSource>();

    fn behind(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.bytes,
            Self::Range(_) | Self::Missing => 0,
        }
    }
}

impl Entry for CodecWeight {
    const BYTES: usize = size_of::<Codec>();

    fn behind(&self) -> u64 {
        match self {
            Self::Transpose { order } => order.bytes,
            Self::Bytes { .. }
            | Self::Shuffle { .. }
            | Self::Gzip
            | Self::Zlib
            | Self::Zstd
            | Self::Blosc
            | Self::Crc32c => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data_type::DataType,
        manifest::{
            ArrayDescription, AttributeValue, Attributes, KeyedChunks, Manifest, ManifestError, ObjectPath, Placement,
            Separator, Shard,
        },
    };
    use allocation_counter::measure;
    use rails_array::Shape;

    fn attributes(count: usize) -> Attributes {
        let value = |number: usize| match number % 4 {
            0 => AttributeValue::Text("K".repeat(number % 7)),
            1 => AttributeValue::Bytes(vec![0xe9; number % 5]),
            _ => AttributeValue::Numbers { dtype: DataType::Int16, bytes: vec![7; number % 9] },
        };
        (0..count).map(|number| (format!("a{number}"), value(number))).collect()
    }

    fn array(number: usize, sections: usize, chunks: usize, attribute_count: usize) -> ArrayManifest {
        let section = |number: usize| Section {
            extent: chunks as u64,
            chunk_shape: Shape::new([1, 1]).unwrap(),
            codecs: vec![Codec::Bytes { endianness: Endianness::Big }],
            placement: match number % 2 {
                0 => Placement::Regular { object: 0, offset: 7, strides: vec![2, 0], length: 2 },
                _ => Placement::Listed((0..chunks).map(chunk).collect()),
            },
        };
        let description = ArrayDescription {
            name: format!("v{number}"),
            dtype: DataType::Int16,
            shape: Shape::new([(sections * chunks) as u64, 1]).unwrap(),
            dimension_names: vec![Some("time".into()), None],
            fill_value: Some(vec![1, 2]),
            attributes: attributes(attribute_count),
        };
        ArrayManifest::new(description, 0, (0..sections).map(section).collect()).unwrap()
    }

    fn keyed(sections: usize, codecs: Vec<Codec>) -> ArrayManifest {
        let section = || Section {
            extent: 1,
            chunk_shape: Shape::new([1, 1]).unwrap(),
            codecs: codecs.clone(),
            placement: Placement::Keyed(KeyedChunks {
                folder: ObjectPath::new("a.zarr/v").unwrap(),
                key: ChunkKey::Default(Separator::Slash),
                shard: Some(Shard { chunks: vec![1, 2], index_place: IndexPlace::End, has_checksum: true }),
            }),
        };
        let description = ArrayDescription {
            shape: Shape::new([sections as u64, 1]).unwrap(),
            ..array(0, 1, 1, 0).description().clone()
        };
        ArrayManifest::new(description, 0, (0..sections).map(|_| section()).collect()).unwrap()
    }

    fn chunk(number: usize) -> ChunkSource {
        match number % 3 {
            0 => ChunkSource::Range(ByteRange { object: 0, offset: number as u64, length: 2 }),
            1 => ChunkSource::Inline(vec![1, 2]),
            _ => ChunkSource::Missing,
        }
    }

    #[test]
    fn weights_are_at_least_the_memory() {
        let many = |count| (0..count).map(|number| array(number, 2, 3, 2)).collect();
        let objects = |count| (0..count).map(|number| ObjectPath::new(format!("{number}.nc")).unwrap()).collect();
        let codecs = vec![
            Codec::Transpose { order: vec![1, 0] },
            Codec::Transpose { order: vec![0, 1] },
            Codec::Bytes { endianness: Endianness::Little },
            Codec::Shuffle { element_bytes: 2 },
            Codec::Gzip,
            Codec::Zstd,
            Codec::Blosc,
            Codec::Crc32c,
        ];
        let manifests = [
            Manifest::new(objects(500), vec![], Attributes::new()),
            Manifest::new(objects(1), many(100), attributes(1)),
            Manifest::new(objects(1), vec![array(0, 300, 1, 0)], attributes(11)),
            Manifest::new(objects(1), vec![array(0, 2, 1000, 0)], Attributes::new()),
            Manifest::new(objects(1), vec![array(0, 1, 1, 700)], attributes(300)),
            Manifest::new(vec![], vec![keyed(300, codecs)], Attributes::new()),
        ];
        for manifest in manifests {
            let manifest = manifest.unwrap();
            let bytes = manifest.encode();
            let weight = postcard::from_bytes::<ManifestWeight>(&bytes[1..]).unwrap().bytes();
            let mut decoded = None;
            let used = measure(|| decoded = Some(Manifest::decode(&bytes).unwrap()));
            assert_eq!(decoded, Some(manifest));
            assert!(used.bytes_current as u64 <= weight, "{used:?} of {weight}");
            assert!(used.bytes_max <= 3 * weight, "{used:?} of {weight}");
            assert!(Manifest::decode_within(&bytes, weight).is_ok());
            let error = Manifest::decode_within(&bytes, weight - 1);
            assert_eq!(error, Err(ManifestError::TooLarge { bytes: weight }));
        }
    }
}
