//! Zarr folders that zarr-python wrote, and those that are wrong.

use rails_array::{Region, Shape};
use rails_formats::{
    data_type::{DataType, Endianness},
    dataset::StitchError,
    manifest::{AttributeValue, Manifest, ObjectPath},
    plan::{MergeLimits, plan_region},
    reader::{
        OpenError, OpenLimits, OpenZarrError, OpenedZarr, PlanFiles, PoolOptions, ReadError, ReadPool, Root, Source,
        open_dataset, open_zarr, read_plan, read_plan_below,
    },
    zarr::ZarrProblem,
};
use std::{error::Error, fs, path::Path, sync::Arc};
use tempfile::TempDir;

fn path(path: &str) -> ObjectPath {
    ObjectPath::new(path).unwrap()
}

/// A folder with a store that zarr-python wrote.
fn store(name: &str) -> TempDir {
    let packed = fs::read(Path::new("tests/fixtures").join(format!("{name}.tar.gz"))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(&packed[..])).unpack(folder.path()).unwrap();
    folder
}

fn open(folder: &Path, name: &str) -> Result<OpenedZarr, OpenZarrError> {
    open_zarr(&Root::open(folder).unwrap(), &path(name), &OpenLimits::default())
}

fn read(folder: &Path, manifest: &Manifest, array: &str, region: &Region) -> Result<Vec<f64>, ReadError> {
    let array = manifest.array(array).unwrap();
    let plan = plan_region(array, region, &MergeLimits::default()).unwrap();
    let mut goal = vec![0xee; plan.bytes() as usize];
    let root = Root::open(folder).unwrap();
    read_plan_below(&root, &plan, &mut goal, |_| -> Result<Source, _> { panic!("no chunk is in a numbered file") })?;
    Ok(array.description().dtype.numbers(&goal, Endianness::NATIVE).unwrap())
}

/// The elements of every array, as `make.py` writes them, where they are written.
fn expected(region: &Region, is_written: impl Fn(u64, u64) -> bool, fill: f64) -> Vec<f64> {
    let [rows, columns] = [0, 1].map(|axis| region.start()[axis]..region.end(axis));
    let element = |row: u64, column: u64| ((row * 4 + column) * 7 + 1) as f64 % 100.0;
    rows.flat_map(|row| columns.clone().map(move |column| (row, column)))
        .map(|(row, column)| if is_written(row, column) { element(row, column) } else { fill })
        .collect()
}

fn region(start: [u64; 2], extents: [u64; 2]) -> Region {
    Region::new(start, Shape::new(extents).unwrap()).unwrap()
}

/// Compares every part of an array.
fn check(folder: &Path, manifest: &Manifest, name: &str, is_written: impl Fn(u64, u64) -> bool, fill: f64) {
    assert_eq!(manifest.array(name).unwrap().description().shape, Shape::new([5, 4]).unwrap(), "{name}");
    for (start, extents) in [([0, 0], [5, 4]), ([2, 1], [2, 2]), ([4, 3], [1, 1]), ([1, 0], [4, 3])] {
        let region = region(start, extents);
        let found = read(folder, manifest, name, &region).unwrap();
        let wanted = expected(&region, &is_written, fill);
        let is_equal = |(found, wanted): (&f64, &f64)| found == wanted || (found.is_nan() && wanted.is_nan());
        assert!(found.iter().zip(&wanted).all(is_equal), "{name} {region}: {found:?}, not {wanted:?}");
    }
}

