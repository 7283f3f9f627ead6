//! MAP-Binary files, written and read, and damaged ones.

use crate::arrays::{self, Element, expected, native};
use ndarray::{ArrayD, Axis};
use proptest::{collection::vec, prelude::*, sample::select};
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::DataType,
    header::{HeaderError, HeaderProblem, IndexError, Step},
    manifest::{Manifest, ObjectPath, PieceSource},
    map_binary::{Header, Layout, MAX_HEADER_BYTES, WriteError, Writer},
    plan::MergeLimits,
};

/// A file, and the values of its variables.
#[derive(Debug)]
struct File {
    bytes: Vec<u8>,
    variables: Vec<(DataType, ArrayD<Element>)>,
    coordinates: Vec<Vec<f64>>,
}

fn files() -> impl Strategy<Value = File> {
    let lengths = vec(0_u64..5, 1..5);
    (lengths, any::<bool>(), any::<u64>()).prop_flat_map(|(lengths, is_interleaved, seed)| {
        let types: Vec<DataType> = DataType::ALL.into_iter().filter(|dtype| *dtype != DataType::Char).collect();
        let variable = (vec(0..lengths.len(), 0..4), select(types), any::<bool>());
        vec(variable, 0..5).prop_map(move |variables| {
            let layout = if is_interleaved { Layout::Interleaved } else { Layout::VariableByVariable };
            let mut writer = Writer::new(layout);
            writer.attribute("model", "GEOS-5").unwrap();
            let coordinates = |at: usize| (0..lengths[at]).map(|step| (step * 7) as f64 + at as f64 / 4.0).collect();
            let coordinates: Vec<Vec<f64>> = (0..lengths.len()).map(coordinates).collect();
            for (at, coordinates) in coordinates.iter().enumerate() {
                writer.dimension(&format!("d{at}"), "h", coordinates).unwrap();
            }
            let mut written = Vec::new();
            for (at, (mut axes, dtype, has_missing)) in variables.into_iter().enumerate() {
                axes.insert(0, 0);
                let missing = has_missing.then(|| vec![at as u8; dtype.bytes() as usize]);
                writer.variable(&format!("v{at}"), "", dtype, &axes, missing.as_deref()).unwrap();
                let extents: Vec<u64> = axes.iter().map(|axis| lengths[*axis]).collect();
                written.push((dtype, arrays::array(&extents, seed ^ at as u64)));
            }
            let bytes = write(&writer, layout, &written, lengths[0] as usize);
            File { bytes, variables: written, coordinates: coordinates.clone() }
        })
    })
}

fn write(writer: &Writer, layout: Layout, variables: &[(DataType, ArrayD<Element>)], records: usize) -> Vec<u8> {
    let mut bytes = writer.header().unwrap();
    let mut add = |variable: usize, record: usize| {
        let (dtype, values) = &variables[variable];
        let elements: Vec<u8> =
            values.index_axis(Axis(0), record).iter().flat_map(|element| native(element, *dtype)).collect();
        bytes.extend(writer.record(variable, &elements).unwrap());
    };
    match layout {
        Layout::Interleaved => (0..records).for_each(|record| (0..variables.len()).for_each(|at| add(at, record))),
        Layout::VariableByVariable => {
            (0..variables.len()).for_each(|at| (0..records).for_each(|record| add(at, record)))
        }
    }
    bytes
}

/// The header, asked for step by step from an empty prefix on.
fn header_of(bytes: &[u8]) -> Result<Header, HeaderError> {
    let mut length = 0;
    loop {
        match Header::parse(&bytes[..length], bytes.len() as u64)? {
            Step::Done(header) => return Ok(header),
            Step::NeedsPrefix { bytes: needed } => {
                assert!(needed as usize > length && needed <= bytes.len() as u64, "{needed} behind {length}");
                length = needed as usize;
            }
        }
    }
}

fn object() -> ObjectPath {
    ObjectPath::new("a.map").unwrap()
}

fn manifest_of(bytes: &[u8]) -> Manifest {
    header_of(bytes).unwrap().index(object(), bytes.len() as u64).unwrap()
}

