//! Copies out of blocks against slices of `ndarray`, and their limits.

use super::{CopyError, CopyPlan, PlanError, Run, SlotRun, copy, copy_from_slots, copy_into_slots};
use crate::{BlockGrid, BlockIndex, Region, Selection, Shape};
use ndarray::{ArrayD, IxDyn, SliceInfoElem};
use proptest::{collection::vec, prelude::*};
use std::{num::NonZeroU64, ops::Range};

fn shape<const N: usize>(extents: [u64; N]) -> Shape {
    Shape::new(extents).unwrap()
}

fn region<const N: usize>(start: [u64; N], extents: [u64; N]) -> Region {
    Region::new(start, shape(extents)).unwrap()
}

fn plan(source: &Region, wanted: Region, element_bytes: u64) -> CopyPlan {
    CopyPlan::new(source, &wanted.into(), element_bytes).unwrap()
}

#[test]
fn contiguous_axes_are_one_run() {
    let array = Region::whole(&shape([64, 36, 361, 540]));
    let plane = plan(&array, region([3, 5, 0, 0], [1, 1, 361, 540]), 4);
    let bytes = 361 * 540 * 4;
    assert_eq!(plane.runs().collect::<Vec<_>>(), [Run { source: (3 * 36 + 5) * bytes, destination: 0, bytes }]);
    let levels = plan(&array, region([3, 5, 0, 0], [2, 7, 361, 540]), 4);
    assert_eq!((levels.runs().len(), levels.runs().next().unwrap().bytes), (2, 7 * bytes));
    let whole = plan(&array, array.clone(), 4);
    assert_eq!((whole.runs().len(), whole.bytes()), (1, 64 * 36 * bytes));
}

#[test]
fn loops_at_equal_distances_are_one_loop() {
    // Rows of both levels follow each other at one distance, in the source and in the destination.
    let block = Region::whole(&shape([2, 3, 8]));
    let rows = plan(&block, region([0, 0, 2], [2, 3, 4]), 1);
    assert_eq!(rows.runs().map(|run| run.source).collect::<Vec<_>>(), [2, 10, 18, 26, 34, 42]);
    assert_eq!(rows.rows().0.count, 6);
}

#[test]
fn regions_apart_have_no_runs() {
    let block = region([0, 0], [4, 4]);
    let apart = plan(&block, region([4, 0], [1, 4]), 8);
    assert_eq!((apart.runs().len(), apart.bytes(), apart.source_end(), apart.destination_end()), (0, 0, 0, 0));
    copy(&apart, &[], &mut []).unwrap();
    assert_eq!(plan(&block, region([1, 4], [2, 0]), 8), apart);
    copy_from_slots::<&[u8]>(&apart, NonZeroU64::MIN, &[], &mut []).unwrap();
}

#[test]
fn a_scalar_is_a_run() {
    let scalar = region([], []);
    let plan = plan(&scalar, scalar.clone(), 8);
    assert_eq!(plan.runs().collect::<Vec<_>>(), [Run { source: 0, destination: 0, bytes: 8 }]);
}

#[test]
fn plans_that_are_refused() {
    let block = region([0, 0], [4, 4]);
    let wanted = Selection::from(region([0, 0], [2, 2]));
    let refused = |result: Result<CopyPlan, PlanError>| result.unwrap_err().to_string();
    assert_eq!(refused(CopyPlan::new(&block, &wanted, 0)), "an element has at least one byte");
    let line = Selection::from(region([0], [2]));
    assert_eq!(refused(CopyPlan::new(&block, &line, 1)), "a selection of 1 axes does not fit a region of 2 axes");
    let strided = |strides: &[u64]| refused(CopyPlan::with_strides(&block, &wanted, 4, strides));
    assert_eq!(strided(&[4]), "1 strides do not fit a result of 2x2");
    let overlap = |stride: u64, axis: usize, span: u64| {
        format!(
            "a stride of {stride} bytes along axis {axis} of the result is shorter than what it steps over ({span} bytes)"
        )
    };
    assert_eq!(strided(&[8, 3]), overlap(3, 1, 4));
    assert_eq!(strided(&[7, 4]), overlap(7, 0, 8));
    assert_eq!(strided(&[4, 4]), overlap(4, 1, 8));
    assert!(CopyPlan::with_strides(&block, &wanted, 4, &[4, 8]).is_ok());
}