#[test]
fn version_3_is_read() {
    for name in ["v3.zarr", "v3_consolidated.zarr"] {
        let folder = store(name);
        let opened = open(folder.path(), name).unwrap();
        let manifest = &opened.manifest;
        assert_eq!(Manifest::decode(&manifest.encode()).as_ref(), Ok(manifest));
        for array in
            ["raw_little", "raw_big", "zstd", "gzip_big", "blosc", "crc32c", "transposed", "keys_v2", "keys_dot"]
        {
            check(folder.path(), manifest, array, |_, _| true, 9.0);
        }
        check(folder.path(), manifest, "holes", |row, _| row < 3, f64::NAN);
        for place in ["start", "end"] {
            let shards = format!("inner/shards_{place}");
            check(folder.path(), manifest, &shards, |row, column| row < 2 || column >= 2, -7.0);
            assert_eq!(manifest.array(&shards).unwrap().description().dimension_names, [Some("y".into()), None]);
        }
        let scalar = read(folder.path(), manifest, "scalar", &Region::whole(&Shape::new([]).unwrap()));
        assert_eq!(scalar.unwrap(), [1.0]);
        assert_eq!(manifest.attributes()["title"].as_text(), Some("Öl and water"));
        let attributes = &manifest.array("zstd").unwrap().description().attributes;
        assert_eq!(attributes["units"].as_text(), Some("K"));
        assert_eq!(attributes["levels"].to_numbers(), Some(vec![1.0, 2.0, 3.0]));
        assert!(matches!(attributes["levels"], AttributeValue::Numbers { dtype: DataType::Int64, .. }));
        assert_eq!(attributes["scale"].to_numbers(), Some(vec![0.5]));
        assert_eq!(attributes["flags"].as_text(), Some("{\"a\":true}"));
        let refusal = opened.refusal("text").unwrap();
        assert_eq!(refusal.problem.to_string(), "the data type `bool` is unknown");
        assert_eq!(opened.refused.len(), 1);
        assert_eq!(manifest.objects().len() == 1, name == "v3_consolidated.zarr");
        assert_eq!(manifest.objects().len(), opened.generations.len());
    }
}

#[test]
fn version_2_is_read() {
    for name in ["v2.zarr", "v2_consolidated.zarr"] {
        let folder = store(name);
        let opened = open(folder.path(), name).unwrap();
        let manifest = &opened.manifest;
        for array in ["raw", "blosc_big", "zlib_fortran", "raw_fortran", "shuffle", "slash"] {
            check(folder.path(), manifest, array, |_, _| true, 9.0);
        }
        check(folder.path(), manifest, "holes", |row, _| row < 3, 0.0);
        let scalar = read(folder.path(), manifest, "inner/scalar", &Region::whole(&Shape::new([]).unwrap()));
        assert_eq!(scalar.unwrap(), [1.0]);
        let raw = manifest.array("raw").unwrap().description();
        assert_eq!(raw.dimension_names, [Some("y".into()), Some("x".into())]);
        assert_eq!(raw.fill_value, Some(vec![9, 0, 0, 0]));
        assert_eq!(manifest.array("holes").unwrap().description().fill_value, None);
        assert_eq!(manifest.attributes()["title"].as_text(), Some("Öl and water"));
        let file = if name == "v2.zarr" { "v2.zarr/delta/.zarray" } else { "v2_consolidated.zarr/.zmetadata" };
        let refusal = opened.refusal("delta").unwrap();
        assert_eq!(refusal.to_string(), format!("the array `delta` of `{file}` cannot be read"));
        assert_eq!(refusal.problem.to_string(), "the codec `delta` is not understood: it is unknown");
    }
}

#[test]
fn a_single_array_has_the_folders_name() {
    for (store_name, array) in [("v3.zarr", "zstd"), ("v2.zarr", "zlib_fortran")] {
        let folder = store(store_name);
        let opened = open(folder.path(), &format!("{store_name}/{array}")).unwrap();
        assert_eq!(opened.manifest.arrays().len(), 1);
        check(folder.path(), &opened.manifest, array, |_, _| true, 9.0);
    }
}

/// The words of an error and of its causes.
fn words(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", words(cause)),
        None => error.to_string(),
    }
}

/// Reads an array of `v3.zarr` while one of its files is changed.
fn after(folder: &Path, array: &str, file: &str, change: impl Fn(&mut Vec<u8>)) -> Result<Vec<f64>, String> {
    let array = format!("v3.zarr/{array}");
    let name = folder.join(&array).join(file);
    let before = fs::read(&name).unwrap();
    let mut bytes = before.clone();
    change(&mut bytes);
    fs::write(&name, bytes).unwrap();
    let manifest = open(folder, &array).unwrap().manifest;
    let array = &manifest.arrays()[0].description().name;
    let elements = read(folder, &manifest, array, &region([0, 0], [5, 4]));
    fs::write(&name, before).unwrap();
    elements.map_err(|error| words(&error))
}

