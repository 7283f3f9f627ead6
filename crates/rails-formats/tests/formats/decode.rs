//! Chunks written by zarrs and its codecs, and stored bytes that lie.

use crate::arrays;
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use proptest::{prelude::*, sample::select};
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::{DataType, Endianness},
    decode::{DecodeError, decode},
    manifest::{
        ArrayDescription, ArrayManifest, Attributes, ByteRange, ChunkKey, ChunkSource, Codec, IndexPlace, KeyedChunks,
        ObjectPath, Placement, Section, Separator, Shard,
    },
    plan::{MergeLimits, plan_region},
    reader::{OpenLimits, ReadError, Root, Source, open_zarr, read_plan, read_plan_below},
};
use serde_json::json;
use std::{fs, io::Write, path::Path, sync::Arc};
use zarrs::{
    array::{
        Array, ArrayBytes, ArraySubset,
        codec::{BloscCompressionLevel, BloscCompressor, BloscShuffleMode, blosc_compress_bytes},
    },
    metadata::v3::ArrayMetadataV3,
    storage::{ListableStorageTraits, ReadableStorageTraits, store::MemoryStore},
};

/// An array in memory without elements, whose codecs the draw says.
fn stored(extents: &[u64], chunk: &[u64], dtype: DataType, draw: u64) -> Array<MemoryStore> {
    let endian = if draw & 1 == 0 { "little" } else { "big" };
    let bytes = json!({ "name": "bytes", "configuration": { "endian": endian } });
    let mut order: Vec<usize> = (0..extents.len()).collect();
    order.rotate_left((draw >> 1) as usize % extents.len());
    let transpose = json!({ "name": "transpose", "configuration": { "order": order } });
    let blosc = json!({ "cname": "lz4", "clevel": 3, "shuffle": "shuffle", "typesize": 4, "blocksize": 0 });
    let last = [
        json!({ "name": "gzip", "configuration": { "level": 3 } }),
        json!({ "name": "zstd", "configuration": { "level": 1, "checksum": true } }),
        json!({ "name": "blosc", "configuration": blosc }),
        json!({ "name": "crc32c" }),
        json!({ "name": "numcodecs.shuffle", "configuration": { "elementsize": 1 } }),
        json!({ "name": "numcodecs.zlib", "configuration": { "level": 1 } }),
    ];
    let last = &last[(draw >> 8) as usize % last.len()];
    let inner = json!([transpose, bytes, last]);
    let sharding = |place: &str| {
        let index = json!([{ "name": "bytes", "configuration": { "endian": "little" } }, { "name": "crc32c" }]);
        json!([{ "name": "sharding_indexed", "configuration": {
            "chunk_shape": chunk, "codecs": inner, "index_codecs": index, "index_location": place
        } }])
    };
    // A shard has two chunks along each axis.
    let shard: Vec<u64> = chunk.iter().map(|extent| 2 * extent).collect();
    let (grid, codecs) = match draw >> 16 & 3 {
        0 => (chunk, json!([bytes])),
        1 => (chunk, inner),
        2 => (&shard[..], sharding("start")),
        _ => (&shard[..], sharding("end")),
    };
    let metadata: ArrayMetadataV3 = serde_json::from_value(json!({
        "zarr_format": 3, "node_type": "array", "shape": extents, "data_type": dtype.name(), "fill_value": 3,
        "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": grid } },
        "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
        "codecs": codecs,
    }))
    .unwrap();
    let array = Array::new_with_metadata(Arc::new(MemoryStore::new()), "/v", metadata.into()).unwrap();
    array.store_metadata().unwrap();
    array
}

/// Writes the files of a store.
fn write(store: &MemoryStore, folder: &Path) {
    for key in store.list().unwrap() {
        let path = folder.join(key.as_str());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, store.get(&key).unwrap().unwrap()).unwrap();
    }
}

