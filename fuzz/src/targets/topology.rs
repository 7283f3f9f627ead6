//! Descriptions of machines.

use super::texts;
use rails_topo::{
    Nic, Topology,
    config::{self, Config, ConfigError},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use tempfile::TempDir;

/// hwloc's synthetic syntax. A machine that was read can be planned with and printed.
pub(crate) fn synthetic(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(topology) = Topology::synthetic(text, Vec::new()) {
        assert!(!topology.online_cpus().is_empty());
        assert!(topology.online_cpus().len() <= 4096, "{text}");
        let _ = topology.tree().to_string();
    }
}

pub(crate) fn descriptions() -> Vec<Vec<u8>> {
    texts(["package:2 numa:1 l3:1 core:4 pu:2", "socket:2 numanode:2 l2cache:2 PU:4", "pu:1", "core:4096 pu:1"])
}

pub(crate) const LEVELS: &[&str] =
    &["package:", "socket:", "numa:", "node:", "numanode:", "l3:", "l2cache:", "l1:", "core:", "pu:", "4294967296"];

/// A tree of the kernel's files; each file holds the bytes between two zero bytes. Trees come from
/// other people's machines.
pub(crate) fn sysfs(data: &[u8]) {
    let root = folder();
    let mut contents = data.split(|byte| *byte == 0);
    for path in FILES {
        let content = contents.next().unwrap_or_default();
        fs::write(root.join(path), content).expect("a file in memory can be written");
    }
    if let Ok(topology) = Topology::from_sysfs_root(root) {
        assert!(!topology.online_cpus().is_empty());
        let _ = (topology.tree().to_string(), topology.locality());
    }
}

/// The folder with the tree's folders, made once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // libFuzzer ends the process without running destructors; the folder's owner removes its content.
        let root = in_memory().keep();
        for path in FILES {
            let folder = root.join(path).parent().expect("a file lies in a folder").to_owned();
            fs::create_dir_all(folder).expect("a folder in memory can be made");
        }
        root
    })
}

pub(crate) fn trees() -> Vec<Vec<u8>> {
    let plain = [
        "0-1",
        "0-1",
        "0",
        "0-1",
        "0",
        "0",
        "0",
        "0-1",
        "1",
        "1",
        "32K",
        "3",
        "Unified",
        "0-1",
        "8192K",
        "0-1",
        "Node 0 MemTotal: 1024 kB",
        "10",
        "0",
        "0",
        "02:00:00:00:00:01",
        "1000",
        "up",
        "0",
        "0-1",
        "3",
        "1",
        " CPU0 CPU1\n 24: 1 2 PCI-MSI 0-edge eth0-rx-0",
        "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n",
    ];
    vec![plain.join("\0").into_bytes()]
}

const FILES: &[&str] = &[
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id",
    "sys/devices/system/cpu/cpu0/topology/package_cpus_list",
    "sys/devices/system/cpu/cpu0/topology/core_id",
    "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id",
    "sys/devices/system/cpu/cpu1/topology/package_cpus_list",
    "sys/devices/system/cpu/cpu1/topology/core_id",
    "sys/devices/system/cpu/cpu1/topology/thread_siblings",
    "sys/devices/system/cpu/cpu0/cache/index0/size",
    "sys/devices/system/cpu/cpu0/cache/index0/level",
    "sys/devices/system/cpu/cpu0/cache/index0/type",
    "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
    "sys/devices/system/cpu/cpu1/cache/index0/size",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/meminfo",
    "sys/devices/system/node/node0/distance",
    "sys/class/net/eth0/device/numa_node",
    "sys/class/net/eth0/type",
    "sys/class/net/eth0/address",
    "sys/class/net/eth0/speed",
    "sys/class/net/eth0/operstate",
    "sys/class/net/eth0/ifindex",
    "sys/class/net/eth0/device/local_cpulist",
    "sys/class/net/eth0/queues/rx-0/rps_cpus",
    "sys/class/net/eth0/queues/tx-0/xps_cpus",
    "proc/interrupts",
    "proc/self/status",
];

