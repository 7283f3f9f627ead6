//! Manifests of any placement, against `ndarray`, and encoded ones that lie.

use crate::arrays::{self, Element, expected, native};
use ndarray::ArrayD;
use proptest::prelude::*;
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::{DataType, Endianness},
    manifest::{
        ArrayDescription, ArrayManifest, Attributes, ByteRange, ChunkSource, Codec, Manifest, ManifestError,
        ManifestProblem, ObjectPath, PieceSource, Placement, Section,
    },
    plan::{MergeLimits, plan_region},
};

const BIG: Endianness = Endianness::Big;

fn description(extents: &[u64], dtype: DataType) -> ArrayDescription {
    ArrayDescription {
        name: "v".into(),
        dtype,
        shape: Shape::new(extents.iter().copied()).unwrap(),
        dimension_names: vec![None; extents.len()],
        fill_value: Some(vec![7; dtype.bytes() as usize]),
        attributes: Attributes::new(),
    }
}

fn objects(count: usize) -> Vec<ObjectPath> {
    (0..count).map(|number| ObjectPath::new(format!("{number}.bin")).unwrap()).collect()
}

/// An array in sections along an axis. The chunks of section `n` have the shape `chunks[n]`; some
/// lie in the section's file, some are inline, and some are missing.
fn in_sections(
    array: &mut ArrayD<Element>,
    dtype: DataType,
    along: usize,
    cuts: &[u64],
    chunks: &[Vec<u64>],
) -> (Manifest, Vec<Vec<u8>>) {
    let extents: Vec<u64> = array.shape().iter().map(|extent| *extent as u64).collect();
    let (mut sections, mut files, mut start) = (Vec::new(), Vec::new(), 0);
    for (number, (extent, chunk)) in cuts.iter().zip(chunks).enumerate() {
        let endianness = if number % 2 == 0 { BIG } else { Endianness::Little };
        let mut shape = extents.clone();
        shape[along] = *extent;
        let grid: Vec<u64> = shape.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil(*chunk)).collect();
        let (mut file, mut chunks) = (vec![0xee; number], Vec::new());
        for index in indices(&grid) {
            let mut bytes = Vec::new();
            for at in indices(chunk) {
                let within: Vec<u64> = index.iter().zip(chunk).zip(&at).map(|((i, c), at)| i * c + at).collect();
                let mut place: Vec<usize> = within.iter().map(|at| *at as usize).collect();
                place[along] += start as usize;
                let is_inside = within.iter().zip(&shape).all(|(at, extent)| at < extent);
                let element = if is_inside { &mut array[&place[..]] } else { &mut [0xcc; 8] };
                if chunks.len() % 5 == 4 && is_inside {
                    *element = [7; 8];
                }
                let mut stored = native(element, dtype);
                dtype.swap_to_native(&mut stored, endianness);
                bytes.extend(stored);
            }
            chunks.push(match chunks.len() % 5 {
                4 => ChunkSource::Missing,
                3 => ChunkSource::Inline(bytes),
                _ => {
                    let (offset, length) = (file.len() as u64, bytes.len() as u64);
                    file.extend(bytes);
                    file.extend([0xee; 3]);
                    ChunkSource::Range(ByteRange { object: number as u32, offset, length })
                }
            });
        }
        sections.push(Section {
            extent: *extent,
            chunk_shape: Shape::new(chunk.iter().copied()).unwrap(),
            codecs: vec![Codec::Bytes { endianness }],
            placement: Placement::Listed(chunks),
        });
        files.push(file);
        start += extent;
    }
    let array = ArrayManifest::new(description(&extents, dtype), along, sections).unwrap();
    (Manifest::new(objects(files.len()), vec![array], Attributes::new()).unwrap(), files)
}

/// All coordinates of a shape, in C order.
fn indices(shape: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![vec![]];
    for extent in shape {
        all = all.iter().flat_map(|index| (0..*extent).map(move |at| [&index[..], &[at]].concat())).collect();
    }
    all
}

