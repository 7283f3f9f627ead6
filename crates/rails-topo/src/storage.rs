//! The disks that hold a file.

use crate::linux::{NoDisks, Root, disks_under};
use std::{
    fmt, fs,
    io::{self, Read},
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// The block device that holds a file of this machine, and the disks under it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Storage {
    /// The kernel's name of the block device: `nvme0n1p2`, `dm-0`, `md0`.
    pub device: String,
    /// The disks under it, sorted, by the names that
    /// [`BlockDevice::name`](crate::BlockDevice::name) has: that of a partition, and all of an
    /// array (md) or a mapped device (LVM, encryption). There is at least one.
    pub disks: Vec<String>,
}

/// The reason why no disk is known to hold a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// A call of the operating system failed.
    #[error("{call} failed for `{path}`", path = path.display())]
    Call {
        /// The call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The file system states no block device: it is in memory (tmpfs), on the network (NFS), above
    /// other file systems (overlay), or has devices of its own (ZFS).
    #[error("`{path}` is on a file system that states no block device ({filesystem})", path = path.display())]
    NoBlockDevice {
        /// The file.
        path: PathBuf,
        /// The type of the file system.
        filesystem: String,
    },
    /// `/sys` does not list the block device, as in some containers.
    #[error("`{path}` is on block device {major}:{minor}, which /sys/dev/block does not list", path = path.display())]
    Unlisted {
        /// The file.
        path: PathBuf,
        /// The major number of the device.
        major: u64,
        /// The minor number of the device.
        minor: u64,
    },
    /// The block device is made in software, and no disk is under it (`zram0`, `loop0`, `ram0`).
    #[error("`{path}` is on `{device}`, which is made in software and has no disk under it", path = path.display())]
    NoDisk {
        /// The file.
        path: PathBuf,
        /// The kernel's name of the device.
        device: String,
    },
}

impl Storage {
    /// The disks that hold a file or a folder of this machine, or a block device (`/dev/nvme0n1`)
    /// and its disks.
    ///
    /// The device is the file system's (`st_dev`) if that is a block device, and the mount's for
    /// btrfs, whose further devices are left out. The backing file of a loop device is ignored.
    ///
    /// ```no_run
    /// use rails_topo::Storage;
    ///
    /// let storage = Storage::of("/data/film.rgba")?;
    /// // The text of a rail beside these disks: `nvme0n1`, or `nvme0n1+nvme1n1` of an array.
    /// println!("{storage}: {}", storage.disks.join("+"));
    /// # Ok::<(), rails_topo::StorageError>(())
    /// ```
    ///
    /// # Errors
    /// [`StorageError`].
    ///
    /// # Privileges
    /// Search permission for the folders of the path; the file itself need not be readable.
    ///
    /// # References
    /// stat(2), open(2) (`O_PATH`), proc_pid_mountinfo(5), Documentation/ABI/testing/sysfs-dev in
    /// the kernel's sources
    pub fn of(path: impl AsRef<Path>) -> Result<Self, StorageError> {
        let path = path.as_ref();
        let failed = |call| move |source| StorageError::Call { call, path: path.to_owned(), source };
        let file = fs::File::options().read(true).custom_flags(nix::libc::O_PATH).open(path).map_err(failed("open"))?;
        let facts = file.metadata().map_err(failed("fstat"))?;
        let device = if facts.file_type().is_block_device() { facts.rdev() } else { facts.dev() };
        let device = match nix::sys::stat::major(device) {
            0 => mounted_device(&file, path)?,
            _ => device,
        };
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        let root = Root::open(Path::new("/")).map_err(failed("opening the root of /sys"))?;
        let (device, disks) = disks_under(&root, major, minor).map_err(|none| match none {
            NoDisks::Unlisted => StorageError::Unlisted { path: path.to_owned(), major, minor },
            NoDisks::Software { device } => StorageError::NoDisk { path: path.to_owned(), device },
        })?;
        Ok(Self { device, disks })
    }
}

/// `md0 on nvme0n1, nvme1n1`.
impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.disks[..] {
            [disk] if *disk == self.device => f.write_str(disk),
            disks => write!(f, "{} on {}", self.device, disks.join(", ")),
        }
    }
}

