//! Boxes that may reach over the edges of an array.

use rails_array::{Region, Shape};
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut};

/// One signed number for each axis.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Vector(SmallVec<[i64; 4]>);

impl Vector {
    pub(crate) fn zero(rank: usize) -> Self {
        Self(SmallVec::from_elem(0, rank))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.iter().all(|number| *number == 0)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.with(other, i64::saturating_add)
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.with(other, i64::saturating_sub)
    }

    /// The larger number of each axis.
    pub(crate) fn larger(&self, other: &Self) -> Self {
        self.with(other, i64::max)
    }

    /// The sum of the distances along each axis.
    pub(crate) fn distance(&self, other: &Self) -> u64 {
        self.iter().zip(other.iter()).fold(0, |sum, (one, other)| sum.saturating_add(one.abs_diff(*other)))
    }

    fn with(&self, other: &Self, join: impl Fn(i64, i64) -> i64) -> Self {
        let mut joined = self.clone();
        joined.iter_mut().zip(other.iter()).for_each(|(one, other)| *one = join(*one, *other));
        joined
    }
}

impl Clone for Vector {
    /// Copies the numbers as a whole; [`SmallVec`] clones them one by one.
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Deref for Vector {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        &self.0
    }
}

impl DerefMut for Vector {
    fn deref_mut(&mut self) -> &mut [i64] {
        &mut self.0
    }
}

impl FromIterator<i64> for Vector {
    fn from_iter<I: IntoIterator<Item = i64>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

/// A read as a box with signed coordinates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    pub(crate) start: Vector,
    pub(crate) extents: Vector,
}

/// One number for each axis, as regions have them.
type Coordinates = SmallVec<[u64; 4]>;

/// The edges of an array, which cut the boxes that reach over them.
///
/// A reader whose last box is cut has a step and an extent that go on over the edge. So a loop is
/// kept with its whole box, and compared with reads by the part inside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Edges(Vector);

impl Edges {
    pub(crate) fn new(array: &Shape) -> Self {
        Self(array.extents().iter().map(|extent| signed(*extent)).collect())
    }

    /// A read as a window; `None` if it is none of this array, has no element, or lies behind
    /// [`MAX_COORDINATE`].
    pub(crate) fn window(&self, read: &Region) -> Option<Window> {
        if read.rank() != self.0.len() || read.rank() == 0 || read.is_empty() {
            return None;
        }
        let inside = self.0.iter().enumerate().all(|(axis, extent)| read.end(axis) <= *extent as u64);
        inside.then(|| Window {
            start: read.start().iter().map(|start| signed(*start)).collect(),
            extents: read.shape().extents().iter().map(|extent| signed(*extent)).collect(),
        })
    }

    /// The part of a box inside the array.
    pub(crate) fn cut(&self, start: &Vector, extents: &Vector) -> Option<Region> {
        let mut cut = (Coordinates::new(), Coordinates::new());
        for axis in 0..self.0.len() {
            let (first, end) = self.cut_axis(axis, start[axis], extents[axis]);
            if first >= end {
                return None;
            }
            cut.0.push(first as u64);
            cut.1.push((end - first) as u64);
        }
        let shape = Shape::new(cut.1).expect("a shape within that of an array has no more elements than it");
        Some(Region::new(cut.0, shape).expect("a box within an array ends where its coordinates fit"))
    }

    /// The part of a box inside the array, by the shape of the box where no edge cuts it: regions
    /// are made fastest of a shape that is there.
    pub(crate) fn cut_known(&self, start: &Vector, extents: &Vector, shape: &Shape) -> Option<Region> {
        let is_whole =
            (0..self.0.len()).all(|axis| start[axis] >= 0 && start[axis].saturating_add(extents[axis]) <= self.0[axis]);
        if !is_whole {
            return self.cut(start, extents);
        }
        let region = Region::new(start.iter().map(|start| *start as u64), shape.clone());
        Some(region.expect("a box within an array ends where its coordinates fit"))
    }

    /// Whether a box has an element inside the array.
    pub(crate) fn reaches(&self, start: &Vector, extents: &Vector) -> bool {
        (0..self.0.len()).all(|axis| {
            let (first, end) = self.cut_axis(axis, start[axis], extents[axis]);
            first < end
        })
    }

    /// Whether the part of a box inside the array is that read.
    pub(crate) fn shows(&self, start: &Vector, extents: &Vector, read: &Window) -> bool {
        (0..self.0.len()).all(|axis| {
            let (first, end) = self.cut_axis(axis, start[axis], extents[axis]);
            first == read.start[axis] && end - first == read.extents[axis]
        })
    }

    fn cut_axis(&self, axis: usize, start: i64, extent: i64) -> (i64, i64) {
        (start.max(0), start.saturating_add(extent).min(self.0[axis]))
    }
}

fn signed(coordinate: u64) -> i64 {
    coordinate.min(MAX_COORDINATE) as i64
}

/// The largest coordinate that is foretold. The sum of a few smaller ones fits `i64`.
const MAX_COORDINATE: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn vector<const N: usize>(numbers: [i64; N]) -> Vector {
        numbers.into_iter().collect()
    }

    fn region<const N: usize>(start: [u64; N], extents: [u64; N]) -> Region {
        Region::new(start, Shape::new(extents).unwrap()).unwrap()
    }

    #[test]
    fn a_box_is_cut_on_both_sides() {
        let edges = Edges::new(&Shape::new([10, 20]).unwrap());
        assert_eq!(edges.cut(&vector([-3, 15]), &vector([5, 9])), Some(region([0, 15], [2, 5])));
        assert_eq!(edges.cut(&vector([-5, 15]), &vector([5, 9])), None);
        assert_eq!(edges.cut(&vector([3, 20]), &vector([5, 9])), None);
        let read = edges.window(&region([0, 15], [2, 5])).unwrap();
        assert!(edges.shows(&vector([-3, 15]), &vector([5, 9]), &read));
        assert!(!edges.shows(&vector([-3, 15]), &vector([4, 9]), &read));
        assert!(!edges.shows(&vector([-2, 14]), &vector([4, 9]), &read));
    }

    #[test]
    fn reads_of_another_array_are_no_windows() {
        let edges = Edges::new(&Shape::new([10, 20]).unwrap());
        assert!(edges.window(&region([0, 0], [10, 20])).is_some());
        assert!(edges.window(&region([0, 0], [11, 20])).is_none());
        assert!(edges.window(&region([0], [10])).is_none());
        assert!(edges.window(&region([0, 0], [0, 20])).is_none());
        assert!(Edges::new(&Shape::new([]).unwrap()).window(&region([], [])).is_none());
    }

    #[test]
    fn coordinates_are_limited() {
        let edges = Edges::new(&Shape::new([u64::MAX]).unwrap());
        assert!(edges.window(&region([MAX_COORDINATE - 1], [1])).is_some());
        assert!(edges.window(&region([MAX_COORDINATE], [1])).is_none());
        assert!(edges.window(&region([0], [u64::MAX])).is_none());
    }
}