proptest! {
    #[test]
    fn every_placement_is_read(
        extents in arrays::extents(),
        (seed, along, dtype) in (any::<u64>(), 0_usize..4, proptest::sample::select(&DataType::ALL[..])),
        chunks in proptest::collection::vec(proptest::collection::vec(1_u64..4, 4), 3),
        cut in 0_u64..6,
        draws in arrays::draws(),
        limits in arrays::limits(),
    ) {
        let mut array = arrays::array(&extents, seed);
        let along = along % extents.len();
        let cut = cut.min(extents[along]);
        let cuts = [cut, 0, extents[along] - cut];
        let chunks: Vec<Vec<u64>> = chunks.iter().map(|chunk| chunk[..extents.len()].to_vec()).collect();
        let (manifest, files) = in_sections(&mut array, dtype, along, &cuts, &chunks);
        let files: Vec<&[u8]> = files.iter().map(|file| &file[..]).collect();
        let manifest = Manifest::decode(&manifest.encode()).unwrap();
        let region = arrays::region(&extents, &draws);
        prop_assert_eq!(arrays::read(&manifest, "v", &region, &limits, &files), expected(&array, &region, dtype));
        let pieces = manifest.array("v").unwrap().chunks_of(&region).unwrap();
        prop_assert_eq!(pieces.map(|piece| piece.wanted.elements()).sum::<u64>(), region.elements());
    }

    #[test]
    fn damaged_manifests_are_errors(
        at in any::<prop::sample::Index>(),
        bits in 1_u8..,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut array = arrays::array(&[5, 4], 1);
        let (manifest, _) = in_sections(&mut array, DataType::Int16, 0, &[2, 3], &[vec![2, 3], vec![1, 4]]);
        let mut bytes = manifest.encode();
        prop_assert!(Manifest::decode(&bytes[..cut.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        if let Ok(other) = Manifest::decode(&bytes) {
            // A manifest that is taken is one: all its regions have chunks.
            for array in other.arrays() {
                let whole = Region::whole(&array.description().shape);
                let pieces = array.chunks_of(&whole).unwrap().take(1000);
                prop_assert!(pieces.map(|piece| piece.wanted.elements()).sum::<u64>() <= whole.elements());
            }
        }
    }
}

#[test]
fn a_million_chunks_take_little_room() {
    let extents = [1_000_000, 361];
    let section = Section {
        extent: extents[0],
        chunk_shape: Shape::new([1, 361]).unwrap(),
        codecs: vec![Codec::Bytes { endianness: BIG }],
        placement: Placement::Regular { object: 0, offset: 512, strides: vec![10_000, 0], length: 1444 },
    };
    let array = ArrayManifest::new(description(&extents, DataType::Float32), 0, vec![section]).unwrap();
    let manifest = Manifest::new(objects(1), vec![array], Attributes::new()).unwrap();
    assert!(manifest.encode().len() < 64, "{}", manifest.encode().len());
    let region = Region::new([999_999, 5], Shape::new([1, 2]).unwrap()).unwrap();
    let pieces: Vec<_> = manifest.array("v").unwrap().chunks_of(&region).unwrap().collect();
    let [piece] = &pieces[..] else { panic!("one chunk") };
    let range = ByteRange { object: 0, offset: 512 + 999_999 * 10_000, length: 1444 };
    assert_eq!(piece.source, PieceSource::Range(range));
    assert_eq!(piece.wanted, region);
    assert_eq!(piece.chunk.to_string(), "[999999:1000000, 0:361]");
}

/// The error of an array with this section.
fn problem(extents: &[u64], along: usize, sections: Vec<Section>) -> ManifestProblem {
    ArrayManifest::new(description(extents, DataType::Int16), along, sections).unwrap_err()
}

fn regular(extent: u64, chunk: &[u64], offset: u64, strides: &[u64], length: u64) -> Section {
    Section {
        extent,
        chunk_shape: Shape::new(chunk.iter().copied()).unwrap(),
        codecs: vec![Codec::Bytes { endianness: BIG }],
        placement: Placement::Regular { object: 0, offset, strides: strides.to_vec(), length },
    }
}

#[test]
fn sections_are_checked() {
    let extents = &[4, 3];
    let fits = || regular(4, &[1, 3], 0, &[6, 0], 6);
    assert!(ArrayManifest::new(description(extents, DataType::Int16), 0, vec![fits()]).is_ok());
    assert_eq!(problem(extents, 2, vec![fits()]), ManifestProblem::Axis { along: 2, rank: 2 });
    assert_eq!(problem(extents, 0, vec![fits(), fits()]), ManifestProblem::Extent { end: 8, extent: 4 });
    assert_eq!(problem(extents, 0, vec![]), ManifestProblem::Extent { end: 0, extent: 4 });
    let length = problem(extents, 0, vec![regular(4, &[1, 3], 0, &[6, 0], 5)]);
    assert_eq!(length, ManifestProblem::ChunkLength { length: 5, expected: 6 });
    let strides = problem(extents, 0, vec![regular(4, &[1, 3], 0, &[6], 6)]);
    assert_eq!(strides, ManifestProblem::Strides { strides: 1, rank: 2 });
    let shape = problem(extents, 0, vec![regular(4, &[1], 0, &[6, 0], 2)]);
    assert!(matches!(shape, ManifestProblem::ChunkShape { .. }));
    let zero = problem(extents, 0, vec![regular(4, &[1, 0], 0, &[6, 0], 0)]);
    assert!(matches!(zero, ManifestProblem::ChunkShape { .. }));
    let mut codecs = fits();
    codecs.codecs.clear();
    assert_eq!(problem(extents, 0, vec![codecs]), ManifestProblem::Codecs);
    let mut listed = fits();
    listed.placement = Placement::Listed(vec![ChunkSource::Missing; 3]);
    assert_eq!(problem(extents, 0, vec![listed]), ManifestProblem::ChunkCount { count: 3, expected: 4 });
}

#[test]
fn offsets_fit_64_bits_on_both_sides() {
    let last = u64::MAX - 3 * 6 - 6;
    let array = |offset| {
        let section = regular(4, &[1, 3], offset, &[6, 0], 6);
        ArrayManifest::new(description(&[4, 3], DataType::Int16), 0, vec![section])
    };
    assert!(array(last).is_ok());
    assert_eq!(array(last + 1).unwrap_err(), ManifestProblem::TooLarge);
}

#[test]
fn ends_of_chunks_fit_64_bits_on_both_sides() {
    let array = |chunk: u64| {
        let mut section = regular(1, &[chunk], 0, &[0], chunk);
        section.placement = Placement::Listed(vec![ChunkSource::Missing]);
        ArrayManifest::new(description(&[3], DataType::Int8), 0, vec![regular(2, &[2], 0, &[0], 2), section])
    };
    assert!(array(u64::MAX - 2).is_ok());
    assert_eq!(array(u64::MAX - 1).unwrap_err(), ManifestProblem::TooLarge);
}

#[test]
fn a_scalar_is_one_section() {
    let section = || regular(1, &[], 9, &[], 2);
    let scalar = ArrayManifest::new(description(&[], DataType::Int16), 0, vec![section()]).unwrap();
    let whole = Region::whole(&scalar.description().shape);
    assert_eq!(scalar.chunks_of(&whole).unwrap().count(), 1);
    assert!(matches!(problem(&[], 0, vec![section(), section()]), ManifestProblem::Axis { .. }));
    assert!(matches!(problem(&[], 0, vec![]), ManifestProblem::Axis { .. }));
}

#[test]
fn decoding_keeps_files_below_the_root() {
    let array = ArrayManifest::new(description(&[4, 3], DataType::Int16), 0, vec![regular(4, &[4, 3], 0, &[0, 0], 24)]);
    let manifest = Manifest::new(vec![ObjectPath::new("a/bb.nc").unwrap()], vec![array.unwrap()], Attributes::new());
    let bytes = manifest.unwrap().encode();
    let text = b"a/bb.nc";
    let at = bytes.windows(text.len()).position(|bytes| bytes == text).unwrap();
    for path in ["../b.nc", "/a/b.nc", "a/b\0.nc", "a//b.nc"] {
        let mut other = bytes.clone();
        other[at..at + text.len()].copy_from_slice(path.as_bytes());
        let error = Manifest::decode(&other).unwrap_err();
        assert!(matches!(error, ManifestError::Path(_)), "{error}");
    }
    assert!(matches!(Manifest::decode(&[&bytes[..], &[0]].concat()), Err(ManifestError::Malformed { .. })));
    assert!(matches!(Manifest::decode(&[]), Err(ManifestError::Malformed { .. })));
    assert_eq!(Manifest::decode(&[&[1], &bytes[1..]].concat()), Err(ManifestError::Version { found: 1 }));
}

#[test]
fn names_and_files_are_compared() {
    let array = || {
        let sections = vec![regular(4, &[4, 3], 0, &[0, 0], 24)];
        ArrayManifest::new(description(&[4, 3], DataType::Int16), 0, sections).unwrap()
    };
    let twice = Manifest::new(objects(1), vec![array(), array()], Attributes::new());
    assert_eq!(twice, Err(ManifestError::DuplicateArray { name: "v".into() }));
    let nowhere = Manifest::new(objects(0), vec![array()], Attributes::new());
    assert_eq!(nowhere, Err(ManifestError::Object { name: "v".into(), object: 0, objects: 0 }));
}

#[test]
fn a_region_without_elements_is_planned() {
    let array = ArrayManifest::new(description(&[0, 1 << 61], DataType::Int64), 0, vec![]).unwrap();
    let whole = Region::whole(&array.description().shape);
    let plan = plan_region(&array, &whole, &MergeLimits::default()).unwrap();
    assert_eq!((plan.bytes(), plan.reads().len()), (0, 0));
}

#[test]
fn a_region_outside_is_an_error() {
    let sections = vec![regular(4, &[4, 3], 0, &[0, 0], 24)];
    let array = ArrayManifest::new(description(&[4, 3], DataType::Int16), 0, sections).unwrap();
    let outside = Region::new([1, 0], Shape::new([4, 3]).unwrap()).unwrap();
    let text = "the region [1:5, 0:3] is not within the array `v` of shape 4x3";
    assert_eq!(array.chunks_of(&outside).unwrap_err().to_string(), text);
}
