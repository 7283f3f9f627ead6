//! Raw binary files: one array without a header, described elsewhere.
//!
//! [`Raw`] is part of a dataset file. A file that nothing describes is an array of its bytes
//! ([`Raw::bytes`]).

use crate::{
    data_type::{DataType, Endianness},
    manifest::{
        ArrayDescription, ArrayManifest, Attributes, Manifest, ManifestError, ManifestProblem, ObjectPath, Section,
    },
};
use rails_array::Shape;
use serde::{Deserialize, Serialize};

/// The description of a raw file: its elements lie side by side in C order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// The number of bytes before the first element. Default: 0.
    #[serde(default)]
    pub offset: u64,
    /// The type of the elements.
    pub dtype: DataType,
    /// The order of the bytes of an element.
    pub endianness: Endianness,
    /// The extents of the array in one file.
    pub shape: Shape,
    /// The names of the axes. Default: no axis has a name.
    #[serde(default)]
    pub dimensions: Vec<String>,
}

/// An error in a raw file, compared with its description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The file is shorter than the array.
    #[error("the array `{name}` ends at byte {end}, and the file has {file_bytes} bytes")]
    Truncated {
        /// The name of the array.
        name: String,
        /// The end of its last element.
        end: u64,
        /// The size of the file.
        file_bytes: u64,
    },
    /// The description is no array.
    #[error("the array `{name}` is wrong")]
    Array {
        /// The name of the array.
        name: String,
        /// The cause.
        #[source]
        problem: ManifestProblem,
    },
    /// The array makes no manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Raw {
    /// The description of any file as its bytes.
    pub fn bytes(file_bytes: u64) -> Self {
        let shape = Shape::new([file_bytes]).expect("one extent is a shape");
        Self { offset: 0, dtype: DataType::Uint8, endianness: Endianness::NATIVE, shape, dimensions: Vec::new() }
    }

    /// The manifest of a file with this array, in which the file has the path `object`. Bytes
    /// behind the array are no error.
    ///
    /// # Errors
    /// [`RawError`] for a file that is shorter than the array, and for a description that is none.
    pub fn index(&self, name: &str, object: ObjectPath, file_bytes: u64) -> Result<Manifest, RawError> {
        let problem = |problem| RawError::Array { name: name.into(), problem };
        let section = Section::contiguous(&self.shape, 0, 0, self.offset, self.dtype, self.endianness);
        let names = if self.dimensions.is_empty() {
            vec![None; self.shape.rank()]
        } else {
            self.dimensions.iter().cloned().map(Some).collect()
        };
        let description = ArrayDescription {
            name: name.into(),
            dtype: self.dtype,
            shape: self.shape.clone(),
            dimension_names: names,
            fill_value: None,
            attributes: Attributes::new(),
        };
        let array = ArrayManifest::new(description, 0, vec![section]).map_err(problem)?;
        match array.sections()[0].regular_end(array.description(), 0) {
            Some(end) if end > file_bytes => Err(RawError::Truncated { name: name.into(), end, file_bytes }),
            _ => Ok(Manifest::new(vec![object], vec![array], Attributes::new())?),
        }
    }
}
