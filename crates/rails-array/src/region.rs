//! Regions: boxes of elements of an array.

use crate::shape::{MAX_RANK, PerAxis, Shape};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A box of elements: a start and a shape.
///
/// A region may lie anywhere; [`is_within`](Self::is_within) compares it with an array. The end of
/// every axis fits `u64`. A region without elements has a place all the same.
///
/// Two regions of different rank have nothing in common: none contains the other, and they do not
/// intersect.
///
/// ```
/// use rails_array::{Region, Shape};
///
/// let array = Shape::new([64, 361, 540])?;
/// let basin = Region::new([0, 100, 200], Shape::new([64, 100, 150])?)?;
/// assert!(basin.is_within(&array));
/// assert_eq!(basin.to_string(), "[0:64, 100:200, 200:350]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedRegion", into = "UncheckedRegion")]
pub struct Region {
    start: PerAxis,
    shape: Shape,
}

/// An error in the numbers of a region.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The number of coordinates is not that of the axes.
    #[error("{coordinates} coordinates do not fit a shape of {rank} axes ({shape})")]
    Rank {
        /// The number of coordinates.
        coordinates: usize,
        /// The number of axes.
        rank: usize,
        /// The shape.
        shape: Shape,
    },
    /// The end of an axis does not fit 64 bits.
    #[error("the end of axis {axis} does not fit 64 bits: it starts at {start} and extends over {extent}")]
    End {
        /// The axis.
        axis: usize,
        /// The start of the axis.
        start: u64,
        /// The extent of the axis.
        extent: u64,
    },
    /// The region begins before the origin that it is to be counted from.
    #[error("axis {axis} starts at {start}, before the origin {origin}")]
    BeforeOrigin {
        /// The axis.
        axis: usize,
        /// The start of the axis.
        start: u64,
        /// The origin's coordinate.
        origin: u64,
    },
}

impl Region {
    /// The box of that shape that begins at `start`.
    ///
    /// # Errors
    /// [`RegionError::Rank`] if `start` has not one coordinate for each axis, [`RegionError::End`]
    /// if start and extent of an axis add to more than `u64` holds.
    pub fn new(start: impl IntoIterator<Item = u64>, shape: Shape) -> Result<Self, RegionError> {
        // One more than fits is enough to see that there are too many.
        let start: PerAxis = start.into_iter().take(MAX_RANK + 1).collect();
        check_rank(&start, &shape)?;
        for (axis, (start, extent)) in start.iter().zip(shape.extents()).enumerate() {
            if start.checked_add(*extent).is_none() {
                return Err(RegionError::End { axis, start: *start, extent: *extent });
            }
        }
        Ok(Self { start, shape })
    }

    /// All elements of an array of that shape.
    pub fn whole(shape: &Shape) -> Self {
        Self { start: PerAxis::from_elem(0, shape.rank()), shape: shape.clone() }
    }

    /// The first coordinate of each axis.
    pub fn start(&self) -> &[u64] {
        &self.start
    }

    /// The extents.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The coordinate behind the last one of an axis.
    ///
    /// # Panics
    /// If there is no such axis.
    pub fn end(&self, axis: usize) -> u64 {
        self.start[axis] + self.shape.extents()[axis]
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.elements()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.shape.is_empty()
    }

    /// Whether an element with these coordinates is in the region.
    pub fn contains_element(&self, coordinates: &[u64]) -> bool {
        coordinates.len() == self.rank()
            && coordinates.iter().enumerate().all(|(axis, at)| (self.start[axis]..self.end(axis)).contains(at))
    }

    /// Whether `other` lies between start and end of this region on every axis, which is asked of
    /// an empty one, too.
    pub fn contains(&self, other: &Self) -> bool {
        self.rank() == other.rank()
            && (0..self.rank()).all(|axis| self.start[axis] <= other.start[axis] && other.end(axis) <= self.end(axis))
    }

