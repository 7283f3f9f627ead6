//! A dataset that is served, of one generation.

use super::{
    chunk_files::{ChunkFiles, difference},
    content::{Content, DatasetView, open},
    describe::describe,
    error::CatalogueError,
    folders::Folders,
    format::SourceFormat,
    limits::OpenLimits,
};
use crate::description::DatasetDescription;
use rails_array::Shape;
use rails_formats::{
    dataset::Principal,
    manifest::{ArrayManifest, Manifest, ObjectPath, Placement},
    reader::{Generation, ReadError, Root, Source},
    zarr::ZarrError,
};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// A dataset that is served, and the files in which its elements lie.
///
/// All that is read belongs to the state of the files at opening, its *generation*: a file that has
/// changed since is an error. [`reopen`](Self::reopen) makes the next generation.
#[derive(Debug)]
pub struct PublishedDataset {
    number: u64,
    path: PathBuf,
    format: SourceFormat,
    limits: OpenLimits,
    content: Content,
    description: DatasetDescription,
    chunk_files: ChunkFiles,
    /// Files of chunks that were read at opening.
    first_chunk_files: Vec<(ObjectPath, Option<Generation>)>,
    /// The file with which the next check begins.
    next_check: AtomicUsize,
}

impl PublishedDataset {
    /// Opens the dataset of a file or folder. It blocks.
    pub(super) fn open(
        path: &Path,
        format: SourceFormat,
        folders: &mut Folders,
        limits: &OpenLimits,
    ) -> Result<Self, CatalogueError> {
        Self::open_after(0, path, format, folders, limits)
    }

