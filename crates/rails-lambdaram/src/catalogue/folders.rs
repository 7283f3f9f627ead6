//! The folders of datasets, each open once.

use super::error::CatalogueError;
use rails_formats::{manifest::ObjectPath, reader::Root};
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file or folder in an open folder.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The folder's own path, without links.
    pub(super) folder: PathBuf,
    pub(super) root: Arc<Root>,
    /// The name in it.
    pub(super) name: ObjectPath,
}

/// Folders by their own paths. Each takes a descriptor for as long as one of its datasets is there.
#[derive(Debug, Default)]
pub(super) struct Folders {
    roots: HashMap<PathBuf, Arc<Root>>,
}

impl Folders {
    /// Opens the folder in which a file or folder lies. Links on the way are followed.
    pub(super) fn place(&mut self, path: &Path) -> Result<Place, CatalogueError> {
        let (folder, name) = place_of(path)?;
        self.place_at(path, folder, name)
    }

    /// Opens the folder of a file that need not be there. Links on the way to the folder are
    /// followed.
    pub(super) fn place_in_folder(&mut self, path: &Path) -> Result<Place, CatalogueError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let real = fs::canonicalize(folder);
        let real = real.map_err(|error| CatalogueError::Path { call: "find", path: folder.into(), error })?;
        let name = path.file_name().ok_or_else(|| CatalogueError::NotAFile { path: path.into() })?;
        let name = name_of(path, name)?;
        self.place_at(path, real, name)
    }

    fn place_at(&mut self, path: &Path, folder: PathBuf, name: ObjectPath) -> Result<Place, CatalogueError> {
        if let Some(root) = self.roots.get(&folder) {
            return Ok(Place { root: Arc::clone(root), folder, name });
        }
        let root = Root::open(&folder);
        let root = Arc::new(root.map_err(|error| CatalogueError::Read { path: path.into(), error: error.into() })?);
        self.roots.insert(folder.clone(), Arc::clone(&root));
        Ok(Place { folder, root, name })
    }
}

/// The folder of a file or folder, without links, and the name in it.
pub(super) fn place_of(path: &Path) -> Result<(PathBuf, ObjectPath), CatalogueError> {
    let real =
        fs::canonicalize(path).map_err(|error| CatalogueError::Path { call: "find", path: path.into(), error })?;
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(CatalogueError::NotAFile { path: path.into() });
    };
    Ok((folder.into(), name_of(&real, name)?))
}

/// The name of a file as a manifest has it.
fn name_of(path: &Path, name: &OsStr) -> Result<ObjectPath, CatalogueError> {
    let name = name.to_str().ok_or_else(|| CatalogueError::NotText { path: path.into() })?;
    ObjectPath::new(name).map_err(|_| CatalogueError::Name { path: path.into() })
}