    /// The elements of both regions; `None` if there is none.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        if self.rank() != other.rank() {
            return None;
        }
        let (mut start, mut extents) = (PerAxis::new(), PerAxis::new());
        for axis in 0..self.rank() {
            let first = self.start[axis].max(other.start[axis]);
            let end = self.end(axis).min(other.end(axis));
            if first >= end {
                return None;
            }
            start.push(first);
            extents.push(end - first);
        }
        Some(Self::from_checked(start, Shape::from_checked(extents)))
    }

    /// Whether an array of that shape has all of the region. An empty region has to lie inside,
    /// too.
    pub fn is_within(&self, array: &Shape) -> bool {
        self.rank() == array.rank() && (0..self.rank()).all(|axis| self.end(axis) <= array.extents()[axis])
    }

    /// The region further away from the origin by so much on each axis.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn translated(&self, by: &[u64]) -> Result<Self, RegionError> {
        check_rank(by, &self.shape)?;
        let mut start = self.start.clone();
        for (axis, (start, by)) in start.iter_mut().zip(by).enumerate() {
            let extent = self.shape.extents()[axis];
            *start = start.checked_add(*by).ok_or(RegionError::End { axis, start: *start, extent })?;
        }
        Self::new(start, self.shape.clone())
    }

    /// The region with its coordinates counted from `origin`: the inverse of
    /// [`translated`](Self::translated).
    ///
    /// # Errors
    /// [`RegionError::Rank`] if `origin` has not one coordinate for each axis,
    /// [`RegionError::BeforeOrigin`] if the region begins before it.
    pub fn relative_to(&self, origin: &[u64]) -> Result<Self, RegionError> {
        check_rank(origin, &self.shape)?;
        let mut start = self.start.clone();
        for (axis, (start, origin)) in start.iter_mut().zip(origin).enumerate() {
            let before = RegionError::BeforeOrigin { axis, start: *start, origin: *origin };
            *start = start.checked_sub(*origin).ok_or(before)?;
        }
        Ok(Self { start, shape: self.shape.clone() })
    }

    /// The region that lies in a checked one, so that it needs no check.
    pub(crate) fn from_checked(start: PerAxis, shape: Shape) -> Self {
        debug_assert!(Self::new(start.iter().copied(), shape.clone()).is_ok(), "{start:?} + {shape} is checked");
        Self { start, shape }
    }
}

impl fmt::Display for Region {
    /// In the syntax of slices.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (axis, start) in self.start.iter().enumerate() {
            let separator = if axis == 0 { "" } else { ", " };
            write!(f, "{separator}{start}:{}", self.end(axis))?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region{self}")
    }
}

/// A region as it is written, before its numbers are checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedRegion {
    start: Vec<u64>,
    shape: Shape,
}

impl TryFrom<UncheckedRegion> for Region {
    type Error = RegionError;

    fn try_from(unchecked: UncheckedRegion) -> Result<Self, RegionError> {
        Self::new(unchecked.start, unchecked.shape)
    }
}

impl From<Region> for UncheckedRegion {
    fn from(region: Region) -> Self {
        Self { start: region.start.into_vec(), shape: region.shape }
    }
}