/// The number of the block device that an open file's mount names as its source. The file's
/// `st_dev` is a number without a device: btrfs gives one to each subvolume, and file systems
/// without a block device have no other.
fn mounted_device(file: &fs::File, path: &Path) -> Result<u64, StorageError> {
    let read = |name: &str| {
        let mut text = Vec::new();
        let file = fs::File::open(name).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
        file.map_err(|source| StorageError::Call { call: "reading the mount", path: path.to_owned(), source })?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let mounts = read("/proc/self/mountinfo")?;
    let (filesystem, source) = mount_id(&read(&format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?)
        .and_then(|id| mount(&mounts, id))
        .map_or(("unknown", String::new()), |(filesystem, source)| (filesystem, unescaped(source)));
    let is_device = |facts: &fs::Metadata| facts.file_type().is_block_device();
    let device =
        Some(&source).filter(|source| source.starts_with("/dev/")).and_then(|source| fs::metadata(source).ok());
    let device = device.filter(is_device).map(|facts| facts.rdev());
    device.ok_or_else(|| StorageError::NoBlockDevice { path: path.to_owned(), filesystem: filesystem.to_owned() })
}

/// The number of the mount in `/proc/self/fdinfo/N`.
fn mount_id(fdinfo: &str) -> Option<&str> {
    fdinfo.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim)
}

/// The type and the source of a mount in `/proc/self/mountinfo`, whose lines are
/// `36 35 98:0 /of /at rw,noatime [tag...] - type source options`.
fn mount<'t>(mountinfo: &'t str, id: &str) -> Option<(&'t str, &'t str)> {
    let line = mountinfo.lines().find(|line| line.split(' ').next() == Some(id))?;
    let mut words = line.split_once(" - ")?.1.split(' ');
    Some((words.next()?, words.next()?))
}

/// A word of `/proc/self/mountinfo`, where space, tab, newline and backslash are three octal digits
/// after a backslash.
fn unescaped(word: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.into_iter().fold(word.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

/// Longer files are cut: a line of a mount has a hundred bytes or two.
const LONGEST: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mounts_are_found_by_their_numbers() {
        let mounts = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 0:29 /@ / rw,noatime shared:1 - btrfs /dev/nvme0n1p2 rw,ssd,subvolid=256,subvol=/@
270 27 0:40 / /with\\040- rw - overlay overlay rw,lowerdir=/a - b
";
        assert_eq!(mount_id("pos:\t0\nflags:\t010000000\nmnt_id:\t27\nino:\t9\n"), Some("27"));
        assert_eq!(mount(mounts, "27"), Some(("btrfs", "/dev/nvme0n1p2")));
        assert_eq!(mount(mounts, "270"), Some(("overlay", "overlay")));
        assert_eq!((mount(mounts, "2"), mount("27 1 - ", "27"), mount_id("pos:\t0\n")), (None, None, None));
    }

    #[test]
    fn sources_of_mounts_are_unescaped() {
        assert_eq!(unescaped("/dev/disk/by-label/My\\040Disk\\134040"), "/dev/disk/by-label/My Disk\\040");
        assert_eq!(unescaped("/dev/sda1"), "/dev/sda1");
    }

    #[test]
    fn a_file_system_in_memory_has_no_block_device() {
        let error = Storage::of("/proc/self/status").unwrap_err();
        assert!(matches!(&error, StorageError::NoBlockDevice { filesystem, .. } if filesystem == "proc"), "{error}");
        assert_eq!(error.to_string(), "`/proc/self/status` is on a file system that states no block device (proc)");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Storage::of("/proc/no/such/file").unwrap_err();
        assert_eq!(error.to_string(), "open failed for `/proc/no/such/file`");
    }

    proptest! {
        #[test]
        fn any_text_of_mounts(text in "([0-9 ]{0,4}|btrfs| - |/dev/|\\PC|\n){0,20}", id in "[0-9]{0,2}") {
            let _ = (mount(&text, &id), mount_id(&text));
        }
    }
}
