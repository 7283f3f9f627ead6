//! The text of a selection, before it is known which array it selects from.

use crate::shape::MAX_RANK;
use std::{fmt, str::FromStr};

/// A selection as people write it: `ozone[0:64, 3, :, 100:250:2]`, or without a name, `[0:64, 3]`.
///
/// The syntax is that of numpy. An entry is a coordinate (`3`, which drops the axis), a slice
/// (`start:end`, `start:end:step`, `:`, each part of which may be left out), or once `...`, which
/// stands for as many whole axes as are left. A negative number counts from the axis' end. Axes
/// without an entry are whole. Spaces around names and numbers mean nothing. Steps are 1 or more.
///
/// Unlike numpy's, a slice that reaches beyond the array is an error, and so is one that ends
/// before it begins: nobody shall get less than was asked for, and not be told.
///
/// ```
/// use rails_array::{SelectionText, Shape};
///
/// let text: SelectionText = "ozone[0:64:2, -1, ..., 100:250]".parse()?;
/// assert_eq!(text.name(), Some("ozone"));
/// let selection = text.resolve(&Shape::new([64, 36, 361, 540])?)?;
/// assert_eq!(selection.to_string(), "[0:63:2, 35, 0:361, 100:250]");
/// assert_eq!(selection.shape().to_string(), "32x361x150");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SelectionText {
    name: Option<String>,
    entries: Vec<Entry>,
}

/// A text that is no selection.
///
/// Entries are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionTextError {
    /// The text does not end with entries in brackets.
    #[error("`{text}` does not end with `[...]`, as `ozone[0:64, 3, :]` does")]
    Brackets {
        /// The text.
        text: String,
    },
    /// There are more entries than any array has axes.
    #[error("`{text}` has more entries than the {MAX_RANK} axes that an array has at most")]
    Entries {
        /// The text.
        text: String,
    },
    /// An entry is empty.
    #[error("entry {entry} of `{text}` is empty")]
    Empty {
        /// The entry's number.
        entry: usize,
        /// The text.
        text: String,
    },
    /// An entry has more than two colons.
    #[error("entry {entry} of `{text}` has more than two colons")]
    Colons {
        /// The entry's number.
        entry: usize,
        /// The text.
        text: String,
    },
    /// A part of an entry is no number.
    #[error("entry {entry} of `{text}`: `{number}` is no whole number of 64 bits")]
    Number {
        /// The entry's number.
        entry: usize,
        /// The part that is no number.
        number: String,
        /// The text.
        text: String,
    },
    /// A step is zero or negative.
    #[error("entry {entry} of `{text}`: the step `{step}` has to be 1 or more")]
    Step {
        /// The entry's number.
        entry: usize,
        /// The step.
        step: String,
        /// The text.
        text: String,
    },
    /// A second `...`, so that nobody knows which axes each of them stands for.
    #[error("entry {entry} of `{text}` is a second `...`")]
    SecondEllipsis {
        /// The entry's number.
        entry: usize,
        /// The text.
        text: String,
    },
}

/// The selected coordinates of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    Index(Position),
    Slice {
        start: Option<Position>,
        end: Option<Position>,
        step: u64,
    },
    /// All axes that have no entry of their own.
    Ellipsis,
}

/// A coordinate, counted from one of the axis' ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Position {
    FromStart(u64),
    /// More than 0: `-0` is 0.
    FromEnd(u64),
}

impl SelectionText {
    /// The name before the brackets, without spaces around it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl FromStr for SelectionText {
    type Err = SelectionTextError;

    fn from_str(text: &str) -> Result<Self, SelectionTextError> {
        let brackets = || SelectionTextError::Brackets { text: text.to_owned() };
        // The last bracket, because a name may have brackets of its own, and an entry has none.
        let (name, entries) =
            text.trim().strip_suffix(']').and_then(|text| text.rsplit_once('[')).ok_or_else(brackets)?;
        let name = Some(name.trim()).filter(|name| !name.is_empty()).map(str::to_owned);
        Ok(Self { name, entries: parse_entries(entries, text)? })
    }
}

impl fmt::Display for SelectionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or_default())?;
        f.write_str("[")?;
        for (number, entry) in self.entries.iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}{entry}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(position) => position.fmt(f),
            Self::Slice { start, end, step } => {
                for (position, colon) in [(start, ":"), (end, "")] {
                    position.iter().try_for_each(|position| position.fmt(f))?;
                    f.write_str(colon)?;
                }
                if *step == 1 { Ok(()) } else { write!(f, ":{step}") }
            }
            Self::Ellipsis => f.write_str("..."),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FromStart(at) => write!(f, "{at}"),
            Self::FromEnd(distance) => write!(f, "-{distance}"),
        }
    }
}

fn parse_entries(entries: &str, text: &str) -> Result<Vec<Entry>, SelectionTextError> {
    if entries.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut parsed = Vec::new();
    for (number, entry) in entries.split(',').enumerate() {
        // An ellipsis may stand for no axis, beside an entry for each.
        if number > MAX_RANK {
            return Err(SelectionTextError::Entries { text: text.to_owned() });
        }
        let entry = parse_entry(entry.trim(), number, text)?;
        if entry == Entry::Ellipsis && parsed.contains(&Entry::Ellipsis) {
            return Err(SelectionTextError::SecondEllipsis { entry: number, text: text.to_owned() });
        }
        parsed.push(entry);
    }
    Ok(parsed)
}

fn parse_entry(written: &str, entry: usize, text: &str) -> Result<Entry, SelectionTextError> {
    let owned = || text.to_owned();
    let position = |number: &str| {
        let number = number.trim();
        parse_position(number).ok_or_else(|| SelectionTextError::Number {
            entry,
            number: number.to_owned(),
            text: owned(),
        })
    };
    let optional = |number: &str| if number.trim().is_empty() { Ok(None) } else { position(number).map(Some) };
    let parts: Vec<&str> = written.splitn(4, ':').collect();
    let (start, end, step) = match parts[..] {
        [""] => return Err(SelectionTextError::Empty { entry, text: owned() }),
        ["..."] => return Ok(Entry::Ellipsis),
        [index] => return Ok(Entry::Index(position(index)?)),
        [start, end] => (start, end, ""),
        [start, end, step] => (start, end, step),
        _ => return Err(SelectionTextError::Colons { entry, text: owned() }),
    };
    let (start, end) = (optional(start)?, optional(end)?);
    match optional(step)? {
        None => Ok(Entry::Slice { start, end, step: 1 }),
        Some(Position::FromStart(step)) if step > 0 => Ok(Entry::Slice { start, end, step }),
        Some(_) => Err(SelectionTextError::Step { entry, step: step.trim().to_owned(), text: owned() }),
    }
}

fn parse_position(number: &str) -> Option<Position> {
    let (digits, from_end) = number.strip_prefix('-').map_or((number, false), |digits| (digits, true));
    // The standard library's parser takes a `+`, which would come behind a `-`.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let distance = digits.parse().ok()?;
    Some(if from_end && distance > 0 { Position::FromEnd(distance) } else { Position::FromStart(distance) })
}
