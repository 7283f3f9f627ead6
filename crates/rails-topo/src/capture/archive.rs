//! A capture as one file: `.tar.gz`, so that `tar` unpacks it and hwloc reads the result
//! (`HWLOC_FSROOT`).

use super::{
    Capture, Extra, VERSION,
    tree::{Entries, Entry, Misplaced, Tree},
};
use crate::{CaptureError, CaptureFault, Topology, linux::LONGEST_FILE};
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    path::Path,
};
use tar::{Archive, EntryType, Header};

impl Capture {
    /// Writes the capture to a file, and replaces one that exists.
    ///
    /// A failure leaves a part of the file. [`write`](Self::write) takes any writer, such as a
    /// temporary file that takes the place of the former one once it is complete.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), CaptureError> {
        let path = path.as_ref();
        File::create(path)
            .and_then(|file| self.write(file))
            .map_err(|source| CaptureError::Write { path: path.to_owned(), source })
    }

    /// Reads a capture from a file.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Read`], [`CaptureError::Invalid`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| CaptureError::Read { path: path.to_owned(), source })?;
        Self::read(BufReader::new(file)).map_err(|source| CaptureError::Invalid { path: path.to_owned(), source })
    }

    /// Writes the capture's `.tar.gz`.
    ///
    /// # Errors
    ///
    /// The errors of the writer `to`.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::best()));
        let extra = serde_json::to_vec_pretty(&self.extra)?;
        archive.append_data(&mut header(EntryType::Regular, extra.len()), EXTRA, &extra[..])?;
        write_below(self.tree.entries(), "", &mut archive)?;
        archive.into_inner()?.finish()?.flush()
    }

    /// Reads the `.tar.gz` of a capture from any source. The reader takes at most 256 MiB of
    /// contents and 400,000 entries, and follows no link out of the capture.
    ///
    /// # Errors
    ///
    /// [`CaptureFault`] states the fault.
    pub fn read(from: impl Read) -> Result<Self, CaptureFault> {
        read_within(from, LIMITS)
    }
}

impl Topology {
    /// Reads a capture that [`Capture::save`] made. All facts come from the kernel's files in the
    /// capture, with and without the cargo feature `hwloc`.
    ///
    /// # Errors
    ///
    /// [`CaptureError`]: the file cannot be read, is no capture, or holds no CPU.
    pub fn from_capture(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        Ok(Capture::open(path)?.replay(path)?)
    }
}

fn write_below(entries: &Entries, above: &str, archive: &mut tar::Builder<impl Write>) -> io::Result<()> {
    for (name, entry) in entries {
        let path = format!("{above}{name}");
        match entry {
            Entry::Folder(entries) => {
                let path = path + "/";
                archive.append_data(&mut header(EntryType::Directory, 0), &path, io::empty())?;
                write_below(entries, &path, archive)?;
            }
            Entry::Link(target) => archive.append_link(&mut header(EntryType::Symlink, 0), &path, target)?,
            Entry::File(bytes) => {
                archive.append_data(&mut header(EntryType::Regular, bytes.len()), &path, &bytes[..])?;
            }
        }
    }
    Ok(())
}

/// A header without owner and time, so that two captures of one state are the same bytes.
fn header(kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header
}

/// The limits of a capture.
#[derive(Clone, Copy)]
struct Limits {
    /// The bytes that a capture may unpack to.
    bytes: u64,
    entries: usize,
}

/// Reads a capture of unknown make, which may be hostile.
fn read_within(from: impl Read, limits: Limits) -> Result<Capture, CaptureFault> {
    let mut bounded = Bounded { inner: MultiGzDecoder::new(from), left: limits.bytes, exceeded: false };
    let read = read_tar(&mut bounded, limits.entries);
    if bounded.exceeded {
        return Err(CaptureFault::TooLarge { limit: limits.bytes });
    }
    read
}

