//! Dataset files, read and checked.

use super::{
    coordinate::CoordinateSource,
    document::{ArrayTable, Document, Format, Order, ViewTable},
    error::{DatasetFileError, DatasetFileProblem as Problem},
    locate::{key_of, line_at},
    pattern::FilePattern,
};
use crate::{manifest::ObjectPath, raw::Raw};
use rails_array::{Region, Shape};
use std::{collections::HashSet, ops::Range, str::FromStr};
use toml::Spanned;

/// A dataset: arrays over files.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DatasetFile {
    /// The name of the dataset.
    pub name: String,
    /// Those who may read the dataset beside its owner.
    pub readers: Vec<Principal>,
    /// The arrays.
    pub arrays: Vec<ArraySource>,
}

/// An array of a dataset, and its files.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ArraySource {
    /// The name of the array in the dataset.
    pub name: String,
    /// The name of the array in its files.
    pub variable: String,
    /// The format of the files.
    pub format: Format,
    /// The description of raw files.
    pub raw: Option<Raw>,
    /// The patterns of the files' names below the root.
    pub files: Vec<FilePattern>,
    /// The axis along which the files follow each other; `None` for an array of one file.
    pub along: Option<String>,
    /// The order of the files.
    pub order: Order,
    /// The source of the coordinates along the axis.
    pub coordinate: Option<CoordinateSource>,
    /// The shape of a block of the cache, in elements; `None` leaves the choice to the cache.
    pub block_shape: Option<Shape>,
    /// The shape of a partition of the cache, in blocks; `None` leaves the choice to the cache.
    pub partition_shape: Option<Shape>,
    /// Other places that have the same files.
    pub replicas: Vec<String>,
    /// Regions that are read again and again.
    pub views: Vec<View>,
}

/// A region of an array with a name, and with blocks of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// The name.
    pub name: String,
    /// The region.
    pub region: Region,
}

/// Someone who may read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Principal {
    /// A user of the machine, `user:NAME`.
    User(String),
    /// A group of users, `group:NAME`.
    Group(String),
    /// A node, `node:NAME`.
    Node(String),
    /// The holder of a key, `key:NAME`.
    Key(String),
}

impl DatasetFile {
    /// The largest size of a dataset file, in bytes.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Reads a dataset file; `file` is its name for errors.
    ///
    /// # Errors
    /// [`DatasetFileError`] names file, line and key: for a file of more than
    /// [`MAX_BYTES`](Self::MAX_BYTES), for text that is no TOML, for unknown keys, and for values
    /// that mean nothing or do not fit each other.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, DatasetFileError> {
        let whole = |problem| DatasetFileError { file: file.into(), line: 1, key: String::new(), problem };
        if bytes.len() > Self::MAX_BYTES {
            return Err(whole(Problem::TooLong { bytes: bytes.len(), max_bytes: Self::MAX_BYTES }));
        }
        let text = str::from_utf8(bytes).map_err(|_| whole(Problem::NotText))?;
        let located = |Wrong { at, problem }: Wrong| {
            let (line, key) = (line_at(text, at.start), key_of(text, at.start));
            DatasetFileError { file: file.into(), line, key, problem }
        };
        let document = toml::from_str::<Document>(text).map_err(|error| {
            let reason: Vec<&str> = error.message().lines().map(str::trim).collect();
            let problem = Problem::Malformed { reason: reason.join("; ") };
            located(Wrong { at: error.span().unwrap_or_default(), problem })
        })?;
        checked(document).map_err(located)
    }
}

impl ArraySource {
    /// Whether a file of that name below the root is one of the array's.
    pub fn matches(&self, file: &ObjectPath) -> bool {
        self.place_of(file).is_some()
    }

    /// The name of the variable that the coordinates come from, if they come from one.
    pub(crate) fn coordinate_variable(&self) -> Option<&str> {
        match (&self.coordinate, &self.along) {
            (Some(CoordinateSource::Variable { name }), Some(along)) => Some(name.as_ref().unwrap_or(along)),
            _ => None,
        }
    }

    /// The number of the first pattern that a file's name matches.
    pub(super) fn place_of(&self, file: &ObjectPath) -> Option<usize> {
        self.files.iter().position(|pattern| pattern.matches(file))
    }
}

impl FromStr for Principal {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let (kind, name) = text.split_once(':').unwrap_or_default();
        let make = match kind {
            "user" => Self::User,
            "group" => Self::Group,
            "node" => Self::Node,
            "key" => Self::Key,
            _ => return Err(Problem::Principal { principal: text.into() }),
        };
        if name.is_empty() { Err(Problem::Principal { principal: text.into() }) } else { Ok(make(name.into())) }
    }
}

/// A problem, and its place in the text.
struct Wrong {
    at: Range<usize>,
    problem: Problem,
}

fn wrong<T>(at: &Spanned<T>, problem: impl Into<Problem>) -> Wrong {
    Wrong { at: at.span(), problem: problem.into() }
}

fn checked(document: Document) -> Result<DatasetFile, Wrong> {
    let dataset = document.dataset;
    if document.array.is_empty() {
        return Err(wrong(&dataset.name, Problem::NoArray));
    }
    let reader = |text: &Spanned<String>| text.get_ref().parse().map_err(|problem: Problem| wrong(text, problem));
    let readers = dataset.readers.iter().map(reader).collect::<Result<_, _>>()?;
    let mut names = HashSet::new();
    let name = name_of(&dataset.name, &mut HashSet::new())?;
    let arrays = document.array.into_iter().map(|table| array_of(table, &mut names)).collect::<Result<_, _>>()?;
    Ok(DatasetFile { name, readers, arrays })
}

