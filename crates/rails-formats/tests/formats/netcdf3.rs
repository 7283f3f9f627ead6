//! NetCDF-3 files: those of an independent writer, damaged ones, and those of the reference
//! library.

use crate::{
    arrays::{self, big_endian, expected},
    netcdf3_writer::{Attribute, File, Variable, write},
};
use proptest::{collection::vec, prelude::*, sample::select};
use rails_array::{MAX_RANK, Region, Shape};
use rails_formats::{
    data_type::DataType,
    header::{HeaderError, HeaderProblem, IndexError, Step},
    manifest::{Manifest, ObjectPath},
    netcdf3::{Header, MAX_HEADER_BYTES, Version},
    plan::MergeLimits,
};

fn types(version: u8) -> &'static [DataType] {
    match version {
        5 => &DataType::ALL,
        _ => &[DataType::Int8, DataType::Char, DataType::Int16, DataType::Int32, DataType::Float32, DataType::Float64],
    }
}

/// A file with scalars, variables without records and variables with records.
fn files() -> impl Strategy<Value = File> {
    let lengths = vec(1_u64..5, 1..4);
    (select(vec![1_u8, 2, 5]), lengths, 0_u64..4, any::<bool>(), any::<u64>()).prop_flat_map(
        |(version, lengths, records, is_streaming, seed)| {
            let count = lengths.len() as u64;
            let variable = (any::<bool>(), vec(0..count, 0..4), select(types(version)), 0_u8..3);
            vec(variable, 0..6).prop_map(move |variables| {
                let mut file = File { version, is_streaming, ..File::default() };
                file.dimensions = lengths.iter().enumerate().map(|(at, length)| (format!("d{at}"), *length)).collect();
                file.dimensions.push(("records".into(), 0));
                for (at, (has_records, mut dimensions, dtype, attributes)) in variables.into_iter().enumerate() {
                    if has_records {
                        dimensions.insert(0, count);
                    }
                    let extent = |dimension: &u64| lengths.get(*dimension as usize).copied().unwrap_or(records);
                    let extents: Vec<u64> = dimensions.iter().map(extent).collect();
                    let attribute = |number: u8| attribute(&format!("a{number}"), dtype, number.into());
                    file.variables.push(Variable {
                        name: format!("v{at}"),
                        dimensions,
                        attributes: (0..attributes).map(attribute).collect(),
                        dtype,
                        values: arrays::array(&extents, seed ^ at as u64),
                    });
                }
                file
            })
        },
    )
}

fn attribute(name: &str, dtype: DataType, count: u64) -> Attribute {
    let values = arrays::array(&[count], count);
    let values = values.iter().flat_map(|element| big_endian(element, dtype)).collect();
    Attribute { name: name.into(), dtype, values }
}

/// The header, asked for step by step from an empty prefix on.
fn header_of(bytes: &[u8]) -> Result<Header, HeaderError> {
    let mut length = 0;
    for _ in 0..64 {
        match Header::parse(&bytes[..length], bytes.len() as u64)? {
            Step::Done(header) => return Ok(header),
            Step::NeedsPrefix { bytes: needed } => {
                assert!(needed as usize > length && needed <= bytes.len() as u64, "{needed} behind {length}");
                length = needed as usize;
            }
        }
    }
    panic!("the header takes more than 64 steps");
}

fn manifest_of(bytes: &[u8]) -> Manifest {
    let header = header_of(bytes).expect("a good header");
    header.index(ObjectPath::new("a.nc").unwrap(), bytes.len() as u64).expect("good data")
}

