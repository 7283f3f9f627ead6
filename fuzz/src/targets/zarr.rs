//! Zarr folders: their metadata, the indexes of their shards, and chunks.

use rails_array::Region;
use rails_formats::{
    data_type::Endianness,
    decode::{DecodeError, ShardIndex, decode},
    manifest::{Attributes, Codec, IndexPlace, Manifest, ObjectPath, Shard},
    zarr::Hierarchy,
};

/// The metadata of an array or of a group, in each version.
pub(crate) fn metadata(data: &[u8]) {
    let [store, file] = ["a.zarr", "a.zarr/zarr.json"].map(|path| ObjectPath::new(path).expect("the path is relative"));
    let read = [
        Hierarchy::parse_v3(&store, "", &file, data),
        Hierarchy::parse_v2_array(&store, "b", &file, data, None),
        Hierarchy::parse_v2_consolidated(&store, &file, data),
        Hierarchy::parse_v2_group(&file, data, Some(data)),
    ];
    for hierarchy in read.into_iter().flatten() {
        for array in &hierarchy.arrays {
            let whole = Region::whole(&array.description().shape);
            for piece in array.chunks_of(&whole).expect("the whole array is within itself").take(100) {
                assert!(piece.wanted.elements() <= piece.chunk.elements(), "{piece:?}");
            }
        }
        // Two arrays may have one name.
        if let Ok(manifest) = Manifest::new(Vec::new(), hierarchy.arrays, Attributes::new()) {
            assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
        }
    }
}

pub(crate) fn texts() -> Vec<Vec<u8>> {
    let sharding = r#"{"name":"sharding_indexed","configuration":{"chunk_shape":[2,2],"codecs":[{"name":"bytes",
        "configuration":{"endian":"big"}},"zstd"],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},
        "crc32c"],"index_location":"start"}}"#;
    let array = |codec: &str| {
        format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":[5,4],"data_type":"float32","fill_value":"NaN",
            "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[4,4]}}}},"attributes":{{"a":[1,2.5]}},
            "chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},"codecs":[{codec}],
            "dimension_names":["y",null]}}"#
        )
    };
    let bytes =
        r#"{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}}"#;
    let zarray = r#"{"zarr_format":2,"shape":[5,4],"chunks":[2,2],"dtype":">i2","fill_value":-7,"order":"F",
        "filters":[{"id":"shuffle","elementsize":2}],"dimension_separator":"/","compressor":{"id":"zlib","level":1}}"#;
    let [sharded, plain] = [sharding, bytes].map(array);
    let group = r#"{"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","metadata":"#;
    super::texts([
        &sharded,
        &plain,
        zarray,
        &format!(r#"{group}{{"a/b":{plain}}}}}}}"#),
        &format!(
            r#"{{"zarr_consolidated_format":1,"metadata":{{"v/.zarray":{zarray},"v/.zattrs":{{"_ARRAY_DIMENSIONS":["y","x"]}}}}}}"#
        ),
        r#"{"zarr_format":2}"#,
    ])
}

pub(crate) const WORDS: &[&str] = &[
    "\"blosc\"",
    "\"gzip\"",
    "\"shuffle\"",
    "\"must_understand\":false",
    "../",
    "18446744073709551615",
    "null",
    "\"v2\"",
    "\"Infinity\"",
    "\"0x7fc00000\"",
    "|u1",
    "|S1",
    "storage_transformers",
];

/// The index of a shard, of which the first bytes say the layout.
pub(crate) fn shard(data: &[u8]) {
    let [flags, rows, columns, file @ ..] = data else { return };
    let shard = Shard {
        chunks: vec![u64::from(rows % 16) + 1, u64::from(columns % 16) + 1],
        index_place: if flags & 1 == 0 { IndexPlace::Start } else { IndexPlace::End },
        has_checksum: flags & 2 != 0,
    };
    let file_bytes = file.len() as u64;
    let Ok(place) = ShardIndex::place(&shard, file_bytes) else { return };
    let bytes = file[place.start as usize..place.end as usize].to_vec();
    let Ok(index) = ShardIndex::parse(&shard, bytes, file_bytes) else { return };
    for number in 0..shard.count() {
        match index.chunk(number) {
            Ok(Some(range)) => assert!(range.start <= range.end && range.end <= file_bytes, "{range:?}"),
            Ok(None) => (),
            Err(error) => assert!(matches!(error, DecodeError::OutsideShard { .. }), "{error}"),
        }
    }
}

pub(crate) fn shards() -> Vec<Vec<u8>> {
    let numbers = |numbers: [u64; 4]| numbers.map(u64::to_le_bytes).concat();
    vec![
        [vec![0, 0, 1], numbers([32, 2, u64::MAX, u64::MAX]), vec![1, 2]].concat(),
        [vec![1, 0, 1, 1, 2], numbers([0, 2, 1, 1])].concat(),
        [vec![2, 0, 1], numbers([36, 1, u64::MAX, 1]), vec![0; 5]].concat(),
    ]
}

/// A chunk, of which the first bytes say the codec and the size of the elements.
pub(crate) fn chunk(data: &[u8]) {
    let [codec, low, high, stored @ ..] = data else { return };
    let decoded_bytes = u64::from(u16::from_le_bytes([*low, *high]));
    let last =
        [Codec::Gzip, Codec::Zlib, Codec::Zstd, Codec::Blosc, Codec::Crc32c, Codec::Shuffle { element_bytes: 4 }];
    let last = last[usize::from(*codec) % last.len()].clone();
    let mut codecs = vec![Codec::Bytes { endianness: Endianness::Little }, last];
    if *codec >= 128 {
        codecs.push(Codec::Crc32c);
    }
    if let Ok(decoded) = decode(&codecs, stored, decoded_bytes) {
        assert_eq!(decoded.len() as u64, decoded_bytes);
    }
}

pub(crate) fn chunks() -> Vec<Vec<u8>> {
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 4, 0x21, 0, 0, 1, 2, 3, 4];
    let blosc = [2, 1, 2, 1, 4, 0, 0, 0, 4, 0, 0, 0, 20, 0, 0, 0, 1, 2, 3, 4];
    let zlib = [0x78, 1, 1, 4, 0, 0xfb, 0xff, 1, 2, 3, 4, 0, 0x18, 0, 0xb];
    let seed = |codec: u8, stored: &[u8]| [&[codec, 4, 0], stored].concat();
    vec![seed(2, &zstd), seed(3, &blosc), seed(1, &zlib), seed(5, &[1, 2, 3, 4])]
}