const BYTES: Codec = Codec::Bytes { endianness: Endianness::Little };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_zarrs_writes_is_read(
        extents in arrays::extents(),
        (seed, draw) in (any::<u64>(), any::<u64>()),
        chunk in proptest::collection::vec(1_u64..4, 4),
        dtype in select(vec![DataType::Int8, DataType::Uint16, DataType::Int32, DataType::Float64]),
        draws in arrays::draws(),
    ) {
        let values = arrays::array(&extents, seed);
        let chunk = &chunk[..extents.len()];
        let array = stored(&extents, chunk, dtype, draw);
        let whole = Region::whole(&Shape::new(extents.iter().copied()).unwrap());
        let bytes = ArrayBytes::new_flen(arrays::expected(&values, &whole, dtype));
        array.store_array_subset(&ArraySubset::new_with_shape(extents.clone()), bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        write(&array.storage(), folder.path());
        let root = Root::open(folder.path()).unwrap();
        let opened = open_zarr(&root, &ObjectPath::new("v").unwrap(), &OpenLimits::default()).unwrap();
        prop_assert_eq!(&opened.refused, &[]);
        for region in [arrays::region(&extents, &draws), whole] {
            let plan = plan_region(&opened.manifest.arrays()[0], &region, &MergeLimits::default()).unwrap();
            let mut goal = vec![0xee; plan.bytes() as usize];
            read_plan_below(&root, &plan, &mut goal, |_| -> Result<Source, _> { unreachable!() }).unwrap();
            prop_assert_eq!(goal, arrays::expected(&values, &region, dtype), "{}", region);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        codec in select(vec![Codec::Gzip, Codec::Zlib, Codec::Zstd, Codec::Blosc, Codec::Crc32c, Codec::Shuffle { element_bytes: 3 }]),
        decoded_bytes in 0_u64..400,
    ) {
        if let Ok(decoded) = decode(&[BYTES, codec], &bytes, decoded_bytes) {
            prop_assert_eq!(decoded.len() as u64, decoded_bytes);
        }
    }
}

/// Zeros, by each codec that may shrink them.
fn zeros(bytes: usize) -> [(Codec, Vec<u8>); 4] {
    let zeros = vec![0; bytes];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&zeros).unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(&zeros).unwrap();
    let blosc = blosc_compress_bytes(
        &zeros,
        BloscCompressionLevel::try_from(5).unwrap(),
        BloscShuffleMode::Shuffle,
        4,
        BloscCompressor::LZ4,
        0,
        1,
    );
    [
        (Codec::Gzip, gzip.finish().unwrap()),
        (Codec::Zlib, zlib.finish().unwrap()),
        (Codec::Zstd, zstd::bulk::compress(&zeros, 3).unwrap()),
        (Codec::Blosc, blosc.unwrap()),
    ]
}

#[test]
fn decoded_bytes_are_limited_on_both_sides() {
    for (codec, stored) in zeros(1000) {
        let decode = |decoded_bytes| decode(&[BYTES, codec.clone()], &stored, decoded_bytes).map(|bytes| bytes.len());
        assert_eq!(decode(1000), Ok(1000), "{codec}");
        let error = decode(999).unwrap_err();
        // Zstandard itself refuses.
        assert!(matches!(error, DecodeError::TooLong { max_bytes: 999, .. } | DecodeError::Codec { .. }), "{error}");
        assert_eq!(decode(1001), Err(DecodeError::Length { found: 1000, expected: 1001 }), "{codec}");
    }
}

#[test]
fn steps_between_may_be_longer_than_elements() {
    let (_, stored) = zeros(1000).into_iter().nth(2).unwrap();
    let mut checked = stored.clone();
    checked.extend([0; 4]);
    let codecs = [BYTES, Codec::Zstd, Codec::Crc32c];
    let error = decode(&codecs, &checked, 1000).unwrap_err();
    assert!(matches!(error, DecodeError::Codec { codec: "crc32c", .. }), "{error}");
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(bytes).unwrap();
    zlib.finish().unwrap()
}

/// A section of three chunks of 2 by 3 elements with these codecs: in a file, in the manifest, and
/// nowhere. Axes are transposed, so the stored elements are 0, 3, 1, 4, 2, 5, and ten more.
fn three_places(codecs: Vec<Codec>, encode: fn(&[u8]) -> Vec<u8>) -> (ArrayManifest, Vec<u8>) {
    let [first, second] = [0_u16, 10].map(|more| {
        let elements = [0, 3, 1, 4, 2, 5].map(|element: u16| (element + more).to_be_bytes());
        encode(&elements.concat())
    });
    let range = ByteRange { object: 0, offset: 5, length: first.len() as u64 };
    let section = Section {
        extent: 6,
        chunk_shape: Shape::new([2, 3]).unwrap(),
        codecs,
        placement: Placement::Listed(vec![
            ChunkSource::Range(range),
            ChunkSource::Inline(second),
            ChunkSource::Missing,
        ]),
    };
    let description = ArrayDescription {
        name: "v".into(),
        dtype: DataType::Uint16,
        shape: Shape::new([6, 3]).unwrap(),
        dimension_names: vec![None; 2],
        fill_value: Some(vec![99, 0]),
        attributes: Attributes::new(),
    };
    (ArrayManifest::new(description, 0, vec![section]).unwrap(), [&[0xee; 5], &first[..], &[0xee]].concat())
}