#[test]
fn plans_fit_64_bits() {
    let line = region([0], [u64::MAX / 4]);
    let ends = Selection::new(line.clone(), [u64::MAX / 4 - 1]).unwrap();
    let plan = CopyPlan::new(&line, &ends, 4).unwrap();
    assert_eq!((plan.source_end(), plan.destination_end()), (u64::MAX / 4 * 4, 8));
    assert!(matches!(CopyPlan::new(&line, &ends, 5), Err(PlanError::Bytes { .. })));
    let far = |stride| CopyPlan::with_strides(&line, &ends, 4, &[stride]);
    assert_eq!(far(u64::MAX - 4).unwrap().destination_end(), u64::MAX);
    assert!(matches!(far(u64::MAX - 3), Err(PlanError::Bytes { .. })));
    // A stride along which there is no second element may be any.
    let one = Selection::from(region([3], [1]));
    assert_eq!(CopyPlan::with_strides(&line, &one, 4, &[u64::MAX]).unwrap().destination_end(), 4);
}

#[test]
fn memory_that_is_too_short_is_refused() {
    let plan = plan(&region([0], [8]), region([2], [4]), 1);
    assert_eq!(copy(&plan, &[0; 5], &mut [0; 4]), Err(CopyError::Source { needed: 6, bytes: 5 }));
    assert_eq!(copy(&plan, &[0; 6], &mut [0; 3]), Err(CopyError::Destination { needed: 4, bytes: 3 }));
    assert_eq!(copy(&plan, &[0; 6], &mut [0; 4]), Ok(()));
    let four = NonZeroU64::new(4).unwrap();
    let from = |slots: &[&[u8]]| copy_from_slots(&plan, four, slots, &mut [0; 4]);
    assert_eq!(from(&[&[0; 3], &[0; 2]]), Err(CopyError::Slot { slot: 0, needed: 4, bytes: 3 }));
    assert_eq!(from(&[&[0; 4], &[0; 1]]), Err(CopyError::Slot { slot: 1, needed: 2, bytes: 1 }));
    assert_eq!(from(&[&[0; 4]]), Err(CopyError::Slot { slot: 1, needed: 2, bytes: 0 }));
    assert_eq!(from(&[&[0; 4], &[0; 2]]), Ok(()));
    let three = NonZeroU64::new(3).unwrap();
    let into = |slots: &mut [Vec<u8>]| copy_into_slots(&plan, &[0; 6], three, slots);
    assert_eq!(into(&mut [vec![0; 3]]), Err(CopyError::Slot { slot: 1, needed: 1, bytes: 0 }));
    assert_eq!(into(&mut [vec![0; 3], vec![0; 1]]), Ok(()));
}

#[test]
fn runs_are_cut_where_slots_meet() {
    let plan = plan(&region([0], [8]), region([1], [7]), 1);
    let runs: Vec<SlotRun> = plan.source_slot_runs(NonZeroU64::new(3).unwrap()).collect();
    let run = |slot, slot_offset, offset, bytes| SlotRun { slot, slot_offset, offset, bytes };
    assert_eq!(runs, [run(0, 1, 0, 2), run(1, 0, 2, 3), run(2, 0, 5, 2)]);
    let runs: Vec<SlotRun> = plan.destination_slot_runs(NonZeroU64::new(4).unwrap()).collect();
    assert_eq!(runs, [run(0, 0, 1, 4), run(1, 0, 5, 3)]);
}

/// One axis: extent of the array, extent of a block, beginning and extent of the grid, beginning
/// and extent of the selection, step, and whether it is an index.
#[derive(Debug, Clone)]
struct Axis {
    extent: u64,
    block: u64,
    selected: Range<u64>,
    step: u64,
    is_index: bool,
}

fn axis(max_extent: u64) -> impl Strategy<Value = Axis> {
    (1..=max_extent, 1_u64..4, 0_u64..100, 0_u64..100, 1_u64..4, proptest::bool::weighted(0.2)).prop_map(
        |(extent, block, start, end, step, is_index)| {
            let start = start % extent;
            let end = if is_index { start + 1 } else { start + 1 + end % (extent - start) };
            Axis { extent, block, selected: start..end, step: if is_index { 1 } else { step }, is_index }
        },
    )
}

