//! A dataset file for the files of a folder that look like one record.

use super::{
    content::open_text,
    describe::describe,
    error::CatalogueError,
    find::find,
    folders::{Folders, place_of},
    format::SourceFormat,
    limits::OpenLimits,
    published::PublishedDataset,
};
use crate::description::{ArraySummary, DatasetDescription};
use glob::Pattern;
use rails_formats::{
    data_type::{DataType, Endianness},
    dataset::FilePattern,
    manifest::{ArrayDescription, ObjectPath},
};
use rails_multirail::error::with_causes;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::{Path, PathBuf},
};

/// The text of a dataset file, and the reasons for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// The text, for a file in the same folder.
    pub text: String,
    /// The findings and the conclusions, a sentence each.
    pub reasons: Vec<String>,
    /// The files that are no part of the dataset, and why.
    pub left_out: Vec<(PathBuf, String)>,
}

/// Proposes a dataset file for the NetCDF-3 or MAP-Binary files of a folder, or of a pattern: those
/// that have the same arrays become one array each along the axis on which they differ. It blocks,
/// and writes nothing.
///
/// # Errors
/// [`CatalogueError`], also where no file of these formats is there.
pub fn propose(folder: &Path, limits: &OpenLimits) -> Result<Proposal, CatalogueError> {
    let found = find(folder, limits)?;
    let mut left_out: Vec<_> = found.refused.into_iter().map(|(path, error)| (path, with_causes(&error))).collect();
    let (mut folders, mut groups) = (Folders::default(), BTreeMap::<Kind, Vec<Part>>::new());
    for candidate in found.candidates {
        let (path, format) = (candidate.path, candidate.format);
        if !matches!(format, SourceFormat::NetCdf3 | SourceFormat::MapBinary) {
            left_out.push((path, "its format is not stitched".into()));
            continue;
        }
        match Part::open(&path, format, &mut folders, limits) {
            Ok((kind, part)) => groups.entry(kind).or_default().push(part),
            Err(error) => left_out.push((path, with_causes(&error))),
        }
    }
    let largest = groups.iter().max_by_key(|(_, parts)| parts.len()).map(|(kind, _)| kind.clone());
    let Some(kind) = largest else { return Err(CatalogueError::Nothing { path: folder.into() }) };
    let parts = groups.remove(&kind).expect("the largest group is there");
    for part in groups.into_values().flatten() {
        left_out.push((part.path, "it has other arrays than most files".into()));
    }
    let root = parts[0].folder.clone();
    let (parts, elsewhere): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| part.folder == root);
    left_out.extend(elsewhere.into_iter().map(|part| (part.path, "it is in another folder".into())));
    Ok(Draft::new(kind, parts).proposal(left_out))
}

impl Proposal {
    /// Opens the proposal as the dataset file of that path, which need not be there: its folder is
    /// that of the files. The call blocks, and writes nothing.
    ///
    /// # Errors
    /// [`CatalogueError`] where the files do not make one dataset.
    pub fn open(&self, path: &Path, limits: &OpenLimits) -> Result<DatasetDescription, CatalogueError> {
        let place = Folders::default().place_in_folder(path)?;
        let content = open_text(path, place, &self.text, limits)?;
        Ok(describe(path, &content, 0, limits)?.description)
    }
}

/// What files have to share to be parts of one dataset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    is_netcdf: bool,
    /// The name, the type and the axes of each array.
    arrays: Vec<(String, &'static str, Vec<Option<String>>)>,
}

/// A file of a dataset.
struct Part {
    path: PathBuf,
    folder: PathBuf,
    file: ObjectPath,
    arrays: Vec<ArraySummary>,
}

/// A dataset as far as it is known.
struct Draft {
    kind: Kind,
    parts: Vec<Part>,
    along: Option<String>,
    is_by_name: bool,
    reasons: Vec<String>,
}

