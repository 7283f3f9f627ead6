//! Files that have no name until they are whole.

use nix::{
    fcntl::{AT_FDCWD, AtFlags, OFlag},
    unistd::linkat,
};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};
use tempfile::{Builder, NamedTempFile};

/// A file on its way to a name. If it is dropped before it is [published](Self::publish), nothing
/// is left behind.
///
/// A draft has no name, so that nothing is left of a process that is killed either. A file system
/// without such files, as network file systems are, gives it the name `.NAME.rails-part`: if the
/// process is killed, the next draft of the same target takes that file over.
#[derive(Debug)]
pub struct Draft {
    target: PathBuf,
    file: Beside,
}

#[derive(Debug)]
enum Beside {
    /// A file that is published by its name below /proc.
    Unnamed(File),
    Named(NamedTempFile),
}

impl Draft {
    /// A new file for that target, with the permissions of any new file.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn of(target: &Path) -> io::Result<Self> {
        let folder = folder_of(target);
        let unnamed = OpenOptions::new().write(true).mode(MODE).custom_flags(OFlag::O_TMPFILE.bits()).open(folder);
        let file = match unnamed {
            Ok(file) if descriptor_of(&file).exists() => Beside::Unnamed(file),
            _ => Beside::Named(named(target)?),
        };
        Ok(Self { target: target.to_owned(), file })
    }

    /// The file.
    pub fn file(&self) -> &File {
        match &self.file {
            Beside::Unnamed(file) => file,
            Beside::Named(named) => named.as_file(),
        }
    }

    /// Gives the file its name. `replaces` says whether a file of that name gives way.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] for a file that does not give way, and the operating system's
    /// error.
    pub fn publish(self, replaces: bool) -> io::Result<()> {
        match self.file {
            Beside::Named(named) if replaces => named.persist(&self.target).map_err(|failed| failed.error).map(drop),
            Beside::Named(named) => named.persist_noclobber(&self.target).map_err(|failed| failed.error).map(drop),
            Beside::Unnamed(file) => match link(&file, &self.target) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && replaces => {
                    // No call puts a file without a name in another one's place.
                    let beside =
                        Builder::new().prefix(PREFIX).make_in(folder_of(&self.target), |path| link(&file, path))?;
                    beside.persist(&self.target).map_err(|failed| failed.error)
                }
                linked => linked,
            },
        }
    }
}

/// Gives a name to a file that has none.
fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(AT_FDCWD, &descriptor_of(file), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
}

fn descriptor_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// A file with the name that a killed process of the same target has left, or with one that nobody
/// has.
fn named(target: &Path) -> io::Result<NamedTempFile> {
    let mut part = OsString::from(".");
    part.push(target.file_name().unwrap_or_default());
    part.push(".rails-part");
    let folder = folder_of(target);
    let taken_over = Builder::new().prefix(&part).rand_bytes(0).make_in(folder, taken_over);
    let create = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    // A living process writes the same target, or the file system has no locks.
    taken_over.or_else(|_| Builder::new().prefix(PREFIX).make_in(folder, create))
}

/// The file of that name, empty, if no living process has it. Nothing else is taken for one: no
/// link, no pipe, which would be waited for, and no file that has another name as well.
fn taken_over(path: &Path) -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(false).mode(MODE);
    let file = open.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits()).open(path)?;
    let facts = file.metadata()?;
    let is_ours = facts.is_file() && facts.nlink() == 1;
    if let Err(error) = file.try_lock() {
        // Where files cannot be locked, nobody takes the name over, and an empty file holds nothing.
        if matches!(error, TryLockError::Error(_)) && is_ours && facts.len() == 0 {
            fs::remove_file(path)?;
        }
        return Err(error.into());
    }
    // A process that was killed may have published the file, and not taken this name away.
    if !is_ours || file.metadata()?.nlink() != 1 || fs::symlink_metadata(path)?.ino() != facts.ino() {
        return Err(ErrorKind::ResourceBusy.into());
    }
    file.set_len(0)?;
    Ok(file)
}

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The umask applies.
const MODE: u32 = 0o666;
const PREFIX: &str = ".rails-";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }

    /// A draft as a file system makes it that has files with names alone.
    fn named_draft(target: &Path) -> Draft {
        Draft { target: target.to_owned(), file: Beside::Named(named(target).unwrap()) }
    }

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        for make in [|target: &Path| Draft::of(target).unwrap(), named_draft] {
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join("file");
            drop(make(&target));
            assert!(names(folder.path()).is_empty());
            for (text, replaces) in [("first", false), ("second", true)] {
                let draft = make(&target);
                draft.file().write_all(text.as_bytes()).unwrap();
                draft.publish(replaces).unwrap();
                assert_eq!(fs::read_to_string(&target).unwrap(), text);
            }
            let refused = make(&target).publish(false).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
            assert_eq!(
                (names(folder.path()), fs::read_to_string(&target).unwrap()),
                (vec!["file".into()], "second".into())
            );
        }
    }

    #[test]
    fn nothing_but_the_rest_of_a_draft_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let [target, part, other] = ["file", ".file.rails-part", "other"].map(|name| folder.path().join(name));
        let publish = || {
            let draft = named_draft(&target);
            draft.file().write_all(b"new").unwrap();
            let _ = draft.publish(true);
            assert_eq!(fs::read_to_string(&target).unwrap(), "new");
            fs::remove_file(&part).unwrap();
        };
        // A process was killed while its file had both names: the file is whole.
        fs::write(&target, "whole").unwrap();
        fs::hard_link(&target, &part).unwrap();
        drop(named_draft(&target));
        assert_eq!(fs::read_to_string(&target).unwrap(), "whole");
        publish();
        std::os::unix::fs::symlink(&other, &part).unwrap();
        publish();
        assert!(!other.exists());
        // A pipe from which nobody reads.
        nix::unistd::mkfifo(&part, nix::sys::stat::Mode::S_IRWXU).unwrap();
        publish();
        fs::create_dir(&part).unwrap();
        drop(named_draft(&target));
    }

    #[test]
    fn the_rest_of_a_killed_process_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("file");
        fs::write(folder.path().join(".file.rails-part"), "a part of a longer text").unwrap();
        let draft = named_draft(&target);
        assert_eq!(draft.file().metadata().unwrap().len(), 0);
        // A second draft of the same target at the same time has a file of its own.
        let second = named_draft(&target);
        draft.file().write_all(b"whole").unwrap();
        second.file().write_all(b"other").unwrap();
        draft.publish(false).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "whole");
        second.publish(true).unwrap();
        assert_eq!((names(folder.path()), fs::read_to_string(&target).unwrap()), (vec!["file".into()], "other".into()));
    }
}
