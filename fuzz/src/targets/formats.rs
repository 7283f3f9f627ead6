//! Files of arrays, and the text that describes them.

use super::texts;
use rails_array::Region;
use rails_formats::{
    data_type::DataType,
    dataset::DatasetFile,
    header::{HeaderError, Step},
    manifest::{Manifest, ObjectPath, PieceSource},
    map_binary::{self, Layout, Writer},
    netcdf3,
    plan::{MergeLimits, plan_region},
};

/// A NetCDF-3 file of these bytes.
pub(crate) fn netcdf3(data: &[u8]) {
    if let Some(header) = header(data, netcdf3::Header::parse) {
        check(header.index(object(), data.len() as u64).ok(), data);
        // A header of a far larger file has other offsets.
        check(header.index(object(), u64::MAX).ok(), &[]);
    }
}

/// Files of each version with a dimension, an attribute and a variable of records.
pub(crate) fn netcdf3_files() -> Vec<Vec<u8>> {
    let file = |version: u8| {
        let number = |value: u64| match version {
            5 => value.to_be_bytes().to_vec(),
            _ => (value as u32).to_be_bytes().to_vec(),
        };
        let tag = |value: u32| value.to_be_bytes().to_vec();
        let begin = if version == 1 { vec![0, 0, 0, 128] } else { 200_u64.to_be_bytes().to_vec() };
        let attributes =
            [tag(12), number(1), number(1), b"u\0\0\0".to_vec(), tag(3), number(1), vec![0, 7, 0, 0]].concat();
        [
            vec![b'C', b'D', b'F', version],
            number(2),
            [tag(10), number(2), number(1), b"t\0\0\0".to_vec(), number(0)].concat(),
            [number(1), b"x\0\0\0".to_vec(), number(3)].concat(),
            attributes.clone(),
            [tag(11), number(1), number(1), b"v\0\0\0".to_vec(), number(2), number(0), number(1)].concat(),
            attributes,
            [tag(5), number(12), begin, vec![0; 200]].concat(),
        ]
        .concat()
    };
    [1, 2, 5].map(file).into()
}

/// A MAP-Binary file of these bytes.
pub(crate) fn map_binary(data: &[u8]) {
    if let Some(header) = header(data, map_binary::Header::parse) {
        check(header.index(object(), data.len() as u64).ok(), data);
    }
}

pub(crate) fn map_binary_files() -> Vec<Vec<u8>> {
    let file = |layout| {
        let mut writer = Writer::new(layout);
        let time = writer.dimension("time", "h", &[0.0, 6.0])?;
        let lon = writer.dimension("lon", "", &[1.0, 2.0, 3.0])?;
        writer.attribute("title", "a file")?;
        writer.variable("U", "m/s", DataType::Float32, &[time, lon], Some(&[0; 4]))?;
        writer.variable("p", "Pa", DataType::Int16, &[time], None)?;
        let mut file = writer.header()?;
        file.resize(file.len() + 2 * (12 + 2), 7);
        Ok::<_, map_binary::WriteError>(file)
    };
    [Layout::Interleaved, Layout::VariableByVariable].map(|layout| file(layout).expect("the file is small")).into()
}

/// A dataset file; patterns that were read match or not.
pub(crate) fn dataset_file(data: &[u8]) {
    match DatasetFile::parse("d.toml", data) {
        Ok(dataset) => {
            assert!(!dataset.arrays.is_empty(), "{dataset:?}");
            for array in &dataset.arrays {
                let _ = array.matches(&object());
            }
        }
        Err(error) => assert!(error.line >= 1, "{error}"),
    }
}

pub(crate) fn dataset_files() -> Vec<Vec<u8>> {
    texts([
        "[dataset]\nname = \"d\"\nreaders = [\"user:a\"]\n[[array]]\nname = \"v\"\nformat = \"netcdf3\"\n\
         files = \"*.nc\"\nalong = \"t\"\norder = { attribute = \"a\" }\n\
         coordinate = { from = \"file-name\", pattern = \"{}.nc\", step = 6 }\nblock_shape = [1, 2]\n\
         partition_shape = [4, 4]\nreplicas = [\"x\"]\n[[array.view]]\nname = \"w\"\nstart = [0]\nshape = [1]\n",
        "[dataset]\nname = \"d\"\n[[array]]\nname = \"v\"\nformat = \"raw\"\nfiles = [\"a\", \"b\"]\nalong = \"t\"\n\
         order = \"listed\"\ncoordinate = { from = \"list\", values = [1, 2.5] }\n\
         raw = { offset = 8, dtype = \"float32\", endianness = \"big\", shape = [2, 3], dimensions = [\"t\", \"x\"] }\n",
    ])
}

pub(crate) const DATASET_WORDS: &[&str] =
    &["[[array]]", "[dataset]", "variable", "attribute", "map-binary", "from", "**", "../", "{}", "int8", "1e999"];

/// An encoded manifest; one that is decoded is encoded to the same again.
pub(crate) fn manifest(data: &[u8]) {
    if let Ok(manifest) = Manifest::decode(data) {
        assert_eq!(Manifest::decode(&manifest.encode()).as_ref(), Ok(&manifest));
        check(Some(manifest), &[]);
    }
}

pub(crate) fn manifests() -> Vec<Vec<u8>> {
    let files = [netcdf3_files(), map_binary_files()].concat();
    let netcdf3 = files.iter().filter_map(|file| header(file, netcdf3::Header::parse)?.index(object(), u64::MAX).ok());
    let map_binary =
        files.iter().filter_map(|file| header(file, map_binary::Header::parse)?.index(object(), u64::MAX).ok());
    netcdf3.chain(map_binary).map(|manifest| manifest.encode()).collect()
}

/// The header of a file, asked for step by step.
fn header<T>(data: &[u8], parse: fn(&[u8], u64) -> Result<Step<T>, HeaderError>) -> Option<T> {
    let mut length = 0;
    loop {
        match parse(&data[..length], data.len() as u64).ok()? {
            Step::Done(header) => return Some(header),
            Step::NeedsPrefix { bytes } => {
                assert!(bytes > length as u64 && bytes <= data.len() as u64, "{bytes} behind {length}");
                length = bytes as usize;
            }
        }
    }
}

/// The chunks of all arrays lie in the file, and are no more than the array.
fn check(manifest: Option<Manifest>, file: &[u8]) {
    let Some(manifest) = manifest else { return };
    for array in manifest.arrays() {
        let whole = Region::whole(&array.description().shape);
        let pieces = array.chunks_of(&whole).expect("the whole array is within itself");
        let mut elements = 0;
        for piece in pieces.take(1000) {
            elements += piece.wanted.elements();
            if let PieceSource::Range(range) = piece.source
                && !file.is_empty()
            {
                assert!(range.offset + range.length <= file.len() as u64, "{range:?} of {} bytes", file.len());
            }
        }
        assert!(elements <= whole.elements(), "{elements} of {whole}");
        if elements == whole.elements() {
            let plan = plan_region(array, &whole, &MergeLimits::default()).expect("the whole array is within itself");
            let copied = plan.reads().iter().flat_map(|read| &read.copies).map(|copy| copy.bytes).sum::<u64>();
            assert!(copied <= plan.bytes(), "{copied} bytes are copied for {}", plan.bytes());
        }
    }
}

fn object() -> ObjectPath {
    ObjectPath::new("1.nc").expect("the path is relative")
}