#[test]
fn corrupt_chunks_name_file_chunk_and_codec() {
    let folder = store("v3.zarr");
    let after = |array: &str, file: &str, change: fn(&mut Vec<u8>)| after(folder.path(), array, file, change);
    for (array, file, codec) in [
        ("zstd", "c/1/0", "zstd"),
        ("gzip_big", "c/1/0", "gzip"),
        ("blosc", "c/1/0", "blosc"),
        ("transposed", "c/1/0", "gzip"),
        ("keys_v2", "1.0", "zstd"),
    ] {
        let start = format!("the chunk [1, 0] in `v3.zarr/{array}/{file}` is wrong: ");
        let complaint = format!("{codec} cannot be decoded");
        let changes: [fn(&mut Vec<u8>); 3] = [|bytes| bytes[0] ^= 0xff, |bytes| bytes.truncate(7), Vec::clear];
        for change in changes {
            let error = after(array, file, change).unwrap_err();
            let problem = error.strip_prefix(&start).unwrap_or_else(|| panic!("{error}"));
            // Zstandard decodes no bytes to no bytes.
            let is_empty = codec == "zstd" && problem.starts_with("the decoded chunk has 0 bytes");
            assert!(problem.starts_with(&complaint) || is_empty, "{error}");
        }
    }
    let error = after("crc32c", "c/1/0", |bytes| bytes[9] ^= 1).unwrap_err();
    assert!(error.contains("wrong: crc32c cannot be decoded"), "{error}");
    let error = after("raw_big", "c/0/0", |bytes| bytes.truncate(47)).unwrap_err();
    assert!(error.ends_with("the decoded chunk has 47 bytes, and its elements take 48"), "{error}");
    let error = after("raw_big", "c/0/0", |bytes| bytes.resize(1 << 20, 0)).unwrap_err();
    assert!(error.ends_with("1048576 bytes are stored, and the elements take at most 4150 in any encoding"), "{error}");
}

/// Writes a number into the index of a shard, which is at its start, and puts its checksum right.
fn lie(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at * 8..][..8].copy_from_slice(&number.to_le_bytes());
    let checksum = crc32c(&bytes[..64]);
    bytes[64..68].copy_from_slice(&checksum.to_le_bytes());
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn lying_shard_indexes_are_errors() {
    let folder = store("v3.zarr");
    let stored = fs::read(folder.path().join("v3.zarr/inner/shards_start/c/0/0")).unwrap();
    let shard = |change: &dyn Fn(&mut Vec<u8>)| after(folder.path(), "inner/shards_start", "c/0/0", change);
    let rows = |values: Vec<f64>| values[..2].to_vec();
    assert_eq!(shard(&|bytes| lie(bytes, 0, 68)).map(rows), Ok(vec![1.0, 8.0]));
    let outside = |offset: u64, length: u64, file: u64| {
        format!(
            "the chunk [0, 0] in `v3.zarr/inner/shards_start/c/0/0` is wrong: \
             the index of the shard places {length} bytes at byte {offset}, and the shard has {file}"
        )
    };
    for (at, number) in [(0, 1 << 40), (0, u64::MAX), (0, u64::MAX - 1), (1, u64::MAX), (1, 10_000)] {
        let error = shard(&|bytes| lie(bytes, at, number)).unwrap_err();
        let entry = |at: usize| u64::from_le_bytes(stored[at * 8..][..8].try_into().unwrap());
        let (offset, length) = if at == 0 { (number, entry(1)) } else { (entry(0), number) };
        assert_eq!(error, outside(offset, length, stored.len() as u64));
    }
    // The place of another chunk, and of the index itself.
    let overlapping = shard(&|bytes| {
        let other = [2, 3].map(|at: usize| u64::from_le_bytes(bytes[at * 8..][..8].try_into().unwrap()));
        lie(bytes, 0, other[0]);
        lie(bytes, 1, other[1]);
    });
    assert_eq!(overlapping.map(rows), Ok(vec![15.0, 22.0]));
    let error = shard(&|bytes| lie(bytes, 0, 0)).unwrap_err();
    assert!(error.contains("zstd cannot be decoded"), "{error}");
    // Both are the mark of a chunk that is not stored.
    let missing = shard(&|bytes| {
        lie(bytes, 0, u64::MAX);
        lie(bytes, 1, u64::MAX);
    });
    assert_eq!(missing.map(rows), Ok(vec![-7.0, -7.0]));
    let error = shard(&|bytes| bytes[3] ^= 1).unwrap_err();
    assert_eq!(
        error,
        "the shard `v3.zarr/inner/shards_start/c/0/0` is wrong: crc32c of the index of the shard is wrong"
    );
    for length in [0, 67] {
        let error = shard(&|bytes| bytes.truncate(length)).unwrap_err();
        assert!(error.ends_with(&format!("the shard has {length} bytes, and its index takes 68")), "{error}");
    }
}

