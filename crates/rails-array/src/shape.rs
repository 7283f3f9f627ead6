//! Shapes: the extents of an array.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// The largest number of axes of an array.
///
/// HDF5 has the same limit (`H5S_MAX_RANK`), and so had numpy before version 2.0.
pub const MAX_RANK: usize = 32;

/// One number for each axis. Arrays mostly have at most four axes, and then it is not allocated.
pub(crate) type PerAxis = SmallVec<[u64; 4]>;

/// The extents of an array, of a region of it, or of a block.
///
/// An extent may be zero. A shape without axes is that of a scalar, which is one element. The
/// product of the extents that are not zero fits `u64`, so neither [`elements`](Self::elements) nor
/// the distance of any two elements in memory overflows.
///
/// ```
/// use rails_array::Shape;
///
/// let shape = Shape::new([64, 36, 361, 540])?;
/// assert_eq!(shape.elements(), 449_141_760);
/// assert_eq!(shape.to_string(), "64x36x361x540");
/// # Ok::<(), rails_array::ShapeError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct Shape(PerAxis);

/// An error in the extents of a shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// There are more axes than [`MAX_RANK`].
    #[error("a shape has at most {MAX_RANK} axes, and this one has more")]
    Rank,
    /// The product of the extents that are not zero does not fit 64 bits.
    #[error("the number of elements does not fit 64 bits at axis {axis}, whose extent is {extent}")]
    Elements {
        /// The first axis at which the product is too large.
        axis: usize,
        /// The extent of the axis.
        extent: u64,
    },
}

impl Shape {
    /// The shape with these extents, that of the slowest axis first.
    ///
    /// # Errors
    /// [`ShapeError`] for more axes than [`MAX_RANK`], and for more elements than `u64` counts.
    pub fn new(extents: impl IntoIterator<Item = u64>) -> Result<Self, ShapeError> {
        let mut checked = PerAxis::new();
        let mut product = 1_u64;
        for extent in extents {
            let axis = checked.len();
            if axis == MAX_RANK {
                return Err(ShapeError::Rank);
            }
            product = product.checked_mul(extent.max(1)).ok_or(ShapeError::Elements { axis, extent })?;
            checked.push(extent);
        }
        Ok(Self(checked))
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The extent of each axis.
    pub fn extents(&self) -> &[u64] {
        &self.0
    }

    /// The number of elements: 1 for a scalar, 0 if an extent is zero.
    pub fn elements(&self) -> u64 {
        self.0.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.0.contains(&0)
    }

    /// The distance in memory, in elements, of neighbours along each axis, in C order. An extent of
    /// zero counts as one.
    pub fn strides(&self) -> SmallVec<[u64; 4]> {
        let mut strides = PerAxis::from_elem(1, self.rank());
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis] * self.0[axis].max(1);
        }
        strides
    }

    /// The coordinates of the element with that number, in C order.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn coordinates_of(&self, number: u64) -> SmallVec<[u64; 4]> {
        assert!(number < self.elements(), "there is no element {number} in {self}");
        let mut rest = number;
        let coordinate = |stride: &u64| {
            let coordinate = rest / stride;
            rest %= stride;
            coordinate
        };
        self.strides().iter().map(coordinate).collect()
    }

    /// The shape whose extents are at most those of a checked one, so that they need no check.
    pub(crate) fn from_checked(extents: PerAxis) -> Self {
        debug_assert!(Self::new(extents.iter().copied()).is_ok(), "{extents:?} is within a checked shape");
        Self(extents)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        for (axis, extent) in self.0.iter().enumerate() {
            let separator = if axis == 0 { "" } else { "x" };
            write!(f, "{separator}{extent}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shape({self})")
    }
}

impl TryFrom<Vec<u64>> for Shape {
    type Error = ShapeError;

    fn try_from(extents: Vec<u64>) -> Result<Self, ShapeError> {
        Self::new(extents)
    }
}

impl From<Shape> for Vec<u64> {
    fn from(shape: Shape) -> Self {
        shape.0.into_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_scalar_is_one_element() {
        let scalar = Shape::new([]).unwrap();
        assert_eq!((scalar.rank(), scalar.elements(), scalar.is_empty()), (0, 1, false));
        assert_eq!(scalar.to_string(), "scalar");
    }

    #[test]
    fn the_rank_is_limited() {
        assert_eq!(Shape::new([1; MAX_RANK]).unwrap().rank(), MAX_RANK);
        assert_eq!(Shape::new([1; MAX_RANK + 1]), Err(ShapeError::Rank));
        assert_eq!(Shape::new(std::iter::repeat(1)), Err(ShapeError::Rank));
    }

    #[test]
    fn the_number_of_elements_fits_64_bits() {
        let largest = Shape::new([3, 5, u64::MAX / 15]).unwrap();
        assert_eq!(largest.elements(), u64::MAX);
        assert_eq!(Shape::new([2, 1 << 63]), Err(ShapeError::Elements { axis: 1, extent: 1 << 63 }));
    }

    #[test]
    fn a_zero_hides_no_overflow() {
        assert!(Shape::new([0, 1 << 32, 1 << 31]).unwrap().is_empty());
        assert!(matches!(Shape::new([0, 1 << 32, 1 << 32]), Err(ShapeError::Elements { axis: 2, .. })));
    }

    #[test]
    fn serde_checks() {
        let shape = Shape::new([2, 0, 7]).unwrap();
        let text = serde_json::to_string(&shape).unwrap();
        assert_eq!(text, "[2,0,7]");
        assert_eq!(serde_json::from_str::<Shape>(&text).unwrap(), shape);
        let error = serde_json::from_str::<Shape>("[4294967296,4294967296]").unwrap_err().to_string();
        assert!(error.contains("does not fit 64 bits at axis 1"), "{error}");
    }

    proptest! {
        #[test]
        fn elements_are_the_product(extents in proptest::collection::vec(any::<u64>(), 0..5)) {
            let mut not_zero = extents.iter().map(|extent| u128::from((*extent).max(1)));
            let product = not_zero.try_fold(1_u128, |product, extent| product.checked_mul(extent));
            let fits = product.is_some_and(|product| product <= u128::from(u64::MAX));
            let shape = Shape::new(extents.iter().copied());
            prop_assert_eq!(shape.is_ok(), fits);
            if let Ok(shape) = shape {
                let expected: u128 = extents.iter().map(|extent| u128::from(*extent)).product();
                prop_assert_eq!(u128::from(shape.elements()), expected);
                prop_assert_eq!(shape.extents(), &extents[..]);
            }
        }
    }
}
