//! From a dataset file to its manifest.

use super::{
    error::ReadError,
    generation::Generation,
    limits::OpenLimits,
    read::{read_header, read_plan, read_plan_below},
    source::{Root, Source},
    zarr::{OpenZarrError, OpenedZarr, open_zarr},
};
use crate::{
    data_type::Endianness,
    dataset::{
        ArraySource, CoordinateError, CoordinateSource, DatasetFile, DatasetFileError, FilePattern, Format, Order,
        SourceFile, StitchError, Stitched,
    },
    header::IndexError,
    manifest::{Attributes, Manifest, ObjectPath},
    map_binary, netcdf3,
    plan::{MergeLimits, RegionPlan, plan_region},
    raw::RawError,
};
use rails_array::Region;
use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    io,
};

/// A dataset, and the generations of its files.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OpenedDataset {
    /// The dataset file.
    pub dataset: DatasetFile,
    /// The manifest, and the order of the files.
    pub stitched: Stitched,
    /// The generation of each file of the manifest, by number.
    pub generations: Vec<Generation>,
}

/// An error in opening a dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The dataset file is wrong.
    #[error(transparent)]
    DatasetFile(#[from] DatasetFileError),
    /// A folder cannot be listed.
    #[error("cannot list the folder `{folder}`")]
    List {
        /// The folder below the root; empty for the root.
        folder: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The folders of the dataset have more entries than are looked at.
    #[error("there are more than {max_entries} files and folders in those into which the patterns lead")]
    TooMany {
        /// The largest number.
        max_entries: usize,
    },
    /// A pattern leads into a folder that is too deep.
    #[error("the folder `{folder}` is deeper than {max_depth} below the root, and a pattern leads into it")]
    TooDeep {
        /// The folder below the root.
        folder: ObjectPath,
        /// The largest depth.
        max_depth: usize,
    },
    /// A pattern means a file or leads into a folder whose name is not UTF-8. To leave it out would
    /// be to leave out data.
    #[error("the name of `{path}`, which a pattern means, is not UTF-8")]
    NotText {
        /// The path below the root, in which U+FFFD stands for bytes that are no text.
        path: ObjectPath,
    },
    /// The data of a file do not fit its header.
    #[error("`{path}` does not fit its header")]
    Index {
        /// The file.
        path: ObjectPath,
        /// The cause.
        #[source]
        error: IndexError,
    },
    /// A raw file does not fit its description.
    #[error("`{path}` does not fit its description")]
    Raw {
        /// The file.
        path: ObjectPath,
        /// The cause.
        #[source]
        error: RawError,
    },
    /// A coordinate variable is not one.
    #[error("the variable `{variable}` of `{path}` is no line of at most {} numbers", CoordinateSource::MAX_STEPS)]
    Coordinate {
        /// The file.
        path: ObjectPath,
        /// The variable.
        variable: String,
    },
    /// A Zarr folder cannot be opened, or the array in it cannot be read.
    #[error(transparent)]
    Zarr(Box<OpenZarrError>),
    /// The files are no array.
    #[error(transparent)]
    Stitch(#[from] StitchError),
}

/// Reads a dataset file, finds and indexes its files, and stitches them. It blocks, and has at most
/// two files or folders open at a time.
///
/// Files are searched for below the root, in folders into which a pattern leads. Links to folders
/// are not followed. In memory is each array of each file, without the file's other arrays.
///
/// # Errors
/// [`OpenError`] names the file, and the array where there is one.
pub fn open_dataset(root: &Root, path: &ObjectPath, limits: &OpenLimits) -> Result<OpenedDataset, OpenError> {
    let source = root.source(path)?;
    // One more byte than fits is enough to see that there are too many.
    let bytes = source.generation().bytes.min(DatasetFile::MAX_BYTES as u64 + 1);
    let mut text = vec![0; bytes as usize];
    source.read_at(0, &mut text)?;
    open_dataset_text(root, path, &text, limits)
}

/// Does as [`open_dataset`] with the text of a dataset file that need not be there: `path` is where
/// it would lie, and the name in errors.
///
/// # Errors
/// As [`open_dataset`].
pub fn open_dataset_text(
    root: &Root,
    path: &ObjectPath,
    text: &[u8],
    limits: &OpenLimits,
) -> Result<OpenedDataset, OpenError> {
    let dataset = DatasetFile::parse(path.as_str(), text)?;
    let mut files: Vec<(Vec<SourceFile>, u64)> = vec![(Vec::new(), 0); dataset.arrays.len()];
    let mut generations = HashMap::new();
    for Listed { path, is_folder } in list(root, &dataset, limits)? {
        let is_meant = |array: &ArraySource| (array.format == Format::Zarr) == is_folder && array.matches(&path);
        let arrays = dataset.arrays.iter().zip(&mut files).filter(|(array, _)| is_meant(array));
        if is_folder {
            let opened = open_zarr(root, &path, limits).map_err(|error| OpenError::Zarr(error.into()))?;
            for (array, (files, coordinates)) in arrays {
                files.push(zarr_file(root, &path, &opened, array, coordinates)?);
            }
            generations.extend(opened.manifest.objects().iter().cloned().zip(opened.generations));
            continue;
        }
        let mut index = Index { source: root.source(&path)?, manifests: HashMap::new() };
        for (array, (files, coordinates)) in arrays {
            files.push(index.file(array, coordinates)?);
        }
        index.source.check()?;
        generations.insert(path, index.source.generation());
    }
    let mut files = files.into_iter();
    let stitched = dataset.stitch(|_| files.next().expect("as many lists as arrays").0)?;
    let generations = stitched.manifest.objects().iter().map(|path| generations[path]).collect();
    Ok(OpenedDataset { dataset, stitched, generations })
}

/// A file, of which all arrays are of one generation.
struct Index {
    source: Source,
    /// The manifests so far, in the formats that have a header.
    manifests: HashMap<Format, Manifest>,
}

impl Index {
    /// Indexes the file for one array, which has so many coordinates already.
    fn file(&mut self, array: &ArraySource, count: &mut u64) -> Result<SourceFile, OpenError> {
        let manifest = match (array.format, self.manifests.entry(array.format)) {
            (Format::Raw, _) => &manifest_of(array, &self.source)?,
            (_, Entry::Occupied(manifest)) => manifest.into_mut(),
            (_, Entry::Vacant(place)) => place.insert(manifest_of(array, &self.source)?),
        };
        source_file(array, manifest, self.source.path(), count, |plan, values| {
            read_plan(plan, values, |_| Ok(&self.source))
        })
    }
}

/// Indexes a Zarr folder for one array, which has so many coordinates already.
fn zarr_file(
    root: &Root,
    folder: &ObjectPath,
    opened: &OpenedZarr,
    array: &ArraySource,
    count: &mut u64,
) -> Result<SourceFile, OpenError> {
    if let Some(refusal) = opened.refusal(&array.variable) {
        return Err(OpenError::Zarr(OpenZarrError::from(refusal.clone()).into()));
    }
    source_file(array, &opened.manifest, folder, count, |plan, values| {
        read_plan_below(root, plan, values, |_| -> Result<Source, _> {
            unreachable!("the chunks of Zarr lie in no numbered file")
        })
    })
}

/// One file of an array, which has so many coordinates already; `read` reads those of the file.
fn source_file(
    array: &ArraySource,
    manifest: &Manifest,
    file: &ObjectPath,
    count: &mut u64,
    read: impl FnOnce(&RegionPlan, &mut [u8]) -> Result<(), ReadError>,
) -> Result<SourceFile, OpenError> {
    let coordinates = coordinates(array, manifest, file, *count, read)?;
    *count += coordinates.as_ref().map_or(0, |values| values.len() as u64);
    Ok(SourceFile { file: file.clone(), manifest: of_array(array, manifest), coordinates })
}

/// The part of a file's manifest that an array is stitched from.
fn of_array(array: &ArraySource, manifest: &Manifest) -> Manifest {
    let names = [Some(&array.variable[..]), array.coordinate_variable()];
    let arrays = manifest.arrays().iter().filter(|array| names.contains(&Some(&array.description().name)));
    let has_key = matches!(array.order, Order::Attribute(_))
        || matches!(array.coordinate, Some(CoordinateSource::Attribute { .. }));
    let attributes = if has_key { manifest.attributes().clone() } else { Attributes::new() };
    Manifest::new(manifest.objects().to_vec(), arrays.cloned().collect(), attributes)
        .expect("some arrays of a manifest are one")
}

fn manifest_of(array: &ArraySource, source: &Source) -> Result<Manifest, OpenError> {
    let (path, file_bytes) = (|| source.path().clone(), source.generation().bytes);
    match array.format {
        Format::NetCdf3 => read_header(source, netcdf3::Header::parse)?
            .index(path(), file_bytes)
            .map_err(|error| OpenError::Index { path: path(), error }),
        Format::MapBinary => read_header(source, map_binary::Header::parse)?
            .index(path(), file_bytes)
            .map_err(|error| OpenError::Index { path: path(), error }),
        Format::Raw => array
            .raw
            .as_ref()
            .expect("a checked array of raw files describes them")
            .index(&array.variable, path(), file_bytes)
            .map_err(|error| OpenError::Raw { path: path(), error }),
        Format::Zarr => unreachable!("a Zarr folder has no file that is indexed"),
    }
}

/// The values of the coordinate variable, if the coordinates come from one and the file has it.
/// `before` is the number of those that the array has from other files.
fn coordinates(
    array: &ArraySource,
    manifest: &Manifest,
    file: &ObjectPath,
    before: u64,
    read: impl FnOnce(&RegionPlan, &mut [u8]) -> Result<(), ReadError>,
) -> Result<Option<Vec<f64>>, OpenError> {
    let Some(variable) = array.coordinate_variable() else { return Ok(None) };
    let Some(line) = manifest.array(variable) else { return Ok(None) };
    let wrong = || OpenError::Coordinate { path: file.clone(), variable: variable.into() };
    let description = line.description();
    let steps = description.shape.elements();
    if description.shape.rank() != 1 || steps > CoordinateSource::MAX_STEPS {
        return Err(wrong());
    }
    if before + steps > CoordinateSource::MAX_STEPS {
        let error = Box::new(CoordinateError::TooMany { steps: before + steps });
        return Err(StitchError::Coordinate { array: array.name.clone(), error }.into());
    }
    let whole = Region::whole(&description.shape);
    let plan = plan_region(line, &whole, &MergeLimits::default()).expect("the whole array is within itself");
    let mut values = vec![0; plan.bytes() as usize];
    read(&plan, &mut values)?;
    description.dtype.numbers(&values, Endianness::NATIVE).map(Some).ok_or_else(wrong)
}

/// A file that a pattern means, or a folder that one of an array in Zarr means.
struct Listed {
    path: ObjectPath,
    is_folder: bool,
}

/// All files and folders that a pattern means. One folder is open at a time.
fn list(root: &Root, dataset: &DatasetFile, limits: &OpenLimits) -> Result<Vec<Listed>, OpenError> {
    // Arrays mostly have the same patterns.
    let patterns: BTreeSet<(&FilePattern, bool)> = dataset
        .arrays
        .iter()
        .flat_map(|array| array.files.iter().map(|pattern| (pattern, array.format == Format::Zarr)))
        .collect();
    let (mut names, mut entries) = (Vec::new(), 0);
    let mut folders = vec![(String::new(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let wrong = |error| OpenError::List { folder: folder.clone(), error };
        let listed = match &folder[..] {
            "" => root.dir().entries(),
            folder => root.dir().read_dir(folder),
        };
        for entry in listed.map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            entries += 1;
            if entries > limits.max_entries {
                return Err(OpenError::TooMany { max_entries: limits.max_entries });
            }
            let name = entry.file_name();
            let (text, is_text) = (name.to_string_lossy(), name.to_str().is_some());
            let path = if folder.is_empty() { text.into_owned() } else { format!("{folder}/{text}") };
            let Ok(path) = ObjectPath::new(path) else { continue };
            // Some file systems keep no types in their folders, and asking for one is a call more.
            let is_meant = |is_folder| {
                patterns.iter().any(|(pattern, of_folders)| *of_folders == is_folder && pattern.matches(&path))
            };
            let (is_file, is_folder) = (is_meant(false), is_meant(true));
            let leads = patterns.iter().any(|(pattern, _)| pattern.leads_into(path.as_str()));
            if !is_file && !is_folder && !leads {
                continue;
            }
            if !is_text {
                return Err(OpenError::NotText { path });
            }
            let kind = entry.file_type().map_err(wrong)?;
            if is_folder && kind.is_dir() {
                // The files in it are Zarr's.
                names.push(Listed { path, is_folder });
            } else if leads && kind.is_dir() {
                if depth == limits.max_depth {
                    return Err(OpenError::TooDeep { folder: path, max_depth: depth });
                }
                folders.push((path.into(), depth + 1));
            } else if is_file && (kind.is_file() || kind.is_symlink()) {
                names.push(Listed { path, is_folder: false });
            }
        }
    }
    Ok(names)
}