fn array_of(table: ArrayTable, names: &mut HashSet<String>) -> Result<ArraySource, Wrong> {
    let name = name_of(&table.name, names)?;
    let variable = table.variable.map(|text| name_of(&text, &mut HashSet::new())).transpose()?;
    let order = table.order.as_ref().map_or(&Order::Name, Spanned::get_ref);
    let files = patterns_of(&table.files.span(), &table.files.get_ref().0, order)?;
    if table.along.is_none() {
        let spans = [table.order.as_ref().map(Spanned::span), table.coordinate.as_ref().map(Spanned::span)];
        if let Some(at) = spans.into_iter().flatten().next() {
            return Err(Wrong { at, problem: Problem::NotAlong });
        }
    }
    if (table.format == Format::Raw) != table.raw.is_some() {
        let at = table.raw.as_ref().map_or(table.name.span(), Spanned::span);
        return Err(Wrong { at, problem: Problem::Raw });
    }
    if let Some(coordinate) = &table.coordinate {
        check_coordinate(coordinate)?;
    }
    let block_shape = table.block_shape.as_ref().map(|extents| shape_of(extents, true)).transpose()?;
    let partition_shape = table.partition_shape.as_ref().map(|extents| shape_of(extents, true)).transpose()?;
    if let (Some(block), Some(partition), Some(at)) = (&block_shape, &partition_shape, &table.partition_shape)
        && block.rank() != partition.rank()
    {
        let problem = Problem::Rank { count: partition.rank(), key: "block_shape", other: block.rank() };
        return Err(wrong(at, problem));
    }
    let empty = |replica: &&Spanned<String>| replica.get_ref().is_empty() || replica.get_ref().contains('\0');
    if let Some(replica) = table.replicas.iter().find(empty) {
        return Err(wrong(replica, Problem::Replica));
    }
    let mut view_names = HashSet::new();
    Ok(ArraySource {
        variable: variable.unwrap_or_else(|| name.clone()),
        name,
        format: table.format,
        raw: table.raw.map(Spanned::into_inner),
        order: order.clone(),
        files,
        along: table.along.map(|along| name_of(&along, &mut HashSet::new())).transpose()?,
        coordinate: table.coordinate.map(Spanned::into_inner),
        block_shape,
        partition_shape,
        replicas: table.replicas.into_iter().map(Spanned::into_inner).collect(),
        views: table.view.iter().map(|view| view_of(view, &mut view_names)).collect::<Result<_, _>>()?,
    })
}

fn name_of(name: &Spanned<String>, names: &mut HashSet<String>) -> Result<String, Wrong> {
    let text = name.get_ref().clone();
    if text.is_empty() {
        return Err(wrong(name, Problem::NoName));
    }
    if !names.insert(text.clone()) {
        return Err(wrong(name, Problem::DuplicateName { name: text }));
    }
    Ok(text)
}

fn patterns_of(at: &Range<usize>, texts: &[String], order: &Order) -> Result<Vec<FilePattern>, Wrong> {
    let wrong = |problem| Wrong { at: at.clone(), problem };
    if texts.is_empty() {
        return Err(wrong(Problem::NoFiles));
    }
    let patterns = texts.iter().map(|text| FilePattern::new(text).map_err(wrong)).collect::<Result<Vec<_>, _>>()?;
    match patterns.iter().find(|pattern| pattern.is_several()) {
        Some(pattern) if *order == Order::Listed => {
            Err(wrong(Problem::ListedPattern { pattern: pattern.as_str().into() }))
        }
        _ => Ok(patterns),
    }
}

fn check_coordinate(source: &Spanned<CoordinateSource>) -> Result<(), Wrong> {
    let number = |value: f64, what| wrong(source, Problem::Number { value, what });
    match source.get_ref() {
        CoordinateSource::Attribute { step: Some(step), .. } | CoordinateSource::FileName { step: Some(step), .. }
            if !step.is_finite() || *step == 0.0 =>
        {
            Err(number(*step, "step"))
        }
        CoordinateSource::FileName { pattern, .. } if pattern.matches("{}").count() != 1 => {
            Err(wrong(source, Problem::CoordinatePattern { pattern: pattern.clone() }))
        }
        CoordinateSource::List { values } => match values.iter().find(|value| !value.is_finite()) {
            Some(value) => Err(number(*value, "coordinate")),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn shape_of(extents: &Spanned<Vec<u64>>, has_elements: bool) -> Result<Shape, Wrong> {
    let shape = Shape::new(extents.get_ref().iter().copied()).map_err(|error| wrong(extents, error))?;
    if has_elements && shape.is_empty() { Err(wrong(extents, Problem::ZeroExtent)) } else { Ok(shape) }
}

fn view_of(view: &ViewTable, names: &mut HashSet<String>) -> Result<View, Wrong> {
    let shape = shape_of(&view.shape, true)?;
    if view.start.len() != shape.rank() {
        let problem = Problem::Rank { count: shape.rank(), key: "start", other: view.start.len() };
        return Err(wrong(&view.shape, problem));
    }
    let region = Region::new(view.start.iter().copied(), shape).map_err(|_| wrong(&view.shape, Problem::ViewEnd))?;
    Ok(View { name: name_of(&view.name, names)?, region })
}
