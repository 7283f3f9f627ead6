//! Traces of programs that read arrays.

use crate::score::Read;
use proptest::{collection::vec, prelude::*, sample::Index};
use rails_array::{Region, Shape};
use std::collections::HashSet;

/// Reads of one array.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) array: Shape,
    pub(crate) reads: Vec<Read>,
}

/// Nested loops over a box, the innermost first.
#[derive(Debug, Clone)]
struct Loops {
    extents: Vec<u64>,
    steps: Vec<Vec<i64>>,
    counts: Vec<u64>,
    /// How far the array goes on around the boxes: before and behind them.
    margins: Vec<(u64, u64)>,
}

/// A stride along any vector, in one to five dimensions.
pub(crate) fn strides() -> impl Strategy<Value = Trace> {
    loops(1..2).prop_map(|loops| loops.trace())
}

/// Two to four nested loops, each along any vector, that read no box twice.
pub(crate) fn nests() -> impl Strategy<Value = Trace> {
    loops(2..5).prop_map(|loops| loops.trace()).prop_filter("no box is read twice", Trace::is_distinct)
}

/// A nest with a random read between one and the next, once in ten reads.
pub(crate) fn noisy() -> impl Strategy<Value = Trace> {
    let noise = vec((0_u32..10, vec(any::<Index>(), 5)), MAX_READS);
    let traces = loops(1..4).prop_map(|loops| (loops.trace(), loops));
    let traces = traces.prop_filter("no box is read twice", |(trace, _)| trace.is_distinct());
    (traces, noise).prop_map(|((trace, loops), noise)| {
        let between = |(read, (chance, starts)): (Read, (u32, Vec<Index>))| {
            let random = (chance == 0).then(|| loops.anywhere(&trace.array, &starts));
            [Some(read), random.map(|region| Read { region, counts: false })]
        };
        let reads = trace.reads.iter().cloned().zip(noise).flat_map(between).flatten().collect();
        Trace { array: trace.array, reads }
    })
}

/// An array that is read as a whole, box by box, with its axes in any order. The last boxes are
/// cut.
pub(crate) fn tiles() -> impl Strategy<Value = Trace> {
    let axis = (1_u64..12, 2_u64..=12, any::<Index>());
    let axes = vec(axis, 2..5).prop_filter("there are enough boxes", |axes: &Vec<(u64, u64, Index)>| {
        (200..4000).contains(&axes.iter().map(|axis| axis.1).product::<u64>())
    });
    (axes, any::<Index>()).prop_map(|(axes, rotation)| {
        let extents: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
        let counts: Vec<u64> = axes.iter().map(|axis| axis.1).collect();
        let array = axes.iter().map(|(extent, count, cut)| extent * count - cut.index(*extent as usize) as u64);
        let array = Shape::new(array).unwrap();
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.rotate_left(rotation.index(axes.len()));
        let learned = learned_at(&order.iter().map(|axis| counts[*axis]).collect::<Vec<_>>());
        let reads = (0..counts.iter().product::<u64>().min(MAX_READS as u64)).map(|number| {
            let mut start = vec![0; axes.len()];
            let mut rest = number;
            for axis in &order {
                start[*axis] = rest % counts[*axis] * extents[*axis];
                rest /= counts[*axis];
            }
            let shape = start
                .iter()
                .zip(array.extents())
                .zip(&extents)
                .map(|((start, end), extent)| (*extent).min(end - start));
            let shape = Shape::new(shape).unwrap();
            Read { region: Region::new(start, shape).unwrap(), counts: number >= learned }
        });
        Trace { reads: reads.collect(), array }
    })
}

/// Boxes at random places of a large array.
pub(crate) fn random() -> impl Strategy<Value = Trace> {
    (1_usize..6).prop_flat_map(|rank| {
        let extent = [100_000_u64, 1000, 100, 60, 40][rank - 1];
        let array = vec(extent..4 * extent, rank);
        (array, vec(vec(any::<Index>(), rank), 500)).prop_map(|(array, starts)| {
            let extents: Vec<u64> = array.iter().map(|extent| extent / 20).collect();
            let array = Shape::new(array).unwrap();
            let reads = starts.iter().map(|starts| Read { region: somewhere(&array, &extents, starts), counts: false });
            Trace { reads: reads.collect(), array }
        })
    })
}

