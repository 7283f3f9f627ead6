//! The control groups that the process is in, from `/proc/self/cgroup` (cgroups(7)).

use super::Version;
use crate::linux::root::Root;

/// A control group that can have a cpuset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) version: Version,
    /// The group's path in its hierarchy, from the topmost group that the process can see; it
    /// starts with `/`.
    pub(super) path: String,
}

/// The groups of the process: one of version 1, if a hierarchy has the controller, and one of
/// version 2.
///
/// `/proc/self/cpuset` (cpuset(7)) gives the path alone, on kernels and in captures that do not
/// have the other file.
pub(super) fn groups(root: &Root) -> Vec<Group> {
    match root.text("proc/self/cgroup") {
        Some(text) => parse(&text),
        None => {
            let path = root.text("proc/self/cpuset").filter(|path| is_path(path));
            let of = |path: String| [Version::One, Version::Two].map(|version| Group { version, path: path.clone() });
            path.map(|path| of(path).into()).unwrap_or_default()
        }
    }
}

/// Lines of `hierarchy:controllers:path`; version 2 is hierarchy 0, without controllers.
fn parse(text: &str) -> Vec<Group> {
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let version = match (hierarchy, controllers) {
            ("0", "") => Version::Two,
            _ if controllers.split(',').any(|controller| controller == "cpuset") => Version::One,
            _ => return None,
        };
        is_path(path).then(|| Group { version, path: path.to_owned() })
    };
    let groups: Vec<Group> = text.lines().filter_map(group).collect();
    let first = |version| groups.iter().position(|group| group.version == version);
    let firsts = [first(Version::One), first(Version::Two)];
    let is_first = |index: &usize| firsts.contains(&Some(*index));
    groups.into_iter().enumerate().filter(|(index, _)| is_first(index)).map(|(_, group)| group).collect()
}

/// A group above the topmost that the process can see is written with `..`, and is out of sight.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.len() <= LONGEST_PATH && path.split('/').all(|part| part != "..")
}

/// `PATH_MAX`: no path that the kernel gives is longer.
const LONGEST_PATH: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hierarchies_with_cpusets_are_found() {
        let text = "12:pids:/a\n6:cpu,cpuset:/job:7\n4:cpuset:/other\n1:name=systemd:/cpuset\n0::/user.slice";
        let group = |version, path: &str| Group { version, path: path.to_owned() };
        assert_eq!(parse(text), [group(Version::One, "/job:7"), group(Version::Two, "/user.slice")]);
    }

    #[test]
    fn cgroups_out_of_sight() {
        for text in
            ["", "0::", "0::/../job", "3:cpuset:relative", "3:cpuset", "::", &format!("0::/{}", "a".repeat(5000))]
        {
            assert_eq!(parse(text), [], "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_lines_never_panic(text in "([0-9]{0,3}:(cpuset|,|x){0,3}:[/.a\n]{0,9}){0,5}|.{0,60}") {
            prop_assert!(parse(&text).len() <= 2);
        }
    }
}
