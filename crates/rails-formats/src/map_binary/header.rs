//! The header, read.

use crate::{
    data_type::DataType,
    header::{
        HeaderError, HeaderProblem, Step,
        cursor::{Cursor, Parse, Stop, answer},
    },
};
use rails_array::MAX_RANK;
use std::collections::{BTreeMap, HashSet};

/// The longest header, in bytes. While it is parsed, a header takes up to fifteen times as much
/// memory, which many short attributes do.
pub const MAX_HEADER_BYTES: u64 = 16 << 20;

/// The header of a file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Header {
    /// The length of the header in bytes.
    pub bytes: u64,
    /// The dimensions.
    pub dimensions: Vec<Dimension>,
    /// The attributes.
    pub attributes: BTreeMap<String, String>,
    /// The variables.
    pub variables: Vec<Variable>,
}

/// A dimension and its coordinates.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Dimension {
    /// The name.
    pub name: String,
    /// The unit of the coordinates.
    pub unit: String,
    /// One coordinate for each step.
    pub coordinates: Vec<f64>,
    /// The offset in the file of the first coordinate.
    pub offset: u64,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// The name.
    pub name: String,
    /// The unit of the elements.
    pub unit: String,
    /// The type of the elements.
    pub dtype: DataType,
    /// The value of elements without data, big-endian.
    pub missing: Option<Vec<u8>>,
    /// The numbers of the dimensions, that of the slowest one first.
    pub axes: Vec<usize>,
    /// The offset in the file of the first record.
    pub first_record: u64,
    /// The distance of neighbouring records in bytes.
    pub record_stride: u64,
}

impl Header {
    /// Reads a header from `prefix`, the first bytes of a file that has `file_bytes`.
    ///
    /// # Errors
    /// [`HeaderError`] names the first wrong field. A header longer than [`MAX_HEADER_BYTES`] is
    /// one.
    pub fn parse(prefix: &[u8], file_bytes: u64) -> Result<Step<Self>, HeaderError> {
        answer(parse(prefix, file_bytes), prefix, file_bytes, MAX_HEADER_BYTES)
    }
}

fn parse(prefix: &[u8], file_bytes: u64) -> Result<Header, Stop> {
    let mut cursor = Cursor::new(prefix, file_bytes, MAX_HEADER_BYTES);
    let magic = cursor.take("magic", MAGIC.len() as u64)?;
    if magic != MAGIC {
        return Err(cursor.wrong_before(MAGIC.len(), "magic", HeaderProblem::Magic));
    }
    let version = cursor.u32("version")?;
    if version != VERSION {
        return Err(cursor.wrong_before(4, "version", HeaderProblem::Version { found: version }));
    }
    let bytes = cursor.u32("header bytes")?.into();
    let field = "header bytes";
    if bytes > MAX_HEADER_BYTES {
        return Err(cursor.wrong_before(4, field, HeaderProblem::TooLong { max_bytes: MAX_HEADER_BYTES }));
    }
    if bytes > file_bytes {
        return Err(cursor.wrong_before(4, field, HeaderProblem::Truncated { end: bytes, file_bytes }));
    }
    let mut parser = Parser { cursor, names: HashSet::new() };
    let (dimensions, attributes, variables) = parser.counts()?;
    let dimensions = parser.list("dimension", dimensions, Parser::dimension)?;
    let attributes = parser.attributes(attributes)?;
    let variables = parser.list("variable", variables, |parser| parser.variable(&dimensions))?;
    if parser.cursor.offset() > bytes {
        let problem = HeaderProblem::Length { stated: bytes, end: parser.cursor.offset() };
        return Err(parser.cursor.wrong_at(MAGIC.len() + 4, field, problem));
    }
    Ok(Header { bytes, dimensions, attributes, variables })
}

/// A cursor, and the names of the arrays so far.
struct Parser<'a> {
    cursor: Cursor<'a>,
    names: HashSet<String>,
}

impl<'a> Parse<'a> for Parser<'a> {
    fn cursor(&mut self) -> &mut Cursor<'a> {
        &mut self.cursor
    }
}

