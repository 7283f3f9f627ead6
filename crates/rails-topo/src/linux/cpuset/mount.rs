//! The mounts of hierarchies of control groups, from `/proc/self/mountinfo`
//! (proc_pid_mountinfo(5)).

use super::Version;
use crate::linux::root::Root;

/// A mount of control groups.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::linux) struct Mount {
    pub(super) version: Version,
    /// The group at its top; in a container that is often the container's own.
    top: String,
    /// The mount point, relative to the root of the machine's files, without a `/` at the end.
    pub(super) folder: String,
}

impl Mount {
    /// The path of a group below the top of this mount: empty, or starting with `/`. None where it
    /// is not below.
    pub(super) fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = path.trim_end_matches('/');
        let below = path.strip_prefix(self.top.trim_end_matches('/'))?;
        (below.is_empty() || below.starts_with('/')).then_some(below)
    }
}

/// The mounts of control groups that can have cpusets.
///
/// Captures hold `/proc/mounts` at best (proc_pid_mounts(5)), which does not name the group at the
/// top of a mount: it is taken for the topmost group.
pub(in crate::linux) fn mounts(root: &Root) -> Vec<Mount> {
    match root.text("proc/self/mountinfo") {
        Some(text) => text.lines().filter_map(from_mountinfo).collect(),
        None => root.text("proc/mounts").unwrap_or_default().lines().filter_map(from_mounts).collect(),
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn from_mountinfo(line: &str) -> Option<Mount> {
    let (folders, kind) = line.split_once(" - ")?;
    let mut folders = folders.split(' ').skip(3);
    let mut kind = kind.split(' ');
    let (file_system, options) = (kind.next()?, kind.nth(1)?);
    mount(file_system, options, folders.next()?, folders.next()?)
}

/// `/dev/root /mnt2 ext3 rw,errors=continue 0 0`
fn from_mounts(line: &str) -> Option<Mount> {
    let mut parts = line.split(' ').skip(1);
    let (folder, file_system, options) = (parts.next()?, parts.next()?, parts.next()?);
    mount(file_system, options, "/", folder)
}

fn mount(file_system: &str, options: &str, top: &str, folder: &str) -> Option<Mount> {
    let version = match file_system {
        "cgroup2" => Version::Two,
        "cpuset" => Version::One,
        "cgroup" if options.split(',').any(|option| option == "cpuset") => Version::One,
        _ => return None,
    };
    let folder = unescaped(folder)?.strip_prefix('/')?.trim_end_matches('/').to_owned();
    Some(Mount { version, top: unescaped(top)?, folder })
}

/// The kernel writes white space and backslashes in three octal digits: `\040` is a space.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('\\');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let code = u8::from_str_radix(part.get(..3)?, 8).ok().filter(u8::is_ascii)?;
        plain.push(char::from(code));
        plain.push_str(&part[3..]);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mounts_with_cpusets_are_found() {
        let found = |line| from_mountinfo(line).map(|mount| (mount.version, mount.top, mount.folder));
        assert_eq!(
            found("34 31 0:31 /docker/a /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset"),
            Some((Version::One, "/docker/a".to_owned(), "sys/fs/cgroup/cpuset".to_owned()))
        );
        assert_eq!(
            found("41 31 0:38 / /sys/fs/my\\040cgroup rw - cgroup2 cgroup2 rw"),
            Some((Version::Two, "/".to_owned(), "sys/fs/my cgroup".to_owned()))
        );
        for line in ["", "34 31 0:31 / /a rw - cgroup cgroup rw,memory", "34 31 0:31 / /a rw - ext4 cpuset rw,cpuset"] {
            assert_eq!(found(line), None, "{line:?}");
        }
        let old = from_mounts("none /dev/cpuset cgroup rw,relatime,cpuset,noprefix 0 0").unwrap();
        assert_eq!((old.version, old.folder.as_str()), (Version::One, "dev/cpuset"));
    }

    #[test]
    fn group_is_found_below_the_top_of_its_mount() {
        let mount = |top: &str| Mount { version: Version::One, top: top.to_owned(), folder: String::new() };
        assert_eq!(mount("/").below("/"), Some(""));
        assert_eq!(mount("/").below("/a/b"), Some("/a/b"));
        assert_eq!(mount("/docker/a").below("/docker/a"), Some(""));
        assert_eq!(mount("/docker/a").below("/docker/a/b"), Some("/b"));
        assert_eq!(mount("/docker/a").below("/docker/ab"), None);
    }

    proptest! {
        #[test]
        fn hostile_lines_never_panic(line in "([0-9:/a.]{0,9} ){0,7}- (cgroup2?|cpuset) [a ]{0,3}[cpuset, \\\\0-9é]{0,20}|.{0,80}") {
            let _ = (from_mountinfo(&line), from_mounts(&line), unescaped(&line));
        }
    }
}
