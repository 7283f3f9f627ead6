//! The files and folders that an argument means.

use super::{
    error::CatalogueError,
    format::{self, Sniffed, SourceFormat},
    limits::OpenLimits,
};
use glob::{GlobError, MatchOptions};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// A file or folder that may be a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) format: SourceFormat,
    /// Whether the argument names it, so that it is an error if it is none.
    pub(super) is_named: bool,
}

/// The candidates of an argument, and the files that cannot be candidates.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) candidates: Vec<Candidate>,
    pub(super) refused: Vec<(PathBuf, CatalogueError)>,
}

/// The files and folders that an argument means: one, those in a folder, or those of a pattern. It
/// blocks.
pub(super) fn find(argument: &Path, limits: &OpenLimits) -> Result<Found, CatalogueError> {
    let mut found = Found::default();
    match fs::metadata(argument) {
        Ok(facts) if facts.is_dir() && format::is_zarr(argument) => {
            found.candidates.push(Candidate { path: argument.into(), format: SourceFormat::Zarr, is_named: true });
        }
        Ok(facts) if facts.is_dir() => found.add_all(argument, entries(argument, limits)?)?,
        Ok(_) => {
            let format = file_format(argument)?.ok_or_else(|| CatalogueError::Unknown { path: argument.into() })?;
            found.candidates.push(Candidate { path: argument.into(), format, is_named: true });
        }
        Err(error) => match pattern_of(argument) {
            Some(pattern) if error.kind() == ErrorKind::NotFound => {
                found.add_all(argument, matches(pattern, limits)?)?;
            }
            _ => return Err(CatalogueError::Path { call: "find", path: argument.into(), error }),
        },
    }
    Ok(found)
}

impl Found {
    /// Adds the files and Zarr folders among the paths. Other folders, and files without a known
    /// format, are left out.
    fn add_all(&mut self, argument: &Path, mut paths: Vec<PathBuf>) -> Result<(), CatalogueError> {
        paths.sort();
        for path in paths {
            if path.is_dir() {
                if format::is_zarr(&path) {
                    self.candidates.push(Candidate { path, format: SourceFormat::Zarr, is_named: false });
                }
                continue;
            }
            match file_format(&path) {
                Ok(Some(format)) => self.candidates.push(Candidate { path, format, is_named: false }),
                Ok(None) => (),
                Err(error) => self.refused.push((path, error)),
            }
        }
        if self.candidates.is_empty() && self.refused.is_empty() {
            return Err(CatalogueError::Nothing { path: argument.into() });
        }
        Ok(())
    }
}

/// The format of a file; `None`, if it is unknown.
fn file_format(path: &Path) -> Result<Option<SourceFormat>, CatalogueError> {
    let failed = |call| move |error| CatalogueError::Path { call, path: path.into(), error };
    // The first bytes of a pipe would be waited for.
    if !fs::metadata(path).map_err(failed("look at"))?.is_file() {
        return Err(CatalogueError::NotAFile { path: path.into() });
    }
    match format::of_file(path).map_err(failed("read"))? {
        Sniffed::Read(format) => Ok(Some(format)),
        Sniffed::NotRead(format) => Err(CatalogueError::NotRead { path: path.into(), format }),
        Sniffed::Unknown if path.extension().is_some_and(|extension| extension == "nc") => {
            Err(CatalogueError::Unknown { path: path.into() })
        }
        Sniffed::Unknown => Ok(None),
    }
}

/// The entries of a folder but the hidden ones, which are other programs'.
fn entries(folder: &Path, limits: &OpenLimits) -> Result<Vec<PathBuf>, CatalogueError> {
    let failed = |error| CatalogueError::Path { call: "list", path: folder.into(), error };
    let mut paths = Vec::new();
    for (number, entry) in fs::read_dir(folder).map_err(failed)?.enumerate() {
        check_count(number, folder, limits)?;
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// The text of a pattern, if the path has one of its characters.
fn pattern_of(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains(['*', '?', '[']))
}

fn matches(pattern: &str, limits: &OpenLimits) -> Result<Vec<PathBuf>, CatalogueError> {
    let paths = glob::glob_with(pattern, MATCHING)
        .map_err(|error| CatalogueError::Pattern { pattern: pattern.into(), reason: error.msg.into() })?;
    let mut found = Vec::new();
    for (number, path) in paths.enumerate() {
        check_count(number, Path::new(pattern), limits)?;
        let wrong = |error: GlobError| {
            let path = error.path().into();
            CatalogueError::Path { call: "list", path, error: error.into() }
        };
        found.push(path.map_err(wrong)?);
    }
    Ok(found)
}

fn check_count(number: usize, path: &Path, limits: &OpenLimits) -> Result<(), CatalogueError> {
    if number < limits.max_entries {
        return Ok(());
    }
    Err(CatalogueError::TooMany { path: path.into(), max_entries: limits.max_entries })
}

/// A star takes neither a slash nor a hidden name, as in a shell.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