/// The problem of an array of `v3.zarr` while a text of its metadata is replaced.
fn problem(folder: &Path, array: &str, from: &str, to: &str) -> String {
    let array = format!("v3.zarr/{array}");
    let name = folder.join(&array).join("zarr.json");
    let before = fs::read_to_string(&name).unwrap();
    let text: String = before.split_whitespace().collect();
    assert!(text.contains(from), "{text}");
    fs::write(&name, text.replace(from, to)).unwrap();
    let opened = open(folder, &array);
    fs::write(&name, before).unwrap();
    match opened {
        Ok(opened) => opened.refused.first().map(|error| error.problem.to_string()).unwrap_or_default(),
        Err(error) => words(&error),
    }
}

#[test]
fn a_link_to_nothing_is_no_chunk_of_fill_values() {
    let folder = store("v3.zarr");
    let manifest = open(folder.path(), "v3.zarr").unwrap().manifest;
    let name = folder.path().join("v3.zarr/zstd/c/1/0");
    fs::remove_file(&name).unwrap();
    check(folder.path(), &manifest, "zstd", |row, _| row < 3, 9.0);
    std::os::unix::fs::symlink("elsewhere", &name).unwrap();
    let error = read(folder.path(), &manifest, "zstd", &region([0, 0], [5, 4])).unwrap_err();
    assert_eq!(error.to_string(), "cannot open `v3.zarr/zstd/c/1/0`");
}

#[test]
fn metadata_that_are_not_understood_are_refused() {
    let folder = store("v3.zarr");
    let problem = |array: &str, from: &str, to: &str| problem(folder.path(), array, from, to);
    let zstd = |from: &str, to: &str| problem("zstd", from, to);
    assert_eq!(zstd("\"zstd\"", "\"lzma\""), "the codec `lzma` is not understood: it is unknown");
    assert_eq!(zstd("\"float32\"", "\"complex64\""), "the data type `complex64` is unknown");
    assert_eq!(zstd("\"regular\"", "\"rectangular\""), "the chunk grid `rectangular` is unknown");
    assert_eq!(zstd("\"default\"", "\"other\""), "the chunk key encoding `other` is unknown");
    assert_eq!(zstd("\"fill_value\":9.0", "\"fill_value\":\"x\""), "the fill value \"x\" is no float32");
    assert_eq!(zstd("{\"shape\"", "{\"new\":1,\"shape\""), "the field `new` is unknown");
    assert_eq!(
        zstd("\"storage_transformers\":[]", "\"storage_transformers\":[\"t\"]"),
        "the storage transformer `t` is unknown"
    );
    assert!(zstd("\"separator\":\"/\"", "\"separator\":\"../\"").starts_with("the metadata are malformed"));
    assert!(zstd("[3,4]", "[0,4]").starts_with("the metadata are malformed"));
    assert!(zstd("[3,4]", "[3]").starts_with("chunks of shape"));
    assert!(zstd("[5,4]", "[5,-4]").starts_with("the metadata are malformed"));
    assert!(zstd("\"endian\":\"little\"", "").contains("it has no order of bytes"));
    let error = problem("transposed", "[1,0]", "[1,1]");
    assert!(error.contains("transpose"), "{error}");
    let shards = |from: &str, to: &str| problem("inner/shards_end", from, to);
    assert_eq!(shards("[2,2]", "[3,2]"), "chunks of shape [3, 2] do not fill shards of shape [4, 4]");
    assert_eq!(shards("[2,2]", "[2]"), "chunks of shape [2] do not fill shards of shape [4, 4]");
    assert!(shards("[2,2]", "[0,2]").contains("sharding_indexed"));
}