#[test]
fn listed_chunks_are_decoded() {
    let steps = || vec![Codec::Transpose { order: vec![1, 0] }, Codec::Bytes { endianness: Endianness::Big }];
    let compressed = [steps(), vec![Codec::Zlib]].concat();
    for (array, file) in [three_places(compressed, zlib), three_places(steps(), <[u8]>::to_vec)] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.bin"), &file).unwrap();
        let root = Root::open(folder.path()).unwrap();
        let read = |start: [u64; 2], extents: [u64; 2]| {
            let region = Region::new(start, Shape::new(extents).unwrap()).unwrap();
            let plan = plan_region(&array, &region, &MergeLimits::default()).unwrap();
            let mut goal = vec![0xee; plan.bytes() as usize];
            read_plan(&plan, &mut goal, |_| root.source(&ObjectPath::new("a.bin").unwrap()))?;
            Ok::<_, ReadError>(DataType::Uint16.numbers(&goal, Endianness::NATIVE).unwrap())
        };
        let whole = [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 99, 99, 99, 99, 99, 99].map(f64::from);
        assert_eq!(read([0, 0], [6, 3]).unwrap(), whole);
        assert_eq!(read([1, 1], [4, 2]).unwrap(), [4, 5, 11, 12, 14, 15, 99, 99].map(f64::from));
    }
}

#[test]
fn corrupt_listed_chunks_are_errors() {
    let codecs = vec![Codec::Transpose { order: vec![1, 0] }, BYTES, Codec::Zlib];
    let (array, mut file) = three_places(codecs, zlib);
    file[5] = 0;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.bin"), &file).unwrap();
    let root = Root::open(folder.path()).unwrap();
    let plan = plan_region(&array, &Region::whole(&array.description().shape), &MergeLimits::default()).unwrap();
    let error = read_plan(&plan, &mut [0; 36], |_| root.source(&ObjectPath::new("a.bin").unwrap())).unwrap_err();
    let ReadError::Chunk { path, index, error: DecodeError::Codec { codec: "zlib", .. } } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((path.as_str(), &index[..]), ("a.bin", &[0, 0][..]));
}

/// A section of one shard of so many single elements, in the folder `a`.
fn in_shards(elements: u64) -> Section {
    in_a_shard(elements, 1)
}

/// A section of one shard of so many chunks, in the folder `a`.
fn in_a_shard(chunks: u64, elements: u64) -> Section {
    let shard = Shard { chunks: vec![chunks], index_place: IndexPlace::Start, has_checksum: false };
    let folder = ObjectPath::new("a").unwrap();
    Section {
        extent: chunks * elements,
        chunk_shape: Shape::new([elements]).unwrap(),
        codecs: vec![BYTES],
        placement: Placement::Keyed(KeyedChunks { folder, key: ChunkKey::V2(Separator::Dot), shard: Some(shard) }),
    }
}

/// An array of bytes.
fn bytes_of(sections: Vec<Section>) -> ArrayManifest {
    let description = ArrayDescription {
        name: "v".into(),
        dtype: DataType::Uint8,
        shape: Shape::new([sections.iter().map(|section| section.extent).sum::<u64>()]).unwrap(),
        dimension_names: vec![None],
        fill_value: Some(vec![99]),
        attributes: Attributes::new(),
    };
    ArrayManifest::new(description, 0, sections).unwrap()
}

#[test]
fn sections_disagree_about_a_shard() {
    let array = bytes_of(vec![in_shards(1), in_shards(2)]);
    let plan = plan_region(&array, &Region::whole(&array.description().shape), &MergeLimits::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    // One element is at byte 16 of 17, and two are at no place.
    let index = [16_u64, 1].map(u64::to_le_bytes).concat();
    fs::write(folder.path().join("a/0"), [&index[..], &[42]].concat()).unwrap();
    let root = Root::open(folder.path()).unwrap();
    let read = read_plan_below(&root, &plan, &mut [0; 3], |_| -> Result<Source, _> { unreachable!() });
    let expected = DecodeError::ShardTooShort { file_bytes: 17, index_bytes: 32 };
    assert!(matches!(read, Err(ReadError::Shard { error, .. }) if error == expected));
}

#[test]
fn an_index_is_read_for_as_many_bytes() {
    // The index takes 1024 bytes.
    for (elements, fetches) in [(1, 1), (16, 1), (17, 2), (63, 4), (64, 4), (4096, 4)] {
        let array = bytes_of(vec![in_a_shard(64, elements)]);
        let plan = plan_region(&array, &Region::whole(&array.description().shape), &MergeLimits::default()).unwrap();
        assert_eq!(plan.fetches().len(), fetches, "{elements}");
        assert_eq!(plan.fetches().iter().map(|fetch| fetch.chunks.len()).sum::<usize>(), 64);
    }
}
