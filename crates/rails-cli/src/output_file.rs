//! Files of results: each is there as a whole, or not at all.

use crate::draft::Draft;
use std::{
    fs::{self, Metadata, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, fchown},
    path::Path,
};

/// Writes a file in place of a former one, whose owner and mode stay. If that fails, the former
/// file stays, or there is none.
///
/// A target that is no regular file, such as `/dev/stdout` or a FIFO, and a file of several hard
/// links are written directly. So is a former file that cannot be replaced: its folder is closed to
/// the user or read-only, it is a mount, or its owner cannot be given to another file.
///
/// # Errors
/// The operating system's error.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let contents = contents.as_ref();
    match path.metadata() {
        Ok(former) if former.is_file() && former.nlink() == 1 && !is_open_file(path) => {
            // A rename asks only whether the folder may be written to.
            OpenOptions::new().write(true).open(path)?;
            // A link to the file stays a link.
            match replace(&path.canonicalize()?, Some(&former), contents) {
                Err(error) if CANNOT_BE_REPLACED.contains(&error.kind()) => fs::write(path, contents),
                replaced => replaced,
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => replace(path, None, contents),
        _ => fs::write(path, contents),
    }
}

/// The answers of a system that lets the file be written and not be replaced: its folder is closed
/// to the user, it is a mount, the folder is read-only, its owner is unknown in this user
/// namespace, the file system has no owners.
const CANNOT_BE_REPLACED: [ErrorKind; 5] = [
    ErrorKind::PermissionDenied,
    ErrorKind::ResourceBusy,
    ErrorKind::ReadOnlyFilesystem,
    ErrorKind::InvalidInput,
    ErrorKind::Unsupported,
];

/// Whether the path stands for a descriptor of a process, as `/dev/stdout` and `/proc/self/fd/1`
/// do: who holds it open would not see a file that is put in its place.
fn is_open_file(path: &Path) -> bool {
    path.is_symlink() && ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder))
}

/// Puts a whole file in the place of the former one.
fn replace(path: &Path, former: Option<&Metadata>, contents: &[u8]) -> io::Result<()> {
    let draft = Draft::of(path)?;
    let mut file = draft.file();
    if let Some(former) = former {
        // A change of the owner clears permissions, so it comes first.
        fchown(file, Some(former.uid()), Some(former.gid()))?;
        file.set_permissions(former.permissions())?;
    }
    file.write_all(contents)?;
    // Network file systems report a full disk only here.
    file.sync_all()?;
    draft.publish(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    #[test]
    fn permissions_and_links_of_a_former_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "a longer text").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        for mode in [0o600, 0o644, 0o660] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            write(&link, format!("{mode}")).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), format!("{mode}"));
            assert_eq!(file.metadata().unwrap().mode() & 0o7777, mode);
            assert!(link.is_symlink());
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn new_file_has_the_usual_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let [ours, usual, link] = ["ours", "usual", "link"].map(|name| folder.path().join(name));
        write(&ours, "text").unwrap();
        fs::write(&usual, "text").unwrap();
        assert_eq!(ours.metadata().unwrap().mode(), usual.metadata().unwrap().mode());
        std::os::unix::fs::symlink("target", &link).unwrap();
        write(&link, "of a link to nothing").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("target")).unwrap(), "of a link to nothing");
    }

    #[test]
    fn target_that_is_no_file_is_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read_to_string(fifo).unwrap()
        });
        write(&fifo, "through it").unwrap();
        assert_eq!(reader.join().unwrap(), "through it");
        write(Path::new("/dev/null"), "text").unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        let open = fs::File::create(folder.path().join("open")).unwrap();
        write(Path::new(&format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open))), "text").unwrap();
        assert_eq!(open.metadata().unwrap().len(), 4);
        let missing = write(&folder.path().join("no/such/file"), "text").unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(nix::libc::ENOENT));
    }
}
