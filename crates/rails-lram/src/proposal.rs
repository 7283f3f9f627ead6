//! A dataset file that is proposed for files: which of them belong together, and along which axis.

use anyhow::{Result, bail};
use rails_formats::data_type::DataType;
use rails_lambdaram::description::DatasetDescription;
use std::{collections::BTreeMap, fmt::Write, path::Path};

/// A file as it was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenFile {
    pub(crate) name: String,
    /// As a dataset file writes it.
    pub(crate) format: &'static str,
    pub(crate) arrays: Vec<SeenArray>,
}

/// An array of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenArray {
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    pub(crate) dimensions: Vec<(Option<String>, u64)>,
    /// The elements of a small array.
    pub(crate) values: Option<Vec<f64>>,
}

/// A dataset file before its blocks are known.
#[derive(Debug)]
pub(crate) struct Proposal {
    name: String,
    /// The files in their order; the first one stands for all.
    files: Vec<SeenFile>,
    /// The patterns that mean the files.
    patterns: Vec<String>,
    /// The axis along which the files follow each other; `None` for a single file.
    along: Option<String>,
    /// Whether the files have coordinates along it.
    has_coordinate: bool,
    /// Whether the names of the files have another order than the coordinates.
    is_listed: bool,
    /// What was found, for people.
    pub(crate) notes: Vec<String>,
}

impl Proposal {
    /// The proposal for the files of a folder, which lies `below` that of the dataset file.
    pub(crate) fn of(name: &str, below: &Path, files: Vec<SeenFile>) -> Result<Self> {
        let mut notes = Vec::new();
        let mut files = alike(files, &mut notes);
        files.sort_by(|one, other| one.name.cmp(&other.name));
        let along = if files.len() > 1 { Some(axis(&files[0])?) } else { None };
        let starts = along.as_deref().and_then(|along| starts(&files, along));
        let mut is_listed = false;
        if let Some(starts) = &starts {
            let mut order: Vec<usize> = (0..files.len()).collect();
            order.sort_by(|one, other| starts[*one].total_cmp(&starts[*other]));
            is_listed = order.windows(2).any(|pair| pair[0] > pair[1]);
            files = order.into_iter().map(|at| files[at].clone()).collect();
        }
        if let Some(along) = &along {
            let order = if is_listed { "their coordinates" } else { "their names" };
            notes.push(format!("{} files follow each other along `{along}`, in the order of {order}", files.len()));
            if starts.is_none() {
                notes.push(format!("no variable `{along}` has coordinates in every file"));
            }
        }
        let prefix =
            below.to_str().filter(|below| !below.is_empty()).map_or(String::new(), |below| format!("{below}/"));
        let names: Vec<&str> = files.iter().map(|file| &file.name[..]).collect();
        let patterns = match names[..] {
            _ if is_listed => names.iter().map(|name| literal(&prefix, name)).collect(),
            [only] => vec![literal(&prefix, only)],
            _ => vec![pattern(&prefix, &names)],
        };
        Ok(Self { name: name.into(), files, patterns, along, has_coordinate: starts.is_some(), is_listed, notes })
    }

    /// The text of the dataset file, with the shapes of blocks that the opened dataset has.
    pub(crate) fn text(&self, opened: Option<&DatasetDescription>) -> String {
        let mut text = format!("[dataset]\nname = {}\n", quoted(&self.name));
        let first = &self.files[0];
        for array in &first.arrays {
            let leading = array.dimensions.first().and_then(|(name, _)| name.as_ref());
            let is_stitched = self.along.is_some() && leading == self.along.as_ref();
            if is_stitched && self.has_coordinate && Some(&array.name) == self.along.as_ref() {
                // The coordinates of the axis make this array.
                continue;
            }
            let _ = write!(text, "\n[[array]]\nname = {0}\nformat = \"{1}\"\n", quoted(&array.name), first.format);
            let patterns =
                if is_stitched { &self.patterns[..] } else { &[literal_of(&self.patterns, &first.name)][..] };
            let _ = match patterns {
                [only] => writeln!(text, "files = {}", quoted(only)),
                several => {
                    let lines: String = several.iter().map(|name| format!("    {},\n", quoted(name))).collect();
                    writeln!(text, "files = [\n{lines}]")
                }
            };
            if let Some(along) = self.along.as_ref().filter(|_| is_stitched) {
                let _ = writeln!(text, "along = {}", quoted(along));
                if self.is_listed {
                    text += "order = \"listed\"\n";
                }
                if self.has_coordinate {
                    text += "coordinate = { from = \"variable\" }\n";
                }
            }
            let described =
                opened.and_then(|opened| opened.arrays.iter().find(|other| other.description.name == array.name));
            if let Some(described) = described.filter(|described| described.block_shape.rank() > 1) {
                let extents: Vec<String> = described.block_shape.extents().iter().map(u64::to_string).collect();
                let _ = writeln!(text, "block_shape = [{}]", extents.join(", "));
            }
        }
        text
    }
}

