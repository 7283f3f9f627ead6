//! Coordinates along the axis of an array's files: where they come from, and their gaps.

use super::difference::{Difference, attribute_difference};
use crate::manifest::{ArrayDescription, Attributes, ObjectPath};
use serde::Deserialize;

/// The source of the coordinates along an array's axis.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum CoordinateSource {
    /// A one-dimensional variable of each file, whose values the caller reads. They are taken as
    /// they are stored, so that its units have to be alike in all files.
    Variable {
        /// The name of the variable. Default: the axis.
        name: Option<String>,
    },
    /// An attribute of each file: one number for each step, or the one of the first step.
    Attribute {
        /// The name of the attribute.
        name: String,
        /// The distance of the other steps of a file.
        step: Option<f64>,
    },
    /// A number in the name of each file: the coordinate of its first step.
    FileName {
        /// The file's name below the root, with `{}` for the number.
        pattern: String,
        /// The distance of the other steps of a file.
        step: Option<f64>,
    },
    /// The coordinates of all files, one behind the other.
    List {
        /// The coordinates.
        values: Vec<f64>,
    },
}

/// A place where neighbouring coordinates are farther apart than others are.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Gap {
    /// The file before the gap.
    pub after: ObjectPath,
    /// The file behind it, which may be the same.
    pub before: ObjectPath,
    /// The last coordinate before the gap.
    pub from: f64,
    /// The first one behind it.
    pub to: f64,
    /// The distance that neighbours mostly have.
    pub step: f64,
}

/// Coordinates that are no axis.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CoordinateError {
    /// The variable's values are not there.
    #[error("the file `{file}` has no values of the variable `{variable}`")]
    NoVariable {
        /// The file.
        file: ObjectPath,
        /// The variable.
        variable: String,
    },
    /// The values of the variable have another meaning than those in the first file.
    #[error("the variable `{variable}` differs in the file `{file}` from that in `{first}`: {difference}")]
    Meaning {
        /// The file.
        file: ObjectPath,
        /// The first file.
        first: ObjectPath,
        /// The variable.
        variable: String,
        /// The difference.
        difference: Box<Difference>,
    },
    /// The file has no such attribute, or no numbers in it.
    #[error("the file `{file}` has no numbers in the attribute `{attribute}`")]
    NoAttribute {
        /// The file.
        file: ObjectPath,
        /// The attribute.
        attribute: String,
    },
    /// The name of the file does not match the pattern.
    #[error("the name of the file `{file}` has no number where `{pattern}` has one")]
    FileName {
        /// The file.
        file: ObjectPath,
        /// The pattern.
        pattern: String,
    },
    /// There is another number of coordinates than of steps.
    #[error("the file `{file}` has {steps} steps and {coordinates} coordinates")]
    Count {
        /// The file.
        file: ObjectPath,
        /// The number of steps of the file.
        steps: u64,
        /// The number of coordinates.
        coordinates: usize,
    },
    /// The coordinates that are listed are more or less than the steps of all files.
    #[error("all files have {steps} steps, and {coordinates} coordinates are listed")]
    ListCount {
        /// The number of steps.
        steps: u64,
        /// The number of coordinates.
        coordinates: usize,
    },
    /// A file has several steps, one coordinate, and no distance of steps.
    #[error("the file `{file}` has {steps} steps, and `step` does not say how far apart they are")]
    NoStep {
        /// The file.
        file: ObjectPath,
        /// The number of steps.
        steps: u64,
    },
    /// There are more steps than coordinates are kept for.
    #[error("all files have {steps} steps, and at most {} have coordinates", CoordinateSource::MAX_STEPS)]
    TooMany {
        /// The number of steps.
        steps: u64,
    },
    /// A coordinate is not a finite number.
    #[error("the file `{file}` has the coordinate {value}")]
    NotFinite {
        /// The file.
        file: ObjectPath,
        /// The coordinate.
        value: f64,
    },
    /// Files overlap, or are not in order.
    #[error("the coordinate {value} in the file `{file}` does not follow {previous} in `{previous_file}`")]
    Order {
        /// The file.
        file: ObjectPath,
        /// The coordinate.
        value: f64,
        /// The file of the coordinate before it.
        previous_file: ObjectPath,
        /// The coordinate before it.
        previous: f64,
    },
}

/// The steps of one file.
pub(super) struct FileSteps<'a> {
    pub(super) file: &'a ObjectPath,
    pub(super) steps: u64,
    pub(super) attributes: &'a Attributes,
    /// The values of the coordinate variable, if they were read.
    pub(super) values: Option<&'a [f64]>,
    /// The coordinate variable.
    pub(super) line: Option<&'a ArrayDescription>,
}

impl CoordinateSource {
    /// The largest number of steps that have coordinates. They are kept in memory, 8 bytes each.
    pub const MAX_STEPS: u64 = 1 << 24;

