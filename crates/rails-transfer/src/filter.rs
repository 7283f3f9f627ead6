//! The entries that a sender leaves out on purpose.

use crate::path::RelPath;
#[cfg(feature = "patterns")]
use glob::{MatchOptions, Pattern};

/// Patterns of the entries that a batch leaves out, and of exceptions, as rsync has them. The
/// first pattern that an entry matches decides; an entry that matches none is sent.
///
/// A pattern is matched against the path below the receiving folder. One that begins with `/` is
/// matched from there on, one with a `/` inside against the last components, any other against the
/// name. One that ends in `/` matches folders alone. `*` and `?` stand for any characters but `/`,
/// `[ab]` for one of these, `[!ab]` for any other, `**` for any number of folders. A folder that is
/// left out is not listed.
///
/// Without the feature `patterns` a filter leaves nothing out.
///
/// # Example
#[cfg_attr(feature = "patterns", doc = "```")]
#[cfg_attr(not(feature = "patterns"), doc = "```ignore")]
/// use rails_transfer::Filter;
///
/// // All pictures but the thumbnails, and nothing else of the caches.
/// let filter = Filter::new().include("*.jpg")?.exclude("thumbs/")?.exclude("/photos/cache/*")?;
/// # Ok::<(), rails_transfer::FilterError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Filter {
    #[cfg(feature = "patterns")]
    rules: Vec<Rule>,
}

#[cfg(feature = "patterns")]
#[derive(Debug, Clone)]
struct Rule {
    pattern: Pattern,
    /// Whether the rule is for folders alone.
    of_folders: bool,
    leaves_out: bool,
}

/// A pattern is no pattern.
#[cfg(feature = "patterns")]
#[cfg_attr(docsrs, doc(cfg(feature = "patterns")))]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` is wrong: {cause}")]
pub struct FilterError {
    pattern: String,
    cause: String,
}

impl Filter {
    /// A filter that leaves nothing out.
    pub fn new() -> Self {
        Self::default()
    }

    #[cfg(not(feature = "patterns"))]
    pub(crate) fn leaves_out(&self, _: &RelPath, _: bool) -> bool {
        false
    }
}

#[cfg(feature = "patterns")]
#[cfg_attr(docsrs, doc(cfg(feature = "patterns")))]
impl Filter {
    /// Leaves out what matches the pattern, and matched none before.
    ///
    /// # Errors
    /// [`FilterError`]: a bracket that is not closed, `**` within a name, an empty pattern, or a
    /// backslash, `[^` or `[[:`, which match something else in other programs.
    pub fn exclude(self, pattern: &str) -> Result<Self, FilterError> {
        self.with(pattern, true)
    }

    /// Sends what matches the pattern, and matched none before.
    ///
    /// # Errors
    /// As [`exclude`](Self::exclude).
    pub fn include(self, pattern: &str) -> Result<Self, FilterError> {
        self.with(pattern, false)
    }

    fn with(mut self, pattern: &str, leaves_out: bool) -> Result<Self, FilterError> {
        let wrong = |cause: String| FilterError { pattern: pattern.to_owned(), cause };
        let (name, of_folders) = pattern.strip_suffix('/').map_or((pattern, false), |name| (name, true));
        if name.is_empty() {
            return Err(wrong("it names nothing".to_owned()));
        }
        // Other programs' patterns have these, and they would match something else here.
        if let Some(foreign) = ["\\", "[^", "[[:"].into_iter().find(|foreign| name.contains(foreign)) {
            return Err(wrong(format!(
                "it has `{foreign}`; a bracket stands for any of its characters, [!x] for any other"
            )));
        }
        let whole = match name.strip_prefix('/') {
            Some(anchored) => anchored.to_owned(),
            None if name.starts_with("**/") => name.to_owned(),
            None => format!("**/{name}"),
        };
        let pattern = Pattern::new(&whole).map_err(|error| wrong(error.msg.to_owned()))?;
        self.rules.push(Rule { pattern, of_folders, leaves_out });
        Ok(self)
    }

    /// Whether an entry is left out.
    pub(crate) fn leaves_out(&self, path: &RelPath, is_folder: bool) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        // Bytes that are not UTF-8 match wildcards.
        let path = path.as_path().to_string_lossy();
        let matches = |rule: &&Rule| (is_folder || !rule.of_folders) && rule.pattern.matches_with(&path, OPTIONS);
        self.rules.iter().find(matches).is_some_and(|rule| rule.leaves_out)
    }
}

#[cfg(feature = "patterns")]
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

#[cfg(all(test, feature = "patterns"))]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_the_paths_that_they_leave_out() {
        let cases: [(&str, &[&str], &[&str]); 8] = [
            ("*.o", &["a.o", "d/e/.o", "d/a.o"], &["a.os", "d.o/a"]),
            ("/a", &["a"], &["d/a", "ab"]),
            ("d/a", &["d/a", "x/d/a"], &["a", "xd/a", "d/x/a"]),
            ("/d/*/a", &["d/x/a"], &["d/a", "d/x/y/a"]),
            ("/d/**/a", &["d/a", "d/x/y/a"], &["a", "x/d/a"]),
            ("**/b/*", &["b/a", "x/b/a"], &["b", "b/a/c"]),
            ("?[ab]", &["xa", "d/xb"], &["a", "xc", "xab"]),
            ("f/", &[], &["f", "d/f"]),
        ];
        for (pattern, out, sent) in cases {
            let filter = Filter::new().exclude(pattern).unwrap();
            for (path, expected) in out.iter().map(|path| (path, true)).chain(sent.iter().map(|path| (path, false))) {
                assert_eq!(filter.leaves_out(&RelPath::parse(*path).unwrap(), false), expected, "{pattern} {path}");
            }
        }
        let folders = Filter::new().exclude("f/").unwrap();
        assert!(folders.leaves_out(&RelPath::parse("d/f").unwrap(), true));
        let bytes = RelPath::parse(&b"\xff.o"[..]).unwrap();
        assert!(Filter::new().exclude("*.o").unwrap().leaves_out(&bytes, false));
    }

    #[test]
    fn the_first_match_decides() {
        let filter = Filter::new().include("keep.o").unwrap().exclude("*.o").unwrap().include("a.o").unwrap();
        let out = ["keep.o", "a.o", "b"].map(|path| filter.leaves_out(&RelPath::parse(path).unwrap(), false));
        assert_eq!(out, [false, true, false]);
    }

    #[test]
    fn wrong_patterns_are_named() {
        for pattern in ["", "/", "[a", "a**b", "[^a]", "\\*", "[[:alpha:]]"] {
            let error = Filter::new().exclude(pattern).unwrap_err().to_string();
            assert!(error.starts_with(&format!("the pattern `{pattern}` is wrong: ")), "{error}");
        }
    }
}
