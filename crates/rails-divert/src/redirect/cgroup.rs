//! The folder of a cgroup: opened for programs to be attached, and searched for processes.

use super::error::RedirectError;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, fstatfs};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Opens the folder of a cgroup of version 2.
pub(super) fn open(path: &Path) -> Result<File, RedirectError> {
    let unreadable = |source| RedirectError::Unreadable { path: path.to_owned(), source };
    let folder = File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => RedirectError::NoSuchCgroup { cgroup: path.to_owned() },
        _ => unreadable(source),
    })?;
    let file_system = fstatfs(&folder).map_err(|errno| unreadable(errno.into()))?.filesystem_type();
    let is_folder = folder.metadata().map_err(unreadable)?.is_dir();
    match file_system {
        CGROUP2_SUPER_MAGIC if is_folder => Ok(folder),
        CGROUP_SUPER_MAGIC if is_folder => Err(RedirectError::CgroupVersion1 { cgroup: path.to_owned() }),
        _ => Err(RedirectError::NotACgroup { path: path.to_owned() }),
    }
}

/// The identity of an open folder. A cgroup that is made anew has another one.
pub(super) fn identity(folder: &fs::Metadata) -> (u64, u64) {
    (folder.dev(), folder.ino())
}

/// Refuses processes that are in the cgroup or in one below it.
pub(super) fn keep_out(cgroup: &Path, pids: &[u32]) -> Result<(), RedirectError> {
    let mut folders = vec![cgroup.to_owned()];
    while let Some(folder) = folders.pop() {
        if let Some(pid) = one_inside(&folder, pids)? {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            return Err(RedirectError::CarrierInside { pid, name: name.trim_end().to_owned(), cgroup: folder });
        }
        folders.extend(folders_below(&folder)?);
    }
    Ok(())
}

/// One of the processes that has a thread in exactly this cgroup.
fn one_inside(folder: &Path, pids: &[u32]) -> Result<Option<u32>, RedirectError> {
    let inside = match read_numbers(&folder.join("cgroup.procs")) {
        Ok(inside) => inside,
        // A threaded cgroup has threads alone (cgroups(7)).
        Err(RedirectError::Unreadable { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            let threads = read_numbers(&folder.join("cgroup.threads"))?;
            let has_one = |pid| threads.iter().any(|tid| Path::new(&format!("/proc/{pid}/task/{tid}")).exists());
            return Ok(pids.iter().copied().find(|pid| has_one(*pid)));
        }
        Err(error) => return Err(error),
    };
    Ok(pids.iter().copied().find(|pid| inside.contains(pid)))
}

/// The numbers in a file of a cgroup; none if the cgroup has been removed.
fn read_numbers(path: &Path) -> Result<Vec<u32>, RedirectError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        Err(source) => Err(RedirectError::Unreadable { path: path.to_owned(), source }),
    }
}

/// The folders in a folder; none if it has been removed.
pub(super) fn folders_below(folder: &Path) -> Result<Vec<PathBuf>, RedirectError> {
    let unreadable = |source| RedirectError::Unreadable { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(source) => return Err(unreadable(source)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_no_cgroups_are_refused() {
        let missing = Path::new("/proc/self/no-such-folder");
        assert!(matches!(open(missing), Err(RedirectError::NoSuchCgroup { cgroup }) if cgroup == missing));
        let other = Path::new("/proc/self");
        assert!(matches!(open(other), Err(RedirectError::NotACgroup { path }) if path == other));
    }

    /// The files are those of a cgroup; that the folder is none does not matter to the search.
    #[test]
    fn carriers_are_found_in_the_cgroups_below() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        let own = std::process::id();
        for (folder, processes) in
            [(root.path(), "1\n2\n"), (&root.path().join("a"), ""), (&below, &format!("{own}\n"))]
        {
            fs::write(folder.join("cgroup.procs"), processes).unwrap();
        }
        keep_out(root.path(), &[own + 1]).unwrap();
        let Err(RedirectError::CarrierInside { pid, name, cgroup }) = keep_out(root.path(), &[own + 1, own]) else {
            panic!("this process is inside");
        };
        assert_eq!((pid, cgroup), (own, below));
        assert!(!name.is_empty() && !name.ends_with('\n'), "{name:?}");
    }
}