impl Part {
    fn open(
        path: &Path,
        format: SourceFormat,
        folders: &mut Folders,
        limits: &OpenLimits,
    ) -> Result<(Kind, Self), CatalogueError> {
        let dataset = PublishedDataset::open(path, format, folders, limits)?;
        let arrays = dataset.description().arrays.clone();
        let kind_of = |array: &ArraySummary| {
            let ArrayDescription { name, dtype, dimension_names, .. } = &array.description;
            (name.clone(), dtype.name(), dimension_names.clone())
        };
        let kind = Kind { is_netcdf: format == SourceFormat::NetCdf3, arrays: arrays.iter().map(kind_of).collect() };
        let (folder, file) = place_of(path)?;
        Ok((kind, Self { path: path.into(), folder, file, arrays }))
    }

    /// The first and the last coordinate along an axis.
    fn ends(&self, axis: &str) -> Option<(f64, f64)> {
        let line = self.arrays.iter().find(|array| array.description.name == axis)?;
        let dtype: DataType = line.description.dtype;
        let numbers = dtype.numbers(line.inline.as_ref()?, Endianness::Little)?;
        Some((*numbers.first()?, *numbers.last()?))
    }
}

impl Draft {
    fn new(kind: Kind, mut parts: Vec<Part>) -> Self {
        parts.sort_by(|one, other| one.file.cmp(&other.file));
        let reasons = vec![match parts.len() {
            1 => "There is one file.".into(),
            count => format!("{count} files have the same arrays."),
        }];
        let mut draft = Self { kind, parts, along: None, is_by_name: true, reasons };
        if draft.parts.len() > 1 {
            draft.find_axis();
            draft.put_in_order();
        }
        draft
    }

    /// The axis on which the files differ: the first one of an array, with other coordinates or
    /// another extent in another file.
    fn find_axis(&mut self) {
        let first: BTreeSet<&String> =
            self.kind.arrays.iter().filter_map(|(_, _, axes)| axes.first()?.as_ref()).collect();
        let differ = |axis: &&&String| {
            let ends = |part: &Part| part.ends(axis).map(|(first, last)| (first.to_bits(), last.to_bits()));
            self.parts.windows(2).any(|pair| ends(&pair[0]) != ends(&pair[1]))
        };
        let differing: Vec<&String> = first.iter().filter(differ).copied().collect();
        let reason = match differing[..] {
            [axis] => {
                self.along = Some(axis.clone());
                format!("They follow each other along `{axis}`: its coordinates differ from file to file.")
            }
            [] => {
                let named = first.iter().find(|axis| axis.to_lowercase().contains("time"));
                self.along = named.map(|axis| (*axis).clone());
                match named {
                    Some(axis) => format!("No coordinates differ; the name of the axis `{axis}` suggests it."),
                    None => "No axis is known along which they follow each other.".into(),
                }
            }
            _ => format!("Their coordinates differ along several axes: {differing:?}."),
        };
        self.reasons.push(reason);
        if self.along.is_none() {
            self.reasons.push(format!("So the dataset has the first file, `{}`, alone.", self.parts[0].file));
        }
    }

    /// The order of the names, or that of the coordinates where they tell another one.
    fn put_in_order(&mut self) {
        let Some(axis) = &self.along else { return };
        let Some(ends) = self.parts.iter().map(|part| part.ends(axis)).collect::<Option<Vec<_>>>() else {
            self.reasons.push(format!("The files have no coordinates of `{axis}`, so their names give the order."));
            return;
        };
        let is_in_order = |ends: &[(f64, f64)]| {
            ends.iter().all(|(low, high)| low <= high) && ends.windows(2).all(|pair| pair[0].1 < pair[1].0)
        };
        if is_in_order(&ends)
            || is_in_order(&ends.iter().rev().map(|(first, last)| (*last, *first)).collect::<Vec<_>>())
        {
            self.reasons.push("The order of their names is that of the coordinates.".into());
            return;
        }
        let axis = axis.clone();
        let start = |part: &Part| part.ends(&axis).map_or(f64::NAN, |(first, _)| first);
        self.parts.sort_by(|one, other| start(one).total_cmp(&start(other)));
        self.is_by_name = false;
        let ends: Vec<(f64, f64)> = self.parts.iter().filter_map(|part| part.ends(&axis)).collect();
        self.reasons.push(if is_in_order(&ends) {
            "The order of their names is not that of the coordinates, so the files are listed.".into()
        } else {
            format!("Coordinates of `{axis}` overlap between files, which opening the dataset refuses.")
        });
    }

