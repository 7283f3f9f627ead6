//! The grammar of the header.

use crate::{
    data_type::{DataType, Endianness},
    header::{
        HeaderError, HeaderProblem, Step,
        cursor::{Cursor, Parse, Stop, answer},
    },
    manifest::{AttributeValue, Attributes},
};
use rails_array::MAX_RANK;
use std::collections::HashSet;

/// The longest header that is read, in bytes. While it is parsed, a header takes up to ten times
/// as much memory, which many short attributes do.
pub const MAX_HEADER_BYTES: u64 = 16 << 20;

/// The header of a NetCDF-3 file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Header {
    /// The variant of the format.
    pub version: Version,
    /// The length of the header in bytes.
    pub bytes: u64,
    /// The stated number of records; `None` if the writer left it open (`STREAMING`), and the
    /// file's size decides.
    pub records: Option<u64>,
    /// The dimensions.
    pub dimensions: Vec<Dimension>,
    /// The attributes of the file.
    pub attributes: Attributes,
    /// The variables, in the order of their definition.
    pub variables: Vec<Variable>,
}

/// The variants of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// CDF-1, the classic format: all numbers have 32 bits.
    Classic,
    /// CDF-2: offsets have 64 bits.
    Offset64,
    /// CDF-5: all numbers have 64 bits, and there are more types.
    Data64,
}

/// A dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dimension {
    /// The name.
    pub name: String,
    /// The length; `None` for the record dimension, which is stored as 0.
    pub length: Option<u64>,
}

/// A variable.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Variable {
    /// The name.
    pub name: String,
    /// The numbers of the dimensions, that of the slowest one first.
    pub dimensions: Vec<usize>,
    /// The attributes.
    pub attributes: Attributes,
    /// The type of the elements.
    pub dtype: DataType,
    /// The offset in the file of the first element.
    pub begin: u64,
}

impl Header {
    /// Reads a header from `prefix`, the first bytes of a file that has `file_bytes`.
    ///
    /// A count is believed only if so many entries fit into the file, and memory grows with the
    /// entries that are there.
    ///
    /// # Errors
    /// [`HeaderError`] names the first wrong field. A header longer than [`MAX_HEADER_BYTES`] is
    /// one.
    pub fn parse(prefix: &[u8], file_bytes: u64) -> Result<Step<Self>, HeaderError> {
        answer(parse(prefix, file_bytes), prefix, file_bytes, MAX_HEADER_BYTES)
    }
}

/// A cursor, and the width of the numbers.
struct Parser<'a> {
    cursor: Cursor<'a>,
    version: Version,
}

fn parse(prefix: &[u8], file_bytes: u64) -> Result<Header, Stop> {
    let mut cursor = Cursor::new(prefix, file_bytes, MAX_HEADER_BYTES);
    if cursor.take("magic", 3)? != b"CDF" {
        return Err(cursor.wrong_before(3, "magic", HeaderProblem::Magic));
    }
    let version = match cursor.u8("version")? {
        1 => Version::Classic,
        2 => Version::Offset64,
        5 => Version::Data64,
        found => return Err(cursor.wrong_before(1, "version", HeaderProblem::Version { found: found.into() })),
    };
    let mut parser = Parser { cursor, version };
    let records = parser.number("numrecs")?;
    let streaming = if version == Version::Data64 { u64::MAX } else { u32::MAX.into() };
    let dimensions = parser.dimensions()?;
    let attributes = parser.attributes()?;
    let variables = parser.variables(&dimensions)?;
    let (bytes, records) = (parser.cursor.offset(), (records != streaming).then_some(records));
    Ok(Header { version, bytes, records, dimensions, attributes, variables })
}

impl<'a> Parse<'a> for Parser<'a> {
    fn cursor(&mut self) -> &mut Cursor<'a> {
        &mut self.cursor
    }
}