#[test]
fn hostile_sizes_take_no_memory() {
    let folder = store("v3.zarr");
    let problem = |array: &str, from: &str, to: &str| problem(folder.path(), array, from, to);
    let huge = "18446744073709551615";
    let zstd = |from: &str, to: &str| problem("zstd", from, to);
    assert!(zstd("[5,4]", &format!("[{huge},{huge}]")).contains("64 bits"));
    // A billion chunks, and a shard of more chunks than are read.
    assert_eq!(zstd("[5,4]", "[1073741824,4]"), "");
    assert!(zstd("[3,4]", "[4294967296,4]").contains("such a chunk has at most 2147483647"));
    assert!(zstd("[3,4]", &format!("[{huge},4]")).contains("64 bits"));
    let error = problem("inner/shards_end", "\"chunk_shape\":[4,4]", "\"chunk_shape\":[2097154,4]");
    assert!(error.contains("more than 1048576"), "{error}");
    let error = problem("zstd", "{\"shape\"", &format!("{}{{\"shape\"", "[".repeat(10_000)));
    assert!(error.contains("recursion limit"), "{error}");
}

#[test]
fn metadata_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    let name = folder.path().join("a/zarr.json");
    let group = b"{\"zarr_format\":3,\"node_type\":\"group\"}";
    let write = |bytes: usize| {
        let mut text = group.to_vec();
        text.resize(bytes, b' ');
        fs::write(&name, text).unwrap();
    };
    write(4 << 20);
    assert!(open(folder.path(), "a").is_ok());
    write((4 << 20) + 1);
    let error = open(folder.path(), "a").unwrap_err();
    assert!(matches!(&error, OpenZarrError::Zarr(error) if matches!(error.problem, ZarrProblem::TooLong { .. })));
    fs::remove_file(&name).unwrap();
    let error = open(folder.path(), "a").unwrap_err();
    assert_eq!(error.to_string(), "`a` has neither `zarr.json` nor `.zmetadata`, `.zarray` or `.zgroup`");
}

#[test]
fn a_wrong_folder_leaves_the_others() {
    for (name, file, text, reason) in [
        ("v2.zarr", "raw/.zattrs", "{\"a\": NaN}", "`.zattrs` is no JSON: expected value at line 1 column 7"),
        ("v2.zarr", "raw/.zarray", "{", "EOF while parsing an object at line 1 column 1"),
        ("v3.zarr", "raw_big/zarr.json", "[]", "it is no array and no group of Zarr's third version"),
    ] {
        let folder = store(name);
        fs::write(folder.path().join(name).join(file), text).unwrap();
        let opened = open(folder.path(), name).unwrap();
        let (array, file) = file.split_once('/').unwrap();
        let refusal = opened.refusal(array).unwrap();
        assert_eq!(refusal.problem.to_string(), format!("the metadata are malformed: {reason}"), "{file}");
        assert_eq!(opened.refused.len(), 2);
        assert!(opened.manifest.array(array).is_none());
        check(folder.path(), &opened.manifest, if name == "v2.zarr" { "slash" } else { "blosc" }, |_, _| true, 9.0);
    }
}

#[test]
fn the_search_is_limited() {
    let folder = store("v3.zarr");
    let root = Root::open(folder.path()).unwrap();
    let open = |limits: OpenLimits| open_zarr(&root, &path("v3.zarr"), &limits);
    // The metadata, twelve arrays, and a group with its own metadata and two arrays.
    let entries = 1 + 13 + 3;
    assert!(open(OpenLimits::default().max_entries(entries)).is_ok());
    assert!(matches!(open(OpenLimits::default().max_entries(entries - 1)), Err(OpenZarrError::TooMany { .. })));
    let error = open(OpenLimits::default().max_depth(0)).unwrap_err();
    assert_eq!(error.to_string(), "the group `v3.zarr/inner` is deeper than 0 below its store");
    assert!(open(OpenLimits::default().max_depth(1)).unwrap().manifest.array("inner/shards_end").is_some());
}

#[test]
fn no_array_leads_out_of_the_store() {
    let folder = store("v3_consolidated.zarr");
    let name = folder.path().join("v3_consolidated.zarr/zarr.json");
    let text = fs::read_to_string(&name).unwrap();
    for other in ["../../etc", "/etc", "a/../../b", "a//b", ""] {
        let changed = text.replace("\"zstd\": {", &format!("\"{other}\": {{"));
        assert_ne!(changed, text);
        fs::write(&name, changed).unwrap();
        let opened = open(folder.path(), "v3_consolidated.zarr").unwrap();
        let refused = opened.refusal(other).map(|error| matches!(error.problem, ZarrProblem::Path(_)));
        assert_eq!(refused, (!other.is_empty()).then_some(true), "{other}");
    }
}