fn read_tar(from: &mut impl Read, max_entries: usize) -> Result<Capture, CaptureFault> {
    let damaged = |source| CaptureFault::Damaged { source };
    let mut archive = Archive::new(from);
    let (mut tree, mut extra, mut count) = (Tree::default(), None, 0);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        count += 1;
        if count > max_entries {
            return Err(CaptureFault::TooManyEntries { limit: max_entries });
        }
        let path = path_of(&entry.path_bytes())?;
        let refused = |reason| CaptureFault::Entry { entry: path.clone(), reason };
        let found = match entry.header().entry_type() {
            EntryType::XGlobalHeader => continue,
            EntryType::Directory if path.is_empty() => continue,
            EntryType::Directory => Entry::Folder(Entries::new()),
            EntryType::Symlink => {
                let target = entry.link_name_bytes().and_then(|target| String::from_utf8(target.into_owned()).ok());
                Entry::Link(target.filter(|target| target.len() <= LONGEST_PATH).ok_or_else(|| refused(BAD_LINK))?)
            }
            EntryType::Regular => {
                if entry.size() > LONGEST_FILE {
                    return Err(refused("it is too long"));
                }
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).map_err(damaged)?;
                Entry::File(bytes)
            }
            _ => return Err(refused("it is no file, folder or symlink")),
        };
        match found {
            Entry::File(json) if path == EXTRA => extra = Some(read_extra(&json)?),
            found => tree.insert(&path, found).map_err(|misplaced| {
                refused(match misplaced {
                    Misplaced::BelowNoFolder => "the folder that it lies in is missing",
                    Misplaced::Taken => "it is there twice",
                })
            })?,
        }
    }
    // Nothing follows the end of the archive, but reading on verifies the checksum.
    io::copy(archive.into_inner(), &mut io::sink()).map_err(damaged)?;
    Ok(Capture { tree, extra: extra.ok_or(CaptureFault::NotACapture)? })
}

/// The path as a [`Tree`] keeps it, without empty components and `.`; an error if it leads out of
/// the tree.
fn path_of(bytes: &[u8]) -> Result<String, CaptureFault> {
    let text = String::from_utf8_lossy(bytes);
    let refused = |reason| CaptureFault::Entry { entry: text.chars().take(100).collect(), reason };
    if text.len() > LONGEST_PATH || text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(refused("its path is too long, or no text in UTF-8"));
    }
    let names: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if text.starts_with('/') || names.contains(&"..") {
        return Err(refused("its path leads out of the capture"));
    }
    if names.len() > DEEPEST {
        return Err(refused("it lies too deep"));
    }
    Ok(names.join("/"))
}

fn read_extra(json: &[u8]) -> Result<Extra, CaptureFault> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    let failed = |source| CaptureFault::Extra { source: Box::new(source) };
    // A newer version may hold something else.
    let Versioned { version } = serde_json::from_slice(json).map_err(failed)?;
    if version != VERSION {
        return Err(CaptureFault::Version { version, known: VERSION });
    }
    serde_json::from_slice(json).map_err(failed)
}

/// A reader that fails after `left` unpacked bytes.
struct Bounded<R> {
    inner: R,
    left: u64,
    exceeded: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let longest = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX).max(1));
        let count = self.inner.read(&mut buffer[..longest])?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                self.exceeded = true;
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        Ok(count)
    }
}

/// The only entry that is not a file of the kernel, at the root beside `sys` and `proc`.
const EXTRA: &str = "rails-capture.json";

/// A machine of 2,048 CPUs has about 100,000 files, which make a tar of 100 MiB.
const LIMITS: Limits = Limits { bytes: 256 << 20, entries: 400_000 };

/// The longest path of Linux (PATH_MAX).
const LONGEST_PATH: usize = 4096;

/// The kernel's deepest folders are those of devices behind several bridges: about 20.
const DEEPEST: usize = 64;

const BAD_LINK: &str = "its target is missing, too long, or no text in UTF-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_is_read_up_to_its_limits_and_no_further() {
        let mut packed = Vec::new();
        let capture = Capture::of_this_machine().unwrap();
        capture.write(&mut packed).unwrap();
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        let bytes = unpacked.len() as u64;
        let entries = Archive::new(&unpacked[..]).entries().unwrap().count();
        let read = |bytes, entries| read_within(&packed[..], Limits { bytes, entries });
        assert_eq!(read(bytes, entries).unwrap(), capture);
        assert!(matches!(read(bytes - 1, entries), Err(CaptureFault::TooLarge { limit }) if limit == bytes - 1));
        assert!(
            matches!(read(bytes, entries - 1), Err(CaptureFault::TooManyEntries { limit }) if limit == entries - 1)
        );
    }
}
