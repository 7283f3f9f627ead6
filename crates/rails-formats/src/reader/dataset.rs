//! From a dataset file to its manifest.

use super::{
    error::ReadError,
    generation::Generation,
    read::{read_header, read_plan},
    source::{Root, Source},
};
use crate::{
    data_type::Endianness,
    dataset::{
        ArraySource, CoordinateSource, DatasetFile, DatasetFileError, Format, SourceFile, StitchError, Stitched,
    },
    manifest::{Manifest, ObjectPath},
    map_binary, netcdf3,
    plan::{MergeLimits, plan_region},
    raw::RawError,
};
use cap_std::fs::Dir;
use rails_array::Region;
use std::{collections::HashMap, io};

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

/// The limits of the search for the files of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLimits {
    pub(super) max_entries: usize,
    pub(super) max_depth: usize,
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
    /// The root has more entries than are looked at.
    #[error("there are more than {max_entries} files and folders below the root")]
    TooMany {
        /// The largest number.
        max_entries: usize,
    },
    /// The data of a NetCDF-3 file do not fit its header.
    #[error("`{path}` does not fit its header")]
    NetCdf3 {
        /// The file.
        path: ObjectPath,
        /// The cause.
        #[source]
        error: netcdf3::IndexError,
    },
    /// The data of a MAP-Binary file do not fit its header.
    #[error("`{path}` does not fit its header")]
    MapBinary {
        /// The file.
        path: ObjectPath,
        /// The cause.
        #[source]
        error: map_binary::IndexError,
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
    /// The files are no array.
    #[error(transparent)]
    Stitch(#[from] StitchError),
}

impl OpenLimits {
    /// The largest number of files and folders below the root that are looked at. Default:
    /// 1,000,000. Each costs its name in memory.
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// The largest depth of folders that are looked at; deeper files are not found. Default: 16.
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }
}

impl Default for OpenLimits {
    fn default() -> Self {
        Self { max_entries: 1_000_000, max_depth: 16 }
    }
}

/// Reads a dataset file, finds and indexes its files, and stitches them. It blocks.
///
/// Files are searched for below the root. Links to folders are not followed, and names that are not
/// UTF-8 are left out.
///
/// # Errors
/// [`OpenError`] names the file, and the array where there is one.
pub fn open_dataset(root: &Root, path: &ObjectPath, limits: &OpenLimits) -> Result<OpenedDataset, OpenError> {
    let source = root.source(path)?;
    // One more byte than fits is enough to see that there are too many.
    let bytes = source.generation().bytes.min(DatasetFile::MAX_BYTES as u64 + 1);
    let mut text = vec![0; bytes as usize];
    source.read_at(0, &mut text)?;
    let dataset = DatasetFile::parse(path.as_str(), &text)?;
    let mut names = Vec::new();
    list(root.dir(), "", limits.max_depth, limits, &mut 0, &mut names)?;
    let mut index = Index { root, files: HashMap::new() };
    let files = dataset.arrays.iter().map(|array| {
        let files = names.iter().filter(|name| array.matches(name));
        files.map(|name| index.file(array, name)).collect::<Result<Vec<_>, _>>()
    });
    let mut files = files.collect::<Result<Vec<_>, _>>()?.into_iter();
    let stitched = dataset.stitch(|_| files.next().expect("as many lists as arrays"))?;
    let generations = stitched.manifest.objects().iter().map(|path| index.files[path].generation).collect();
    Ok(OpenedDataset { dataset, stitched, generations })
}

/// The files so far. The header of each is read once, and all its arrays are of one generation.
struct Index<'a> {
    root: &'a Root,
    files: HashMap<ObjectPath, Indexed>,
}

/// A file so far. It is not open: a dataset may have more files than a process may open.
struct Indexed {
    generation: Generation,
    /// The manifests in the formats that have a header.
    manifests: HashMap<Format, Manifest>,
}

impl Index<'_> {
    /// Indexes a file for one array.
    fn file(&mut self, array: &ArraySource, name: &ObjectPath) -> Result<SourceFile, OpenError> {
        let source = self.root.source(name)?;
        let first = || Indexed { generation: source.generation(), manifests: HashMap::new() };
        let Indexed { generation, manifests } = self.files.entry(name.clone()).or_insert_with(first);
        let source = source.of_generation(*generation)?;
        let manifest = match manifests.get(&array.format) {
            Some(manifest) => manifest.clone(),
            None => {
                let manifest = manifest_of(array, &source)?;
                if array.format != Format::Raw {
                    manifests.insert(array.format, manifest.clone());
                }
                manifest
            }
        };
        let coordinates = coordinates(array, &manifest, &source)?;
        Ok(SourceFile { file: name.clone(), manifest, coordinates })
    }
}

fn manifest_of(array: &ArraySource, source: &Source) -> Result<Manifest, OpenError> {
    let (path, file_bytes) = (|| source.path().clone(), source.generation().bytes);
    match array.format {
        Format::NetCdf3 => read_header(source, netcdf3::Header::parse)?
            .index(path(), file_bytes)
            .map_err(|error| OpenError::NetCdf3 { path: path(), error }),
        Format::MapBinary => read_header(source, map_binary::Header::parse)?
            .index(path(), file_bytes)
            .map_err(|error| OpenError::MapBinary { path: path(), error }),
        Format::Raw => array
            .raw
            .as_ref()
            .expect("a checked array of raw files describes them")
            .index(&array.variable, path(), file_bytes)
            .map_err(|error| OpenError::Raw { path: path(), error }),
    }
}

/// The values of the coordinate variable, if the coordinates come from one and the file has it.
fn coordinates(array: &ArraySource, manifest: &Manifest, source: &Source) -> Result<Option<Vec<f64>>, OpenError> {
    let (Some(CoordinateSource::Variable { name }), Some(along)) = (&array.coordinate, &array.along) else {
        return Ok(None);
    };
    let variable = name.as_ref().unwrap_or(along);
    let Some(line) = manifest.array(variable) else { return Ok(None) };
    let wrong = || OpenError::Coordinate { path: source.path().clone(), variable: variable.clone() };
    let description = line.description();
    if description.shape.rank() != 1 || description.shape.elements() > CoordinateSource::MAX_STEPS {
        return Err(wrong());
    }
    let whole = Region::whole(&description.shape);
    let plan = plan_region(line, &whole, &MergeLimits::default()).expect("the whole array is within itself");
    let mut values = vec![0; plan.bytes() as usize];
    read_plan(&plan, &mut values, |_| Ok(source))?;
    description.dtype.numbers(&values, Endianness::NATIVE).map(Some).ok_or_else(wrong)
}

/// Adds the names of all regular files below a folder.
fn list(
    dir: &Dir,
    folder: &str,
    depth: usize,
    limits: &OpenLimits,
    entries: &mut usize,
    names: &mut Vec<ObjectPath>,
) -> Result<(), OpenError> {
    let wrong = |error| OpenError::List { folder: folder.into(), error };
    for entry in dir.entries().map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        *entries += 1;
        if *entries > limits.max_entries {
            return Err(OpenError::TooMany { max_entries: limits.max_entries });
        }
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = entry.file_type().map_err(wrong)?;
        if kind.is_dir() && depth > 0 {
            let below = entry.open_dir().map_err(|error| OpenError::List { folder: path.clone(), error })?;
            list(&below, &path, depth - 1, limits, entries, names)?;
        } else if (kind.is_file() || kind.is_symlink())
            && let Ok(path) = ObjectPath::new(path)
        {
            names.push(path);
        }
    }
    Ok(())
}
