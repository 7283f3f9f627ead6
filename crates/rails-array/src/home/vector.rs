//! The choice of a vector: the slot of a partition at `p` is `(a . p) mod n`, and `a` decides how
//! evenly a box of partitions is spread over the slots.

use crate::shape::{PerAxis, Shape};

/// The vector that spreads typical boxes best of those that are tried, and among equals the one
/// that spreads lines best.
///
/// If `a` counts the partitions of a box in order, as strides do in memory, then the box has slots
/// that follow each other, wherever it lies: each slot as often as any other, or once less. Every
/// order of the axes is such a vector. They are tried for each typical box, or for all partitions,
/// if none is given.
///
/// If all slots are alike, because `is_uniform`, they need not follow each other. Then the vectors
/// `(..., g^2, g, 1)` are tried, too (Korobov's lattices), and the best one so far with other steps
/// along each axis, which may suit several boxes at once.
pub(super) fn choose(slots: u64, is_uniform: bool, partitions: &Shape, typical: &[Shape]) -> PerAxis {
    let clipped = |shape: &Shape| -> PerAxis {
        shape.extents().iter().zip(partitions.extents()).map(|(extent, count)| *extent.min(count).max(&1)).collect()
    };
    let whole = clipped(partitions);
    let typical: Vec<PerAxis> = typical.iter().map(clipped).collect();
    let counted = if typical.is_empty() { std::slice::from_ref(&whole) } else { &typical[..] };
    let score = |vector: &PerAxis| {
        let boxes: u128 = typical.iter().map(|extents| unevenness(slots, vector, extents)).sum();
        (boxes, lines(&whole).map(|line| unevenness(slots, vector, &line)).sum::<u128>())
    };
    let in_order = counted.iter().flat_map(|extents| counting(slots, extents));
    if is_uniform {
        let best = in_order.chain(lattices(slots, partitions.rank())).min_by_key(score);
        with_other_steps(slots, best.expect("an order of the axes exists"), score)
    } else {
        in_order.min_by_key(score).expect("an order of the axes exists")
    }
}

/// The vector, with the best step along one axis after the other.
fn with_other_steps(slots: u64, mut best: PerAxis, score: impl Fn(&PerAxis) -> (u128, u128)) -> PerAxis {
    let mut lowest = score(&best);
    for axis in 0..best.len() {
        for step in tried(slots) {
            let mut vector = best.clone();
            vector[axis] = step;
            let score = score(&vector);
            if score < lowest {
                (best, lowest) = (vector, score);
            }
        }
    }
    best
}

/// The vectors that count the partitions of a box, for some orders of the axes.
fn counting(slots: u64, extents: &[u64]) -> impl Iterator<Item = PerAxis> {
    orders(extents.len()).map(move |order| {
        let mut vector = PerAxis::from_elem(0, extents.len());
        let mut stride = 1 % slots;
        for axis in order {
            vector[axis] = stride;
            stride = stride * (extents[axis] % slots) % slots;
        }
        vector
    })
}

/// Orders of the axes, the fastest first: all of up to four axes, and the rotations of more.
fn orders(rank: usize) -> impl Iterator<Item = Vec<usize>> {
    let count = if rank <= 4 { (1..=rank).product() } else { rank };
    (0..count).map(move |number| {
        let mut left: Vec<usize> = (0..rank).rev().collect();
        let mut number = number;
        if rank > 4 {
            left.rotate_left(number);
            return left;
        }
        // The digits of the number, to changing bases, choose among the axes that are left.
        (1..=rank)
            .rev()
            .map(|base| {
                let axis = left.remove(number % base);
                number /= base;
                axis
            })
            .collect()
    })
}

fn lattices(slots: u64, rank: usize) -> impl Iterator<Item = PerAxis> {
    tried(slots).map(move |generator| {
        let mut power = 1 % slots;
        let mut vector = PerAxis::new();
        for _ in 0..rank {
            vector.push(power);
            power = power * generator % slots;
        }
        vector.reverse();
        vector
    })
}

