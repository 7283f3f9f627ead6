//! Other people's machines, from hwloc's own test suite: their folder, and their archives unpacked.
//!
//! The captures are no part of this repository. The folder that holds `xml/*.xml`,
//! `sysfs/*.tar.bz2` and perhaps `more/*.tar.bz2` is named by the environment variable
//! `RAILS_CAPTURES`, or else it is `shared/topologies` beside the checkout. Tests that need it are
//! named `captured_*` and ignored; `cargo xtask test` runs them where the folder is.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// The environment variable that names the folder.
pub const CAPTURES: &str = "RAILS_CAPTURES";
/// The folder whose files lie in memory (shm_overview(7)).
const MEMORY: &str = "/dev/shm";

/// The copies of `/sys` and `/proc`, packed; sorted by their names, first those of `sysfs`, then
/// those of `more`.
///
/// # Panics
///
/// If there are none.
pub fn trees() -> Vec<PathBuf> {
    let more = if folder().join("more").is_dir() { files("more", ".tar.bz2") } else { Vec::new() };
    [files("sysfs", ".tar.bz2"), more].concat()
}

/// The files that hwloc wrote; sorted by their names.
///
/// # Panics
///
/// If there are none.
pub fn xml_files() -> Vec<PathBuf> {
    files("xml", ".xml")
}

/// The packed tree of that name, which need not exist.
pub fn tree(name: &str) -> PathBuf {
    let more = folder().join("more").join(name);
    if more.exists() { more } else { folder().join("sysfs").join(name) }
}

/// The XML file of that name, which need not exist.
pub fn xml_file(name: &str) -> PathBuf {
    folder().join("xml").join(name)
}

/// Whether hwloc 3 wrote that file, which hwloc 2 does not read.
///
/// # Panics
///
/// Where the file cannot be read.
pub fn is_of_hwloc_3(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.contains("<topology version=\"3.")
}

/// The folder, which need not exist.
pub fn folder() -> PathBuf {
    named().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies"))
}

/// The folder that the environment names, if it names one.
pub fn named() -> Option<PathBuf> {
    env::var_os(CAPTURES).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// An unpacked tree, deleted on drop.
#[derive(Debug)]
pub struct Unpacked {
    _folder: TempDir,
    root: PathBuf,
}

impl Unpacked {
    /// Unpacks a tree into a new folder, with `tar`, which calls bzip2. The folder lies in memory
    /// if possible: a tree is up to ten thousand small files, over which a disk was seen to take 25
    /// s, and memory 0.4 s.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn of(archive: &Path) -> Self {
        let folder = TempDir::new_in(MEMORY).or_else(|_| TempDir::new()).expect("there is room for a folder");
        let packed = archive.display();
        run(Command::new("tar").arg("-xjf").arg(archive).arg("-C").arg(folder.path()));
        let mut inside = fs::read_dir(folder.path()).expect("it was just made");
        let root = inside.next().unwrap_or_else(|| panic!("{packed} is empty")).expect("it can be read").path();
        // Some folders were captured without permission to read or write them.
        run(Command::new("chmod").args(["-R", "u+rwX"]).arg(&root));
        Self { _folder: folder, root }
    }

    /// The folder that holds `sys` and `proc`.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

fn files(kind: &str, suffix: &str) -> Vec<PathBuf> {
    let folder = folder().join(kind);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.retain(|file| file.to_str().is_some_and(|file| file.ends_with(suffix)));
    files.sort();
    assert!(!files.is_empty(), "{} holds no *{suffix}", folder.display());
    files
}
