//! Memory of headers and manifests, also of those that lie about their lengths, and of datasets.

// The files that are read are written by the tests.
#![allow(clippy::disallowed_methods)]

use allocation_counter::measure;
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::{DataType, Endianness},
    dataset::DatasetFile,
    decode::decode,
    header::{IndexError, MAX_AXIS_NAMES_BYTES, Step},
    manifest::{
        ArrayDescription, ArrayManifest, Attributes, ChunkKey, ChunkSource, Codec, KeyedChunks, Manifest,
        ManifestError, ObjectPath, Placement, Section, Separator,
    },
    map_binary, netcdf3,
    plan::{MergeLimits, plan_region},
    reader::{OpenLimits, Root, open_dataset},
    zarr::Hierarchy,
};
use std::io::Write;

/// A header of that version whose list of dimensions claims `count` entries.
fn netcdf3_dimensions(version: u8, count: u64) -> Vec<u8> {
    let number = |value: u64| match version {
        5 => value.to_be_bytes().to_vec(),
        _ => (value as u32).to_be_bytes().to_vec(),
    };
    [vec![b'C', b'D', b'F', version], number(0), 10_u32.to_be_bytes().to_vec(), number(count), number(1)].concat()
}

#[test]
fn a_count_takes_no_memory() {
    for (version, count) in [(1, 0xffff_fff0), (2, 0xffff_fff0), (5, u64::MAX), (5, 1 << 40), (5, 5_000_000)] {
        let bytes = netcdf3_dimensions(version, count);
        // The file is said to be so large that the entries could be there.
        let used = measure(|| drop(netcdf3::Header::parse(&bytes, u64::MAX)));
        assert!(used.bytes_max < 4096, "version {version}, count {count}: {} bytes", used.bytes_max);
    }
    let counts = [1_u32, 1 << 24, 0, 3_000_000, 3_000_000].map(u32::to_be_bytes).concat();
    let bytes = [&b"MAPBIN\r\n"[..], &counts].concat();
    let used = measure(|| drop(map_binary::Header::parse(&bytes, u64::MAX)));
    assert!(used.bytes_max < 4096, "{} bytes", used.bytes_max);
}