/// The steps and generators that are tried: all of up to 256 slots, and evenly chosen ones of more,
/// the fewer the longer each takes.
fn tried(slots: u64) -> impl Iterator<Item = u64> {
    let count = ((1 << 16) / slots).clamp(8, 256);
    (1..slots).step_by(slots.div_ceil(count) as usize)
}

/// Lines along each axis, which are as long as there are partitions.
fn lines(extents: &[u64]) -> impl Iterator<Item = PerAxis> {
    (0..extents.len()).map(|axis| {
        let mut line = PerAxis::from_elem(1, extents.len());
        line[axis] = extents[axis];
        line
    })
}

/// How much more often than its share the box has one slot than another, in thousandths of the
/// share: 0 if each slot is there as often as any other, or once less.
fn unevenness(slots: u64, vector: &[u64], extents: &[u64]) -> u128 {
    let mut counts = vec![0_u64; slots as usize];
    counts[0] = 1;
    for (step, extent) in vector.iter().zip(extents).filter(|(_, extent)| **extent > 1) {
        counts = repeated(&counts, *step as usize, *extent);
    }
    let (max, min) = (counts.iter().max().copied().unwrap_or(0), counts.iter().min().copied().unwrap_or(0));
    let elements: u64 = extents.iter().product();
    let (floor, ceiling) = (elements / slots, elements.div_ceil(slots));
    u128::from((max - ceiling) + (floor - min)) * 1000 / u128::from(ceiling)
}

/// The sum of `times` copies of the counts, of which each is moved by `step` slots more.
fn repeated(counts: &[u64], step: usize, times: u64) -> Vec<u64> {
    let slots = counts.len();
    let mut sums = vec![0; slots];
    let mut is_done = vec![false; slots];
    for start in 0..slots {
        if is_done[start] {
            continue;
        }
        // The slots that are reached from here by steps, in order. Copies that go round add to all of
        // them alike, the others to as many that follow each other.
        let orbit: Vec<usize> = orbit(start, step, slots).collect();
        let length = orbit.len();
        let rounds = times / length as u64 * orbit.iter().map(|slot| counts[*slot]).sum::<u64>();
        let rest = (times % length as u64) as usize;
        let mut window: u64 = (0..rest).map(|back| counts[orbit[(length - back) % length]]).sum();
        for at in 0..length {
            sums[orbit[at]] = rounds + window;
            is_done[orbit[at]] = true;
            window += counts[orbit[(at + 1) % length]];
            window -= counts[orbit[(at + 1 + length - rest) % length]];
        }
    }
    sums
}

fn orbit(start: usize, step: usize, slots: usize) -> impl Iterator<Item = usize> {
    let next = move |slot: &usize| Some((slot + step) % slots).filter(|slot| *slot != start);
    std::iter::successors(Some(start), next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn orders_are_permutations() {
        for (rank, expected) in [(0, 1), (1, 1), (3, 6), (4, 24), (6, 6)] {
            let mut orders: Vec<Vec<usize>> = orders(rank).collect();
            assert_eq!(orders[0], (0..rank).rev().collect::<Vec<_>>());
            orders.sort();
            orders.dedup();
            assert_eq!(orders.len(), expected);
            assert!(orders.iter().all(|order| (0..rank).all(|axis| order.contains(&axis))));
        }
    }

    proptest! {
        #[test]
        fn copies_add_up(counts in vec(0_u64..5, 1..12), step in 0_usize..12, times in 1_u64..40) {
            let slots = counts.len();
            let mut expected = vec![0; slots];
            for copy in 0..times as usize {
                for (slot, count) in counts.iter().enumerate() {
                    expected[(slot + copy * (step % slots)) % slots] += count;
                }
            }
            prop_assert_eq!(repeated(&counts, step % slots, times), expected);
        }
    }
}
