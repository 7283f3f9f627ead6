//! The allowed CPUs and nodes: taskset, cpusets, and isolated CPUs.

use crate::tree::Tree;
use rails_topo::Topology;

const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
    34 30 0:31 / /sys/fs/cgroup/cpuset rw,nosuid shared:9 - cgroup cgroup rw,cpuset\n\
    35 30 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
    41 30 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

fn allowed(machine: &Topology) -> (String, String) {
    (machine.allowed_cpus().to_string(), machine.allowed_nodes().to_string())
}

fn pair(cpus: &str, nodes: &str) -> (String, String) {
    (cpus.to_owned(), nodes.to_owned())
}

#[test]
fn cpuset_of_version_two_limits_those_below_it() {
    let tree = Tree::two_nodes();
    tree.file("proc/self/cgroup", "0::/job.slice/step/task");
    tree.file("proc/self/mountinfo", "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate");
    let group = "sys/fs/cgroup/job.slice";
    tree.file("sys/fs/cgroup/cpuset.cpus.effective", "0-7").file("sys/fs/cgroup/cpuset.mems.effective", "0-1");
    tree.file(&format!("{group}/cpuset.cpus.effective"), "2-3,6-63")
        .file(&format!("{group}/cpuset.mems.effective"), "1");
    tree.file(&format!("{group}/cpuset.cpus"), "").folder(&format!("{group}/step/task"));
    assert_eq!(allowed(&tree.read().unwrap()), pair("2-3,6-7", "1"), "the nearest group with the controller");
    tree.file("proc/self/status", "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0-1");
    assert_eq!(allowed(&tree.read().unwrap()), pair("2-3", "1"), "and taskset leaves these of them");
    tree.file("sys/devices/system/cpu/online", "0-2,4-7");
    assert_eq!(allowed(&tree.read().unwrap()), pair("2", "1"), "and these of them are online");
}

#[test]
fn cpuset_of_version_one_limits_those_in_it() {
    let tree = Tree::two_nodes();
    tree.file("proc/self/cgroup", "8:memory:/other\n3:cpuset,cpu:/batch/job:5\n0::/")
        .file("proc/self/mountinfo", MOUNTS);
    let group = "sys/fs/cgroup/cpuset/batch/job:5";
    tree.file(&format!("{group}/cpuset.cpus"), "0-5").file(&format!("{group}/cpuset.mems"), "0");
    assert_eq!(allowed(&tree.read().unwrap()), pair("0-5", "0"));
    tree.file(&format!("{group}/cpuset.effective_cpus"), "1,5").file(&format!("{group}/cpuset.effective_mems"), "0");
    assert_eq!(allowed(&tree.read().unwrap()), pair("1,5", "0"), "the effective set counts");
}

/// In a container the mount shows the container's group, and the process may be named from the
/// host's.
#[test]
fn mount_of_a_containers_own_group() {
    let tree = Tree::two_nodes();
    tree.file("proc/self/cgroup", "3:cpuset:/docker/a/job");
    tree.file("proc/self/mountinfo", "34 30 0:31 /docker/a /sys/fs/cgroup/my\\040set ro - cgroup cgroup rw,cpuset");
    tree.file("sys/fs/cgroup/my set/job/cpuset.cpus", "4-5").file("sys/fs/cgroup/my set/job/cpuset.mems", "0");
    assert_eq!(allowed(&tree.read().unwrap()), pair("4-5", "0"));
    tree.file("proc/self/cgroup", "3:cpuset:/docker/another");
    assert_eq!(allowed(&tree.read().unwrap()), pair("0-7", "0-1"), "the mount does not show that group");
}

/// As `hwloc-gather-topology` captures it.
#[test]
fn cpuset_in_captures_of_old_kernels() {
    let tree = Tree::two_nodes();
    tree.file("proc/self/cpuset", "/torque/1.master");
    tree.file("proc/mounts", "none /dev/cpuset cgroup rw,relatime,cpuset,noprefix 0 0");
    tree.file("dev/cpuset/torque/1.master/cpus", "0,2-3").file("dev/cpuset/torque/1.master/mems", "0-1");
    assert_eq!(allowed(&tree.read().unwrap()), pair("0,2-3", "0-1"));
}

#[test]
fn cpuset_that_cannot_be_found_limits_nothing() {
    let unlimited = pair("0-7", "0-1");
    for (group, mounts) in [
        ("0::/", ""),
        ("0::/../../job", MOUNTS),
        ("3:cpuset:/gone", MOUNTS),
        ("nonsense", MOUNTS),
        ("3:cpuset:/", "34 30 0:31 / /../../../../../../tmp rw - cgroup cgroup rw,cpuset"),
    ] {
        let tree = Tree::two_nodes();
        tree.file("proc/self/cgroup", group).file("proc/self/mountinfo", mounts);
        assert_eq!(allowed(&tree.read().unwrap()), unlimited, "{group} in {mounts}");
    }
}

#[test]
fn isolated_and_nohz_full_cpus() {
    let tree = Tree::two_nodes();
    assert!(tree.read().unwrap().isolated_cpus().is_empty() && tree.read().unwrap().nohz_full_cpus().is_empty());
    tree.file("sys/devices/system/cpu/isolated", "1,3,64").file("sys/devices/system/cpu/nohz_full", "3,9");
    tree.file("proc/self/mountinfo", MOUNTS).file("sys/fs/cgroup/unified/cpuset.cpus.isolated", "7");
    let machine = tree.read().unwrap();
    assert_eq!(
        (machine.isolated_cpus().to_string(), machine.nohz_full_cpus().to_string()),
        ("1,3,7".to_owned(), "3".to_owned())
    );
    assert_eq!(machine.allowed_cpus().to_string(), "0-7", "they are set apart, and allowed all the same");
    tree.file("sys/devices/system/cpu/nohz_full", "(null)");
    assert!(tree.read().unwrap().nohz_full_cpus().is_empty());
}