proptest! {
    #[test]
    fn every_region_is_read(file in files(), draws in arrays::draws(), limits in arrays::limits()) {
        let bytes = write(&file);
        let manifest = manifest_of(&bytes);
        prop_assert_eq!(manifest.arrays().len(), file.variables.len());
        for (array, variable) in manifest.arrays().iter().zip(&file.variables) {
            let description = array.description();
            prop_assert_eq!((&description.name, description.dtype), (&variable.name, variable.dtype));
            let extents: Vec<u64> = variable.values.shape().iter().map(|extent| *extent as u64).collect();
            prop_assert_eq!(description.shape.extents(), &extents[..]);
            for attribute in &variable.attributes {
                prop_assert!(description.attributes.contains_key(&attribute.name));
            }
            for region in [arrays::region(&extents, &draws), Region::whole(&description.shape)] {
                let read = arrays::read(&manifest, &description.name, &region, &limits, &[&bytes]);
                prop_assert_eq!(read, expected(&variable.values, &region, variable.dtype));
            }
        }
    }

    #[test]
    fn a_cut_file_is_an_error(file in files(), cut in any::<prop::sample::Index>()) {
        let mut file = file;
        file.is_streaming = false;
        let bytes = write(&file);
        let bytes = &bytes[..cut.index(bytes.len())];
        match header_of(bytes) {
            Err(error) => {
                let problem = error.problem.clone();
                let is_truncated = matches!(problem, HeaderProblem::Truncated { .. } | HeaderProblem::Count { .. });
                prop_assert!(is_truncated, "{}", error);
            }
            // The bytes at the end may be padding.
            Ok(header) => match header.index(ObjectPath::new("a.nc").unwrap(), bytes.len() as u64) {
                Err(error) => {
                    let is_truncated = matches!(error, IndexError::Truncated { .. });
                    prop_assert!(is_truncated, "{}", error);
                }
                Ok(manifest) => prop_assert!(all_inside(&manifest, bytes.len() as u64)),
            },
        }
    }

    #[test]
    fn damaged_files_lie_inside(file in files(), at in any::<prop::sample::Index>(), bits in any::<u32>()) {
        let mut bytes = write(&file);
        let at = at.index(bytes.len() - 3);
        for (byte, damage) in bytes[at..].iter_mut().zip(bits.to_be_bytes()) {
            *byte ^= damage;
        }
        if let Ok(header) = header_of(&bytes)
            && let Ok(manifest) = header.index(ObjectPath::new("a.nc").unwrap(), bytes.len() as u64)
        {
            prop_assert!(all_inside(&manifest, bytes.len() as u64));
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in vec(any::<u8>(), 0..300), version in select(vec![1_u8, 2, 5])) {
        let mut file = vec![b'C', b'D', b'F', version];
        file.extend(bytes);
        let _ = header_of(&file);
    }
}

/// Whether all chunks of small arrays lie in the file.
fn all_inside(manifest: &Manifest, file_bytes: u64) -> bool {
    manifest.arrays().iter().all(|array| {
        let shape = &array.description().shape;
        let pieces = array.chunks_of(&Region::whole(shape)).expect("the whole array lies in itself");
        pieces.take(100).all(|piece| match piece.source {
            rails_formats::manifest::PieceSource::Range(range) => range.offset + range.length <= file_bytes,
            _ => false,
        })
    })
}

/// A file of one record variable of bytes.
fn bytes_by_record(lengths: u64, records: u64, dtype: DataType) -> File {
    File {
        version: 1,
        dimensions: vec![("t".into(), 0), ("x".into(), lengths)],
        variables: vec![Variable {
            name: "v".into(),
            dimensions: vec![0, 1],
            attributes: vec![],
            dtype,
            values: arrays::array(&[records, lengths], 3),
        }],
        ..File::default()
    }
}

#[test]
fn one_record_variable_is_not_padded() {
    let file = bytes_by_record(3, 5, DataType::Int8);
    let bytes = write(&file);
    let manifest = manifest_of(&bytes);
    let last = Region::new([4, 0], Shape::new([1, 3]).unwrap()).unwrap();
    let read = arrays::read(&manifest, "v", &last, &MergeLimits::default(), &[&bytes]);
    assert_eq!(read, expected(&file.variables[0].values, &last, DataType::Int8));
    assert_eq!(&read[..], &bytes[bytes.len() - 3..]);
}

#[test]
fn records_left_open_are_counted() {
    let mut file = bytes_by_record(3, 5, DataType::Int16);
    file.is_streaming = true;
    let bytes = write(&file);
    assert_eq!(header_of(&bytes).unwrap().records, None);
    let shape = |bytes: &[u8]| manifest_of(bytes).array("v").unwrap().description().shape.to_string();
    assert_eq!(shape(&bytes), "5x3");
    assert_eq!(shape(&bytes[..bytes.len() - 1]), "4x3");
    assert_eq!(shape(&[&bytes[..], &[0; 5]].concat()), "5x3");
    assert_eq!(shape(&[&bytes[..], &[0; 6]].concat()), "6x3");
}

#[test]
fn a_file_without_anything() {
    for (version, length) in [(1, 32), (2, 32), (5, 48)] {
        let bytes = write(&File { version, ..File::default() });
        assert_eq!(bytes.len(), length);
        let header = header_of(&bytes).unwrap();
        assert_eq!((header.records, header.variables.len()), (Some(0), 0));
        assert_eq!(manifest_of(&bytes).arrays().len(), 0);
    }
}

#[test]
fn a_count_reserves_nothing() {
    for (version, count) in [(1_u8, &[0xff; 4][..]), (5, &[0xff; 8])] {
        let mut bytes = write(&File { version, ..File::default() });
        let at = 4 + count.len();
        bytes[at + 3] = 10;
        bytes[at + 4..][..count.len()].copy_from_slice(count);
        let error = header_of(&bytes).unwrap_err();
        assert!(matches!(error.problem, HeaderProblem::Count { .. }), "{error}");
        assert_eq!((&error.field[..], error.offset), ("dimensions", at as u64 + 4 + count.len() as u64));
    }
}

#[test]
fn errors_name_field_and_offset() {
    let mut file = bytes_by_record(3, 5, DataType::Int16);
    file.variables[0].attributes =
        vec![attribute("units", DataType::Char, 1), attribute("scale", DataType::Float32, 1)];
    let bytes = write(&file);
    let at = bytes.windows(5).position(|bytes| bytes == b"scale").unwrap() + 8;
    let mut wrong = bytes.clone();
    wrong[at + 3] = 7;
    let text = format!("variable 0: attribute 1: type at byte {at}: the value 7 is unknown here");
    assert_eq!(header_of(&wrong).unwrap_err().to_string(), text);

    let at = bytes.windows(2).rposition(|bytes| bytes == b"v\0").unwrap() + 8;
    let mut wrong = bytes.clone();
    wrong[at + 3] = 2;
    let text = format!("variable 0: dimension 0: number at byte {at}: entry 2 is meant, and there are 2");
    assert_eq!(header_of(&wrong).unwrap_err().to_string(), text);

    let text = "magic at byte 0: the file is not of this format";
    assert_eq!(header_of(b"\x89HDF\r\n\x1a\n").unwrap_err().to_string(), text);
    let text = "version at byte 3: version 3 of the format is unknown";
    assert_eq!(header_of(b"CDF\x03").unwrap_err().to_string(), text);
    let text = "numrecs at byte 4: it would end at byte 8, and the file has 6 bytes";
    assert_eq!(header_of(b"CDF\x01\0\0").unwrap_err().to_string(), text);
}

#[test]
fn a_short_file_names_the_variable() {
    let bytes = write(&bytes_by_record(4, 5, DataType::Int16));
    let header = header_of(&bytes).unwrap();
    let end = bytes.len() as u64;
    let error = header.index(ObjectPath::new("a.nc").unwrap(), end - 1).unwrap_err();
    let text = format!("the variable `v` ends at byte {end}, and the file has {} bytes", end - 1);
    assert_eq!(error.to_string(), text);
}

#[test]
fn variables_lie_behind_the_header() {
    let mut bytes = write(&bytes_by_record(4, 5, DataType::Int16));
    let header_bytes = header_of(&bytes).unwrap().bytes;
    assert_eq!(header_bytes, bytes.len() as u64 - 40);
    let mut index = |begin: u64| {
        let at = header_bytes as usize;
        bytes[at - 4..at].copy_from_slice(&(begin as u32).to_be_bytes());
        header_of(&bytes).unwrap().index(ObjectPath::new("a.nc").unwrap(), u64::MAX).map(drop)
    };
    assert_eq!(index(header_bytes), Ok(()));
    let text = format!("the variable `v` begins at byte {}, in the header of {header_bytes} bytes", header_bytes - 1);
    assert_eq!(index(header_bytes - 1).unwrap_err().to_string(), text);
}

#[test]
fn wrong_dimensions_are_refused() {
    let problem = |file: &File| header_of(&write(file)).unwrap_err().problem;
    let mut file = bytes_by_record(3, 1, DataType::Int8);
    file.dimensions[1].0 = "t".into();
    assert_eq!(problem(&file), HeaderProblem::DuplicateName { name: "t".into() });
    file.dimensions = vec![("t".into(), 0), ("u".into(), 0)];
    assert_eq!(problem(&file), HeaderProblem::SecondRecordDimension { name: "t".into() });
    let mut file = bytes_by_record(3, 1, DataType::Int8);
    file.variables[0].dimensions = vec![1, 0];
    assert_eq!(problem(&file), HeaderProblem::RecordDimensionInside);
    file.variables[0].dimensions = vec![1; MAX_RANK + 1];
    let max = MAX_RANK as u64;
    assert_eq!(problem(&file), HeaderProblem::Rank { count: max + 1, max });
    file.variables[0].dimensions = vec![1; MAX_RANK];
    assert!(header_of(&write(&file)).is_ok());
}

#[test]
fn a_header_has_a_longest_length() {
    let bytes = write(&File { version: 5, attributes: vec![attribute("a", DataType::Char, 1)], ..File::default() });
    // Behind the values is the list of variables, which is absent.
    let at = bytes.len() - 12 - 4 - 8;
    let parse = |count: u64| {
        let bytes = [&bytes[..at], &count.to_be_bytes(), b"text"].concat();
        Header::parse(&bytes, u64::MAX)
    };
    let room = MAX_HEADER_BYTES - at as u64 - 8;
    assert_eq!(parse(room), Ok(Step::NeedsPrefix { bytes: MAX_HEADER_BYTES }));
    assert_eq!(parse(room + 1).unwrap_err().problem, HeaderProblem::Count { count: room + 1, max: room });
    // A name is longer than the header may be.
    let name = [&bytes[..at - 16], &MAX_HEADER_BYTES.to_be_bytes()].concat();
    let error = Header::parse(&name, u64::MAX).unwrap_err();
    assert_eq!(error.problem, HeaderProblem::TooLong { max_bytes: MAX_HEADER_BYTES });
}

#[test]
fn sizes_that_overflow_are_errors() {
    let mut file = bytes_by_record(3, 0, DataType::Float64);
    file.version = 5;
    file.dimensions[1].1 = u64::MAX / 8 + 1;
    let header = header_of(&write_header_of(&file)).unwrap();
    let error = header.index(ObjectPath::new("a.nc").unwrap(), u64::MAX).unwrap_err();
    assert!(matches!(error, IndexError::Variable { .. }), "{error}");
    file.dimensions[1].1 = u64::MAX / 8;
    let mut second = file.variables[0].clone();
    second.name = "w".into();
    file.variables.push(second);
    let header = header_of(&write_header_of(&file)).unwrap();
    let error = header.index(ObjectPath::new("a.nc").unwrap(), u64::MAX).unwrap_err();
    assert!(matches!(error, IndexError::RecordSize), "{error}");
}

/// The header alone, whose variables all begin at 0.
fn write_header_of(file: &File) -> Vec<u8> {
    crate::netcdf3_writer::header(file, &vec![0; file.variables.len()])
}

#[test]
fn files_of_the_reference_library() {
    let fixtures: [(&str, Version, &[u8]); 3] = [
        ("cdf1", Version::Classic, include_bytes!("../fixtures/cdf1.nc")),
        ("cdf2", Version::Offset64, include_bytes!("../fixtures/cdf2.nc")),
        ("cdf5", Version::Data64, include_bytes!("../fixtures/cdf5.nc")),
    ];
    for (name, version, bytes) in fixtures {
        let header = header_of(bytes).unwrap();
        assert_eq!((header.version, header.records), (version, Some(3)), "{name}");
        let manifest = manifest_of(bytes);
        let known = if version == Version::Data64 { 11 } else { 6 };
        assert_eq!(manifest.arrays().len(), 2 * known + 1, "{name}");
        for array in manifest.arrays() {
            let description = array.description();
            let whole = Region::whole(&description.shape);
            let read = arrays::read(&manifest, &description.name, &whole, &MergeLimits::default(), &[bytes]);
            let ours: Vec<u8> = (0..whole.elements()).flat_map(|at| fixture_value(at, description.dtype)).collect();
            assert_eq!(read, ours, "{name} {}", description.name);
        }
        let fixed = manifest.array("fixed_float32").unwrap().description();
        assert_eq!(fixed.fill_value.as_deref(), Some(&(-9.0_f32).to_le_bytes()[..]), "{name}");
        assert_eq!(fixed.dimension_names, [Some("lat".to_owned()), Some("lon".to_owned())], "{name}");
        let title = manifest.attributes().get("title").and_then(|title| title.as_text());
        assert_eq!(title, Some("\u{d6}l and water"), "{name}");
        for dtype in types(if version == Version::Data64 { 5 } else { 1 }) {
            if *dtype != DataType::Char {
                let numbers = manifest.attributes().get(dtype.name()).and_then(|value| value.to_numbers());
                assert_eq!(numbers, Some(vec![1.0, 2.0, 3.0]), "{name} {dtype}");
            }
        }
    }
}

#[test]
fn files_without_records() {
    for bytes in [&include_bytes!("../fixtures/empty.nc")[..], include_bytes!("../fixtures/scipy_empty.nc")] {
        let manifest = manifest_of(bytes);
        let array = manifest.array("v").unwrap();
        assert_eq!(array.description().shape.to_string(), "0x3");
        assert_eq!(array.chunks_of(&Region::whole(&array.description().shape)).unwrap().count(), 0);
        let scalar = manifest.array("scalar").unwrap();
        let whole = Region::whole(&scalar.description().shape);
        let read = arrays::read(&manifest, "scalar", &whole, &MergeLimits::default(), &[bytes]);
        assert_eq!(read, 1_i32.to_ne_bytes());
    }
}

#[test]
fn files_of_another_writer() {
    for bytes in [&include_bytes!("../fixtures/scipy_cdf1.nc")[..], include_bytes!("../fixtures/scipy_cdf2.nc")] {
        let manifest = manifest_of(bytes);
        assert_eq!(manifest.arrays().len(), 12);
        for array in manifest.arrays() {
            let description = array.description();
            let whole = Region::whole(&description.shape);
            let read = arrays::read(&manifest, &description.name, &whole, &MergeLimits::default(), &[bytes]);
            let ours: Vec<u8> = (0..whole.elements()).flat_map(|at| fixture_value(at, description.dtype)).collect();
            assert_eq!(read, ours, "{}", description.name);
        }
    }
}

#[test]
fn packed_records_of_the_reference_library() {
    for bytes in [&include_bytes!("../fixtures/packed_int8.nc")[..], include_bytes!("../fixtures/packed_int16.nc")] {
        let manifest = manifest_of(bytes);
        let [array] = manifest.arrays() else { panic!("one variable") };
        let description = array.description();
        assert_eq!(description.shape.to_string(), "4x3");
        let whole = Region::whole(&description.shape);
        let read = arrays::read(&manifest, "v", &whole, &MergeLimits::default(), &[bytes]);
        let ours: Vec<u8> = (0..12).flat_map(|at| fixture_value(at, description.dtype)).collect();
        assert_eq!(read, ours);
    }
}

/// The element of that number in every fixture, as `make.py` writes it.
fn fixture_value(at: u64, dtype: DataType) -> Vec<u8> {
    let value = (at * 7 + 1) % 100;
    match dtype {
        DataType::Float32 => (value as f32).to_ne_bytes().to_vec(),
        DataType::Float64 => (value as f64).to_ne_bytes().to_vec(),
        DataType::Char => vec![b'a' + (at % 26) as u8],
        _ => arrays::native(&value.to_le_bytes(), dtype),
    }
}
