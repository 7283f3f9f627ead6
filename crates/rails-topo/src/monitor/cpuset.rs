//! The files of this process's cpuset, and a watch for writes to them (cgroups(7), cpuset(7),
//! inotify(7)).

use crate::linux::Root;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::{io, os::fd::OwnedFd};
use tokio::net::unix::pipe;

/// A watch on the cpuset files of a cgroup and of its ancestors.
///
/// The kernel has no event for the *effective* CPUs (`cpuset.cpus.effective`), which change with
/// any of the files above. But a program that changes them writes to one of those, and inotify
/// reports writes. The poll finds all other changes.
pub(super) struct CpusetWatch {
    /// The inotify descriptor, read as a pipe: tokio has no other safe way to wait for a descriptor
    /// of unknown kind.
    inotify: pipe::Receiver,
    /// `/proc/self/cgroup`, by which the files were chosen.
    cgroup: String,
}

impl CpusetWatch {
    /// Watches the files of this process's cgroup. Without one, or without permission to read them,
    /// the watch reports nothing.
    pub(super) fn new(root: &Root) -> io::Result<Self> {
        let cgroup = root.text(CGROUP).unwrap_or_default();
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        for file in files(&cgroup) {
            // A file that is not there, as most are not, is no failure.
            let _ = inotify.add_watch(file.as_str(), AddWatchFlags::IN_MODIFY);
        }
        Ok(Self { inotify: pipe::Receiver::from_owned_fd_unchecked(OwnedFd::from(inotify))?, cgroup })
    }

    /// Whether this process is in another cgroup now than the watched one.
    pub(super) fn is_stale(&self, root: &Root) -> bool {
        root.text(CGROUP).is_some_and(|cgroup| cgroup != self.cgroup)
    }

    /// Waits for a write to a watched file. Cancel safe.
    pub(super) async fn written(&self) -> io::Result<()> {
        loop {
            self.inotify.readable().await?;
            // Any file counts. A name has up to 255 bytes.
            match self.inotify.try_read(&mut [0; 4096]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The files with the limits of processes of these cgroups, in the usual mounts.
fn files(cgroup: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in cgroup.lines() {
        // hierarchy-ID:controller-list:cgroup-path (cgroups(7)); version 2 is hierarchy 0 without
        // controllers.
        let mut fields = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        // A cgroup outside the namespace's root is not below the mount.
        if path.split('/').any(|part| part == "..") {
            continue;
        }
        let mounts: &[&str] = match hierarchy {
            "0" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|controller| controller == "cpuset") => {
                &["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/cpu,cpuset"]
            }
            _ => continue,
        };
        let mut folder = path.trim_end_matches('/');
        loop {
            for mount in mounts {
                files.extend(NAMES.iter().map(|name| format!("{mount}{folder}/{name}")));
            }
            match folder.rsplit_once('/') {
                Some((above, _)) => folder = above,
                None => break,
            }
        }
    }
    files
}

const CGROUP: &str = "proc/self/cgroup";

/// The files that programs write to, in both versions; a cpuset of version 2 can also become a
/// partition, which takes CPUs from others.
const NAMES: [&str; 3] = ["cpuset.cpus", "cpuset.mems", "cpuset.cpus.partition"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_files_of_a_cgroup_and_its_parents() {
        let files = files("0::/a/b\n");
        for file in ["/sys/fs/cgroup/a/b/cpuset.cpus", "/sys/fs/cgroup/a/cpuset.mems", "/sys/fs/cgroup/cpuset.cpus"] {
            assert!(files.iter().any(|other| other == file), "{file} in {files:?}");
        }
    }

    #[test]
    fn of_version_1_only_the_cpusets_hierarchy_counts() {
        let found = files("4:memory:/m\n3:cpuset:/c\n");
        assert!(found.iter().any(|file| file == "/sys/fs/cgroup/cpuset/c/cpuset.cpus"));
        assert!(!found.iter().any(|file| file.contains("/m/")));
        assert_eq!(files("nonsense\n0::/../x\n"), Vec::<String>::new());
    }
}
