//! The datasets of a node, by name.

use super::{
    error::CatalogueError,
    find::{Candidate, find},
    folders::{Folders, place_of},
    format::SourceFormat,
    limits::OpenLimits,
    published::PublishedDataset,
};
use rails_formats::manifest::ObjectPath;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet, btree_map::Entry},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Datasets by name.
#[derive(Debug, Default)]
pub struct Catalogue {
    datasets: BTreeMap<String, Arc<PublishedDataset>>,
    refused: Vec<Refused>,
}

/// A file in a folder, or one of a pattern, that is no dataset, though it looks like one.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused {
    /// The file or folder.
    pub path: PathBuf,
    /// The reason.
    pub error: CatalogueError,
}

impl Catalogue {
    /// Opens the datasets that the arguments mean. It blocks.
    ///
    /// An argument is a dataset file (`*.toml`), a file of NetCDF-3 or MAP-Binary, a Zarr folder, a
    /// folder of these, or a pattern (`data/*.nc`). The files of a folder are datasets of their
    /// own, but for those that a dataset file among them names; folders in it are looked into
    /// only if they are Zarr's. A dataset file has its dataset's name; other files and folders
    /// name theirs, without what follows the last dot.
    ///
    /// # Errors
    /// [`CatalogueError`] for an argument that cannot be opened, that means nothing, and for two
    /// datasets of one name. A file that cannot be opened and was not named itself is no error, but
    /// among [`refused`](Self::refused).
    pub fn open(data: &[PathBuf], limits: &OpenLimits) -> Result<Self, CatalogueError> {
        let mut catalogue = Self::default();
        let mut candidates = Vec::new();
        for argument in data {
            let found = find(argument, limits)?;
            candidates.extend(found.candidates);
            catalogue.refused.extend(found.refused.into_iter().map(|(path, error)| Refused { path, error }));
        }
        // Dataset files come first, for they have files that are no datasets of their own then.
        candidates.sort_by_key(|candidate| (candidate.format != SourceFormat::DatasetFile, !candidate.is_named));
        let (mut folders, mut opened, mut used) = (Folders::default(), HashSet::new(), BTreeSet::new());
        for candidate in candidates {
            // Two arguments may mean the same file.
            let Ok(place) = place_of(&candidate.path) else {
                catalogue.add(&candidate, &mut folders, limits)?;
                continue;
            };
            if !opened.insert(place.clone()) || (!candidate.is_named && used.contains(&place)) {
                continue;
            }
            let dataset = catalogue.add(&candidate, &mut folders, limits)?;
            if let Some(dataset) = dataset.filter(|_| candidate.format == SourceFormat::DatasetFile) {
                let folder = || dataset.folder().to_owned();
                for object in dataset.manifest().objects() {
                    used.insert((folder(), object.clone()));
                    // The files of a Zarr folder are below it.
                    if let Some((above, _)) = object.as_str().split_once('/') {
                        used.insert((folder(), ObjectPath::new(above).expect("a part of a path is one")));
                    }
                }
            }
        }
        Ok(catalogue)
    }

    /// The names, in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.datasets.keys().map(String::as_str)
    }

    /// The datasets, in the order of their names.
    pub fn datasets(&self) -> impl ExactSizeIterator<Item = &Arc<PublishedDataset>> {
        self.datasets.values()
    }

    /// The dataset of that name.
    pub fn dataset(&self, name: &str) -> Option<Arc<PublishedDataset>> {
        self.datasets.get(name).cloned()
    }

    /// The folders in which the files of the datasets lie, without links.
    pub fn folders(&self) -> BTreeSet<&Path> {
        self.datasets().map(|dataset| dataset.folder()).collect()
    }

    /// The files of folders and patterns that are no datasets, though they look like ones.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Puts the next generation of a dataset in the place of the one before, which is the result;
    /// `None`, if there was no dataset of that name.
    pub fn replace(&mut self, dataset: Arc<PublishedDataset>) -> Option<Arc<PublishedDataset>> {
        self.datasets.insert(dataset.name().to_owned(), dataset)
    }

    /// Opens a candidate and adds it; `None`, if it is refused.
    fn add(
        &mut self,
        candidate: &Candidate,
        folders: &mut Folders,
        limits: &OpenLimits,
    ) -> Result<Option<&PublishedDataset>, CatalogueError> {
        let Candidate { path, format, is_named } = candidate;
        let dataset = match PublishedDataset::open(path, *format, folders, limits) {
            Ok(dataset) => dataset,
            Err(error) if !is_named => {
                self.refused.push(Refused { path: path.clone(), error });
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match self.datasets.entry(dataset.name().to_owned()) {
            Entry::Vacant(place) => Ok(Some(place.insert(Arc::new(dataset)))),
            Entry::Occupied(other) => Err(CatalogueError::DuplicateName {
                name: dataset.name().into(),
                first: other.get().path().into(),
                second: dataset.path().into(),
            }),
        }
    }
}
