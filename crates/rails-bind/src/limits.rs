//! The limits on the threads and descriptors that a process may have.

use nix::{
    errno::Errno,
    sys::resource::{RLIM_INFINITY, Resource, getrlimit},
};
use rails_topo::DataSize;
use std::{fs, io, os::unix::net::UnixStream, path::Path};

/// Adds to the error of a refused thread the limits that may be the cause: `pids.max` of the
/// process's control groups, `RLIMIT_AS`, `RLIMIT_NPROC` and `kernel.threads-max`. An error that no
/// limit causes stays as it is. The new error has the kind of the old one, and the old one as its
/// cause.
///
/// ```
/// let thread = std::thread::Builder::new().spawn(|| ()).map_err(rails_bind::limits::name_thread_limits);
/// # thread.unwrap().join().unwrap();
/// ```
///
/// # References
///
/// [pthread_create(3)](https://man7.org/linux/man-pages/man3/pthread_create.3.html) and
/// [the controller of process numbers](https://docs.kernel.org/admin-guide/cgroup-v2.html#pid)
#[must_use]
pub fn name_thread_limits(refused: io::Error) -> io::Error {
    if refused.kind() != io::ErrorKind::WouldBlock {
        return refused;
    }
    let soft = |resource| getrlimit(resource).ok().map(|(soft, _)| soft).filter(|soft| *soft != RLIM_INFINITY);
    let own = Own { threads: soft(Resource::RLIMIT_NPROC), memory: soft(Resource::RLIMIT_AS) };
    io::Error::new(refused.kind(), NoThread { limits: limits(Path::new("/"), own), source: refused })
}

/// Tries whether descriptors for a tokio runtime are left. A runtime is also built with fewer, and
/// then panics if its signal handler gets none.
///
/// # Errors
/// The system's, with `RLIMIT_NOFILE` in its words where that is reached.
pub fn try_runtime_descriptors() -> io::Result<()> {
    // An epoll instance and its copy, an eventfd, and for the signal handler a pair of sockets and
    // a copy.
    let pair = |_| UnixStream::pair();
    (0..3).map(pair).collect::<io::Result<Vec<_>>>().map(drop).map_err(|error| {
        match (error.raw_os_error(), getrlimit(Resource::RLIMIT_NOFILE)) {
            (Some(code), Ok((most, _))) if code == Errno::EMFILE as i32 => {
                io::Error::other(format!("{error}: RLIMIT_NOFILE allows {most}; a higher `ulimit -n` allows more"))
            }
            _ => error,
        }
    })
}

/// The process's own limits, where it has any.
#[derive(Debug, Clone, Copy)]
struct Own {
    /// The limit on the threads of the process's user.
    threads: Option<u64>,
    /// The limit on the bytes of addresses.
    memory: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
#[error("{limits}")]
struct NoThread {
    limits: String,
    source: io::Error,
}

/// The limits in the files below this root, and the process's own limits, in words. A limit of a
/// control group that is reached is the only one.
fn limits(root: &Path, own: Own) -> String {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut met = Vec::new();
    for folder in group_folders(root) {
        let Some(max) = number(&folder.join("pids.max")) else { continue };
        let shown = Path::new("/").join(folder.strip_prefix(root).unwrap_or(&folder));
        let limit = format!("`pids.max` in {} allows {max}", shown.display());
        if number(&folder.join("pids.current")).is_some_and(|current| current >= max) {
            return limit;
        }
        met.push(limit);
    }
    met.extend(
        own.memory
            .map(|max| format!("RLIMIT_AS allows the process {}, its threads' stacks included", DataSize::bytes(max))),
    );
    met.extend(own.threads.map(|max| format!("RLIMIT_NPROC allows the user {max} (a higher `ulimit -u` allows more)")));
    let of_machine = number(&root.join("proc/sys/kernel/threads-max"));
    met.extend(of_machine.map(|max| format!("kernel.threads-max allows the machine {max}")));
    match met.is_empty() {
        true => "`pids.max` of the control group, RLIMIT_NPROC and kernel.threads-max limit threads".to_owned(),
        false => met.join(", "),
    }
}

/// The folders of the process's control groups, the innermost first. A container may see its own
/// group as the topmost one, under any path.
fn group_folders(root: &Path) -> Vec<std::path::PathBuf> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut folders = Vec::new();
    // `12:pids:/user.slice`, and `0::/user.slice` in the second version (cgroups(7)).
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let mounts: &[&str] = match controllers {
            "" => &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|controller| controller == "pids") => &["sys/fs/cgroup/pids"],
            _ => continue,
        };
        for mount in mounts {
            let inside = Path::new(path.trim_start_matches('/'));
            folders.extend(inside.ancestors().map(|group| root.join(mount).join(group)));
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    const OWN: Own = Own { threads: Some(5), memory: Some(9) };

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn limit_that_is_reached_is_named_alone() {
        let root = root(&[
            ("proc/self/cgroup", "5:cpu:/a\n4:pids:/a/b\n0::/\n"),
            ("proc/sys/kernel/threads-max", "9000\n"),
            ("sys/fs/cgroup/pids/a/b/pids.max", "max\n"),
            ("sys/fs/cgroup/pids/a/pids.max", "7\n"),
            ("sys/fs/cgroup/pids/a/pids.current", "7\n"),
        ]);
        assert_eq!(limits(root.path(), OWN), "`pids.max` in /sys/fs/cgroup/pids/a allows 7");
    }

    #[test]
    fn every_limit_is_named_where_none_is_reached() {
        let root = root(&[
            ("proc/self/cgroup", "0::/../../elsewhere\n"),
            ("proc/sys/kernel/threads-max", "9000\n"),
            ("sys/fs/cgroup/pids.max", "7\n"),
            ("sys/fs/cgroup/pids.current", "6\n"),
        ]);
        let named = "`pids.max` in /sys/fs/cgroup allows 7, RLIMIT_AS allows the process 9 B, its threads' stacks included, \
                     RLIMIT_NPROC allows the user 5 (a higher `ulimit -u` allows more), kernel.threads-max allows the machine 9000";
        assert_eq!(limits(root.path(), OWN), named);
    }

    #[test]
    fn limits_are_named_where_no_file_tells_them() {
        let root = root(&[]);
        let none = Own { threads: None, memory: None };
        assert!(limits(root.path(), none).starts_with("`pids.max` of the control group, RLIMIT_NPROC and"));
    }

    #[test]
    fn only_a_lack_of_threads_has_limits() {
        let other = name_thread_limits(io::Error::from_raw_os_error(1));
        assert_eq!(other.raw_os_error(), Some(1));
        let lack = name_thread_limits(io::Error::from_raw_os_error(11));
        assert_eq!(lack.kind(), io::ErrorKind::WouldBlock);
        assert!(lack.source().unwrap().to_string().contains("os error 11"), "{lack:?}");
    }
}