fn check_rank(coordinates: &[u64], shape: &Shape) -> Result<(), RegionError> {
    if coordinates.len() == shape.rank() {
        return Ok(());
    }
    Err(RegionError::Rank { coordinates: coordinates.len(), rank: shape.rank(), shape: shape.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn region<const N: usize>(start: [u64; N], extents: [u64; N]) -> Region {
        Region::new(start, Shape::new(extents).unwrap()).unwrap()
    }

    #[test]
    fn ends_fit_64_bits() {
        let extent = Shape::new([7]).unwrap();
        assert_eq!(Region::new([u64::MAX - 7], extent.clone()).unwrap().end(0), u64::MAX);
        let error = RegionError::End { axis: 0, start: u64::MAX - 6, extent: 7 };
        assert_eq!(Region::new([u64::MAX - 6], extent), Err(error));
    }

    #[test]
    fn ranks_differ_by_error() {
        let plane = Shape::new([3, 4]).unwrap();
        let error = Region::new([1], plane.clone()).unwrap_err();
        assert_eq!(error.to_string(), "1 coordinates do not fit a shape of 2 axes (3x4)");
        assert!(Region::new(std::iter::repeat(0), plane).is_err());
        let line = region([0], [9]);
        let square = region([0, 0], [9, 9]);
        assert!(!square.contains(&line) && line.intersection(&square).is_none());
        assert!(!line.is_within(square.shape()) && !square.contains_element(&[1]));
        assert!(line.translated(&[1, 1]).is_err() && line.relative_to(&[]).is_err());
    }

    #[test]
    fn an_empty_region_has_a_place() {
        let empty = region([9, 0], [0, 4]);
        assert!(empty.is_empty());
        assert!(empty.is_within(&Shape::new([9, 4]).unwrap()));
        assert!(!empty.is_within(&Shape::new([8, 4]).unwrap()));
        assert_eq!(empty.intersection(&empty), None);
    }

    #[test]
    fn a_scalar_is_a_region() {
        let scalar = region([], []);
        assert_eq!(scalar.intersection(&scalar).as_ref(), Some(&scalar));
        assert!(scalar.contains_element(&[]) && scalar.contains(&scalar));
        assert_eq!(scalar.to_string(), "[]");
    }

    #[test]
    fn serde_checks() {
        let basin = region([0, 100], [64, 150]);
        let text = serde_json::to_string(&basin).unwrap();
        assert_eq!(text, r#"{"start":[0,100],"shape":[64,150]}"#);
        assert_eq!(serde_json::from_str::<Region>(&text).unwrap(), basin);
        let error = serde_json::from_str::<Region>(r#"{"start":[0],"shape":[64,150]}"#).unwrap_err().to_string();
        assert!(error.contains("1 coordinates do not fit"), "{error}");
    }

    /// Two regions of one rank, small enough to look at each of their elements.
    fn pairs() -> impl Strategy<Value = (Region, Region)> {
        let axis = || (0_u64..5, 0_u64..5, 0_u64..5, 0_u64..5);
        vec(axis(), 0..4).prop_map(|axes| {
            let shape = |extents: Vec<u64>| Shape::new(extents).unwrap();
            let one = shape(axes.iter().map(|axis| axis.1).collect());
            let other = shape(axes.iter().map(|axis| axis.3).collect());
            let one = Region::new(axes.iter().map(|axis| axis.0), one).unwrap();
            (one, Region::new(axes.iter().map(|axis| axis.2), other).unwrap())
        })
    }

    /// Every place that a region of [`pairs`] reaches.
    fn places(rank: usize) -> impl Iterator<Item = Vec<u64>> {
        (0..9_u64.pow(rank as u32))
            .map(move |number| (0..rank as u32).map(|axis| number / 9_u64.pow(axis) % 9).collect())
    }

    proptest! {
        #[test]
        fn an_intersection_is_of_both((one, other) in pairs()) {
            let both = one.intersection(&other);
            for place in places(one.rank()) {
                let expected = one.contains_element(&place) && other.contains_element(&place);
                prop_assert_eq!(both.as_ref().is_some_and(|both| both.contains_element(&place)), expected);
            }
            if let Some(both) = both {
                prop_assert!(one.contains(&both) && other.contains(&both) && !both.is_empty());
            }
        }

        #[test]
        fn a_contained_region_has_no_other_element((one, other) in pairs()) {
            let is_only_in_other = |place: &Vec<u64>| !one.contains_element(place) && other.contains_element(place);
            if one.contains(&other) || !other.is_empty() {
                let is_contained = places(one.rank()).filter(is_only_in_other).count() == 0;
                prop_assert_eq!(one.contains(&other), is_contained);
            }
        }

        #[test]
        fn moving_there_and_back((one, other) in pairs()) {
            let moved = one.translated(other.start()).unwrap();
            prop_assert_eq!(moved.relative_to(other.start()).unwrap(), one);
        }
    }
}
