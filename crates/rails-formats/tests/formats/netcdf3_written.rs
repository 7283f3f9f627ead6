//! NetCDF-3 files of the library's own writer, read back.

use crate::arrays::{self, big_endian, expected};
use proptest::{collection::vec, prelude::*, sample::select};
use rails_array::Region;
use rails_formats::{
    data_type::DataType,
    header::Step,
    manifest::{AttributeValue, Attributes, ObjectPath},
    netcdf3::{Header, Version, WriteError, Writer},
    plan::MergeLimits,
};

const CLASSIC: [DataType; 6] =
    [DataType::Int8, DataType::Char, DataType::Int16, DataType::Int32, DataType::Float32, DataType::Float64];

fn header_of(bytes: &[u8], file_bytes: u64) -> Header {
    match Header::parse(bytes, file_bytes).expect("a good header") {
        Step::Done(header) => header,
        Step::NeedsPrefix { bytes } => panic!("the header has {bytes} bytes"),
    }
}

fn numbers(dtype: DataType, count: u64) -> AttributeValue {
    AttributeValue::from_bytes(
        dtype,
        &vec![0x17; (count * dtype.bytes()) as usize],
        rails_formats::data_type::Endianness::Big,
    )
}

proptest! {
    #[test]
    fn a_written_file_is_read_back(
        lengths in vec(1_u64..5, 1..4),
        variables in vec((vec(0_usize..3, 0..4), select(DataType::ALL.to_vec()), 0_u64..4), 0..5),
        attribute in (select(DataType::ALL.to_vec()), 0_u64..5),
        seed in any::<u64>(),
    ) {
        let attributes = Attributes::from([("global".to_owned(), numbers(attribute.0, attribute.1))]);
        let mut writer = Writer::new(attributes.clone());
        for (number, length) in lengths.iter().enumerate() {
            writer.dimension(&format!("d{number}"), *length).unwrap();
        }
        let mut arrays = Vec::new();
        for (number, (dimensions, dtype, count)) in variables.iter().enumerate() {
            let dimensions: Vec<usize> = dimensions.iter().map(|dimension| dimension % lengths.len()).collect();
            let extents: Vec<u64> = dimensions.iter().map(|dimension| lengths[*dimension]).collect();
            let own = Attributes::from([("a".to_owned(), numbers(*dtype, *count))]);
            writer.variable(&format!("v{number}"), *dtype, &dimensions, own).unwrap();
            arrays.push(arrays::array(&extents, seed ^ number as u64));
        }
        let mut bytes = writer.header().unwrap();
        for (number, (array, (_, dtype, _))) in arrays.iter().zip(&variables).enumerate() {
            bytes.extend(array.iter().flat_map(|element| big_endian(element, *dtype)));
            bytes.resize(bytes.len() + writer.padding(number), 0);
        }
        let header = header_of(&bytes, bytes.len() as u64);
        let mut types = variables.iter().map(|variable| variable.1).chain([attribute.0]);
        let is_classic = types.all(|dtype| CLASSIC.contains(&dtype));
        prop_assert_eq!(header.version, if is_classic { Version::Classic } else { Version::Data64 });
        let manifest = header.index(ObjectPath::new("a.nc").unwrap(), bytes.len() as u64).unwrap();
        prop_assert_eq!(manifest.attributes(), &attributes);
        for (number, (array, (_, dtype, count))) in arrays.iter().zip(&variables).enumerate() {
            let description = manifest.array(&format!("v{number}")).unwrap().description();
            prop_assert_eq!(description.dtype, *dtype);
            prop_assert_eq!(&description.attributes["a"], &numbers(*dtype, *count));
            let whole = Region::whole(&description.shape);
            let read = arrays::read(&manifest, &description.name, &whole, &MergeLimits::default(), &[&bytes]);
            prop_assert_eq!(read, expected(array, &whole, *dtype));
        }
    }
}

/// The version of a file with one variable of so many bytes behind one of so many.
fn version(first: u64, second: u64) -> Version {
    let mut writer = Writer::new(Attributes::new());
    for (name, bytes) in [("first", first), ("second", second)] {
        // Two dimensions: each has at most 2^31 - 1 coordinates.
        let rows = writer.dimension(&format!("rows of {name}"), bytes / 4).unwrap();
        let columns = writer.dimension(&format!("columns of {name}"), 4).unwrap();
        writer.variable(name, DataType::Int8, &[rows, columns], Attributes::new()).unwrap();
    }
    header_of(&writer.header().unwrap(), u64::MAX / 2).version
}

#[test]
fn large_files_have_wide_numbers() {
    assert_eq!(version(1 << 30, 1 << 30), Version::Classic);
    assert_eq!(version(1 << 31, 4), Version::Offset64);
    assert_eq!(version(u64::from(u32::MAX - 7), 4), Version::Offset64);
    assert_eq!(version(1 << 32, 4), Version::Data64);
    assert_eq!(version(4, 1 << 32), Version::Data64);
}

#[test]
fn names_and_sizes_that_no_file_has() {
    let mut writer = Writer::new(Attributes::new());
    let time = writer.dimension("time", 1 << 31).unwrap();
    for name in ["", "time", "a/b", "a\nb"] {
        assert_eq!(writer.dimension(name, 1), Err(WriteError::Name { name: name.into() }));
    }
    assert_eq!(writer.dimension("none", 0), Err(WriteError::Empty { name: "none".into() }));
    writer.variable("a", DataType::Int8, &[time, time], Attributes::new()).unwrap();
    assert!(matches!(writer.variable("a", DataType::Int8, &[], Attributes::new()), Err(WriteError::Name { .. })));
    assert!(writer.header().is_ok());
    writer.variable("b", DataType::Int16, &[time, time], Attributes::new()).unwrap();
    assert_eq!(writer.header(), Err(WriteError::TooLarge));
    let attributes = Attributes::from([("a/b".to_owned(), AttributeValue::Text(String::new()))]);
    assert_eq!(Writer::new(attributes).header(), Err(WriteError::Name { name: "a/b".into() }));
}
