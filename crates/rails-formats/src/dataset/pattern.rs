//! Patterns of file names.

use super::error::DatasetFileProblem;
use crate::manifest::ObjectPath;
use glob::{MatchOptions, Pattern};
use std::fmt;

/// A pattern of the names of files below a root, as a shell has it.
///
/// `*` and `?` stay within one folder, `**` is any number of folders, and `[a-c]` is one character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePattern(Pattern);

impl FilePattern {
    /// Reads a pattern. It leads nowhere but down, as an [`ObjectPath`] does.
    ///
    /// # Errors
    /// [`DatasetFileProblem::Pattern`].
    pub fn new(text: &str) -> Result<Self, DatasetFileProblem> {
        let wrong = |reason| DatasetFileProblem::Pattern { pattern: text.into(), reason };
        ObjectPath::new(text).map_err(|error| wrong(error.to_string()))?;
        Ok(Self(Pattern::new(text).map_err(|error| wrong(error.msg.into()))?))
    }

    /// Whether a file of that name is meant.
    pub fn matches(&self, file: &ObjectPath) -> bool {
        self.0.matches_with(file.as_str(), MATCHING)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether several names may match.
    pub fn is_several(&self) -> bool {
        self.as_str().contains(['*', '?', '['])
    }
}

impl fmt::Display for FilePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };
