//! Arrays and regions of them, drawn at random, and the reading of a manifest's bytes.

use ndarray::{ArrayD, IxDyn, Slice};
use proptest::{collection::vec, prelude::*};
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::DataType,
    manifest::Manifest,
    plan::{MergeLimits, plan_region},
};

/// An element as its little-endian bytes, the last ones zero.
pub(crate) type Element = [u8; 8];

/// A small shape of 1 to 4 axes.
pub(crate) fn extents() -> impl Strategy<Value = Vec<u64>> {
    vec(1_u64..6, 1..5)
}

/// A part of an array, by two draws for each axis.
pub(crate) fn region(extents: &[u64], draws: &[(u64, u64)]) -> Region {
    let axes: Vec<(u64, u64)> = extents
        .iter()
        .zip(draws)
        .map(|(extent, (start, length))| {
            let start = start % extent.max(&1);
            (start, length % (extent - start + 1))
        })
        .collect();
    let shape = Shape::new(axes.iter().map(|axis| axis.1)).unwrap();
    Region::new(axes.iter().map(|axis| axis.0), shape).unwrap()
}

pub(crate) fn draws() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((any::<u64>(), any::<u64>()), 5)
}

/// An array whose elements differ from each other, and from those of another seed.
pub(crate) fn array(extents: &[u64], seed: u64) -> ArrayD<Element> {
    let shape: Vec<usize> = extents.iter().map(|extent| *extent as usize).collect();
    let mut state = seed;
    let element = || {
        // The constants of Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.rotate_left(32).to_le_bytes()
    };
    ArrayD::from_shape_simple_fn(IxDyn(&shape), element)
}

/// The elements of a region, in C order and native order of bytes.
pub(crate) fn expected(array: &ArrayD<Element>, region: &Region, dtype: DataType) -> Vec<u8> {
    let mut view = array.view();
    for axis in 0..region.rank() {
        let slice = Slice::from(region.start()[axis] as usize..region.end(axis) as usize);
        view.slice_axis_inplace(ndarray::Axis(axis), slice);
    }
    view.iter().flat_map(|element| native(element, dtype)).collect()
}

/// The bytes of an element in native order.
pub(crate) fn native(element: &Element, dtype: DataType) -> Vec<u8> {
    let mut bytes = element[..dtype.bytes() as usize].to_vec();
    dtype.swap_to_native(&mut bytes, rails_formats::data_type::Endianness::Little);
    bytes
}

/// The bytes of an element, the highest first.
pub(crate) fn big_endian(element: &Element, dtype: DataType) -> Vec<u8> {
    element[..dtype.bytes() as usize].iter().rev().copied().collect()
}

/// Reads a region out of files in memory.
pub(crate) fn read(
    manifest: &Manifest,
    array: &str,
    region: &Region,
    limits: &MergeLimits,
    files: &[&[u8]],
) -> Vec<u8> {
    let array = manifest.array(array).expect("the array is there");
    let plan = plan_region(array, region, limits).expect("the region lies in the array");
    let mut goal = vec![0xa5; plan.bytes() as usize];
    let read = |object: u32, offset: u64, buffer: &mut [u8]| {
        let bytes = files[object as usize].get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or("a read outside its file")?);
        Ok::<(), &str>(())
    };
    plan.read(&mut goal, read).expect("the manifest's bytes are in the files");
    goal
}

pub(crate) fn limits() -> impl Strategy<Value = MergeLimits> {
    (0_u64..200, 1_u64..2000).prop_map(|(gap, longest)| {
        MergeLimits::default().max_gap_bytes(gap).max_read_bytes(longest).max_over_read_percent(400)
    })
}
