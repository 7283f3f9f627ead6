//! Lists of blocks and regions, and their division among frames.

use crate::strategies::{region, runs};
use proptest::{collection::vec, prelude::*};
use rails_array::{BlockIndex, MAX_RANK, Region, Shape};
use rails_lambdaram::wire::{
    Handle, MAX_BLOCKS, MAX_FRAME_BYTES, MAX_REGIONS, MAX_RUNS, ReaderFrame, Run, count, runs_of, split_regions,
    split_runs,
};

fn run(first: u64, count: u32) -> Run {
    Run { first: BlockIndex(first), count }
}

fn blocks_of(runs: &[Run]) -> Vec<BlockIndex> {
    runs.iter().flat_map(|run| run.blocks()).collect()
}

#[test]
fn successive_blocks_are_one_run() {
    assert_eq!(runs_of([].map(BlockIndex)), []);
    assert_eq!(runs_of([5, 6, 6, 7, 4, 3].map(BlockIndex)), [run(5, 2), run(6, 2), run(4, 1), run(3, 1)]);
    let last = u64::MAX - 1;
    assert_eq!(runs_of([last - 1, last, 0].map(BlockIndex)), [run(last - 1, 2), run(0, 1)]);
}

#[test]
fn many_blocks_are_several_frames() {
    let runs = runs_of((3..70_003).map(BlockIndex));
    assert_eq!(runs, [run(3, 70_000)]);
    let parts: Vec<_> = split_runs(&runs).collect();
    assert_eq!(parts, [[run(3, 65_536)], [run(65_539, 4_464)]]);
    let whole = [run(0, MAX_BLOCKS as u32)];
    assert_eq!(split_runs(&whole).collect::<Vec<_>>(), [whole]);
    assert_eq!(split_runs(&[]).count(), 0);
}

#[test]
fn many_runs_are_several_frames() {
    let runs = |count: usize| (0..count as u64).map(|at| run(2 * at, 1)).collect::<Vec<_>>();
    let lengths = |count: usize| split_runs(&runs(count)).map(|part| part.len()).collect::<Vec<_>>();
    assert_eq!(lengths(MAX_RUNS), [MAX_RUNS]);
    assert_eq!(lengths(MAX_RUNS + 1), [MAX_RUNS, 1]);
}

#[test]
fn the_longest_list_of_runs_fits_a_frame() {
    // The numbers that take the largest number of bytes, with as many blocks as a list names.
    let runs: Vec<_> = (0..MAX_RUNS as u64).map(|at| run(u64::MAX - 64 - at, 64)).collect();
    assert_eq!(count(&runs), MAX_BLOCKS);
    let get = ReaderFrame::Have { handle: Handle(u32::MAX), blocks: runs, holds: true };
    assert!(get.encode().len() <= MAX_FRAME_BYTES);
    assert_eq!(ReaderFrame::decode(&get.encode()), Ok(get));
}

#[test]
fn regions_are_divided_by_their_size() {
    let small = vec![Region::new([1, 2], Shape::new([3, 4]).unwrap()).unwrap(); MAX_REGIONS + 1];
    let lengths: Vec<_> = split_regions(&small).map(<[Region]>::len).collect();
    assert_eq!(lengths, [MAX_REGIONS, 1]);
    let large = vec![Region::new([u64::MAX - 1; MAX_RANK], Shape::new([1; MAX_RANK]).unwrap()).unwrap(); 100];
    let parts: Vec<_> = split_regions(&large).collect();
    assert_eq!(parts.len(), 3);
    for part in parts {
        let intend = ReaderFrame::Intend { handle: Handle(u32::MAX), regions: part.to_vec() };
        assert_eq!(ReaderFrame::decode(&intend.encode()), Ok(intend));
    }
}

proptest! {
    #[test]
    fn runs_have_the_blocks(blocks in vec(0_u64..20, 0..50)) {
        let blocks: Vec<_> = blocks.into_iter().map(BlockIndex).collect();
        let runs = runs_of(blocks.iter().copied());
        prop_assert_eq!(count(&runs), blocks.len() as u64);
        prop_assert_eq!(blocks_of(&runs), blocks);
        prop_assert!(runs.windows(2).all(|two| two[0].first.0 + u64::from(two[0].count) != two[1].first.0));
    }

    #[test]
    fn parts_have_the_runs(mut runs in runs(), long in option_of_long()) {
        runs.extend(long);
        let parts: Vec<_> = split_runs(&runs).collect();
        prop_assert!(parts.iter().all(|part| !part.is_empty() && count(part) <= MAX_BLOCKS));
        prop_assert_eq!(blocks_of(&parts.concat()), blocks_of(&runs));
    }

    #[test]
    fn parts_have_the_regions(copies in 1_usize..200, regions in vec(region(), 0..10)) {
        let regions = vec![regions; copies].concat();
        let parts: Vec<_> = split_regions(&regions).collect();
        prop_assert_eq!(parts.concat(), regions.clone());
        for part in parts {
            let intend = ReaderFrame::Intend { handle: Handle(7), regions: part.to_vec() };
            prop_assert!(!part.is_empty() && part.len() <= MAX_REGIONS);
            prop_assert!(intend.encode().len() <= MAX_FRAME_BYTES);
        }
    }
}

fn option_of_long() -> impl Strategy<Value = Option<Run>> {
    proptest::option::of((0_u64..9, 60_000_u32..80_000).prop_map(|(first, count)| run(first, count)))
}