/// Two to four threads that read by strides of their own, and take turns at random.
pub(crate) fn threads() -> impl Strategy<Value = Trace> {
    (2_usize..=4, 1_u64..9, vec(any::<Index>(), 600)).prop_map(|(threads, step, turns)| {
        let array = Shape::new([threads as u64 * 10_000, 70]).unwrap();
        let mut next: Vec<u64> = (0..threads as u64).map(|thread| thread * 10_000 + 17 * thread * thread).collect();
        let read = |(number, turn): (usize, &Index)| {
            let thread = turn.index(threads);
            let region = Region::new([next[thread], 10], Shape::new([step.min(3), 50]).unwrap()).unwrap();
            next[thread] += step;
            Read { region, counts: number > 60 }
        };
        Trace { reads: turns.iter().enumerate().map(read).collect(), array }
    })
}

fn loops(number: std::ops::Range<usize>) -> impl Strategy<Value = Loops> {
    (1_usize..6, number).prop_flat_map(|(rank, number)| {
        let counts = match number {
            1 => vec(200_u64..1500, 1).boxed(),
            2 => (2_u64..30).prop_map(|inner| vec![inner, 400]).boxed(),
            3 => (vec(2_u64..9, 2), 150_u64..200).prop_map(|(inner, outer)| [inner, vec![outer]].concat()).boxed(),
            _ => (vec(2_u64..6, 3), 80_u64..100).prop_map(|(inner, outer)| [inner, vec![outer]].concat()).boxed(),
        };
        let margins = vec((0_u64..50, 0_u64..50), rank);
        // The elements of arrays of five axes would be too many to count.
        let far: i64 = if rank > 3 { 3 } else { 40 };
        let step =
            vec(-far..=far, rank).prop_filter("a loop moves", |step: &Vec<i64>| step.iter().any(|step| *step != 0));
        (vec(1_u64..30, rank), vec(step, number), counts, margins).prop_map(|(extents, steps, counts, margins)| Loops {
            extents,
            steps,
            counts,
            margins,
        })
    })
}

impl Trace {
    fn is_distinct(&self) -> bool {
        let regions: HashSet<_> = self.reads.iter().map(|read| &read.region).collect();
        regions.len() == self.reads.len()
    }
}

impl Loops {
    fn trace(&self) -> Trace {
        let total = self.counts.iter().product::<u64>().min(MAX_READS as u64);
        let starts: Vec<Vec<i64>> = (0..total).map(|number| self.start(number)).collect();
        let axes = 0..self.extents.len();
        let lowest: Vec<i64> = axes.clone().map(|axis| starts.iter().map(|start| start[axis]).min().unwrap()).collect();
        let place = |start: &Vec<i64>, axis: usize| (start[axis] - lowest[axis]) as u64 + self.margins[axis].0;
        let array = axes.clone().map(|axis| {
            let last = starts.iter().map(|start| place(start, axis)).max().unwrap();
            last + self.extents[axis] + self.margins[axis].1
        });
        let learned = learned_at(&self.counts);
        let read = |(number, start): (usize, &Vec<i64>)| {
            let start = axes.clone().map(|axis| place(start, axis));
            let region = Region::new(start, Shape::new(self.extents.clone()).unwrap()).unwrap();
            Read { region, counts: number as u64 >= learned }
        };
        Trace { reads: starts.iter().enumerate().map(read).collect(), array: Shape::new(array).unwrap() }
    }

    fn start(&self, number: u64) -> Vec<i64> {
        let mut start = vec![0; self.extents.len()];
        let mut rest = number;
        for (step, count) in self.steps.iter().zip(&self.counts) {
            let index = rest % count;
            rest /= count;
            for (start, step) in start.iter_mut().zip(step) {
                *start += step * index as i64;
            }
        }
        start
    }

    fn anywhere(&self, array: &Shape, starts: &[Index]) -> Region {
        somewhere(array, &self.extents, starts)
    }
}

fn somewhere(array: &Shape, extents: &[u64], starts: &[Index]) -> Region {
    let start = array
        .extents()
        .iter()
        .zip(extents)
        .zip(starts)
        .map(|((array, extent), start)| start.index((array - extent + 1) as usize) as u64);
    Region::new(start, Shape::new(extents.iter().copied()).unwrap()).unwrap()
}

/// The first read after which a nest is known: the second one after the first wrap of each loop.
fn learned_at(counts: &[u64]) -> u64 {
    let wrapping: u64 = counts[..counts.len() - 1].iter().product();
    if counts.len() == 1 { 3 } else { wrapping + 3 }
}

const MAX_READS: usize = 1500;