impl Parser<'_> {
    fn dimensions(&mut self) -> Result<Vec<Dimension>, Stop> {
        let count = self.count("dimensions", NC_DIMENSION, self.number_bytes() * 2 + PADDING)?;
        let mut names = HashSet::new();
        let mut record: Option<String> = None;
        self.list("dimension", count, |parser| {
            let name = parser.new_name(&mut names)?;
            let at = parser.cursor.offset() as usize;
            let length = parser.number("length")?;
            if length == 0 {
                if let Some(name) = record.take() {
                    let problem = HeaderProblem::SecondRecordDimension { name };
                    return Err(parser.cursor.wrong_at(at, "length", problem));
                }
                record = Some(name.clone());
            }
            Ok(Dimension { name, length: (length != 0).then_some(length) })
        })
    }

    fn attributes(&mut self) -> Result<Attributes, Stop> {
        let count = self.count("attributes", NC_ATTRIBUTE, self.number_bytes() * 2 + TAG + PADDING)?;
        let mut attributes = Attributes::new();
        for number in 0..count {
            self.cursor.enter("attribute", number);
            let (at, name) = self.name()?;
            let dtype = self.dtype()?;
            let count = self.number("number of values")?;
            self.cursor.check_count("number of values", count, dtype.bytes())?;
            let values = self.cursor.take("values", count * dtype.bytes())?;
            let value = AttributeValue::from_bytes(dtype, values, Endianness::Big);
            self.padding(count * dtype.bytes())?;
            if attributes.insert(name.clone(), value).is_some() {
                return Err(self.cursor.wrong_at(at, "name", HeaderProblem::DuplicateName { name }));
            }
            self.cursor.leave();
        }
        Ok(attributes)
    }

    fn variables(&mut self, dimensions: &[Dimension]) -> Result<Vec<Variable>, Stop> {
        let offset_bytes = if self.version == Version::Classic { 4 } else { 8 };
        let min_bytes = self.number_bytes() * 4 + PADDING + TAG * 2 + offset_bytes;
        let count = self.count("variables", NC_VARIABLE, min_bytes)?;
        let mut names = HashSet::new();
        self.list("variable", count, |parser| {
            let name = parser.new_name(&mut names)?;
            let shape = parser.dimensions_of_variable(dimensions)?;
            let attributes = parser.attributes()?;
            let dtype = parser.dtype()?;
            // The stored size overflows where a variable is large, so shape and type decide.
            parser.number("vsize")?;
            let begin = match parser.version {
                Version::Classic => parser.cursor.u32("begin")?.into(),
                Version::Offset64 | Version::Data64 => parser.cursor.u64("begin")?,
            };
            Ok(Variable { name, dimensions: shape, attributes, dtype, begin })
        })
    }

    fn dimensions_of_variable(&mut self, dimensions: &[Dimension]) -> Result<Vec<usize>, Stop> {
        let field = "number of dimensions";
        let at = self.cursor.offset() as usize;
        let count = self.number(field)?;
        if count > MAX_RANK as u64 {
            return Err(self.cursor.wrong_at(at, field, HeaderProblem::Rank { count, max: MAX_RANK as u64 }));
        }
        let mut axis = 0;
        self.list("dimension", count, |parser| {
            let at = parser.cursor.offset() as usize;
            let found = parser.number("number")?;
            let dimension = usize::try_from(found).ok().and_then(|number| dimensions.get(number));
            let Some(dimension) = dimension else {
                let problem = HeaderProblem::Reference { found, count: dimensions.len() as u64 };
                return Err(parser.cursor.wrong_at(at, "number", problem));
            };
            if dimension.length.is_none() && axis > 0 {
                return Err(parser.cursor.wrong_at(at, "number", HeaderProblem::RecordDimensionInside));
            }
            axis += 1;
            Ok(found as usize)
        })
    }

    /// Reads the tag and the length of a list. An absent list has the tag 0 and no entries.
    fn count(&mut self, field: &'static str, tag: u32, min_bytes: u64) -> Result<u64, Stop> {
        let found = self.cursor.u32(field)?;
        if found != tag && found != ABSENT {
            let problem = HeaderProblem::Value { found: found.into() };
            return Err(self.cursor.wrong_before(4, field, problem));
        }
        let at = self.cursor.offset() as usize;
        let count = self.number(field)?;
        if found == ABSENT && count != 0 {
            return Err(self.cursor.wrong_at(at, field, HeaderProblem::Value { found: count }));
        }
        self.cursor.check_count(field, count, min_bytes)?;
        Ok(count)
    }

    /// Reads a name that is not among those before it.
    fn new_name(&mut self, names: &mut HashSet<String>) -> Result<String, Stop> {
        let (at, name) = self.name()?;
        if !names.insert(name.clone()) {
            return Err(self.cursor.wrong_at(at, "name", HeaderProblem::DuplicateName { name }));
        }
        Ok(name)
    }

    /// Reads a name, and gives its offset, too.
    fn name(&mut self) -> Result<(usize, String), Stop> {
        let at = self.cursor.offset() as usize;
        let bytes = self.number("name")?;
        if bytes == 0 {
            return Err(self.cursor.wrong_at(at, "name", HeaderProblem::NoName));
        }
        let name = self.cursor.text("name", bytes)?;
        self.padding(bytes)?;
        Ok((at, name))
    }

    fn dtype(&mut self) -> Result<DataType, Stop> {
        let found = self.cursor.u32("type")?;
        let has_all = self.version == Version::Data64;
        Ok(match found {
            1 => DataType::Int8,
            2 => DataType::Char,
            3 => DataType::Int16,
            4 => DataType::Int32,
            5 => DataType::Float32,
            6 => DataType::Float64,
            7 if has_all => DataType::Uint8,
            8 if has_all => DataType::Uint16,
            9 if has_all => DataType::Uint32,
            10 if has_all => DataType::Int64,
            11 if has_all => DataType::Uint64,
            _ => return Err(self.cursor.wrong_before(4, "type", HeaderProblem::Value { found: found.into() })),
        })
    }

    /// Skips the bytes up to the next multiple of 4. Writers have left other bytes than 0 in them.
    fn padding(&mut self, behind: u64) -> Result<(), Stop> {
        self.cursor.take("padding", behind.wrapping_neg() % PADDING)?;
        Ok(())
    }

    /// Reads a `NON_NEG`. A large one is read as unsigned, for libnetcdf writes dimensions of up to
    /// 2^32 - 4 into CDF-2 (`NC3_def_dim` of its `dim.c`).
    fn number(&mut self, field: &'static str) -> Result<u64, Stop> {
        match self.version {
            Version::Classic | Version::Offset64 => Ok(self.cursor.u32(field)?.into()),
            Version::Data64 => self.cursor.u64(field),
        }
    }

    fn number_bytes(&self) -> u64 {
        if self.version == Version::Data64 { 8 } else { 4 }
    }
}

const ABSENT: u32 = 0;
const NC_DIMENSION: u32 = 10;
const NC_VARIABLE: u32 = 11;
const NC_ATTRIBUTE: u32 = 12;
/// The length of a tag or type.
const TAG: u64 = 4;
/// Names and values are padded to a multiple of so many bytes, so that a name takes as many.
const PADDING: u64 = 4;
