//! Open files below a root.

use super::{error::ReadError, generation::Generation};
use crate::manifest::ObjectPath;
use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions, OpenOptionsExt},
};
use std::{
    fs::File,
    io::{self, ErrorKind},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
};

/// A folder out of which no path leads, neither by `..` nor by a link.
#[derive(Debug)]
pub struct Root {
    dir: Dir,
}

/// An open file of one generation.
#[derive(Debug)]
pub struct Source {
    path: ObjectPath,
    file: File,
    generation: Generation,
}

impl Root {
    /// Opens a folder.
    ///
    /// # Errors
    /// [`ReadError::Open`].
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        let dir = Dir::open_ambient_dir(folder, ambient_authority());
        Ok(Self { dir: dir.map_err(|error| ReadError::Open { path: folder.display().to_string(), error })? })
    }

    /// Opens a file for reading. A link may lead to another place below the root.
    ///
    /// # Errors
    /// [`ReadError::Open`], also for a path that leads out of the root, and
    /// [`ReadError::NotAFile`].
    pub fn source(&self, path: &ObjectPath) -> Result<Source, ReadError> {
        let mut options = OpenOptions::new();
        // A pipe without a writer is opened at once, and refused.
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = self.dir.open_with(path.as_path(), &options);
        let file = file.map_err(|error| ReadError::Open { path: path.to_string(), error })?.into_std();
        let metadata = file.metadata().map_err(|error| ReadError::Metadata { path: path.clone(), error })?;
        if !metadata.is_file() {
            return Err(ReadError::NotAFile { path: path.clone() });
        }
        Ok(Source { path: path.clone(), file, generation: Generation::of(&metadata) })
    }

    /// Opens a file as [`source`](Self::source) does; `None`, if there is no file of that name.
    ///
    /// # Errors
    /// Those of [`source`](Self::source) but the one that nothing is there. A link to nothing is an
    /// error: the name is there, and the bytes are elsewhere.
    pub fn source_if_there(&self, path: &ObjectPath) -> Result<Option<Source>, ReadError> {
        match self.source(path) {
            Err(ReadError::Open { error, .. }) if error.kind() == ErrorKind::NotFound && !self.is_link(path) => {
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    fn is_link(&self, path: &ObjectPath) -> bool {
        self.dir.symlink_metadata(path.as_path()).is_ok_and(|metadata| metadata.is_symlink())
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }
}

impl Source {
    /// The path below the root.
    pub fn path(&self) -> &ObjectPath {
        &self.path
    }

    /// The generation of the file at its opening; all bytes that are read are of this one.
    ///
    /// A file that loses its name to another one is of another generation, and so is the other one.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Fills `buffer` with the bytes from `offset` on. It blocks.
    ///
    /// # Errors
    /// [`ReadError::Changed`], if the file is of another generation before or after the read;
    /// [`ReadError::Short`], if it ends before the bytes do; [`ReadError::Read`]. The buffer's
    /// bytes mean nothing then.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.check()?;
        self.read_unchecked(offset, buffer)?;
        self.check()
    }

    /// Reads the bytes of a range, as [`read_at`](Self::read_at) does. A range that ends behind the
    /// file takes no memory.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, ReadError> {
        let bytes = (range.end - range.start) as usize;
        if range.end > self.generation.bytes {
            self.check()?;
            return Err(self.short(range.start, bytes));
        }
        let mut buffer = vec![0; bytes];
        self.read_at(range.start, &mut buffer)?;
        Ok(buffer)
    }

    /// Reads as [`read_at`](Self::read_at) does, without comparing the generation of a good read.
    pub(super) fn read_unchecked(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.generation.bytes) {
            return Err(self.short(offset, buffer.len()));
        }
        self.file.read_exact_at(buffer, offset).or_else(|error| {
            // A file that was cut has changed, and that says more than its end.
            self.check()?;
            Err(self.wrong(offset, buffer.len(), error))
        })
    }

    /// Keeps the file, if it is of that generation: the one whose header was read, for example.
    ///
    /// # Errors
    /// [`ReadError::Changed`].
    pub fn of_generation(self, before: Generation) -> Result<Self, ReadError> {
        if self.generation == before {
            return Ok(self);
        }
        Err(ReadError::Changed { path: self.path, before: before.into(), now: self.generation.into() })
    }

    /// Compares the file with its generation.
    ///
    /// # Errors
    /// [`ReadError::Changed`] and [`ReadError::Metadata`].
    pub fn check(&self) -> Result<(), ReadError> {
        let metadata = self.file.metadata().map_err(|error| ReadError::Metadata { path: self.path.clone(), error })?;
        let (before, now) = (self.generation, Generation::of(&metadata));
        if before == now {
            return Ok(());
        }
        Err(ReadError::Changed { path: self.path.clone(), before: before.into(), now: now.into() })
    }

    fn wrong(&self, offset: u64, bytes: usize, error: io::Error) -> ReadError {
        if error.kind() == ErrorKind::UnexpectedEof {
            return self.short(offset, bytes);
        }
        ReadError::Read { path: self.path.clone(), offset, bytes, error }
    }

    fn short(&self, offset: u64, bytes: usize) -> ReadError {
        ReadError::Short { path: self.path.clone(), offset, bytes, file_bytes: self.generation.bytes }
    }
}
