//! Stretches of elements that lie side by side in a chunk and in the memory that they go to.

use rails_array::Region;

/// Elements that lie side by side at both places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The number of the first element in the chunk.
    pub from: u64,
    /// The number of the first element at the goal.
    pub to: u64,
    /// The number of elements.
    pub elements: u64,
}

/// The runs of a box of elements that is part of a chunk and of a goal, in C order.
#[derive(Debug, Clone)]
pub struct Runs {
    /// The distances of neighbours in the chunk and at the goal, for each axis that is walked.
    steps: Vec<Step>,
    from: u64,
    to: u64,
    elements: u64,
    is_done: bool,
}

#[derive(Debug, Clone)]
struct Step {
    count: u64,
    at: u64,
    from: u64,
    to: u64,
}

impl Runs {
    /// The runs of `wanted`, which is a part of a chunk and of a goal.
    ///
    /// # Panics
    /// If `wanted` does not lie in the chunk and in the goal.
    pub fn new(chunk: &Region, wanted: &Region, goal: &Region) -> Self {
        let within = wanted.relative_to(chunk.start()).expect("the wanted part lies in its chunk");
        let to = wanted.relative_to(goal.start()).expect("the wanted part lies in its goal");
        let (chunk, goal) = (chunk.shape(), goal.shape());
        assert!(within.is_within(chunk) && to.is_within(goal), "{wanted} lies in a chunk and a goal");
        let (from_strides, to_strides) = (chunk.strides(), goal.strides());
        let first = |start: &[u64], strides: &[u64]| start.iter().zip(strides).map(|(at, stride)| at * stride).sum();
        // From the last axis on: a whole axis at both places makes one run of its neighbours.
        let extents = within.shape().extents();
        let (mut elements, mut axis) = (1, extents.len());
        while axis > 0 {
            axis -= 1;
            elements *= extents[axis];
            if extents[axis] != chunk.extents()[axis] || extents[axis] != goal.extents()[axis] {
                break;
            }
        }
        let step = |axis: usize| Step { count: extents[axis], at: 0, from: from_strides[axis], to: to_strides[axis] };
        Self {
            steps: (0..axis).map(step).collect(),
            from: first(within.start(), &from_strides),
            to: first(to.start(), &to_strides),
            elements,
            is_done: within.is_empty(),
        }
    }
}

impl Iterator for Runs {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.is_done {
            return None;
        }
        let run = Run { from: self.from, to: self.to, elements: self.elements };
        self.is_done = true;
        for step in self.steps.iter_mut().rev() {
            if step.at + 1 < step.count {
                step.at += 1;
                self.from += step.from;
                self.to += step.to;
                self.is_done = false;
                break;
            }
            self.from -= step.at * step.from;
            self.to -= step.at * step.to;
            step.at = 0;
        }
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{array::uniform5, collection::vec, prelude::*};
    use rails_array::Shape;

    fn region<const N: usize>(start: [u64; N], extents: [u64; N]) -> Region {
        Region::new(start, Shape::new(extents).unwrap()).unwrap()
    }

    #[test]
    fn whole_axes_make_one_run() {
        let chunk = region([0, 0, 0], [4, 5, 6]);
        let slab = region([1, 0, 0], [2, 5, 6]);
        let runs: Vec<Run> = Runs::new(&chunk, &slab, &slab).collect();
        assert_eq!(runs, [Run { from: 30, to: 0, elements: 60 }]);
        let rows = region([1, 2, 0], [1, 2, 6]);
        assert_eq!(Runs::new(&chunk, &rows, &rows).count(), 1);
        let columns = region([0, 0, 5], [4, 5, 1]);
        assert_eq!(Runs::new(&chunk, &columns, &columns).count(), 20);
    }

    proptest! {
        #[test]
        fn runs_are_the_box(axes in vec(uniform5(0_u64..4), 0..4)) {
            let boxed = |pick: fn(&[u64; 5]) -> (u64, u64)| {
                let shape = Shape::new(axes.iter().map(|axis| pick(axis).1)).unwrap();
                Region::new(axes.iter().map(|axis| pick(axis).0), shape).unwrap()
            };
            let wanted = boxed(|axis| (3, axis[1]));
            let chunk = boxed(|axis| (3 - axis[0], axis[0] + axis[1] + axis[2]));
            let goal = boxed(|axis| (3 - axis[3], axis[3] + axis[1] + axis[4]));
            let copied: Vec<(u64, u64)> = Runs::new(&chunk, &wanted, &goal)
                .flat_map(|run| (0..run.elements).map(move |at| (run.from + at, run.to + at)))
                .collect();
            // Every element of the box in C order, by its coordinates.
            let number = |within: &Region, at: &[u64]| -> u64 {
                let axes = within.shape().strides().into_iter().zip(within.start()).zip(at);
                axes.map(|((stride, start), at)| (3 + at - start) * stride).sum()
            };
            let extents = wanted.shape().extents().to_vec();
            let expected: Vec<(u64, u64)> = (0..wanted.elements())
                .map(|mut element| {
                    let mut at = vec![0; extents.len()];
                    for axis in (0..extents.len()).rev() {
                        (at[axis], element) = (element % extents[axis], element / extents[axis]);
                    }
                    (number(&chunk, &at), number(&goal, &at))
                })
                .collect();
            prop_assert_eq!(copied, expected);
        }
    }
}
