//! Differences between an array in two files.

use crate::{
    data_type::DataType,
    manifest::{ArrayDescription, AttributeValue, Attributes},
};

/// A difference between an array in two files.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// The type of the elements.
    #[error("its type is {found} and not {expected}")]
    DataType {
        /// The type in this file.
        found: DataType,
        /// The type in the first file.
        expected: DataType,
    },
    /// The names or the number of the axes.
    #[error("its axes are {found:?} and not {expected:?}")]
    Dimensions {
        /// The names in this file.
        found: Vec<String>,
        /// The names in the first file.
        expected: Vec<String>,
    },
    /// The extent of an axis other than that of the files.
    #[error("its extent on axis {axis} is {found} and not {expected}")]
    Extent {
        /// The axis.
        axis: usize,
        /// The extent in this file.
        found: u64,
        /// The extent in the first file.
        expected: u64,
    },
    /// An attribute that gives elements their meaning, such as `scale_factor`.
    #[error("its attribute `{name}` is {found:?} and not {expected:?}")]
    Attribute {
        /// The name of the attribute.
        name: &'static str,
        /// The attribute in this file.
        found: Option<AttributeValue>,
        /// The attribute in the first file.
        expected: Option<AttributeValue>,
    },
    /// The fill value.
    #[error("its fill value is {found:02x?} and not {expected:02x?}, little-endian")]
    FillValue {
        /// The fill value in this file.
        found: Option<Vec<u8>>,
        /// The fill value in the first file.
        expected: Option<Vec<u8>>,
    },
}

/// The difference of an array from that in the first file, apart from the extent of the axis.
pub(super) fn difference(found: &ArrayDescription, expected: &ArrayDescription, along: usize) -> Option<Difference> {
    if found.dtype != expected.dtype {
        return Some(Difference::DataType { found: found.dtype, expected: expected.dtype });
    }
    if found.dimension_names != expected.dimension_names {
        return Some(Difference::Dimensions { found: names(found), expected: names(expected) });
    }
    let mut extents = found.shape.extents().iter().zip(expected.shape.extents()).enumerate();
    if let Some((axis, (found, expected))) =
        extents.find(|(axis, (found, expected))| *axis != along && found != expected)
    {
        return Some(Difference::Extent { axis, found: *found, expected: *expected });
    }
    if let Some(difference) = attribute_difference(&found.attributes, &expected.attributes) {
        return Some(difference);
    }
    let fills = (found.fill_value.clone(), expected.fill_value.clone());
    (fills.0 != fills.1).then_some(Difference::FillValue { found: fills.0, expected: fills.1 })
}

/// The first difference between attributes without which elements cannot be compared.
pub(super) fn attribute_difference(found: &Attributes, expected: &Attributes) -> Option<Difference> {
    let name = MEANING.into_iter().find(|name| found.get(*name) != expected.get(*name))?;
    let of = |attributes: &Attributes| attributes.get(name).cloned();
    Some(Difference::Attribute { name, found: of(found), expected: of(expected) })
}

/// The names of the axes, of which those without one are empty.
pub(super) fn names(array: &ArrayDescription) -> Vec<String> {
    array.dimension_names.iter().map(|name| name.clone().unwrap_or_default()).collect()
}

/// The attributes without which elements of two files cannot be compared (CF conventions, chapters
/// 2.5, 3.1, 4.4 and 8.1; `_Unsigned` is that of the NetCDF Users Guide).
const MEANING: [&str; 6] = ["_Unsigned", "add_offset", "calendar", "missing_value", "scale_factor", "units"];