/// 1 to 6 axes; the more there are, the shorter they are.
fn axes() -> impl Strategy<Value = Vec<Axis>> {
    (1_usize..=6).prop_flat_map(|rank| vec(axis([40, 12, 8, 6, 4, 3][rank - 1]), rank))
}

fn selection(axes: &[Axis]) -> Selection {
    let extents = Shape::new(axes.iter().map(|axis| axis.selected.end - axis.selected.start)).unwrap();
    let bounds = Region::new(axes.iter().map(|axis| axis.selected.start), extents).unwrap();
    let all = Selection::new(bounds, axes.iter().map(|axis| axis.step)).unwrap();
    let indices = (0..axes.len()).filter(|axis| axes[*axis].is_index);
    indices.fold(all, |selection, axis| selection.without_axis(axis).unwrap())
}

/// The bytes of the element with that number. None is zero, as bytes are that were not copied.
fn bytes_of(number: u64, element_bytes: u64) -> impl Iterator<Item = u8> {
    (0..element_bytes).map(move |byte| ((number * 31 + byte * 7 + number / 250) % 255) as u8 + 1)
}

/// The array whose elements are their own numbers.
fn numbers(axes: &[Axis]) -> ArrayD<u64> {
    let extents: Vec<usize> = axes.iter().map(|axis| axis.extent as usize).collect();
    let count: usize = extents.iter().product();
    ArrayD::from_shape_vec(IxDyn(&extents), (0..count as u64).collect()).unwrap()
}

/// The selection, by `ndarray`.
fn sliced(numbers: &ArrayD<u64>, axes: &[Axis]) -> ArrayD<u64> {
    let element = |axis: &Axis| match axis.is_index {
        true => SliceInfoElem::Index(axis.selected.start as isize),
        false => slice(axis.selected.clone(), axis.step),
    };
    numbers.slice(&axes.iter().map(element).collect::<Vec<_>>()[..]).to_owned()
}

/// The memory of a region, by `ndarray`.
fn memory(numbers: &ArrayD<u64>, region: &Region, element_bytes: u64) -> Vec<u8> {
    let slices: Vec<_> = (0..region.rank()).map(|axis| slice(region.start()[axis]..region.end(axis), 1)).collect();
    numbers.slice(&slices[..]).iter().flat_map(|number| bytes_of(*number, element_bytes)).collect()
}

fn slice(coordinates: Range<u64>, step: u64) -> SliceInfoElem {
    SliceInfoElem::Slice { start: coordinates.start as isize, end: Some(coordinates.end as isize), step: step as isize }
}

