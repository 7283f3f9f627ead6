//! The facts about an array that do not depend on the place of its chunks.

use super::attribute::Attributes;
use crate::data_type::DataType;
use rails_array::Shape;
use serde::{Deserialize, Serialize};

/// The facts about an array that do not depend on the place of its chunks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayDescription {
    /// The name.
    pub name: String,
    /// The type of the elements.
    pub dtype: DataType,
    /// The extents.
    pub shape: Shape,
    /// The name of each axis; `None` for an axis without one.
    pub dimension_names: Vec<Option<String>>,
    /// One element, little-endian: the value of elements that are not stored. `None` is unknown,
    /// and such elements are zero.
    pub fill_value: Option<Vec<u8>>,
    /// The attributes.
    pub attributes: Attributes,
}
