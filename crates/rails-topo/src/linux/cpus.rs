//! CPUs, packages, dies and cores, from `/sys/devices/system/cpu`
//! (Documentation/admin-guide/cputopology.rst in the kernel's sources).

use super::{
    cpuinfo::{self, ByCpu},
    root::Root,
    status::Status,
    votes::majority_sets,
};
use crate::{Core, CpuId, CpuSet, Die, Package, sets::LARGEST_PARSED};
use std::{collections::BTreeMap, io};

/// The folder of the CPUs.
pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs of a machine.
pub(super) struct Cpus {
    /// The online CPUs.
    pub(super) online: CpuSet,
    /// The online CPUs with a folder. Only these are read further: a list may name a million CPUs
    /// in a few bytes, while a folder has to exist.
    pub(super) described: CpuSet,
}

impl Cpus {
    /// Kernels before 2.6.26 have no file that lists the CPUs that are online; there, one that is
    /// offline has lost its `topology` folder.
    pub(super) fn read(root: &Root) -> Self {
        let present: CpuSet =
            root.numbered(CPUS, "cpu").into_iter().filter(|cpu| *cpu <= LARGEST_PARSED).map(CpuId).collect();
        let listed = root.value::<CpuSet>(&format!("{CPUS}/online")).filter(|cpus| !cpus.is_empty());
        let mut online = listed.unwrap_or_else(|| unlisted(root, &present));
        // This process runs on an online CPU, so a list without its CPUs is false.
        let is_true = |online: &CpuSet| Status::read(root).cpus.is_none_or(|own| own.intersects(online));
        if root.is_this_machine() && (online.is_empty() || !is_true(&online)) {
            online = without_their_folder(root);
        }
        Self { described: online.intersection(&present), online }
    }
}

/// The CPUs of this machine where their folder is hidden, as in some sandboxes, or holds nonsense:
/// those that `/proc/stat` counts, else those that this process may use, else as many as it may
/// use, from 0.
fn without_their_folder(root: &Root) -> CpuSet {
    let number = |line: &str| line.split_whitespace().next()?.strip_prefix("cpu")?.parse().ok().map(CpuId);
    let stat = root.text("proc/stat").unwrap_or_default();
    let counted: CpuSet = stat.lines().filter_map(number).filter(|cpu| cpu.0 <= LARGEST_PARSED).collect();
    if !counted.is_empty() {
        return counted;
    }
    let as_many = || {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        (0..u32::try_from(count).unwrap_or(1)).map(CpuId).collect()
    };
    Status::read(root).cpus.unwrap_or_else(as_many)
}

/// The error of listing the CPUs; `None` where they can be listed, or where their folder is
/// missing.
pub(super) fn listing_fails(root: &Root) -> Option<io::Error> {
    root.list(CPUS).err().filter(|error| error.kind() != io::ErrorKind::NotFound)
}

/// The packages of the online CPUs; none if nothing states them.
pub(super) fn packages(root: &Root, cpus: &Cpus) -> Vec<Package> {
    let number = |cpu| topology_number(root, cpu, "physical_package_id");
    let mut sets = siblings(root, cpus, &PACKAGE_CPUS);
    if sets.is_empty() {
        let cpuinfo = cpuinfo::read(root);
        sets = grouped(cpus, &cpuinfo, |cpu| number(cpu).or_else(|| cpuinfo.get(&cpu)?.package));
    }
    sets.into_iter().map(|cpus| Package { id: cpus.first().and_then(number), cpus }).collect()
}

/// The dies that are parts of a package; none if nothing states them. A die that is the whole of
/// its package is none.
pub(super) fn dies(root: &Root, cpus: &Cpus, packages: &[Package]) -> Vec<Die> {
    let is_part = |die: &CpuSet| packages.iter().any(|package| die != &package.cpus && die.is_subset(&package.cpus));
    let number = |cpu| topology_number(root, cpu, "die_id");
    let sets = siblings(root, cpus, &DIE_CPUS).into_iter().filter(is_part);
    sets.map(|cpus| Die { id: cpus.first().and_then(number), cpus }).collect()
}

