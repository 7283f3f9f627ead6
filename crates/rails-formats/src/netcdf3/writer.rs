//! Files of the format, written.

use super::header::{MAX_HEADER_BYTES, Version};
use crate::{
    data_type::DataType,
    manifest::{AttributeValue, Attributes},
};

/// A file to be written: its dimensions and variables come first, and then the elements of each
/// variable. No dimension is that of records.
///
/// The elements follow the header in the order of the variables: big-endian, in C order, and behind
/// those of each variable its [`padding`](Self::padding).
///
/// ```
/// use rails_formats::{data_type::DataType, manifest::Attributes, netcdf3::Writer};
///
/// let mut writer = Writer::new(Attributes::new());
/// let time = writer.dimension("time", 3)?;
/// let level = writer.variable("level", DataType::Int16, &[time], Attributes::new())?;
/// let mut file = writer.header()?;
/// file.extend([850_i16, 200, 100].iter().flat_map(|level| level.to_be_bytes()));
/// file.extend(vec![0; writer.padding(level)]);
/// # Ok::<(), rails_formats::netcdf3::WriteError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Writer {
    attributes: Attributes,
    dimensions: Vec<(String, u64)>,
    variables: Vec<Variable>,
}

/// An error in a file to be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A name is empty, has a slash or a control character, or is there already.
    #[error("the name `{}` is empty, there already, or none of the format's", name.escape_debug())]
    Name {
        /// The name.
        name: String,
    },
    /// A dimension has no coordinates, which the format keeps for that of records.
    #[error("the dimension `{name}` has the length 0")]
    Empty {
        /// The name.
        name: String,
    },
    /// The file has more bytes than an offset can count.
    #[error("the file has more than 2^63 bytes")]
    TooLarge,
    /// The header is longer than one that is read.
    #[error("the header has {bytes} bytes, and at most {MAX_HEADER_BYTES} are read")]
    Header {
        /// The length.
        bytes: u64,
    },
}

#[derive(Debug, Clone)]
struct Variable {
    name: String,
    dtype: DataType,
    dimensions: Vec<usize>,
    attributes: Attributes,
}

impl Writer {
    /// A file with these attributes and nothing else.
    pub fn new(attributes: Attributes) -> Self {
        Self { attributes, dimensions: Vec::new(), variables: Vec::new() }
    }

    /// Adds a dimension, and returns its number.
    ///
    /// # Errors
    /// [`WriteError::Name`] and [`WriteError::Empty`].
    pub fn dimension(&mut self, name: &str, length: u64) -> Result<usize, WriteError> {
        check_name(name, self.dimensions.iter().map(|(other, _)| other))?;
        if length == 0 {
            return Err(WriteError::Empty { name: name.into() });
        }
        self.dimensions.push((name.into(), length));
        Ok(self.dimensions.len() - 1)
    }

    /// Adds a variable over dimensions, of which the slowest one is first, and returns its number.
    ///
    /// # Errors
    /// [`WriteError::Name`].
    ///
    /// # Panics
    /// If a number is none of a dimension.
    pub fn variable(
        &mut self,
        name: &str,
        dtype: DataType,
        dimensions: &[usize],
        attributes: Attributes,
    ) -> Result<usize, WriteError> {
        check_name(name, self.variables.iter().map(|other| &other.name))?;
        assert!(
            dimensions.iter().all(|number| *number < self.dimensions.len()),
            "the dimensions of `{name}` are there"
        );
        let dimensions = dimensions.to_vec();
        self.variables.push(Variable { name: name.into(), dtype, dimensions, attributes });
        Ok(self.variables.len() - 1)
    }

    /// The header: of CDF-1 or CDF-2 where they have the types and hold the sizes, and of CDF-5
    /// otherwise.
    ///
    /// # Errors
    /// [`WriteError`], if the names of attributes are none, or the file is too large.
    pub fn header(&self) -> Result<Vec<u8>, WriteError> {
        let all_attributes = [&self.attributes].into_iter().chain(self.variables.iter().map(|other| &other.attributes));
        for name in all_attributes.flat_map(Attributes::keys) {
            check_name(name, std::iter::empty())?;
        }
        for version in [Version::Classic, Version::Offset64, Version::Data64] {
            // The length of a header does not depend on the offsets in it.
            let bytes = self.encode(version, &vec![0; self.variables.len()]).len() as u64;
            if bytes > MAX_HEADER_BYTES {
                return Err(WriteError::Header { bytes });
            }
            let begins = self.begins(bytes)?;
            if self.fits(version, &begins) {
                return Ok(self.encode(version, &begins));
            }
        }
        unreachable!("CDF-5 has all types, and numbers of 64 bits")
    }

    /// The number of bytes behind the elements of the variable of that number.
    ///
    /// # Panics
    /// If there is no such variable.
    pub fn padding(&self, variable: usize) -> usize {
        (self.bytes_of(&self.variables[variable]).unwrap_or(0).wrapping_neg() % PADDING) as usize
    }

    /// The offset at which each variable begins.
    fn begins(&self, header_bytes: u64) -> Result<Vec<u64>, WriteError> {
        let mut end = header_bytes;
        let begins = self.variables.iter().map(|variable| {
            let begin = end;
            let bytes = self.bytes_of(variable).and_then(|bytes| bytes.checked_next_multiple_of(PADDING));
            let next = bytes.and_then(|bytes| begin.checked_add(bytes));
            end = next.filter(|end| *end <= i64::MAX as u64).ok_or(WriteError::TooLarge)?;
            Ok(begin)
        });
        begins.collect()
    }