impl Parser<'_> {
    /// Reads the lengths of the three lists.
    fn counts(&mut self) -> Result<(u64, u64, u64), Stop> {
        let mut count = |field, min_bytes, max: u64| {
            let count = self.cursor.u32(field)?.into();
            if count > max {
                return Err(self.cursor.wrong_before(4, field, HeaderProblem::Count { count, max }));
            }
            self.cursor.check_count(field, count, min_bytes)?;
            Ok(count)
        };
        let dimensions = count("dimensions", MIN_DIMENSION_BYTES, MAX_RANK as u64)?;
        let attributes = count("attributes", MIN_ATTRIBUTE_BYTES, u64::MAX)?;
        Ok((dimensions, attributes, count("variables", MIN_VARIABLE_BYTES, u64::MAX)?))
    }

    fn dimension(&mut self) -> Result<Dimension, Stop> {
        let name = self.array_name()?;
        let unit = self.text("unit")?;
        let length = self.cursor.u64("length")?;
        self.cursor.check_count("coordinates", length, 8)?;
        let offset = self.cursor.offset();
        let bytes = self.cursor.take("coordinates", length * 8)?;
        let coordinates = DataType::Float64.numbers(bytes, crate::data_type::Endianness::Big);
        Ok(Dimension { name, unit, coordinates: coordinates.expect("floats are numbers"), offset })
    }

    fn attributes(&mut self, count: u64) -> Result<BTreeMap<String, String>, Stop> {
        let mut attributes = BTreeMap::new();
        for number in 0..count {
            self.cursor.enter("attribute", number);
            let (at, name) = self.name()?;
            if attributes.insert(name.clone(), self.text("value")?).is_some() {
                return Err(self.cursor.wrong_at(at, "name", HeaderProblem::DuplicateName { name }));
            }
            self.cursor.leave();
        }
        Ok(attributes)
    }

    fn variable(&mut self, dimensions: &[Dimension]) -> Result<Variable, Stop> {
        let name = self.array_name()?;
        let unit = self.text("unit")?;
        let code = self.cursor.u8("type")?;
        let dtype = TYPES.get(usize::from(code).wrapping_sub(1)).copied();
        let unknown = || HeaderProblem::Value { found: code.into() };
        let dtype = dtype.ok_or_else(|| self.cursor.wrong_before(1, "type", unknown()))?;
        let has_missing = self.cursor.u8("has missing")?;
        if has_missing > 1 {
            let problem = HeaderProblem::Value { found: has_missing.into() };
            return Err(self.cursor.wrong_before(1, "has missing", problem));
        }
        let missing = self.cursor.take("missing", 8)?;
        let missing = (has_missing == 1).then(|| missing[8 - dtype.bytes() as usize..].to_vec());
        let axes = self.axes(dimensions.len() as u64)?;
        let first_record = self.cursor.u64("first record")?;
        let record_stride = self.cursor.u64("record stride")?;
        Ok(Variable { name, unit, dtype, missing, axes, first_record, record_stride })
    }

    fn axes(&mut self, dimensions: u64) -> Result<Vec<usize>, Stop> {
        let count = self.cursor.u8("rank")?.into();
        if count == 0 || count > MAX_RANK as u64 {
            let problem = HeaderProblem::Rank { count, max: MAX_RANK as u64 };
            return Err(self.cursor.wrong_before(1, "rank", problem));
        }
        self.list("axis", count, |parser| {
            let found = parser.cursor.u16("dimension")?.into();
            if found >= dimensions {
                let problem = HeaderProblem::Reference { found, count: dimensions };
                return Err(parser.cursor.wrong_before(2, "dimension", problem));
            }
            Ok(found as usize)
        })
    }

    /// Reads the name of a dimension or a variable. Both are arrays of the file, so that the name
    /// is not among those before it.
    fn array_name(&mut self) -> Result<String, Stop> {
        let (at, name) = self.name()?;
        if !self.names.insert(name.clone()) {
            return Err(self.cursor.wrong_at(at, "name", HeaderProblem::DuplicateName { name }));
        }
        Ok(name)
    }

    /// Reads a name, and gives its offset, too.
    fn name(&mut self) -> Result<(usize, String), Stop> {
        let at = self.cursor.offset() as usize;
        let name = self.text("name")?;
        if name.is_empty() {
            return Err(self.cursor.wrong_at(at, "name", HeaderProblem::NoName));
        }
        Ok((at, name))
    }

    fn text(&mut self, field: &'static str) -> Result<String, Stop> {
        let bytes = self.cursor.u16(field)?;
        self.cursor.text(field, bytes.into())
    }
}

pub(super) const MAGIC: &[u8; 8] = b"MAPBIN\r\n";
pub(super) const VERSION: u32 = 1;

/// The types, by their code less one.
pub(super) const TYPES: [DataType; 10] = [
    DataType::Int8,
    DataType::Uint8,
    DataType::Int16,
    DataType::Uint16,
    DataType::Int32,
    DataType::Uint32,
    DataType::Int64,
    DataType::Uint64,
    DataType::Float32,
    DataType::Float64,
];

/// Two texts, of which the name has a byte, and the length.
const MIN_DIMENSION_BYTES: u64 = 2 + 1 + 2 + 8;
const MIN_ATTRIBUTE_BYTES: u64 = 2 + 1 + 2;
/// Two texts, type, missing value, rank, an axis, and the place of the records.
const MIN_VARIABLE_BYTES: u64 = 2 + 1 + 2 + 1 + 1 + 8 + 1 + 2 + 8 + 8;
