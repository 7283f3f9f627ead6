//! Files of the format, written.

use super::header::{MAGIC, MAX_HEADER_BYTES, TYPES, VERSION};
use crate::data_type::{DataType, Endianness};

/// A file to be written: dimensions and variables first, and then the records.
///
/// ```
/// use rails_formats::{
///     data_type::DataType,
///     map_binary::{Layout, Writer},
/// };
///
/// let mut writer = Writer::new(Layout::Interleaved);
/// let time = writer.dimension("time", "h", &[0.0, 6.0])?;
/// let level = writer.dimension("level", "hPa", &[850.0, 200.0, 100.0])?;
/// let wind = writer.variable("U", "m/s", DataType::Float32, &[time, level], None)?;
/// let mut file = writer.header()?;
/// for step in 0..2 {
///     let record: Vec<u8> = (0..3).flat_map(|level| (step as f32 + level as f32).to_ne_bytes()).collect();
///     file.extend(writer.record(wind, &record)?);
/// }
/// # Ok::<(), rails_formats::map_binary::WriteError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Writer {
    layout: Layout,
    dimensions: Vec<Dimension>,
    attributes: Vec<(String, String)>,
    variables: Vec<Variable>,
}

/// The order of the records in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All records of the first variable, then all of the second, and so on.
    VariableByVariable,
    /// The first record of each variable, then the second one of each, and so on. All variables
    /// have the same first dimension then.
    Interleaved,
}

/// An error in a file to be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A name is empty, or there already.
    #[error("the name `{name}` is empty, or there already")]
    Name {
        /// The name.
        name: String,
    },
    /// A text is longer than the format allows.
    #[error("a text of {bytes} bytes is longer than 65535")]
    Text {
        /// The number of bytes.
        bytes: usize,
    },
    /// A list is longer than the format allows.
    #[error("{count} {list} are more than {max}")]
    Count {
        /// The list.
        list: &'static str,
        /// The number of entries.
        count: usize,
        /// The largest number.
        max: usize,
    },
    /// The format has no such type.
    #[error("the variable `{name}` is of {dtype}, which the format has not")]
    Type {
        /// The variable.
        name: String,
        /// The type.
        dtype: DataType,
    },
    /// A missing value is not one element.
    #[error("a missing value of {bytes} bytes is not one {dtype}")]
    Missing {
        /// The number of bytes.
        bytes: usize,
        /// The type of the variable.
        dtype: DataType,
    },
    /// Interleaved variables have different first dimensions.
    #[error("the variable `{name}` has another first dimension than `{first}`, and records are interleaved")]
    FirstDimension {
        /// The variable.
        name: String,
        /// The first variable.
        first: String,
    },
    /// The header or the file is too large.
    #[error("the file is larger than the format allows")]
    TooLarge,
    /// A record has another length than its elements.
    #[error("a record of `{name}` has {bytes} bytes, and its elements take {expected}")]
    Record {
        /// The variable.
        name: String,
        /// The number of bytes.
        bytes: usize,
        /// The length of the elements.
        expected: u64,
    },
}

#[derive(Debug, Clone)]
struct Dimension {
    name: String,
    unit: String,
    coordinates: Vec<f64>,
}

#[derive(Debug, Clone)]
struct Variable {
    name: String,
    unit: String,
    dtype: DataType,
    axes: Vec<usize>,
    /// Big-endian.
    missing: Option<Vec<u8>>,
}

impl Writer {
    /// An empty file.
    pub fn new(layout: Layout) -> Self {
        Self { layout, dimensions: Vec::new(), attributes: Vec::new(), variables: Vec::new() }
    }

    /// Adds a dimension with a coordinate for each step, and returns its number.
    ///
    /// # Errors
    /// [`WriteError`] for a name that is there, and for more than 32 dimensions.
    pub fn dimension(&mut self, name: &str, unit: &str, coordinates: &[f64]) -> Result<usize, WriteError> {
        self.check_name(name, unit)?;
        check_count("dimensions", self.dimensions.len() + 1, rails_array::MAX_RANK)?;
        self.dimensions.push(Dimension { name: name.into(), unit: unit.into(), coordinates: coordinates.into() });
        Ok(self.dimensions.len() - 1)
    }

    /// Adds an attribute of the file.
    ///
    /// # Errors
    /// [`WriteError`] for a name that is empty or there, and for texts longer than 65535 bytes.
    pub fn attribute(&mut self, name: &str, value: &str) -> Result<(), WriteError> {
        check_text(name)?;
        check_text(value)?;
        if name.is_empty() || self.attributes.iter().any(|(other, _)| other == name) {
            return Err(WriteError::Name { name: name.into() });
        }
        self.attributes.push((name.into(), value.into()));
        Ok(())
    }

    /// Adds a variable over dimensions, of which the slowest one is first, and returns its number.
    /// `missing` is the value of elements without data, in this machine's order of bytes.
    ///
    /// # Errors
    /// [`WriteError`] for a name that is there, for a type that the format has not, and for axes
    /// that do not fit.
    ///
    /// # Panics
    /// If an axis is not the number of a dimension.
    pub fn variable(
        &mut self,
        name: &str,
        unit: &str,
        dtype: DataType,
        axes: &[usize],
        missing: Option<&[u8]>,
    ) -> Result<usize, WriteError> {
        self.check_name(name, unit)?;
        assert!(axes.iter().all(|axis| *axis < self.dimensions.len()), "{axes:?} are numbers of dimensions");
        if !TYPES.contains(&dtype) {
            return Err(WriteError::Type { name: name.into(), dtype });
        }
        if axes.is_empty() || axes.len() > rails_array::MAX_RANK {
            return Err(WriteError::Count { list: "axes", count: axes.len(), max: rails_array::MAX_RANK });
        }
        if let Some(first) = self.variables.first()
            && self.layout == Layout::Interleaved
            && first.axes[0] != axes[0]
        {
            return Err(WriteError::FirstDimension { name: name.into(), first: first.name.clone() });
        }
        if let Some(missing) = missing.filter(|missing| missing.len() as u64 != dtype.bytes()) {
            return Err(WriteError::Missing { bytes: missing.len(), dtype });
        }
        let missing = missing.map(|missing| big_endian(missing, dtype));
        self.variables.push(Variable { name: name.into(), unit: unit.into(), dtype, axes: axes.into(), missing });
        Ok(self.variables.len() - 1)
    }