    /// The bytes of a variable without padding.
    fn bytes_of(&self, variable: &Variable) -> Option<u64> {
        let mut lengths = variable.dimensions.iter().map(|number| self.dimensions[*number].1);
        lengths.try_fold(variable.dtype.bytes(), u64::checked_mul)
    }

    fn fits(&self, version: Version, begins: &[u64]) -> bool {
        if version == Version::Data64 {
            return true;
        }
        let max_begin = if version == Version::Classic { i32::MAX as u64 } else { i64::MAX as u64 };
        let attributes = self.variables.iter().map(|variable| &variable.attributes).chain([&self.attributes]);
        let attribute_types = attributes.flat_map(Attributes::values).map(|value| parts_of(value).0);
        let mut types = self.variables.iter().map(|variable| variable.dtype).chain(attribute_types);
        types.all(|dtype| code(dtype) <= MAX_CLASSIC_CODE)
            && self.dimensions.iter().all(|(_, length)| *length <= i32::MAX as u64)
            && begins.iter().all(|begin| *begin <= max_begin)
            // Neither holds a variable of more than 4 GiB, but for the last one, of which readers disagree.
            && self.variables.iter().all(|variable| self.bytes_of(variable) <= Some(u64::from(u32::MAX) - PADDING))
    }

    fn encode(&self, version: Version, begins: &[u64]) -> Vec<u8> {
        let number = match version {
            Version::Classic => 1,
            Version::Offset64 => 2,
            Version::Data64 => 5,
        };
        let mut out = Encoder { bytes: vec![b'C', b'D', b'F', number], version };
        // There are no records.
        out.number(0);
        out.tagged(NC_DIMENSION, self.dimensions.len());
        for (name, length) in &self.dimensions {
            out.name(name);
            out.number(*length);
        }
        out.attributes(&self.attributes);
        out.tagged(NC_VARIABLE, self.variables.len());
        for (variable, begin) in self.variables.iter().zip(begins) {
            out.name(&variable.name);
            out.number(variable.dimensions.len() as u64);
            variable.dimensions.iter().for_each(|dimension| out.number(*dimension as u64));
            out.attributes(&variable.attributes);
            out.bytes.extend(code(variable.dtype).to_be_bytes());
            let bytes = self.bytes_of(variable).and_then(|bytes| bytes.checked_next_multiple_of(PADDING));
            out.number(bytes.unwrap_or(u64::MAX));
            match version {
                Version::Classic => out.bytes.extend((*begin as u32).to_be_bytes()),
                Version::Offset64 | Version::Data64 => out.bytes.extend(begin.to_be_bytes()),
            }
        }
        out.bytes
    }
}

struct Encoder {
    bytes: Vec<u8>,
    version: Version,
}

impl Encoder {
    fn attributes(&mut self, attributes: &Attributes) {
        self.tagged(NC_ATTRIBUTE, attributes.len());
        for (name, value) in attributes {
            self.name(name);
            let (dtype, bytes) = parts_of(value);
            self.bytes.extend(code(dtype).to_be_bytes());
            self.number(bytes.len() as u64 / dtype.bytes());
            let at = self.bytes.len();
            self.bytes.extend(bytes);
            self.bytes[at..].chunks_exact_mut(dtype.bytes() as usize).for_each(<[u8]>::reverse);
            self.pad();
        }
    }

    /// The tag and the length of a list; an empty one is absent.
    fn tagged(&mut self, tag: u32, count: usize) {
        self.bytes.extend(if count == 0 { 0 } else { tag }.to_be_bytes());
        self.number(count as u64);
    }

    fn name(&mut self, name: &str) {
        self.number(name.len() as u64);
        self.bytes.extend(name.as_bytes());
        self.pad();
    }

    /// A number, of which 32 bits are kept where the version has no more: one that does not fit
    /// them is in a header that is thrown away.
    fn number(&mut self, value: u64) {
        match self.version {
            Version::Data64 => self.bytes.extend(value.to_be_bytes()),
            Version::Classic | Version::Offset64 => self.bytes.extend((value as u32).to_be_bytes()),
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(PADDING as usize), 0);
    }
}

/// The type of an attribute's values, and their bytes, little-endian.
fn parts_of(value: &AttributeValue) -> (DataType, &[u8]) {
    match value {
        AttributeValue::Text(text) => (DataType::Char, text.as_bytes()),
        AttributeValue::Bytes(bytes) => (DataType::Char, bytes),
        AttributeValue::Numbers { dtype, bytes } => (*dtype, bytes),
    }
}

fn check_name<'a>(name: &str, mut others: impl Iterator<Item = &'a String>) -> Result<(), WriteError> {
    let is_none = name.is_empty() || name.contains('/') || name.chars().any(char::is_control);
    if is_none || others.any(|other| other == name) {
        return Err(WriteError::Name { name: name.into() });
    }
    Ok(())
}

fn code(dtype: DataType) -> u32 {
    match dtype {
        DataType::Int8 => 1,
        DataType::Char => 2,
        DataType::Int16 => 3,
        DataType::Int32 => 4,
        DataType::Float32 => 5,
        DataType::Float64 => 6,
        DataType::Uint8 => 7,
        DataType::Uint16 => 8,
        DataType::Uint32 => 9,
        DataType::Int64 => 10,
        DataType::Uint64 => 11,
    }
}

/// CDF-1 and CDF-2 have the types up to this one.
const MAX_CLASSIC_CODE: u32 = 6;
const NC_DIMENSION: u32 = 10;
const NC_VARIABLE: u32 = 11;
const NC_ATTRIBUTE: u32 = 12;
const PADDING: u64 = 4;
