//! From a Zarr folder to its manifest.

use super::{error::ReadError, generation::Generation, limits::OpenLimits, source::Root};
use crate::{
    manifest::{Manifest, ManifestError, ObjectPath},
    zarr::ZarrError,
};
use std::io;

/// A Zarr folder, and the generations of its metadata.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OpenedZarr {
    /// The manifest. Its files are those of the metadata; the chunks' files have no number.
    pub manifest: Manifest,
    /// The arrays, and the folders below, that cannot be read, with the causes.
    pub refused: Vec<ZarrError>,
    /// The generation of each file of the manifest, by number. Reading a chunk looks at none of
    /// them: a caller who wants to notice that the metadata changed, or that the folder is gone,
    /// opens it again and compares.
    pub generations: Vec<Generation>,
}

/// An error in opening a Zarr folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenZarrError {
    /// The program was built without Zarr.
    #[error(
        "`{folder}` is a Zarr folder, which programs read that were built with the feature `zarr` of rails-formats"
    )]
    Feature {
        /// The folder.
        folder: ObjectPath,
    },
    /// The folder has no metadata of Zarr.
    #[error("`{folder}` has neither `zarr.json` nor `.zmetadata`, `.zarray` or `.zgroup`")]
    NotZarr {
        /// The folder.
        folder: ObjectPath,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A folder cannot be listed.
    #[error("cannot list the folder `{folder}`")]
    List {
        /// The folder.
        folder: ObjectPath,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The groups have more entries than are looked at.
    #[error("the groups of `{folder}` have more than {max_entries} entries")]
    TooMany {
        /// The folder.
        folder: ObjectPath,
        /// The largest number.
        max_entries: usize,
    },
    /// A group is too deep. To leave it out would be to leave out data.
    #[error("the group `{folder}` is deeper than {max_depth} below its store")]
    TooDeep {
        /// The folder.
        folder: ObjectPath,
        /// The largest depth.
        max_depth: usize,
    },
    /// The metadata are wrong.
    #[error(transparent)]
    Zarr(#[from] ZarrError),
    /// The arrays make no manifest.
    #[error("the arrays of `{folder}` make no manifest")]
    Manifest {
        /// The folder.
        folder: ObjectPath,
        /// The cause.
        #[source]
        error: ManifestError,
    },
}

impl OpenedZarr {
    /// The cause for which the array of that name cannot be read, if it is there.
    pub fn refusal(&self, name: &str) -> Option<&ZarrError> {
        self.refused.iter().find(|error| error.array == name)
    }
}

/// Reads the metadata of a Zarr folder of version 2 or 3. It blocks.
///
/// Consolidated metadata are preferred to looking into groups. No chunk is looked at, and links to
/// folders are not followed.
///
/// # Errors
/// [`OpenZarrError`]. An array of an unknown type or codec is no error here, and no folder below
/// whose metadata are wrong: they are among [`refused`](OpenedZarr::refused).
#[cfg(feature = "zarr")]
pub fn open_zarr(root: &Root, folder: &ObjectPath, limits: &OpenLimits) -> Result<OpenedZarr, OpenZarrError> {
    search::open(root, folder, limits)
}

/// Refuses to read a Zarr folder: the program was built without the feature `zarr`.
///
/// # Errors
/// [`OpenZarrError::Feature`].
#[cfg(not(feature = "zarr"))]
pub fn open_zarr(_: &Root, folder: &ObjectPath, _: &OpenLimits) -> Result<OpenedZarr, OpenZarrError> {
    Err(OpenZarrError::Feature { folder: folder.clone() })
}

#[cfg(feature = "zarr")]
mod search {
    use super::*;
    use crate::zarr::{Hierarchy, ZarrProblem};

    pub(super) fn open(root: &Root, folder: &ObjectPath, limits: &OpenLimits) -> Result<OpenedZarr, OpenZarrError> {
        let mut search = Search { root, store: folder, limits, entries: 0, files: Vec::new() };
        let mut hierarchy =
            search.node(folder, "")?.ok_or_else(|| OpenZarrError::NotZarr { folder: folder.clone() })?;
        if !hierarchy.is_complete {
            search.group(folder, "", 0, &mut hierarchy)?;
        }
        let (objects, generations) = search.files.into_iter().unzip();
        let manifest = Manifest::new(objects, hierarchy.arrays, hierarchy.attributes);
        let manifest = manifest.map_err(|error| OpenZarrError::Manifest { folder: folder.clone(), error })?;
        Ok(OpenedZarr { manifest, refused: hierarchy.refused, generations })
    }

    struct Search<'a> {
        root: &'a Root,
        store: &'a ObjectPath,
        limits: &'a OpenLimits,
        /// The number of entries so far.
        entries: usize,
        /// The metadata that were read.
        files: Vec<(ObjectPath, Generation)>,
    }

    impl Search<'_> {
        /// The metadata of a folder; `None`, if it has none.
        fn node(&mut self, folder: &ObjectPath, below: &str) -> Result<Option<Hierarchy>, OpenZarrError> {
            if let Some((file, bytes)) = self.read(folder, "zarr.json")? {
                return Ok(Some(Hierarchy::parse_v3(self.store, below, &file, &bytes)?));
            }
            if below.is_empty()
                && let Some((file, bytes)) = self.read(folder, ".zmetadata")?
            {
                return Ok(Some(Hierarchy::parse_v2_consolidated(self.store, &file, &bytes)?));
            }
            if let Some((file, zarray)) = self.read(folder, ".zarray")? {
                let zattrs = self.read(folder, ".zattrs")?.map(|(_, bytes)| bytes);
                return Ok(Some(Hierarchy::parse_v2_array(self.store, below, &file, &zarray, zattrs.as_deref())?));
            }
            let Some((file, zgroup)) = self.read(folder, ".zgroup")? else { return Ok(None) };
            let zattrs = self.read(folder, ".zattrs")?.map(|(_, bytes)| bytes);
            Ok(Some(Hierarchy::parse_v2_group(&file, &zgroup, zattrs.as_deref())?))
        }

        /// Adds the arrays of a group and of those below it.
        fn group(
            &mut self,
            folder: &ObjectPath,
            below: &str,
            depth: usize,
            hierarchy: &mut Hierarchy,
        ) -> Result<(), OpenZarrError> {
            for name in self.folders(folder)? {
                let Ok(child) = ObjectPath::new(format!("{folder}/{name}")) else { continue };
                let below = if below.is_empty() { name } else { format!("{below}/{name}") };
                let node = match self.node(&child, &below) {
                    // One folder is no reason to refuse the others.
                    Err(OpenZarrError::Zarr(error)) => {
                        hierarchy.refused.push(ZarrError { array: below, ..error });
                        continue;
                    }
                    node => node?,
                };
                let Some(node) = node else { continue };
                if !node.is_complete {
                    if depth == self.limits.max_depth {
                        return Err(OpenZarrError::TooDeep { folder: child, max_depth: depth });
                    }
                    self.group(&child, &below, depth + 1, hierarchy)?;
                }
                hierarchy.append(node);
            }
            Ok(())
        }

        /// The names of the folders in a folder, in order.
        fn folders(&mut self, folder: &ObjectPath) -> Result<Vec<String>, OpenZarrError> {
            let wrong = |error| OpenZarrError::List { folder: folder.clone(), error };
            let mut names = Vec::new();
            for entry in self.root.dir().read_dir(folder.as_path()).map_err(wrong)? {
                let entry = entry.map_err(wrong)?;
                self.entries += 1;
                if self.entries > self.limits.max_entries {
                    let (folder, max_entries) = (self.store.clone(), self.limits.max_entries);
                    return Err(OpenZarrError::TooMany { folder, max_entries });
                }
                if entry.file_type().map_err(wrong)?.is_dir()
                    && let Some(name) = entry.file_name().to_str()
                {
                    names.push(name.to_owned());
                }
            }
            names.sort();
            Ok(names)
        }

        /// Reads a file of metadata, if it is there.
        fn read(&mut self, folder: &ObjectPath, name: &str) -> Result<Option<(ObjectPath, Vec<u8>)>, OpenZarrError> {
            // A folder whose metadata would have no path has none.
            let Ok(path) = ObjectPath::new(format!("{folder}/{name}")) else { return Ok(None) };
            let Some(source) = self.root.source_if_there(&path)? else { return Ok(None) };
            let (bytes, max_bytes) = (source.generation().bytes, Hierarchy::MAX_BYTES as u64);
            if bytes > max_bytes {
                let problem = ZarrProblem::TooLong { bytes, max_bytes };
                return Err(ZarrError { file: path, array: String::new(), problem }.into());
            }
            let mut text = vec![0; bytes as usize];
            source.read_at(0, &mut text)?;
            self.files.push((path.clone(), source.generation()));
            Ok(Some((path, text)))
        }
    }
}