/// The memory in slots, the last of which has no byte too many.
fn in_slots(memory: &[u8], slot_bytes: NonZeroU64) -> Vec<Vec<u8>> {
    memory.chunks(slot_bytes.get() as usize).map(<[u8]>::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn blocks_make_up_ndarrays_slice(axes in axes(), element_bytes in 1_u64..10, slot_bytes in 1_u64..50) {
        let slot_bytes = NonZeroU64::new(slot_bytes).unwrap();
        let (numbers, selection) = (numbers(&axes), selection(&axes));
        let array = Region::whole(&Shape::new(axes.iter().map(|axis| axis.extent)).unwrap());
        let grid = BlockGrid::new(array, Shape::new(axes.iter().map(|axis| axis.block)).unwrap()).unwrap();
        let slice = sliced(&numbers, &axes);
        let extents: Vec<usize> = selection.shape().extents().iter().map(|extent| *extent as usize).collect();
        prop_assert_eq!(slice.shape(), &extents[..]);
        let expected: Vec<u8> = slice.iter().flat_map(|number| bytes_of(*number, element_bytes)).collect();

        let (mut copied, mut slotted) = (vec![0; expected.len()], vec![0; expected.len()]);
        let (mut scattered, mut by_runs) = (in_slots(&copied, slot_bytes), copied.clone());
        let mut bytes = 0;
        for block in grid.blocks_of_selection(&selection).unwrap() {
            let region = grid.block_region(block);
            let memory = memory(&numbers, &region, element_bytes);
            let plan = CopyPlan::new(&region, &selection, element_bytes).unwrap();
            copy(&plan, &memory, &mut copied).unwrap();
            copy_from_slots(&plan, slot_bytes, &in_slots(&memory, slot_bytes), &mut slotted).unwrap();
            copy_into_slots(&plan, &memory, slot_bytes, &mut scattered).unwrap();
            for run in plan.source_slot_runs(slot_bytes) {
                let from = run.slot * slot_bytes.get() + run.slot_offset;
                prop_assert!(run.slot_offset + run.bytes <= slot_bytes.get());
                let (from, to, bytes) = (from as usize, run.offset as usize, run.bytes as usize);
                by_runs[to..to + bytes].copy_from_slice(&memory[from..from + bytes]);
            }
            prop_assert_eq!(plan.bytes(), plan.runs().map(|run| run.bytes).sum::<u64>());
            prop_assert_eq!(plan.source_end(), plan.runs().map(|run| run.source + run.bytes).max().unwrap());
            prop_assert_eq!(plan.destination_end(), plan.runs().map(|run| run.destination + run.bytes).max().unwrap());
            bytes += plan.bytes();
        }
        prop_assert_eq!(bytes, expected.len() as u64);
        prop_assert!(copied == expected && slotted == expected);
        prop_assert!(by_runs == expected && scattered.concat() == expected);
    }

    #[test]
    fn a_destination_may_have_strides(
        axes in axes(), gaps in vec(0_u64..3, 6), order in Just([0, 1, 2, 3, 4, 5]).prop_shuffle(),
    ) {
        let (numbers, selection) = (numbers(&axes), selection(&axes));
        let (result, element_bytes) = (selection.shape(), 3);
        // The axes from the one with the shortest stride on, with gaps.
        let mut strides = vec![0; result.rank()];
        let mut span = element_bytes;
        for axis in order.into_iter().filter(|axis| *axis < result.rank()) {
            strides[axis] = span + gaps[axis];
            span += strides[axis] * (result.extents()[axis] - 1);
        }
        let array = Region::whole(&Shape::new(axes.iter().map(|axis| axis.extent)).unwrap());
        let plan = CopyPlan::with_strides(&array, &selection, element_bytes, &strides).unwrap();
        prop_assert_eq!(plan.destination_end(), span);
        let mut copied = vec![0; span as usize];
        copy(&plan, &memory(&numbers, &array, element_bytes), &mut copied).unwrap();
        let mut expected = vec![0; span as usize];
        for (place, number) in sliced(&numbers, &axes).indexed_iter() {
            let offset: u64 = (0..result.rank()).map(|axis| place[axis] as u64 * strides[axis]).sum();
            for (byte, value) in bytes_of(*number, element_bytes).enumerate() {
                expected[offset as usize + byte] = value;
            }
        }
        prop_assert_eq!(copied, expected);
    }

    #[test]
    fn chunks_fill_blocks(axes in axes(), chunk in vec(1_u64..5, 6)) {
        // A chunk of a file reaches beyond the array, and fills blocks of another shape.
        let numbers = numbers(&axes);
        let array = Shape::new(axes.iter().map(|axis| axis.extent)).unwrap();
        let chunk = Shape::new(chunk.into_iter().take(axes.len())).unwrap();
        let extents = array.extents().iter().zip(chunk.extents());
        let padded = Shape::new(extents.map(|(extent, chunk)| extent.next_multiple_of(*chunk))).unwrap();
        let chunks = BlockGrid::new(Region::whole(&padded), chunk).unwrap();
        let block = Shape::new(axes.iter().map(|axis| axis.block)).unwrap();
        let grid = BlockGrid::new(Region::whole(&array), block).unwrap();
        for block in (0..grid.block_count()).map(BlockIndex).step_by(3) {
            let region = grid.block_region(block);
            let expected = memory(&numbers, &region, 2);
            let mut filled = vec![0; expected.len()];
            for chunk in chunks.blocks_of(&region).unwrap() {
                let chunk = chunks.block_region(chunk);
                let inside = chunk.intersection(&Region::whole(&array)).unwrap();
                let mut bytes = vec![0; chunk.elements() as usize * 2];
                let strides: Vec<u64> = chunk.shape().strides().iter().map(|stride| stride * 2).collect();
                let read = CopyPlan::with_strides(&inside, &inside.clone().into(), 2, &strides).unwrap();
                copy(&read, &memory(&numbers, &inside, 2), &mut bytes).unwrap();
                copy(&plan(&chunk, region.clone(), 2), &bytes, &mut filled).unwrap();
            }
            prop_assert_eq!(filled, expected);
        }
    }
}