/// The arrays of a file but for the lengths along the first axis.
type Structure = Vec<(String, &'static str, Vec<(Option<String>, Option<u64>)>)>;

/// The largest group of files that have the same arrays.
fn alike(files: Vec<SeenFile>, notes: &mut Vec<String>) -> Vec<SeenFile> {
    let mut groups: BTreeMap<(&'static str, Structure), Vec<SeenFile>> = BTreeMap::new();
    for file in files {
        groups.entry((file.format, structure(&file))).or_default().push(file);
    }
    let largest = groups.iter().max_by_key(|(_, files)| files.len()).map(|(key, _)| key.clone());
    let largest = largest.expect("there is a file");
    let chosen = groups.remove(&largest).expect("the key is one of them");
    for file in groups.into_values().flatten() {
        notes.push(format!("left out: {}: its arrays are not those of {}", file.name, chosen[0].name));
    }
    chosen
}

fn structure(file: &SeenFile) -> Structure {
    let leading = axis(file).ok();
    let dimension = |(name, length): &(Option<String>, u64)| {
        let varies = name.is_some() && *name == leading;
        (name.clone(), (!varies).then_some(*length))
    };
    let arrays = file
        .arrays
        .iter()
        .map(|array| (array.name.clone(), array.dtype.name(), array.dimensions.iter().map(dimension).collect()));
    arrays.collect()
}

/// The first axis of the array with the largest number of axes.
fn axis(file: &SeenFile) -> Result<String> {
    let largest = file.arrays.iter().rev().max_by_key(|array| array.dimensions.len());
    match largest.and_then(|array| array.dimensions.first()) {
        Some((Some(name), _)) => Ok(name.clone()),
        _ => bail!("{}: the arrays have no axis with a name along which files could follow each other", file.name),
    }
}

/// The first coordinate of each file; `None` if one has none.
fn starts(files: &[SeenFile], along: &str) -> Option<Vec<f64>> {
    let line = |file: &SeenFile| {
        let line = file.arrays.iter().find(|array| array.name == along && array.dimensions.len() == 1)?;
        line.values.as_ref()?.first().copied().filter(|start| !start.is_nan())
    };
    files.iter().map(line).collect()
}

/// A pattern for names: their common beginning and end, with a star between.
fn pattern(prefix: &str, names: &[&str]) -> String {
    let first = names[0];
    let starts = (0..=first.len()).rev().filter(|end| first.is_char_boundary(*end)).map(|end| &first[..end]);
    let start = starts.into_iter().find(|start| names.iter().all(|name| name.starts_with(start))).unwrap_or("");
    let ends = (start.len()..=first.len()).filter(|at| first.is_char_boundary(*at)).map(|at| &first[at..]);
    let mut ends = ends.filter(|end| names.iter().all(|name| name[start.len()..].ends_with(end)));
    literal(prefix, start) + "*" + &escaped(ends.next().unwrap_or(""))
}

fn literal(prefix: &str, name: &str) -> String {
    escaped(&format!("{prefix}{name}"))
}

/// The pattern of one file beside those of the patterns.
fn literal_of(patterns: &[String], name: &str) -> String {
    let folder = patterns[0].rsplit_once('/').map_or("", |(folder, _)| folder);
    if folder.is_empty() { escaped(name) } else { format!("{folder}/{}", escaped(name)) }
}

/// A name as a pattern that means it alone.
fn escaped(name: &str) -> String {
    let escape = |character: char| match character {
        '*' | '?' | '[' | ']' => format!("[{character}]"),
        other => other.to_string(),
    };
    name.chars().map(escape).collect()
}

/// A text in TOML, which has JSON's escapes.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, start: f64, steps: u64) -> SeenFile {
        let time = (Some("time".to_owned()), steps);
        let arrays = vec![
            SeenArray {
                name: "time".into(),
                dtype: DataType::Float64,
                dimensions: vec![time.clone()],
                values: Some((0..steps).map(|step| start + step as f64).collect()),
            },
            SeenArray {
                name: "u".into(),
                dtype: DataType::Float32,
                dimensions: vec![time, (Some("lat".to_owned()), 3)],
                values: None,
            },
        ];
        SeenFile { name: name.into(), format: "netcdf3", arrays }
    }

    #[test]
    fn names_that_are_in_order_become_a_pattern() {
        let files = vec![file("w-10.nc", 9.0, 2), file("w-09.nc", 0.0, 9)];
        let proposal = Proposal::of("wind", Path::new("a[b"), files).unwrap();
        let text = proposal.text(None);
        assert!(
            text.contains("name = \"u\"\nformat = \"netcdf3\"\nfiles = \"a[[]b/w-*.nc\"\nalong = \"time\"\n"),
            "{text}"
        );
        assert!(text.ends_with("coordinate = { from = \"variable\" }\n"), "{text}");
        assert!(!text.contains("name = \"time\""), "{text}");
    }

    #[test]
    fn coordinates_decide_the_order() {
        let files = vec![file("a.nc", 9.0, 2), file("b.nc", 0.0, 9)];
        let text = Proposal::of("wind", Path::new(""), files).unwrap().text(None);
        assert!(
            text.contains("files = [\n    \"b.nc\",\n    \"a.nc\",\n]\nalong = \"time\"\norder = \"listed\"\n"),
            "{text}"
        );
    }

    #[test]
    fn other_files_are_left_out() {
        let mut other = file("c.nc", 20.0, 1);
        other.arrays[1].dtype = DataType::Float64;
        let files = vec![file("a.nc", 0.0, 2), file("b.nc", 2.0, 9), other];
        let proposal = Proposal::of("wind", Path::new(""), files).unwrap();
        assert!(proposal.notes[0].starts_with("left out: c.nc: "), "{:?}", proposal.notes);
        assert_eq!(proposal.files.len(), 2);
    }

    #[test]
    fn patterns_of_names() {
        assert_eq!(pattern("", &["aa", "aaa"]), "aa*");
        assert_eq!(pattern("x/", &["1.nc", "2.nc"]), "x/*.nc");
    }
}
