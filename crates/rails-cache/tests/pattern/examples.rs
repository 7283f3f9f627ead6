//! Traces of programs, read by read.

use rails_array::{Region, Shape};
use rails_cache::pattern::{Detector, MAX_PREDICTIONS, Pattern};

fn region<const N: usize>(start: [u64; N], extents: [u64; N]) -> Region {
    Region::new(start, Shape::new(extents).unwrap()).unwrap()
}

fn after<const N: usize>(array: [u64; N], extents: [u64; N], starts: &[[u64; N]]) -> Detector {
    let mut detector = Detector::new(&Shape::new(array).unwrap());
    starts.iter().for_each(|start| detector.observe(&region(*start, extents)));
    detector
}

fn next(detector: &Detector, max: usize) -> Vec<Region> {
    detector.predict(max).next.into_iter().map(|next| next.region).collect()
}

#[test]
fn two_equal_steps_make_a_stride() {
    let (array, extents) = ([64, 300, 500], [1, 100, 150]);
    assert!(next(&after(array, extents, &[[3, 9, 9], [6, 9, 9]]), 8).is_empty());
    let detector = after(array, extents, &[[3, 9, 9], [6, 9, 9], [9, 9, 9]]);
    assert_eq!(next(&detector, 1), [region([12, 9, 9], extents)]);
    assert_eq!(detector.pattern(), Pattern::Stride);
    assert_eq!(after(array, extents, &[[3, 9, 9], [4, 9, 9], [5, 9, 9]]).pattern(), Pattern::Sequential);
}

#[test]
fn a_few_reads_foretell_a_few() {
    let detector = after([100], [1], &[[0], [1], [2]]);
    assert_eq!(next(&detector, 8).len(), 2);
    let detector = after([100], [1], &[[0], [1], [2], [3], [4]]);
    assert_eq!(next(&detector, 8).len(), 8);
}

#[test]
fn predictions_end_at_the_edge_of_the_array() {
    let detector = after([95], [10], &[[40], [50], [60], [70]]);
    assert_eq!(next(&detector, 8), [region([80], [10]), region([90], [5])]);
    let detector = after([95], [10], &[[65], [45], [25]]);
    assert_eq!(next(&detector, 8), [region([5], [10])]);
}

#[test]
fn a_halo_is_cut_at_both_edges() {
    // Boxes of 10 with one element more on each side.
    let boxes: Vec<(u64, u64)> =
        (0..5_u64).map(|tile| ((tile * 10).saturating_sub(1), (tile * 10 + 11).min(50))).collect();
    let halo = |row: u64, tile: usize| region([row, boxes[tile].0], [1, boxes[tile].1 - boxes[tile].0]);
    let mut detector = Detector::new(&Shape::new([30, 50]).unwrap());
    for (row, tiles) in [(0, 5), (1, 5), (2, 4)] {
        (0..tiles).for_each(|tile| detector.observe(&halo(row, tile)));
    }
    assert_eq!(next(&detector, 3), [halo(2, 4), halo(3, 0), halo(3, 1)]);
}

#[test]
fn rows_of_levels_of_times_are_a_nest() {
    let mut detector = Detector::new(&Shape::new([64, 36, 361, 540]).unwrap());
    let row = |number: u64| region([number / 500, 7 + number / 100 % 5 * 3, 200 + number % 100, 40], [1, 1, 1, 150]);
    let mut missed = Vec::new();
    for number in 0..2000 {
        if next(&detector, 1) != [row(number)] {
            missed.push(number);
        }
        detector.observe(&row(number));
    }
    // The beginning, the end of the first level, and that of the first time step.
    assert_eq!(missed, [0, 1, 2, 100, 101, 500, 501]);
    assert_eq!(detector.pattern(), Pattern::Nest);
    // The next level, and the next time step.
    let ahead = next(&detector, 256);
    assert!(ahead.contains(&row(2100)));
}

#[test]
fn two_levels_are_a_nest() {
    let mut detector = Detector::new(&Shape::new([64, 36, 361]).unwrap());
    let plane = |number: u64| region([number / 2, [9, 30][number as usize % 2], 0], [1, 1, 361]);
    (0..7).for_each(|number| detector.observe(&plane(number)));
    assert_eq!(next(&detector, 3), [plane(7), plane(8), plane(9)]);
}

#[test]
fn uneven_levels_are_streams() {
    let mut detector = Detector::new(&Shape::new([64, 36, 361]).unwrap());
    let plane = |number: u64| region([number / 3, [9, 12, 30][number as usize % 3], 0], [1, 1, 361]);
    (0..30).for_each(|number| detector.observe(&plane(number)));
    assert_eq!(next(&detector, 4), [plane(30), plane(31), plane(32), plane(33)]);
}