/// The cores of the online CPUs; none if nothing states them.
pub(super) fn cores(root: &Root, cpus: &Cpus) -> Vec<Core> {
    let number = |cpu| topology_number(root, cpu, "core_id");
    let mut sets = siblings(root, cpus, &CORE_CPUS);
    // The kernel lists the two cores of a compute unit as threads of one core.
    if cpuinfo::has_compute_units(root) {
        let of_unit = |unit: CpuSet| by_key(unit.iter(), number);
        sets = sets.into_iter().flat_map(of_unit).collect();
    }
    if sets.is_empty() {
        let cpuinfo = cpuinfo::read(root);
        let package = |cpu| topology_number(root, cpu, "physical_package_id").or_else(|| cpuinfo.get(&cpu)?.package);
        let core = |cpu| number(cpu).or_else(|| cpuinfo.get(&cpu)?.core);
        sets = grouped(cpus, &cpuinfo, |cpu| Some((package(cpu)?, core(cpu)?)));
    }
    sets.into_iter().map(|cpus| Core { id: cpus.first().and_then(number), cpus }).collect()
}

/// The CPUs that are online, where no file lists them.
fn unlisted(root: &Root, present: &CpuSet) -> CpuSet {
    let described = present.iter().any(|cpu| root.is_dir(&format!("{CPUS}/cpu{cpu}/topology")));
    let is_online = |cpu: &CpuId| match root.value::<u32>(&format!("{CPUS}/cpu{cpu}/online")) {
        Some(online) => online != 0,
        None => !described || root.is_dir(&format!("{CPUS}/cpu{cpu}/topology")),
    };
    let online: CpuSet = present.iter().filter(is_online).collect();
    // Without `topology` folders, `/proc/cpuinfo` lists the running CPUs.
    let running: CpuSet = cpuinfo::read(root).into_keys().collect();
    if described || running.is_empty() { online } else { online.intersection(&running) }
}

/// The sets in the CPUs' `topology` folders under one of the names.
fn siblings(root: &Root, cpus: &Cpus, names: &[&str]) -> Vec<CpuSet> {
    let mut served = 0;
    let mut stated = Vec::new();
    for cpu in cpus.described.iter() {
        // The name that the last CPU's folder has comes first: a machine runs one kernel.
        let order = std::iter::once(served).chain((0..names.len()).filter(|index| *index != served));
        let set = |index: usize| Some((index, set_in(root, &format!("{CPUS}/cpu{cpu}/topology/{}", names[index]))?));
        if let Some((index, set)) = order.into_iter().find_map(set) {
            served = index;
            stated.push((cpu, set.intersection(&cpus.online)));
        }
    }
    majority_sets(stated).into_iter().map(|(cpus, _)| cpus).collect()
}

/// The set in a file: a list if the file's name ends in `_list`, else a mask.
fn set_in(root: &Root, path: &str) -> Option<CpuSet> {
    if path.ends_with("_list") { root.value(path) } else { CpuSet::parse_mask(&root.text(path)?).ok() }
}

/// The CPUs that have a folder or a paragraph of `/proc/cpuinfo`, by key.
fn grouped<K: Ord>(cpus: &Cpus, cpuinfo: &ByCpu, key: impl Fn(CpuId) -> Option<K>) -> Vec<CpuSet> {
    let running: CpuSet = cpuinfo.keys().copied().collect();
    by_key(cpus.described.union(&running.intersection(&cpus.online)).iter(), key)
}

/// These CPUs by key; a CPU of unknown key is in no set.
fn by_key<K: Ord>(cpus: impl Iterator<Item = CpuId>, key: impl Fn(CpuId) -> Option<K>) -> Vec<CpuSet> {
    let mut sets: BTreeMap<K, CpuSet> = BTreeMap::new();
    for cpu in cpus {
        if let Some(key) = key(cpu) {
            sets.entry(key).or_default().insert(cpu);
        }
    }
    sets.into_values().collect()
}

/// A number of the CPU's `topology` folder; -1 is unknown.
fn topology_number(root: &Root, cpu: CpuId, name: &str) -> Option<u32> {
    root.value(&format!("{CPUS}/cpu{cpu}/topology/{name}"))
}

/// Since Linux 5.3, and before; as lists, and on the oldest kernels as masks alone.
const PACKAGE_CPUS: [&str; 4] = ["package_cpus_list", "core_siblings_list", "package_cpus", "core_siblings"];
/// Since Linux 5.3.
const DIE_CPUS: [&str; 2] = ["die_cpus_list", "die_cpus"];
/// Since Linux 5.3, and before; as lists, and on the oldest kernels as masks alone.
const CORE_CPUS: [&str; 4] = ["core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings"];
