//! The errors of reading a topology, one type for each source.

use std::{io, path::PathBuf};

/// This machine could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectError {
    /// The kernel's files could not be read.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
    /// The environment makes hwloc describe another machine than this one.
    #[error(
        "hwloc describes another machine than this one: unset HWLOC_XMLFILE, HWLOC_SYNTHETIC, HWLOC_FSROOT and \
         HWLOC_COMPONENTS"
    )]
    NotThisMachine,
}

/// A tree of `/sys` and `/proc` could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SysfsError {
    /// The root could not be opened.
    #[error("cannot open the root `{path}`", path = path.display())]
    Open {
        /// The root.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The CPUs below the root could not be listed: permission is denied, or something else is in
    /// their folder's place.
    #[error("cannot list `{path}/sys/devices/system/cpu`", path = path.display())]
    Cpus {
        /// The root.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The system lacked the means to read a file, such as descriptors or memory: nothing is known
    /// of its facts.
    #[error("cannot read `{path}`", path = path.display())]
    Unread {
        /// The file or folder.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The system lacked the means to list the interfaces (getifaddrs(3)).
    #[error("cannot list the network interfaces")]
    Interfaces {
        /// The answer of the operating system.
        source: io::Error,
    },
    /// There are no CPUs below the root.
    #[error(
        "`{path}` is not the root of a machine's files: its sys/devices/system/cpu is missing or holds no CPU that is \
         online", path = path.display()
    )]
    NoCpus {
        /// The root.
        path: PathBuf,
    },
}

/// An hwloc XML file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// The file itself could not be read.
    #[error("cannot read `{path}`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The file is something else.
    #[error("`{path}` is not an hwloc XML file: {reason}", path = path.display())]
    NotHwloc {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: &'static str,
    },
    /// The file is of a version that the installed hwloc does not know.
    #[error("`{path}` is hwloc XML version {version}, which hwloc {hwloc} cannot read", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's version.
        version: String,
        /// The version of the installed hwloc.
        hwloc: String,
    },
    /// hwloc refused the file.
    #[error("hwloc {hwloc} cannot read `{path}`: it is damaged, or hwloc does not understand it", path = path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The version of the installed hwloc.
        hwloc: String,
        /// The answer of hwloc.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// This build has no hwloc.
    #[error("`{path}` cannot be read: this build is without hwloc (cargo feature `hwloc`)", path = path.display())]
    WithoutHwloc {
        /// The file.
        path: PathBuf,
    },
}

/// A captured machine could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file itself could not be read.
    #[error("cannot read `{path}`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The file could not be written.
    #[error("cannot write `{path}`", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The file is no capture, or a capture that is refused.
    #[error("`{path}` cannot be replayed", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: CaptureFault,
    },
    /// The captured files are no machine's.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
    /// This build reads no captures.
    #[error(
        "`{path}` cannot be read: this build is without captures (feature `captures` of rails-topo)",
        path = path.display()
    )]
    WithoutCaptures {
        /// The file.
        path: PathBuf,
    },
}

/// A fault in the bytes of a capture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureFault {
    /// The bytes are no `.tar.gz`, or not a whole one.
    #[error("it is no .tar.gz, or a damaged one")]
    Damaged {
        /// The error of reading it.
        source: io::Error,
    },
    /// The bytes are an archive of something else.
    #[error("it is an archive, but no capture: it holds no rails-capture.json")]
    NotACapture,
    /// The capture's `rails-capture.json` is malformed.
    #[error("its rails-capture.json cannot be understood")]
    Extra {
        /// The parser's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The capture is of another version of the format.
    #[error("it is a capture of version {version}, and only version {known} is known here")]
    Version {
        /// The capture's version.
        version: u32,
        /// The version that can be read.
        known: u32,
    },
    /// The archive unpacks to more bytes than the limit.
    #[error("it unpacks to more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The archive has more entries than the limit.
    #[error("it has more than {limit} entries")]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// An entry of the capture is refused.
    #[error("its entry `{entry}` is not taken: {reason}")]
    Entry {
        /// The entry's path.
        entry: String,
        /// The fault.
        reason: &'static str,
    },
}

/// A synthetic description is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntheticError {
    /// A word is not `level:count`.
    #[error("`{word}` is not a level with its count, such as core:4")]
    Malformed {
        /// The word.
        word: String,
    },
    /// A level of unknown name.
    #[error("`{level}` is none of package, die, numa, l3, l2, l1, core and pu")]
    UnknownLevel {
        /// The level.
        level: String,
    },
    /// A level is given twice.
    #[error("the level `{level}` is given twice")]
    Repeated {
        /// The level.
        level: &'static str,
    },
    /// A level stands below a level that it contains.
    #[error("the level `{inner}` holds no `{outer}`")]
    Order {
        /// The level that came first.
        inner: &'static str,
        /// The level that must not come after it.
        outer: &'static str,
    },
    /// The last level is not `pu`.
    #[error("the last level must be pu, as in core:4 pu:2")]
    NoPus,
    /// The description makes more PUs than the limit.
    #[error("more than {limit} PUs")]
    TooLarge {
        /// The limit.
        limit: u32,
    },
    /// The description makes more NUMA nodes than the limit.
    #[error("more than {limit} NUMA nodes")]
    TooManyNodes {
        /// The limit.
        limit: u32,
    },
    /// Two interfaces of one name.
    #[error("two interfaces are named `{name}`")]
    RepeatedNic {
        /// The name.
        name: String,
    },
}
