//! Properties that hold after any reads.

use proptest::{collection::vec, prelude::*};
use rails_array::{Region, Shape};
use rails_cache::pattern::{Detector, JobDetector, Prediction};
use std::collections::HashSet;

/// Reads of a small array, where everything overlaps and repeats: runs of steps, so that patterns
/// come and go, and reads that are none of the array.
fn reads() -> impl Strategy<Value = (Shape, Vec<Region>)> {
    (1_usize..5).prop_flat_map(|rank| {
        let run = (vec(0_u64..12, rank), vec(1_u64..5, rank), vec(0_u64..4, rank), 1_usize..9);
        (vec(1_u64..20, rank), vec(run, 1..30)).prop_map(|(array, runs)| {
            let run = |(start, extents, step, length): (Vec<u64>, Vec<u64>, Vec<u64>, usize)| {
                (0..length as u64).map(move |number| {
                    let start = start.iter().zip(&step).map(|(start, step)| start + step * number);
                    Region::new(start, Shape::new(extents.iter().copied()).unwrap()).unwrap()
                })
            };
            (Shape::new(array).unwrap(), runs.into_iter().flat_map(run).collect())
        })
    })
}

fn check<'a>(
    array: &Shape,
    last: Option<&Region>,
    max: usize,
    regions: impl ExactSizeIterator<Item = &'a Region>,
) -> Result<(), TestCaseError> {
    prop_assert!(regions.len() <= max);
    let mut known = HashSet::new();
    for region in regions {
        prop_assert!(region.is_within(array) && !region.is_empty(), "{region} of {array}");
        prop_assert!(last != Some(region), "{region} was just read");
        prop_assert!(known.insert(region), "{region} comes twice");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn predictions_are_sound((array, reads) in reads(), max in 0_usize..12, told in 0_usize..20) {
        let mut detector = Detector::new(&array);
        let mut last = None;
        for (number, read) in reads.iter().enumerate() {
            if number == told {
                let list = reads.iter().filter(|read| read.is_within(&array)).take(20).cloned().collect();
                prop_assert_eq!(detector.tell(list), Ok(()));
            }
            detector.observe(read);
            last = if read.is_within(&array) { Some(read) } else { last };
            let predictions = detector.predict(max);
            check(&array, last, max, predictions.next.iter().map(|next: &Prediction| &next.region))?;
        }
    }

    #[test]
    fn predictions_of_jobs_are_sound((array, reads) in reads(), ranks in vec(0_u32..4, 300)) {
        let mut detector = JobDetector::new(&array);
        let mut last = [None; 4];
        let mut read_by = HashSet::new();
        for (read, rank) in reads.iter().zip(ranks) {
            detector.observe(rank, read);
            last[rank as usize] = if read.is_within(&array) { Some(read) } else { last[rank as usize] };
            read_by.insert((rank, read));
            for rank in 0..4 {
                let next = detector.predict(rank, 8).next;
                check(&array, last[rank as usize], 8, next.iter().map(|next| &next.region))?;
                let is_held = |holder| read_by.contains(&(holder, &next.iter().find(|each| each.holder == Some(holder)).unwrap().region));
                prop_assert!(next.iter().filter_map(|each| each.holder).all(|holder| holder != rank && is_held(holder)));
            }
        }
    }

    #[test]
    fn any_coordinates_are_taken(array in any::<u64>(), reads in vec((any::<u64>(), any::<u64>()), 30), steps in vec(any::<u64>(), 3)) {
        let array = Shape::new([array]).unwrap();
        let mut detector = Detector::new(&array);
        let strides = steps.iter().flat_map(|step| (0..9).map(move |number| (step.saturating_mul(number), step % 7)));
        for (start, extent) in reads.into_iter().chain(strides) {
            if let Ok(region) = Region::new([start], Shape::new([extent]).unwrap()) {
                detector.observe(&region);
                check(&array, Some(&region).filter(|region| region.is_within(&array)), 3, detector.predict(3).next.iter().map(|next| &next.region))?;
            }
        }
    }
}