    /// Opens the dataset as a generation with a higher number than that.
    fn open_after(
        before: u64,
        path: &Path,
        format: SourceFormat,
        folders: &mut Folders,
        limits: &OpenLimits,
    ) -> Result<Self, CatalogueError> {
        let content = open(path, format, folders, limits)?;
        let generation = generation_of(&content).max(before.saturating_add(1));
        let described = describe(path, &content, generation, limits)?;
        let dataset = Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            path: path.into(),
            format,
            limits: *limits,
            content,
            description: described.description,
            chunk_files: ChunkFiles::new(MAX_CHUNK_FILES),
            first_chunk_files: described.chunk_files,
            next_check: AtomicUsize::new(0),
        };
        for (file, generation) in &dataset.first_chunk_files {
            let noted = dataset.chunk_files.note(file, *generation);
            noted.map_err(|_| CatalogueError::Changed { path: path.into(), file: file.clone() })?;
        }
        Ok(dataset)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.content.name
    }

    /// The file or folder, as it was named or found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format of the file or folder.
    pub fn format(&self) -> SourceFormat {
        self.format
    }

    /// The facts for readers.
    ///
    /// The number of the generation is the time of the youngest file's last change, in nanoseconds
    /// since 1970, so that a node that starts again goes on with the number that it had. A
    /// dataset with a file for each chunk, whose times are not looked at, has the time of its
    /// opening.
    pub fn description(&self) -> &DatasetDescription {
        &self.description
    }

    /// The places of the chunks.
    pub fn manifest(&self) -> &Manifest {
        &self.content.manifest
    }

    /// The places of the chunks of the array of that number.
    pub fn array(&self, number: usize) -> Option<&ArrayManifest> {
        self.manifest().arrays().get(number)
    }

    /// Those who may read beside the owner; empty without a dataset file.
    pub fn readers(&self) -> &[Principal] {
        &self.content.readers
    }

    /// The regions that are read again and again, from the dataset file.
    pub fn views(&self) -> &[DatasetView] {
        &self.content.views
    }

    /// The shape of a partition of the array of that number, in blocks, if the dataset file says
    /// one.
    pub fn partition_shape(&self, number: usize) -> Option<&Shape> {
        self.content.layouts.get(number)?.partition_shape.as_ref()
    }

    /// Other places that have the files of the array of that number, from the dataset file.
    pub fn replicas(&self, number: usize) -> &[String] {
        self.content.layouts.get(number).map_or(&[], |layout| &layout.replicas)
    }

    /// The arrays of the source that are left out, because they cannot be read, and why.
    pub fn refused(&self) -> &[ZarrError] {
        &self.content.refused
    }

    /// The size of the files in bytes; `None` for files of one chunk each, which are not looked at.
    pub fn source_bytes(&self) -> Option<u64> {
        if has_chunk_files(self.manifest()) {
            return None;
        }
        Some(self.content.generations.iter().fold(0, |sum, generation| sum.saturating_add(generation.bytes)))
    }

    /// The folder below which the files lie, without links.
    pub fn folder(&self) -> &Path {
        &self.content.place.folder
    }

    /// The number of the device of the files; `None` for files of one chunk each. Files on several
    /// devices count as that of the first one.
    pub fn device(&self) -> Option<u64> {
        if has_chunk_files(self.manifest()) { None } else { Some(self.content.generations.first()?.device) }
    }

    /// Compares the files with their generations. It blocks.
    ///
    /// Of many files it looks at 1,024, and the next call goes on with those behind them. Files of
    /// one chunk each are compared when they are read, but for those of small arrays.
    ///
    /// # Errors
    /// [`ReadError::Changed`] and [`ReadError::Presence`], [`ReadError::Open`] for a file that is
    /// gone, and others where the system refuses to tell.
    pub fn check(&self) -> Result<(), ReadError> {
        // The folder may be another one by now.
        let root = Root::open(self.folder())?;
        let objects = self.manifest().objects();
        let count = objects.len().min(MAX_CHECKED_FILES);
        let first = self.next_check.fetch_add(count, Ordering::Relaxed);
        for number in (0..count).map(|number| first.wrapping_add(number) % objects.len()) {
            check_file(&root, &objects[number], self.content.generations[number])?;
        }
        if let Some(generation) = self.content.dataset_file {
            check_file(&root, &self.content.place.name, generation)?;
        }
        self.first_chunk_files.iter().try_for_each(|(path, before)| {
            let now = root.source_if_there(path)?.map(|source| source.generation());
            if now == *before { Ok(()) } else { Err(difference(path, *before, now)) }
        })
    }

    /// Opens the dataset again, as a generation with a higher number. It blocks.
    ///
    /// # Errors
    /// [`CatalogueError`], also [`CatalogueError::Renamed`] for a dataset file that has another
    /// name now.
    pub fn reopen(&self) -> Result<Self, CatalogueError> {
        let before = self.description.generation;
        let next = Self::open_after(before, &self.path, self.format, &mut Folders::default(), &self.limits)?;
        if next.name() != self.name() {
            let (name, before) = (next.content.name, self.content.name.clone());
            return Err(CatalogueError::Renamed { path: self.path.clone(), name, before });
        }
        Ok(next)
    }

    /// A number that no other dataset of this process has, nor another generation of this one.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The folder of the files.
    pub(crate) fn root(&self) -> &Root {
        &self.content.place.root
    }

    /// Opens the file of a number, in its generation. It blocks.
    pub(crate) fn numbered(&self, object: u32) -> Result<Source, ReadError> {
        let source = self.root().source(&self.manifest().objects()[object as usize])?;
        source.of_generation(self.content.generations[object as usize])
    }

    /// Opens a file of a chunk, if it is there, and compares its generation with that of earlier
    /// reads. The call blocks.
    pub(crate) fn keyed(&self, path: &ObjectPath) -> Result<Option<Source>, ReadError> {
        let source = self.root().source_if_there(path)?;
        self.chunk_files.note(path, source.as_ref().map(Source::generation))?;
        Ok(source)
    }
}

fn check_file(root: &Root, path: &ObjectPath, before: Generation) -> Result<(), ReadError> {
    root.source(path)?.of_generation(before).map(drop)
}

/// Whether chunks lie in files that the manifest does not list.
fn has_chunk_files(manifest: &Manifest) -> bool {
    let mut sections = manifest.arrays().iter().flat_map(ArrayManifest::sections);
    sections.any(|section| matches!(section.placement, Placement::Keyed(_)))
}

/// The number of a dataset's generation, as [`PublishedDataset::description`] says.
fn generation_of(content: &Content) -> u64 {
    let files = content.generations.iter().chain(&content.dataset_file);
    let changed_ns = files.map(|generation| generation.changed_ns).max().unwrap_or(0);
    let now_ns = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
    let ns = if has_chunk_files(&content.manifest) { changed_ns.max(now_ns()) } else { changed_ns };
    u64::try_from(ns).unwrap_or(0)
}

static NEXT: AtomicU64 = AtomicU64::new(0);
/// To open a file and ask for its facts takes 10 us on a local disk, so a check takes 10 ms.
const MAX_CHECKED_FILES: usize = 1024;
/// Each takes about 120 bytes of memory.
const MAX_CHUNK_FILES: usize = 1 << 18;
