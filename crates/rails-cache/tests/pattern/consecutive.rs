//! Ranks that read one after another.

use proptest::{collection::vec, prelude::*, sample::Index};
use rails_array::{Region, Shape};
use rails_cache::pattern::{JobDetector, Pattern};

/// The region that a rank reads in an iteration: the view of each rank moves to its neighbour's.
fn view(rank: u32, iteration: u64, leftwards: bool) -> Region {
    let place = if leftwards { 2000 - u64::from(rank) + iteration } else { 1000 + u64::from(rank) + iteration };
    Region::new([3, place * 10, 0], Shape::new([1, 10, 70]).unwrap()).unwrap()
}

fn array() -> Shape {
    Shape::new([9, 30_000, 70]).unwrap()
}

#[test]
fn a_rank_is_given_what_its_neighbours_hold() {
    let mut detector = JobDetector::new(&array());
    for iteration in 0..4 {
        (0..8).for_each(|rank| detector.observe(rank, &view(rank, iteration, false)));
    }
    let next = detector.predict(2, 8).next;
    let expected: Vec<_> = (3..8).map(|holder| (view(holder, 3, false), Pattern::Consecutive, Some(holder))).collect();
    let found: Vec<_> = next.iter().map(|next| (next.region.clone(), next.pattern, next.holder)).collect();
    assert_eq!(found[..5], expected[..]);
    // The last rank reads new data, and so will this one in time.
    assert_eq!(found[5], (view(7, 4, false), Pattern::Sequential, None));
}

#[test]
fn the_last_rank_is_given_new_data() {
    let mut detector = JobDetector::new(&array());
    for iteration in 0..4 {
        (0..8).for_each(|rank| detector.observe(rank, &view(rank, iteration, false)));
    }
    let next = &detector.predict(7, 8).next[0];
    assert_eq!((&next.region, next.pattern, next.holder), (&view(7, 4, false), Pattern::Sequential, None));
}

#[test]
fn a_list_goes_before_neighbours_and_names_them() {
    let mut detector = JobDetector::new(&array());
    for iteration in 0..4 {
        (0..2).for_each(|rank| detector.observe(rank, &view(rank, iteration, false)));
    }
    detector.tell(0, vec![view(5, 5, false), view(1, 3, false)]).unwrap();
    let next = detector.predict(0, 8).next;
    assert_eq!((next[0].pattern, next[0].holder), (Pattern::Apriori, None));
    assert_eq!((next[1].pattern, next[1].holder), (Pattern::Apriori, Some(1)));
}

#[test]
fn strangers_are_predicted_nothing() {
    let detector = JobDetector::new(&array());
    assert!(detector.predict(7, 8).next.is_empty());
}

#[test]
fn ranks_without_order_follow_nobody() {
    let mut detector = JobDetector::new(&array());
    for read in 0..200_u64 {
        let rank = (read % 4) as u32;
        let region =
            Region::new([read * read % 9, read * read * 7919 % 29_990, 0], Shape::new([1, 10, 70]).unwrap()).unwrap();
        detector.observe(rank, &region);
        assert!(detector.predict(rank, 8).next.iter().all(|next| next.pattern != Pattern::Consecutive));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Ranks may be ahead of each other by a few iterations, read elsewhere once in twenty reads,
    /// and pan either way.
    #[test]
    fn consecutive_reads_are_foretold(
        ranks in 2_u32..9,
        leftwards: bool,
        turns in vec((any::<Index>(), 0_u32..20, 0_u64..2900), 600),
    ) {
        let mut detector = JobDetector::new(&array());
        let mut iterations = vec![0; ranks as usize];
        let (mut reads, mut hits, mut from_neighbours) = (0, 0, 0);
        for (turn, chance, elsewhere) in turns {
            let slowest = *iterations.iter().min().unwrap();
            let may: Vec<u32> = (0..ranks).filter(|rank| iterations[*rank as usize] < slowest + 3).collect();
            let rank = may[turn.index(may.len())];
            if chance == 0 {
                detector.observe(rank, &view(0, elsewhere, leftwards));
                continue;
            }
            let region = view(rank, iterations[rank as usize], leftwards);
            let next = detector.predict(rank, 8).next;
            let hit = next.iter().find(|next| next.region == region);
            if iterations[rank as usize] > 4 {
                reads += 1;
                hits += usize::from(hit.is_some());
                from_neighbours += usize::from(hit.is_some_and(|hit| hit.holder.is_some()));
            }
            detector.observe(rank, &region);
            iterations[rank as usize] += 1;
        }
        prop_assert!(hits * 100 >= reads * 95, "{hits} of {reads}");
        prop_assert!(from_neighbours > 0);
    }
}