#[test]
fn memory_is_in_proportion_to_the_header() {
    // As many dimensions as fit, each of the shortest name that differs.
    let mut bytes = netcdf3_dimensions(1, 20_000);
    bytes.truncate(16);
    for number in 0..20_000_u32 {
        let name = format!("{number:07x}");
        bytes.extend(7_u32.to_be_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend([0, 0, 0, 0, 1]);
    }
    bytes.extend([0; 16]);
    let used = measure(|| assert!(netcdf3::Header::parse(&bytes, bytes.len() as u64).is_ok()));
    assert!(used.bytes_max < 12 * bytes.len() as u64, "{} bytes of {}", used.bytes_max, bytes.len());
}

#[test]
fn short_attributes_are_in_proportion_too() {
    // No dimensions; as many attributes as 4 bytes can name, each without values.
    let mut bytes = vec![b'C', b'D', b'F', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12];
    bytes.extend(30_000_u32.to_be_bytes());
    for number in 0..30_000_u32 {
        bytes.extend(4_u32.to_be_bytes());
        bytes.extend(format!("{number:04x}").as_bytes());
        bytes.extend([2_u32, 0].map(u32::to_be_bytes).concat());
    }
    bytes.extend([0; 8]);
    let used = measure(|| assert!(netcdf3::Header::parse(&bytes, bytes.len() as u64).is_ok()));
    assert!(used.bytes_max < 10 * bytes.len() as u64, "{} bytes of {}", used.bytes_max, bytes.len());

    let mut writer = map_binary::Writer::new(map_binary::Layout::Interleaved);
    (0..4000_u32).for_each(|number| writer.attribute(&format!("{number:03x}"), "").unwrap());
    let bytes = writer.header().unwrap();
    let used = measure(|| assert!(map_binary::Header::parse(&bytes, bytes.len() as u64).is_ok()));
    assert!(used.bytes_max < 15 * bytes.len() as u64, "{} bytes of {}", used.bytes_max, bytes.len());
}

#[test]
fn a_manifest_is_in_proportion_to_the_header() {
    let mut writer = map_binary::Writer::new(map_binary::Layout::Interleaved);
    writer.dimension("x", "", &[]).unwrap();
    for number in 0..2000_u32 {
        writer.variable(&format!("{number:03x}"), "", DataType::Int8, &[0], Some(&[0])).unwrap();
    }
    let bytes = writer.header().unwrap();
    let Ok(Step::Done(header)) = map_binary::Header::parse(&bytes, bytes.len() as u64) else { panic!("a header") };
    let path = ObjectPath::new("a").unwrap();
    let used = measure(|| assert!(header.index(path, bytes.len() as u64).is_ok()));
    assert!(used.bytes_max < 25 * bytes.len() as u64, "{} bytes of {}", used.bytes_max, bytes.len());
}

/// A NetCDF-3 header of variables with 32 axes of one dimension, whose name has so many bytes.
fn named_axes(name_bytes: u32, variables: u32) -> Vec<u8> {
    let number = |value: u32| value.to_be_bytes().to_vec();
    let mut bytes = [&netcdf3_dimensions(1, 1)[..12], &number(1), &number(name_bytes)].concat();
    bytes.extend(vec![b'x'; name_bytes as usize]);
    bytes.extend([1, 0, 0, 11, variables].map(u32::to_be_bytes).concat());
    for variable in 0..variables {
        bytes.extend([number(4), format!("{variable:04x}").into_bytes(), number(32), vec![0; 128 + 8]].concat());
        bytes.extend([1, 1, 1 << 30].map(u32::to_be_bytes).concat());
    }
    bytes
}

#[test]
fn names_of_axes_are_bounded() {
    let index = |bytes: &[u8]| {
        let Ok(Step::Done(header)) = netcdf3::Header::parse(bytes, u64::MAX) else { panic!("a header") };
        let mut result = None;
        let used = measure(|| result = Some(header.index(ObjectPath::new("a").unwrap(), u64::MAX).map(drop)));
        (result.unwrap(), used.bytes_max)
    };
    let name_bytes = (MAX_AXIS_NAMES_BYTES / 32 / 8) as u32;
    let (result, used) = index(&named_axes(name_bytes, 8));
    assert_eq!(result, Ok(()));
    assert!(used < MAX_AXIS_NAMES_BYTES + (1 << 20), "{used} bytes");
    assert_eq!(index(&named_axes(name_bytes, 9)).0, Err(IndexError::AxisNames));

    let mut writer = map_binary::Writer::new(map_binary::Layout::Interleaved);
    writer.dimension(&"x".repeat(60_000), "", &[0.0]).unwrap();
    let mut index = |name: &str| {
        writer.variable(name, "", DataType::Int8, &[0; 32], None).unwrap();
        let bytes = writer.header().unwrap();
        let Ok(Step::Done(header)) = map_binary::Header::parse(&bytes, u64::MAX) else { panic!("a header") };
        header.index(ObjectPath::new("a").unwrap(), u64::MAX).map(drop)
    };
    let fit = MAX_AXIS_NAMES_BYTES / 32 / 60_000;
    assert!((0..fit).all(|number| index(&format!("v{number}")).is_ok()));
    assert_eq!(index("last"), Err(IndexError::AxisNames));
}

#[test]
fn a_manifest_reserves_no_stated_length() {
    // A list of objects of a stated length without any.
    let mut bytes = vec![0xff; 10];
    bytes[0] = 2;
    bytes.push(1);
    let used = measure(|| assert!(matches!(Manifest::decode(&bytes), Err(ManifestError::Malformed { .. }))));
    // serde reserves at most a mebibyte before it has read an entry.
    assert!(used.bytes_max < 2 << 20, "{} bytes", used.bytes_max);
}

#[test]
fn a_large_manifest_takes_no_memory() {
    // Version, no files, one array with the name `v` of int8, no axes and attributes; one section.
    let section = [2, 0, 1, 1, b'v', 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0];
    let chunks = Manifest::MAX_DECODED_BYTES as usize / size_of::<ChunkSource>();
    // Postcard's numbers have 7 bits a byte, the lowest first; the last ones may be zero.
    let count = (0..5).map(|at| (chunks >> (7 * at)) as u8 & 0x7f | if at < 4 { 0x80 } else { 0 });
    // A list of missing chunks, and no attributes.
    let bytes = [&section[..], &[1], &count.collect::<Vec<_>>(), &vec![2; chunks], &[0]].concat();
    assert!(bytes.len() < Manifest::MAX_ENCODED_BYTES);
    let mut result = None;
    let used = measure(|| result = Some(Manifest::decode(&bytes)));
    assert!(matches!(result, Some(Err(ManifestError::TooLarge { .. }))), "{result:?}");
    assert_eq!(used.bytes_max, 0);
}

#[test]
fn a_dataset_keeps_no_other_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let array = |number: u32| {
        format!("[[array]]\nname = \"v{number}\"\nformat = \"map-binary\"\nfiles = \"*.map\"\nalong = \"t\"\n")
    };
    let arrays: String = (0..8).map(array).collect();
    std::fs::write(folder.path().join("d.toml"), format!("[dataset]\nname = \"d\"\n{arrays}")).unwrap();
    let mut writer = map_binary::Writer::new(map_binary::Layout::Interleaved);
    writer.dimension("t", "h", &[0.0]).unwrap();
    for number in 0..8 {
        writer.variable(&format!("v{number}"), &"K".repeat(4000), DataType::Int8, &[0], None).unwrap();
    }
    for file in 0..40 {
        let bytes = [writer.header().unwrap(), vec![0; 8]].concat();
        std::fs::write(folder.path().join(format!("{file}.map")), bytes).unwrap();
    }
    let root = Root::open(folder.path()).unwrap();
    let path = ObjectPath::new("d.toml").unwrap();
    let used = measure(|| assert!(open_dataset(&root, &path, &OpenLimits::default()).is_ok()));
    // Each array of each file has its unit, and all arrays of each would be eight times as much.
    assert!(used.bytes_max < 2 * 8 * 40 * 4000, "{} bytes", used.bytes_max);
}