    /// The coordinates of all steps, in the order of the files, and their gaps.
    pub(super) fn coordinates(
        &self,
        along: &str,
        files: &[FileSteps<'_>],
    ) -> Result<(Vec<f64>, Vec<Gap>), CoordinateError> {
        let steps = files.iter().map(|file| file.steps).fold(0, u64::saturating_add);
        if steps > Self::MAX_STEPS {
            return Err(CoordinateError::TooMany { steps });
        }
        check_meaning(files)?;
        let all = match self {
            Self::List { values } => {
                if values.len() as u64 != steps {
                    return Err(CoordinateError::ListCount { steps, coordinates: values.len() });
                }
                values.clone()
            }
            _ => {
                let of_files = files.iter().map(|file| self.of_file(along, file));
                of_files.collect::<Result<Vec<_>, _>>()?.concat()
            }
        };
        let gaps = check(&all, files)?;
        Ok((all, gaps))
    }

    fn of_file(&self, along: &str, steps: &FileSteps<'_>) -> Result<Vec<f64>, CoordinateError> {
        let file = || steps.file.clone();
        let (values, step) = match self {
            Self::Variable { name } => {
                let variable = name.as_deref().unwrap_or(along);
                let missing = || CoordinateError::NoVariable { file: file(), variable: variable.into() };
                (steps.values.ok_or_else(missing)?.to_vec(), None)
            }
            Self::Attribute { name, step } => {
                let numbers = steps.attributes.get(name).and_then(|value| value.to_numbers());
                let missing = || CoordinateError::NoAttribute { file: file(), attribute: name.clone() };
                (numbers.ok_or_else(missing)?, *step)
            }
            Self::FileName { pattern, step } => {
                let number = number_in(pattern, steps.file.as_str());
                let missing = || CoordinateError::FileName { file: file(), pattern: pattern.clone() };
                (vec![number.ok_or_else(missing)?], *step)
            }
            Self::List { .. } => unreachable!("a list is of all files"),
        };
        match (&values[..], step) {
            _ if values.len() as u64 == steps.steps => Ok(values),
            ([_], None) if !matches!(self, Self::Variable { .. }) && steps.steps > 1 => {
                Err(CoordinateError::NoStep { file: file(), steps: steps.steps })
            }
            ([first], Some(step)) => Ok((0..steps.steps).map(|number| first + number as f64 * step).collect()),
            _ => Err(CoordinateError::Count { file: file(), steps: steps.steps, coordinates: values.len() }),
        }
    }
}

/// The number in place of `{}`.
fn number_in(pattern: &str, name: &str) -> Option<f64> {
    let (before, behind) = pattern.split_once("{}")?;
    let number = name.strip_prefix(before)?.strip_suffix(behind)?;
    // Names such as `inf` and `nan` are numbers for the parser, and digits are meant.
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+'));
    if is_number { number.parse().ok() } else { None }
}

/// Checks that the coordinate variables of all files count in the same units.
fn check_meaning(files: &[FileSteps<'_>]) -> Result<(), CoordinateError> {
    let mut lines = files.iter().filter_map(|file| Some((file.file, file.line?)));
    let Some((first, expected)) = lines.next() else { return Ok(()) };
    lines.try_for_each(|(file, found)| {
        let Some(difference) = attribute_difference(&found.attributes, &expected.attributes) else { return Ok(()) };
        Err(CoordinateError::Meaning {
            file: file.clone(),
            first: first.clone(),
            variable: found.name.clone(),
            difference: Box::new(difference),
        })
    })
}

/// Checks that coordinates ascend or descend, and finds their gaps.
fn check(all: &[f64], files: &[FileSteps<'_>]) -> Result<Vec<Gap>, CoordinateError> {
    let file_of: Vec<&ObjectPath> =
        files.iter().flat_map(|file| std::iter::repeat_n(file.file, file.steps as usize)).collect();
    if let Some(at) = all.iter().position(|value| !value.is_finite()) {
        return Err(CoordinateError::NotFinite { file: file_of[at].clone(), value: all[at] });
    }
    let distances: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let Some(first) = distances.first() else { return Ok(Vec::new()) };
    let is_in_order = |distance: &f64| *distance != 0.0 && (*distance > 0.0) == (*first > 0.0);
    if let Some(at) = distances.iter().position(|distance| !is_in_order(distance)) {
        let (file, previous_file) = (file_of[at + 1].clone(), file_of[at].clone());
        return Err(CoordinateError::Order { file, value: all[at + 1], previous_file, previous: all[at] });
    }
    let mut sorted: Vec<f64> = distances.iter().map(|distance| distance.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    let step = sorted[(sorted.len() - 1) / 2];
    let wide = distances.iter().enumerate().filter(|(_, distance)| distance.abs() > step * GAP);
    Ok(wide
        .map(|(at, _)| Gap {
            after: file_of[at].clone(),
            before: file_of[at + 1].clone(),
            from: all[at],
            to: all[at + 1],
            step: step.copysign(*first),
        })
        .collect())
}

/// A distance of so many steps is a gap. Months differ by a tenth, and one missing step makes two.
const GAP: f64 = 1.5;