proptest! {
    #[test]
    fn every_region_is_read(file in files(), draws in arrays::draws(), limits in arrays::limits()) {
        let manifest = manifest_of(&file.bytes);
        prop_assert_eq!(manifest.arrays().len(), file.variables.len() + file.coordinates.len());
        for (at, (dtype, values)) in file.variables.iter().enumerate() {
            let extents: Vec<u64> = values.shape().iter().map(|extent| *extent as u64).collect();
            let region = arrays::region(&extents, &draws);
            let read = arrays::read(&manifest, &format!("v{at}"), &region, &limits, &[&file.bytes]);
            prop_assert_eq!(read, expected(values, &region, *dtype));
        }
        for (at, coordinates) in file.coordinates.iter().enumerate() {
            let whole = Region::whole(&Shape::new([coordinates.len() as u64]).unwrap());
            let read = arrays::read(&manifest, &format!("d{at}"), &whole, &limits, &[&file.bytes]);
            prop_assert_eq!(read, coordinates.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_cut_file_is_an_error(file in files(), cut in any::<prop::sample::Index>()) {
        let bytes = &file.bytes[..cut.index(file.bytes.len())];
        match header_of(bytes) {
            Err(error) => {
                let problem = error.problem.clone();
                let is_truncated = matches!(problem, HeaderProblem::Truncated { .. } | HeaderProblem::Count { .. });
                prop_assert!(is_truncated, "{}", error);
            }
            Ok(header) => {
                let error = header.index(object(), bytes.len() as u64).unwrap_err();
                let is_truncated = matches!(error, IndexError::Truncated { .. });
                prop_assert!(is_truncated, "{}", error);
            }
        }
    }

    #[test]
    fn damaged_files_lie_inside(file in files(), at in any::<prop::sample::Index>(), bits in any::<u32>()) {
        let mut bytes = file.bytes;
        let at = at.index(bytes.len() - 3);
        for (byte, damage) in bytes[at..].iter_mut().zip(bits.to_be_bytes()) {
            *byte ^= damage;
        }
        let Ok(header) = header_of(&bytes) else { return Ok(()) };
        let Ok(manifest) = header.index(object(), bytes.len() as u64) else { return Ok(()) };
        for array in manifest.arrays() {
            let pieces = array.chunks_of(&Region::whole(&array.description().shape)).unwrap();
            for piece in pieces.take(100) {
                let PieceSource::Range(range) = piece.source else { panic!("all chunks are ranges") };
                prop_assert!(range.offset + range.length <= bytes.len() as u64);
            }
        }
    }
}

/// A file of two variables of two records, of which the second has a missing value.
fn small(layout: Layout) -> Vec<u8> {
    let mut writer = Writer::new(layout);
    writer.attribute("title", "two").unwrap();
    let time = writer.dimension("time", "h", &[0.0, 6.0]).unwrap();
    let lon = writer.dimension("lon", "degrees_east", &[10.0, 20.0, 30.0]).unwrap();
    writer.variable("p", "Pa", DataType::Int16, &[time], None).unwrap();
    writer.variable("t", "K", DataType::Float32, &[time, lon], Some(&1e15_f32.to_ne_bytes())).unwrap();
    let mut bytes = writer.header().unwrap();
    bytes.resize(bytes.len() + 2 * (2 + 12), 7);
    bytes
}

#[test]
fn the_layout_is_that_of_the_specification() {
    let bytes = small(Layout::Interleaved);
    let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let float = |value: f64| value.to_be_bytes().to_vec();
    let header_bytes = bytes.len() as u64 - 28;
    let expected: Vec<u8> = [
        b"MAPBIN\r\n".to_vec(),
        [1, header_bytes as u32, 2, 1, 2].iter().flat_map(|number| number.to_be_bytes()).collect(),
        [text("time"), text("h"), 2_u64.to_be_bytes().to_vec(), float(0.0), float(6.0)].concat(),
        [text("lon"), text("degrees_east"), 3_u64.to_be_bytes().to_vec(), float(10.0), float(20.0), float(30.0)]
            .concat(),
        [text("title"), text("two")].concat(),
        [text("p"), text("Pa"), vec![3, 0], vec![0; 8], vec![1, 0, 0]].concat(),
        [header_bytes, 14].iter().flat_map(|number| number.to_be_bytes()).collect(),
        [text("t"), text("K"), vec![9, 1], vec![0; 4], 1e15_f32.to_be_bytes().to_vec(), vec![2, 0, 0, 0, 1]].concat(),
        [header_bytes + 2, 14].iter().flat_map(|number| number.to_be_bytes()).collect(),
        vec![7; 28],
    ]
    .concat();
    assert_eq!(bytes, expected);
}

#[test]
fn units_and_missing_values_are_attributes() {
    let bytes = small(Layout::VariableByVariable);
    let manifest = manifest_of(&bytes);
    let t = manifest.array("t").unwrap().description();
    assert_eq!(t.fill_value.as_deref(), Some(&1e15_f32.to_le_bytes()[..]));
    assert_eq!(t.attributes["units"].as_text(), Some("K"));
    assert_eq!(t.dimension_names, [Some("time".to_owned()), Some("lon".to_owned())]);
    assert_eq!(manifest.attributes()["title"].as_text(), Some("two"));
}

#[test]
fn errors_name_field_and_offset() {
    let bytes = small(Layout::Interleaved);
    let damaged = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    let error = |bytes: &[u8]| header_of(bytes).unwrap_err().to_string();
    assert_eq!(error(&damaged(6, b"\n\n")), "magic at byte 0: the file is not of this format");
    assert_eq!(error(&damaged(11, &[2])), "version at byte 8: version 2 of the format is unknown");
    let places = bytes.len() - 28 - 16;
    let text = format!("variable 1: type at byte {}: the value 11 is unknown here", places - 15);
    assert_eq!(error(&damaged(places - 15, &[11])), text);
    let text = format!("variable 1: has missing at byte {}: the value 2 is unknown here", places - 14);
    assert_eq!(error(&damaged(places - 14, &[2])), text);
    let text = format!("variable 1: axis 1: dimension at byte {}: entry 2 is meant, and there are 2", places - 2);
    assert_eq!(error(&damaged(places - 1, &[2])), text);
    let text = format!(
        "header bytes at byte 12: the header is said to have 20 bytes, and its lists end at byte {}",
        places + 16
    );
    assert_eq!(error(&damaged(12, &20_u32.to_be_bytes())), text);
    let text = format!("variable 1: name at byte {}: the name `p` is there twice", places - 21);
    assert_eq!(error(&damaged(places - 19, b"p")), text);
}

#[test]
fn counts_reserve_nothing() {
    let mut bytes = small(Layout::Interleaved);
    bytes[20..24].copy_from_slice(&u32::MAX.to_be_bytes());
    let error = header_of(&bytes).unwrap_err();
    assert!(matches!(error.problem, HeaderProblem::Count { .. }), "{error}");
    let long = (MAX_HEADER_BYTES as u32 + 1).to_be_bytes();
    bytes[12..16].copy_from_slice(&long);
    let error = header_of(&bytes).unwrap_err();
    assert_eq!(error.problem, HeaderProblem::TooLong { max_bytes: MAX_HEADER_BYTES });
}

#[test]
fn records_lie_behind_the_header_and_apart() {
    let bytes = small(Layout::Interleaved);
    let places = bytes.len() - 28 - 16;
    let index = |first: u64, stride: u64| {
        let mut bytes = bytes.clone();
        bytes[places..places + 8].copy_from_slice(&first.to_be_bytes());
        bytes[places + 8..places + 16].copy_from_slice(&stride.to_be_bytes());
        header_of(&bytes).unwrap().index(object(), bytes.len() as u64)
    };
    let header_bytes = bytes.len() as u64 - 28;
    assert!(index(header_bytes, 12).is_ok());
    assert!(matches!(index(header_bytes - 1, 12), Err(IndexError::InsideHeader { .. })));
    assert!(matches!(index(header_bytes, 11), Err(IndexError::Overlap { .. })));
    assert!(index(header_bytes, 16).is_ok());
    assert!(matches!(index(header_bytes, 17), Err(IndexError::Truncated { .. })));
    assert!(matches!(index(u64::MAX - 12, 13), Err(IndexError::Variable { .. })));
}

#[test]
fn the_writer_refuses_wrong_files() {
    let mut writer = Writer::new(Layout::Interleaved);
    let time = writer.dimension("time", "h", &[0.0, 6.0]).unwrap();
    let lon = writer.dimension("lon", "", &[0.0]).unwrap();
    assert!(matches!(writer.dimension("lon", "", &[]), Err(WriteError::Name { .. })));
    assert!(matches!(writer.dimension("", "", &[]), Err(WriteError::Name { .. })));
    assert!(matches!(writer.attribute("a", &"a".repeat(65536)), Err(WriteError::Text { bytes: 65536 })));
    assert!(writer.attribute("a", &"a".repeat(65535)).is_ok());
    assert!(matches!(writer.attribute("a", ""), Err(WriteError::Name { .. })));
    let mut variable = |name, dtype, axes: &[usize], missing| writer.variable(name, "", dtype, axes, missing);
    assert!(matches!(variable("time", DataType::Int8, &[time], None), Err(WriteError::Name { .. })));
    assert!(matches!(variable("c", DataType::Char, &[time], None), Err(WriteError::Type { .. })));
    assert!(matches!(variable("c", DataType::Int8, &[], None), Err(WriteError::Count { .. })));
    let missing = variable("c", DataType::Int8, &[time], Some(&[0, 0]));
    assert!(matches!(missing, Err(WriteError::Missing { bytes: 2, .. })));
    assert!(variable("a", DataType::Int8, &[time], None).is_ok());
    assert!(matches!(variable("b", DataType::Int8, &[lon], None), Err(WriteError::FirstDimension { .. })));
    assert!(matches!(writer.record(0, &[1, 2]), Err(WriteError::Record { expected: 1, .. })));
}

#[test]
fn regions_of_4_axes() {
    let mut writer = Writer::new(Layout::Interleaved);
    let axes: Vec<usize> =
        ["time", "level", "lat", "lon"].map(|name| writer.dimension(name, "", &[0.0, 1.0, 2.0]).unwrap()).into();
    writer.variable("U", "m/s", DataType::Float32, &axes, None).unwrap();
    let values = arrays::array(&[3; 4], 5);
    let bytes = write(&writer, Layout::Interleaved, &[(DataType::Float32, values.clone())], 3);
    let basin = Region::new([0, 1, 1, 0], Shape::new([3, 1, 2, 2]).unwrap()).unwrap();
    let read = arrays::read(&manifest_of(&bytes), "U", &basin, &MergeLimits::default(), &[&bytes]);
    assert_eq!(read, expected(&values, &basin, DataType::Float32));
}