#[test]
fn a_long_dataset_file_is_not_read() {
    let bytes = vec![b'\n'; DatasetFile::MAX_BYTES + 1];
    let used = measure(|| assert!(DatasetFile::parse("d.toml", &bytes).is_err()));
    assert!(used.bytes_max < 4096, "{} bytes", used.bytes_max);
}

#[test]
fn a_bomb_is_decoded_to_its_limit() {
    let zeros = vec![0; 4 << 20];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&zeros).unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(&zeros).unwrap();
    // A header of Blosc that states 4 MiB, and a frame of Zstandard that states 2^40 bytes.
    let blosc = [&[2, 1, 1, 1][..], &(4_u32 << 20).to_le_bytes(), &[0, 16, 0, 0, 16, 0, 0, 0]].concat();
    let stated = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1_u64 << 40).to_le_bytes(), &[1, 0, 0]].concat();
    let bytes = Codec::Bytes { endianness: Endianness::Little };
    for (codec, stored) in [
        (Codec::Gzip, gzip.finish().unwrap()),
        (Codec::Zlib, zlib.finish().unwrap()),
        (Codec::Zstd, zstd::bulk::compress(&zeros, 1).unwrap()),
        (Codec::Zstd, stated),
        (Codec::Blosc, blosc),
    ] {
        let codecs = [bytes.clone(), codec];
        let used = measure(|| assert!(decode(&codecs, &stored, 4096).is_err()));
        assert!(used.bytes_max < 128 << 10, "{}: {} bytes", codecs[1], used.bytes_max);
    }
}

#[test]
fn an_array_of_a_million_chunks_takes_the_room_of_one() {
    let description = ArrayDescription {
        name: "v".into(),
        dtype: DataType::Float32,
        shape: Shape::new([1_000_000, 64]).unwrap(),
        dimension_names: vec![None; 2],
        fill_value: None,
        attributes: Attributes::new(),
    };
    let folder = ObjectPath::new("a.zarr/v").unwrap();
    let chunks = KeyedChunks { folder, key: ChunkKey::Default(Separator::Slash), shard: None };
    let section = Section {
        extent: 1_000_000,
        chunk_shape: Shape::new([1, 64]).unwrap(),
        codecs: vec![Codec::Bytes { endianness: Endianness::Little }, Codec::Zstd],
        placement: Placement::Keyed(chunks),
    };
    let used = measure(|| {
        let array = ArrayManifest::new(description, 0, vec![section]).unwrap();
        let manifest = Manifest::new(vec![], vec![array], Attributes::new()).unwrap();
        let manifest = Manifest::decode(&manifest.encode()).unwrap();
        let row = Region::new([999_999, 0], Shape::new([1, 64]).unwrap()).unwrap();
        let plan = plan_region(&manifest.arrays()[0], &row, &MergeLimits::default()).unwrap();
        assert_eq!(plan.fetches().len(), 1);
    });
    assert!(used.bytes_max < 16 << 10, "{} bytes", used.bytes_max);
}

#[test]
fn metadata_take_a_multiple_of_their_text() {
    // Empty lists take more memory than any other text of their length.
    let mut text = br#"{"zarr_format":3,"node_type":"array","shape":[1],"data_type":"int8","fill_value":0,
        "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}},"chunk_key_encoding":"default",
        "codecs":["bytes"],"attributes":{"a":["#
        .to_vec();
    (0..50_000).for_each(|_| text.extend(b"[],"));
    text.extend(b"[]]}}");
    let file = ObjectPath::new("a/zarr.json").unwrap();
    let used = measure(|| assert_eq!(Hierarchy::parse_v3(&file, "", &file, &text).unwrap().arrays.len(), 1));
    assert!(used.bytes_max < 100 * text.len() as u64, "{} bytes of {}", used.bytes_max, text.len());
}