#[test]
fn loops_that_begin_again_are_foretold() {
    let mut detector = Detector::new(&Shape::new([100]).unwrap());
    let element = |number: u64| region([number % 10 * 7], [3]);
    (0..25).for_each(|number| detector.observe(&element(number)));
    assert_eq!(next(&detector, 8), (25..33).map(element).collect::<Vec<_>>());
    // There are nine others.
    assert_eq!(next(&detector, 20).len(), 9);
}

#[test]
fn adjoining_boxes_may_differ_in_size() {
    let mut detector = Detector::new(&Shape::new([1000]).unwrap());
    let mut at = 0;
    for size in [10, 30, 20, 50, 10] {
        detector.observe(&region([at], [size]));
        at += size;
    }
    assert_eq!(next(&detector, 1), [region([120], [10])]);
    assert_eq!(detector.pattern(), Pattern::Sequential);
}

#[test]
fn runs_of_growing_length_are_followed() {
    let mut detector = Detector::new(&Shape::new([100, 100]).unwrap());
    let (mut hits, mut reads) = (0, 0);
    for row in 2..40 {
        for column in 0..=row {
            reads += 1;
            hits += usize::from(next(&detector, 8).contains(&region([row, column], [1, 1])));
            detector.observe(&region([row, column], [1, 1]));
        }
    }
    assert!(hits * 100 >= reads * 90, "{hits} of {reads}");
}

#[test]
fn a_repeated_read_changes_no_stride() {
    let mut detector = Detector::new(&Shape::new([100]).unwrap());
    for start in [0, 0, 4, 4, 4, 8, 8] {
        detector.observe(&region([start], [2]));
    }
    assert_eq!(next(&detector, 1), [region([12], [2])]);
}

#[test]
fn misses_lower_the_confidence() {
    let mut detector = after([10_000], [1], &[[0], [1], [2], [3], [4], [5], [6], [7]]);
    assert_eq!(detector.predict(1).confidence.halvings(), 0);
    for (start, halvings) in [(5017, 0), (9126, 1), (3239, 1), (7544, 2)] {
        detector.observe(&region([start], [1]));
        assert_eq!(detector.predict(1).confidence.halvings(), halvings);
    }
    for (start, halvings) in [(8, 2), (9, 2), (10, 2), (11, 0)] {
        detector.observe(&region([start], [1]));
        assert_eq!(detector.predict(1).confidence.halvings(), halvings);
    }
}

#[test]
fn a_stream_that_ends_is_foretold_no_longer() {
    let mut detector = after([10_000], [1], &[[0], [1], [2], [3], [4], [5], [6], [7], [8], [9]]);
    let elsewhere = |number: u64| region([5000 + number * number * 13], [1]);
    (0..16).for_each(|number| detector.observe(&elsewhere(number)));
    assert!(!next(&detector, 1).is_empty());
    detector.observe(&elsewhere(16));
    assert!(next(&detector, 1).is_empty());
    assert_eq!(detector.pattern(), Pattern::Random);
}

#[test]
fn a_list_is_foretold_through_skips() {
    let mut detector = Detector::new(&Shape::new([1000]).unwrap());
    let element = |number: u64| region([number * 37 % 997], [1]);
    detector.tell((0..100).map(element).collect()).unwrap();
    assert_eq!(next(&detector, 2), [element(0), element(1)]);
    for number in [0, 1, 4, 5, 9] {
        detector.observe(&element(number));
    }
    detector.observe(&region([998], [1]));
    assert_eq!(next(&detector, 2), [element(10), element(11)]);
    assert_eq!(detector.pattern(), Pattern::Apriori);
}

#[test]
fn a_moving_view_has_neighbours() {
    let mut detector = Detector::new(&Shape::new([1000, 1000]).unwrap());
    for (y, x) in [(500, 500), (502, 507), (505, 512), (505, 519), (507, 526), (512, 530)] {
        detector.observe(&region([y, x], [10, 10]));
    }
    let predictions = detector.predict(8);
    assert!(predictions.next.iter().all(|next| next.pattern == Pattern::Neighbourhood));
    assert_eq!(predictions.next.len(), 8);
    assert!(predictions.next[0].region.start()[0] >= 512 && predictions.next[0].region.start()[1] >= 530);
}

#[test]
fn predictions_are_limited() {
    let starts: Vec<[u64; 1]> = (0..20).map(|start| [start]).collect();
    let detector = after([1 << 40], [1], &starts);
    assert_eq!(next(&detector, usize::MAX).len(), MAX_PREDICTIONS);
    assert!(next(&detector, 0).is_empty());
}

#[test]
fn what_no_pattern_holds_is_ignored() {
    let mut detector = Detector::new(&Shape::new([]).unwrap());
    (0..9).for_each(|_| detector.observe(&region([], [])));
    assert!(next(&detector, 8).is_empty());
    let mut detector = after([100], [1], &[[0], [1], [2], [3]]);
    let before = detector.clone();
    for foreign in [region([100], [1]), region([4], [0])] {
        detector.observe(&foreign);
    }
    detector.observe(&region([4, 4], [1, 1]));
    assert_eq!(detector, before);
}