    /// The header. The records follow it in the order of the layout.
    ///
    /// # Errors
    /// [`WriteError::TooLarge`] for a header of more than 16 MiB, and for a file of more than 2^64
    /// bytes.
    pub fn header(&self) -> Result<Vec<u8>, WriteError> {
        // The length of the header does not depend on the offsets in it.
        let bytes = self.header_at(0)?.len() as u64;
        if bytes > MAX_HEADER_BYTES {
            return Err(WriteError::TooLarge);
        }
        self.header_at(bytes)
    }

    /// A record of a variable as it is written; `elements` are in this machine's order of bytes.
    ///
    /// # Errors
    /// [`WriteError::Record`] for a record of another length.
    ///
    /// # Panics
    /// If `variable` is not the number of a variable.
    pub fn record(&self, variable: usize, elements: &[u8]) -> Result<Vec<u8>, WriteError> {
        let expected = self.record_bytes(&self.variables[variable])?;
        let Variable { name, dtype, .. } = &self.variables[variable];
        if elements.len() as u64 != expected {
            return Err(WriteError::Record { name: name.clone(), bytes: elements.len(), expected });
        }
        Ok(big_endian(elements, *dtype))
    }

    fn header_at(&self, bytes: u64) -> Result<Vec<u8>, WriteError> {
        let mut out = MAGIC.to_vec();
        for number in [VERSION as usize, bytes as usize, self.dimensions.len(), self.attributes.len()] {
            out.extend((number as u32).to_be_bytes());
        }
        out.extend((self.variables.len() as u32).to_be_bytes());
        for dimension in &self.dimensions {
            text(&mut out, &dimension.name);
            text(&mut out, &dimension.unit);
            out.extend((dimension.coordinates.len() as u64).to_be_bytes());
            out.extend(dimension.coordinates.iter().flat_map(|coordinate| coordinate.to_be_bytes()));
        }
        for (name, value) in &self.attributes {
            text(&mut out, name);
            text(&mut out, value);
        }
        let strides =
            self.variables.iter().map(|variable| self.record_bytes(variable)).collect::<Result<Vec<_>, _>>()?;
        let all = strides.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes)).ok_or(WriteError::TooLarge)?;
        let mut next = bytes;
        for (variable, record) in self.variables.iter().zip(strides) {
            let stride = if self.layout == Layout::Interleaved { all } else { record };
            variable.write(&mut out, next, stride);
            let records = self.dimensions[variable.axes[0]].coordinates.len() as u64;
            let step = if self.layout == Layout::Interleaved { Some(record) } else { record.checked_mul(records) };
            next = step.and_then(|step| next.checked_add(step)).ok_or(WriteError::TooLarge)?;
        }
        Ok(out)
    }

    /// The length of a variable's record.
    fn record_bytes(&self, variable: &Variable) -> Result<u64, WriteError> {
        let mut lengths = variable.axes[1..].iter().map(|axis| self.dimensions[*axis].coordinates.len() as u64);
        lengths.try_fold(variable.dtype.bytes(), |bytes, length| bytes.checked_mul(length)).ok_or(WriteError::TooLarge)
    }

    fn check_name(&self, name: &str, unit: &str) -> Result<(), WriteError> {
        check_text(name)?;
        check_text(unit)?;
        let dimensions = self.dimensions.iter().map(|dimension| &dimension.name);
        let mut names = dimensions.chain(self.variables.iter().map(|variable| &variable.name));
        if name.is_empty() || names.any(|other| other == name) {
            return Err(WriteError::Name { name: name.into() });
        }
        Ok(())
    }
}

impl Variable {
    fn write(&self, out: &mut Vec<u8>, first_record: u64, record_stride: u64) {
        text(out, &self.name);
        text(out, &self.unit);
        let code = TYPES.iter().position(|dtype| *dtype == self.dtype).expect("the type was checked");
        out.extend([code as u8 + 1, u8::from(self.missing.is_some())]);
        let missing = self.missing.as_deref().unwrap_or_default();
        out.resize(out.len() + 8 - missing.len(), 0);
        out.extend(missing);
        out.push(self.axes.len() as u8);
        out.extend(self.axes.iter().flat_map(|axis| (*axis as u16).to_be_bytes()));
        out.extend(first_record.to_be_bytes());
        out.extend(record_stride.to_be_bytes());
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

fn check_text(text: &str) -> Result<(), WriteError> {
    if text.len() > u16::MAX.into() { Err(WriteError::Text { bytes: text.len() }) } else { Ok(()) }
}

fn check_count(list: &'static str, count: usize, max: usize) -> Result<(), WriteError> {
    if count > max { Err(WriteError::Count { list, count, max }) } else { Ok(()) }
}

fn big_endian(elements: &[u8], dtype: DataType) -> Vec<u8> {
    let mut elements = elements.to_vec();
    // Swapping is its own inverse.
    dtype.swap_to_native(&mut elements, Endianness::Big);
    elements
}