struct Files {
    root: Root,
}

impl PlanFiles for Files {
    fn numbered(&self, _: u32) -> Result<Arc<Source>, ReadError> {
        panic!("no chunk is in a numbered file")
    }

    fn root(&self) -> Option<&Root> {
        Some(&self.root)
    }
}

#[test]
fn a_pool_reads_whole_chunks() {
    let folder = store("v3.zarr");
    let opened = open(folder.path(), "v3.zarr").unwrap();
    let files: Arc<dyn PlanFiles> = Arc::new(Files { root: Root::open(folder.path()).unwrap() });
    let pool = ReadPool::new(&PoolOptions::default()).unwrap();
    let whole = region([0, 0], [5, 4]);
    for name in ["blosc", "transposed", "inner/shards_end", "inner/shards_start"] {
        let array = opened.manifest.array(name).unwrap();
        let plan = Arc::new(plan_region(array, &whole, &MergeLimits::default()).unwrap());
        let mut goal = vec![0xee; plan.bytes() as usize];
        pool.read(&plan, &files, &mut goal).unwrap();
        let found = array.description().dtype.numbers(&goal, Endianness::NATIVE).unwrap();
        assert_eq!(found, read(folder.path(), &opened.manifest, name, &whole).unwrap());
    }
}

#[test]
fn keyed_chunks_need_a_root() {
    let folder = store("v3.zarr");
    let opened = open(folder.path(), "v3.zarr").unwrap();
    let array = opened.manifest.array("zstd").unwrap();
    let plan = plan_region(array, &region([0, 0], [5, 4]), &MergeLimits::default()).unwrap();
    let read = read_plan(&plan, &mut vec![0; plan.bytes() as usize], |_| -> Result<Source, _> { unreachable!() });
    assert!(matches!(read, Err(ReadError::NoRoot { path }) if path.as_str() == "v3.zarr/zstd/c/0/0"));
}

#[test]
fn a_dataset_file_may_name_zarr_folders() {
    let folder = store("v3.zarr");
    let open_file = |text: String| {
        fs::write(folder.path().join("d.toml"), format!("[dataset]\nname = \"d\"\n{text}")).unwrap();
        open_dataset(&Root::open(folder.path()).unwrap(), &path("d.toml"), &OpenLimits::default())
    };
    let array = |name: &str, variable: &str, files: &str| {
        format!("[[array]]\nname = \"{name}\"\nvariable = \"{variable}\"\nformat = \"zarr\"\nfiles = \"{files}\"\n")
    };
    let opened = open_file(array("one", "zstd", "*.zarr") + &array("two", "inner/shards_end", "**/v3.zarr")).unwrap();
    let (manifest, whole) = (&opened.stitched.manifest, region([0, 0], [5, 4]));
    let store = open(folder.path(), "v3.zarr").unwrap();
    assert_eq!((manifest.objects(), &opened.generations), (store.manifest.objects(), &store.generations));
    for (name, variable) in [("one", "zstd"), ("two", "inner/shards_end")] {
        let expected = read(folder.path(), &store.manifest, variable, &whole).unwrap();
        assert_eq!(read(folder.path(), manifest, name, &whole).unwrap(), expected);
    }
    // An array that the store has and that is not understood is told of as such.
    let refused = &store.refused[0];
    let error = open_file(array("one", &refused.array, "v3.zarr")).unwrap_err();
    assert!(
        matches!(&error, OpenError::Zarr(cause) if matches!(&**cause, OpenZarrError::Zarr(cause) if cause == refused))
    );
    let error = open_file(array("one", "none", "v3.zarr")).unwrap_err();
    assert!(matches!(error, OpenError::Stitch(StitchError::NoVariable { .. })), "{error}");
    // The files of the dataset are not Zarr folders.
    let error = open_file(array("one", "zstd", "d.toml")).unwrap_err();
    assert!(matches!(error, OpenError::Stitch(StitchError::NoFiles { .. })), "{error}");
}