    fn proposal(self, left_out: Vec<(PathBuf, String)>) -> Proposal {
        let files = self.files(&left_out);
        let first = &self.parts[0];
        let mut text = format!("[dataset]\nname = {}\n", quoted(&name_of(&first.folder)));
        let format = if self.kind.is_netcdf { "netcdf3" } else { "map-binary" };
        for (name, _, axes) in &self.kind.arrays {
            let along = self.along.as_ref().filter(|along| axes.contains(&Some((*along).clone())));
            if Some(name) == along && first.ends(name).is_some() {
                // The coordinates become an array without being asked for.
                continue;
            }
            let files = if along.is_some() { files.clone() } else { quoted(&Pattern::escape(first.file.as_str())) };
            let name = quoted(name);
            // Writing to a text cannot fail.
            let _ = write!(text, "\n[[array]]\nname = {name}\nformat = \"{format}\"\nfiles = {files}\n");
            if let Some(along) = along {
                let _ = writeln!(text, "along = {}", quoted(along));
                if !self.is_by_name {
                    text.push_str("order = \"listed\"\n");
                }
                if first.ends(along).is_some() {
                    text.push_str("coordinate = { from = \"variable\" }\n");
                }
            }
        }
        Proposal { text, reasons: self.reasons, left_out }
    }

    /// A pattern that means all files of the dataset and no other, or their list.
    fn files(&self, left_out: &[(PathBuf, String)]) -> String {
        let names: Vec<&str> = self.parts.iter().map(|part| part.file.as_str()).collect();
        if let [name] = names[..] {
            return quoted(&Pattern::escape(name));
        }
        let pattern = FilePattern::new(&pattern_of(&names)).ok().filter(|pattern| {
            let is_meant = |name: &str| ObjectPath::new(name).is_ok_and(|file| pattern.matches(&file));
            let mut others = left_out.iter().filter_map(|(path, _)| path.file_name()?.to_str());
            names.iter().all(|name| is_meant(name)) && !others.any(is_meant)
        });
        match pattern {
            Some(pattern) if self.is_by_name => quoted(pattern.as_str()),
            _ => {
                format!("[{}]", names.iter().map(|name| quoted(&Pattern::escape(name))).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A star between the beginning and the end that all names share.
fn pattern_of(names: &[&str]) -> String {
    let shared = |one: Vec<char>, other: Vec<char>| {
        let count = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        one[..count].to_vec()
    };
    let prefix = names.iter().map(|name| name.chars().collect()).reduce(shared).unwrap_or_default();
    let rests = names.iter().map(|name| name.chars().skip(prefix.len()).collect::<Vec<_>>());
    let suffix = rests.map(|rest| rest.into_iter().rev().collect()).reduce(shared).unwrap_or_default();
    let text = |characters: &mut dyn Iterator<Item = &char>| Pattern::escape(&characters.collect::<String>());
    format!("{}*{}", text(&mut prefix.iter()), text(&mut suffix.iter().rev()))
}

/// The name of the dataset: that of its folder.
fn name_of(folder: &Path) -> String {
    folder.file_name().map_or("dataset".into(), |name| name.to_string_lossy().into_owned())
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.extend(format!("\\u{:04X}", u32::from(control)).chars()),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_have_what_all_names_share() {
        assert_eq!(pattern_of(&["a-01.nc", "a-02.nc", "a-10.nc"]), "a-*.nc");
        assert_eq!(pattern_of(&["1.nc", "1.nc.nc"]), "1.nc*");
        assert_eq!(pattern_of(&["[a]1", "[a]2"]), "[[]a[]]*");
        assert_eq!(pattern_of(&["x", "y"]), "*");
    }

    proptest! {
        #[test]
        fn quoted_texts_are_read_back(text in any::<String>()) {
            let file = format!(
                "[dataset]\nname = {}\n[[array]]\nname = \"a\"\nformat = \"netcdf3\"\nfiles = \"a\"\n",
                quoted(&format!("a{text}"))
            );
            let read = rails_formats::dataset::DatasetFile::parse("a.toml", file.as_bytes()).unwrap();
            prop_assert_eq!(read.name, format!("a{text}"));
        }
    }
}
