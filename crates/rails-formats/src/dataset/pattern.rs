//! Patterns of file names.

use super::error::DatasetFileProblem;
use crate::manifest::ObjectPath;
use glob::{MatchOptions, Pattern};
use std::fmt;

/// A pattern of the names of files below a root, as a shell has it.
///
/// `*` and `?` stay within one folder, `**` is any number of folders, and `[a-c]` is one character.
/// None of them is a dot at the beginning of a name: such files are another program's, as those
/// that macOS puts beside a file (`._a.nc`), and such folders may be copies of others
/// (`.snapshot`). A match takes time for each part of the name and of the pattern, whatever they
/// are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePattern {
    text: String,
    parts: Vec<Part>,
    is_several: bool,
}

/// A part of a pattern, between slashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Part {
    /// `**`.
    AnyFolders,
    /// The pattern of one name. The library compares a whole path in time that grows by powers with
    /// the number of stars, if there are slashes behind them.
    Name(Pattern),
}

impl FilePattern {
    /// Reads a pattern. It leads nowhere but down, as an [`ObjectPath`] does.
    ///
    /// # Errors
    /// [`DatasetFileProblem::Pattern`].
    pub fn new(text: &str) -> Result<Self, DatasetFileProblem> {
        let wrong = |reason| DatasetFileProblem::Pattern { pattern: text.into(), reason };
        ObjectPath::new(text).map_err(|error| wrong(error.to_string()))?;
        let part = |part| match part {
            "**" => Ok(Part::AnyFolders),
            name => Pattern::new(name).map(Part::Name).map_err(|error| wrong(error.msg.into())),
        };
        let mut parts = text.split('/').map(part).collect::<Result<Vec<_>, _>>()?;
        if parts.last() == Some(&Part::AnyFolders) {
            parts.push(Part::Name(Pattern::new("*").expect("a star is a pattern")));
        }
        Ok(Self { text: text.into(), parts, is_several: text.contains(['*', '?', '[']) })
    }

    /// Whether a file of that name is meant.
    pub fn matches(&self, file: &ObjectPath) -> bool {
        if !self.is_several {
            return self.text == file.as_str();
        }
        let (mut part, mut names) = (0, file.as_str().split('/'));
        // The part behind the last `**` so far, and the names that it was compared with. If a later part
        // does not match, only this `**` needs to take one folder more: the ones before it match.
        let mut behind = None;
        loop {
            if self.parts.get(part) == Some(&Part::AnyFolders) {
                part += 1;
                behind = Some((part, names.clone()));
                continue;
            }
            let Some(name) = names.next() else { return part == self.parts.len() };
            if self.parts.get(part).is_some_and(|part| part.matches(name)) {
                part += 1;
                continue;
            }
            let Some((part_behind, names_behind)) = &mut behind else { return false };
            if names_behind.next().is_some_and(is_hidden) {
                return false;
            }
            (part, names) = (*part_behind, names_behind.clone());
        }
    }

    /// Whether files below a folder may be meant, which has this path below the root.
    pub(crate) fn leads_into(&self, folder: &str) -> bool {
        // The last part is that of a file.
        let mut folders = self.parts[..self.parts.len() - 1].iter();
        let mut names = folder.split('/');
        while let Some(name) = names.next() {
            match folders.next() {
                Some(Part::AnyFolders) => {
                    let takes_hidden = folders.any(|part| matches!(part, Part::Name(one) if is_hidden(one.as_str())));
                    return takes_hidden || !(is_hidden(name) || names.any(is_hidden));
                }
                Some(part) if part.matches(name) => {}
                _ => return false,
            }
        }
        true
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether several names may match.
    pub fn is_several(&self) -> bool {
        self.is_several
    }
}

impl Part {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::AnyFolders => true,
            Self::Name(pattern) => pattern.matches_with(name, MATCHING),
        }
    }
}

impl fmt::Display for FilePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*, sample::select};

    fn pattern(text: &str) -> FilePattern {
        FilePattern::new(text).unwrap()
    }

    fn matches(text: &str, name: &str) -> bool {
        pattern(text).matches(&ObjectPath::new(name).unwrap())
    }

    #[test]
    fn stars_take_folders() {
        for name in ["b", "a/b", "a/a/b"] {
            assert!(matches("**/b", name), "{name}");
        }
        assert!(matches("a/**", "a/b") && matches("a/**", "a/b/c") && matches("**", "a"));
        assert!(!matches("a/**", "a") && !matches("a/**", "b/a") && !matches("**/b", "b/a"));
        assert!(matches("**/a/*/**/c", "x/a/a/y/z/c") && !matches("**/a/*/**/c", "x/a/c"));
    }

    #[test]
    fn dots_are_written() {
        assert!(!matches("*.nc", "._a.nc") && !matches("?a", ".a") && !matches("[.]a", ".a"));
        assert!(!matches("**/a", ".snapshot/a") && !matches("**/a", "b/.snapshot/c/a") && !matches("**", ".a"));
        assert!(matches(".*", ".a") && matches("**/.x/a", "b/.x/a") && matches(".x/**/a", ".x/b/a"));
        let lead = |text: &str, folder: &str| pattern(text).leads_into(folder);
        assert!(!lead("**/a", ".x") && !lead("**/a", "b/.x/c") && lead("**/.x/a", "b/.x") && !lead("*/a", ".x"));
    }

    #[test]
    fn slashes_are_outside_of_brackets() {
        assert!(FilePattern::new("a[b/c]d").is_err());
    }

    #[test]
    fn many_stars_take_little_time() {
        let stars = "*a".repeat(100);
        assert!(!matches(&format!("{stars}b/x"), &format!("{}/y", "a".repeat(250))));
        assert!(!matches(&format!("{}b", "**/a/*/".repeat(100)), &format!("{}y", "a/".repeat(1000))));
    }

    #[test]
    fn patterns_lead_into_folders() {
        let lead = |text: &str, folder: &str| pattern(text).leads_into(folder);
        assert!(lead("a/*/c", "a") && lead("a/*/c", "a/b") && !lead("a/*/c", "a/b/c") && !lead("a/*/c", "b"));
        assert!(lead("a/**", "a") && lead("a/**", "a/b/c") && lead("**", "a/b") && !lead("a/**", "b"));
        assert!(!lead("*.nc", "a.nc"));
    }

    proptest! {
        #[test]
        fn matches_are_those_of_the_library(
            parts in vec(select(vec!["**", "*", "a", "b", "a*", "?", "[ab]", ".a"]), 1..5),
            names in vec(select(vec!["a", "b", "ab", "c", ".a"]), 1..6),
        ) {
            let (text, name) = (parts.join("/"), names.join("/"));
            let expected = Pattern::new(&text).unwrap().matches_with(&name, MATCHING);
            // The library's last `**` takes no folder as well.
            let is_folder = parts.last() == Some(&"**");
            prop_assert!(matches(&text, &name) == expected || is_folder, "{} {}", text, name);
            if matches(&text, &name) {
                let folders = (1..names.len()).map(|count| names[..count].join("/"));
                prop_assert!(folders.into_iter().all(|folder| pattern(&text).leads_into(&folder)));
            }
        }
    }
}