/// An hwloc XML file with arbitrary values in a correct structure. hwloc itself trusts the
/// structure: its own `lstopo` (2.9.0) crashes on a file with a missing set. This target tests our
/// reading of an object.
pub(crate) fn xml(data: &[u8]) {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let path = FILE.get_or_init(|| in_memory().keep().join("machine.xml"));
    let (mut xml, mut rest) = (String::new(), MACHINE);
    let mut values = data.split(|byte| *byte == 0);
    while let Some((before, after)) = rest.split_once('@') {
        let (usual, after) = after.split_once('@').expect("a place for a value has two ends");
        xml.push_str(before);
        match values.next() {
            Some(value) => xml.extend(value.iter().take(64).map(|byte| *byte as char).filter(|c| is_plain(*c))),
            None => xml.push_str(usual),
        }
        rest = after;
    }
    fs::write(path, xml + rest).expect("a file in memory can be written");
    if let Ok(topology) = Topology::from_xml(path) {
        assert!(!topology.online_cpus().is_empty());
        let _ = (topology.tree().to_string(), topology.locality());
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_graphic() && !"<>&\"".contains(c) || c == ' '
}

pub(crate) fn values() -> Vec<Vec<u8>> {
    let usual: Vec<&str> = MACHINE.split('@').skip(1).step_by(2).collect();
    vec![usual.join("\0").into_bytes()]
}

/// The text between two `@` is a value; here it is the usual one.
const MACHINE: &str = include_str!("machine.xml");

pub(crate) const XML_WORDS: &[&str] = &[
    "18446744073709551615",
    "4294967295",
    "-1",
    "0000:3b:00.0",
    "0200 [15b3:1017] [15b3:0016] 00",
    "02:00:00:00:00:01",
    "\0",
];

/// A file of facts. If it is valid, the machine stays consistent, and every change names a line of
/// the file; if not, the error names one.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    static MACHINE: OnceLock<Topology> = OnceLock::new();
    let machine = MACHINE.get_or_init(|| {
        let nics = vec![Nic::named("eth0"), Nic::named("eth1")];
        Topology::synthetic("package:2 numa:1 core:4 pu:1", nics).expect("the description is valid")
    });
    let lines = text.split('\n').count();
    match Config::parse("facts.toml", text).and_then(|config| config::apply(machine, &config)) {
        Ok(changed) => {
            assert!(changed.overrides().iter().all(|made| (1..=lines).contains(&made.line)), "{text}");
            for nic in changed.nics() {
                assert!(nic.node.is_none_or(|node| changed.nodes().iter().any(|known| known.id == node)), "{text}");
                assert!(nic.locality(&changed).is_none_or(|cpus| !cpus.is_empty()), "{text}");
            }
            let _ = changed.tree().to_string();
        }
        Err(ConfigError::Wrong { at, .. }) => assert!((1..=lines).contains(&at.line), "{at}"),
        Err(other) => panic!("a text has no file to fail with: {other}"),
    }
}

pub(crate) fn configs() -> Vec<Vec<u8>> {
    texts([
        "[nic.eth0]\nnode = 1\nspeed = \"25 Gbit/s\"\n[nic.eth1]\nhide = \"not ours\"\n",
        "[nic.eth9]\nadd = true\nlocal_cpus = '4-7'\naddresses = ['10.0.0.9/24']\nmac = '02:00:00:00:00:01'\n",
        "[node.1]\ntier = 1\nmemory = '64 GiB'\n[[node.1.performance]]\nfrom = '0-3'\nread_latency_ns = 90\n",
        "[[distance]]\nfrom = 0\nto = 1\nvalue = 24\n[pci.'0000:3b:00.0']\nlink = '16 GT/s x8'\n",
        "nic.eth0 = { up = true, mtu = 9000, driver = 'ice', pci = '0000:3b:00.0' }\ngpu.card0.node = 0\n",
    ])
}

pub(crate) const CONFIG_WORDS: &[&str] = &[
    "nic.eth0.",
    "[nic.eth0]\n",
    "[[distance]]\n",
    "from = ",
    "to = ",
    "value = ",
    "hide = ",
    "add = true\n",
    "node = ",
    "local_cpus = ",
    "speed = ",
    "link = ",
    "[[node.1.performance]]\n",
    " Gbit/s",
    " GT/s x",
    "'''",
    "\"\"\"",
    "1979-05-27T07:32:00Z",
];

/// A folder on the file system in memory, if there is one: the target writes thousands of files a
/// second.
fn in_memory() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("rails-fuzz-");
    builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir()).expect("there is room for a folder")
}
