//! CPUs, packages, cores and caches, from `/sys/devices/system/cpu`.

use super::{root::Root, votes::believed};
use crate::{Cache, CacheKind, Core, CpuId, CpuSet, DataSize, Package};
use std::collections::BTreeMap;

/// The folder of the CPUs.
pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs that are online.
///
/// Kernels before 2.6.26 have no file that lists them; there, a CPU that is offline has lost its `topology` folder.
pub(super) fn online(root: &Root) -> CpuSet {
    if let Some(online) = root.value::<CpuSet>(&format!("{CPUS}/online")).filter(|cpus| !cpus.is_empty()) {
        return online;
    }
    let present = root.numbered(CPUS, "cpu");
    let described = present.iter().any(|cpu| root.is_dir(&format!("{CPUS}/cpu{cpu}/topology")));
    let is_online = |cpu: &u32| match root.value::<u32>(&format!("{CPUS}/cpu{cpu}/online")) {
        Some(online) => online != 0,
        None => !described || root.is_dir(&format!("{CPUS}/cpu{cpu}/topology")),
    };
    let online: CpuSet = present.into_iter().filter(is_online).map(CpuId).collect();
    // Without `topology` folders, `/proc/cpuinfo` lists those that run.
    let running: CpuSet = cpuinfo(root).into_keys().collect();
    if described || running.is_empty() { online } else { online.intersection(&running) }
}

/// The packages of the online CPUs; none where nothing tells.
pub(super) fn packages(root: &Root, online: &CpuSet) -> Vec<Package> {
    let number = |cpu| topology_number(root, cpu, "physical_package_id");
    let mut sets = siblings(root, online, &["package_cpus", "core_siblings"]);
    if sets.is_empty() {
        let cpuinfo = cpuinfo(root);
        let package = |cpu| number(cpu).or_else(|| cpuinfo.get(&cpu)?.package);
        sets = grouped(online, package);
    }
    sets.into_iter().map(|cpus| Package { id: cpus.first().and_then(number), cpus }).collect()
}

/// The cores of the online CPUs; none where nothing tells.
pub(super) fn cores(root: &Root, online: &CpuSet) -> Vec<Core> {
    let number = |cpu| topology_number(root, cpu, "core_id");
    let mut sets = siblings(root, online, &["core_cpus", "thread_siblings"]);
    if sets.is_empty() {
        let cpuinfo = cpuinfo(root);
        let package = |cpu| topology_number(root, cpu, "physical_package_id").or_else(|| cpuinfo.get(&cpu)?.package);
        let core = |cpu| number(cpu).or_else(|| cpuinfo.get(&cpu)?.core);
        sets = grouped(online, |cpu| Some((package(cpu)?, core(cpu)?)));
    }
    sets.into_iter().map(|cpus| Core { id: cpus.first().and_then(number), cpus }).collect()
}

/// The caches of the online CPUs.
pub(super) fn caches(root: &Root, online: &CpuSet) -> Vec<Cache> {
    let mut told: BTreeMap<(u8, CacheKind), Vec<(CpuId, CpuSet)>> = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for cpu in online.iter() {
        let folder = format!("{CPUS}/cpu{cpu}/cache");
        for index in root.numbered(&folder, "index") {
            let file = |name| format!("{folder}/index{index}/{name}");
            let level = root.value::<u8>(&file("level"));
            let kind = root.text(&file("type")).as_deref().and_then(cache_kind);
            let shared: Option<CpuSet> = root.set(&file("shared_cpu_list"), &file("shared_cpu_map"));
            if let (Some(level), Some(kind), Some(shared)) = (level, kind, shared) {
                told.entry((level, kind)).or_default().push((cpu, shared.intersection(online)));
                sizes.insert((level, kind, cpu), root.text(&file("size")).as_deref().and_then(cache_size));
            }
        }
    }
    let cache = |level, kind, (cpus, teller): (CpuSet, CpuId)| {
        let size = sizes.get(&(level, kind, teller)).copied().flatten();
        Cache { level, kind, size, cpus }
    };
    told.into_iter()
        .flat_map(|((level, kind), told)| believed(told).into_iter().map(move |believed| (level, kind, believed)))
        .map(|(level, kind, believed)| cache(level, kind, believed))
        .collect()
}

/// The sets that the CPUs' `topology` folders give under the first of the names that any of them has.
fn siblings(root: &Root, online: &CpuSet, names: &[&str]) -> Vec<CpuSet> {
    let told = |name: &str| -> Vec<(CpuId, CpuSet)> {
        let set = |cpu| {
            let file = format!("{CPUS}/cpu{cpu}/topology/{name}");
            root.set::<CpuId>(&format!("{file}_list"), &file).map(|cpus| (cpu, cpus.intersection(online)))
        };
        online.iter().filter_map(set).collect()
    };
    let told = names.iter().map(|name| told(name)).find(|told| !told.is_empty()).unwrap_or_default();
    believed(told).into_iter().map(|(cpus, _)| cpus).collect()
}

/// CPUs of one key together; a CPU whose key is unknown is in no set.
fn grouped<K: Ord>(cpus: &CpuSet, key: impl Fn(CpuId) -> Option<K>) -> Vec<CpuSet> {
    let mut sets: BTreeMap<K, CpuSet> = BTreeMap::new();
    for cpu in cpus.iter() {
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

fn cache_kind(text: &str) -> Option<CacheKind> {
    match text {
        "Data" => Some(CacheKind::Data),
        "Instruction" => Some(CacheKind::Instruction),
        "Unified" => Some(CacheKind::Unified),
        _ => None,
    }
}

/// `32K`, `20480K` or `16M`, in units of 1024; no unit is bytes.
fn cache_size(text: &str) -> Option<DataSize> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|size| *size > 0).map(DataSize::bytes)
}

/// What `/proc/cpuinfo` says of one CPU.
#[derive(Default)]
struct CpuInfo {
    package: Option<u32>,
    core: Option<u32>,
}

/// `/proc/cpuinfo` by CPU: a paragraph for each that runs, of lines `name : value`.
fn cpuinfo(root: &Root) -> BTreeMap<CpuId, CpuInfo> {
    let mut cpus: BTreeMap<CpuId, CpuInfo> = BTreeMap::new();
    let mut current = None;
    for line in root.text("proc/cpuinfo").unwrap_or_default().lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let Ok(number) = value.trim().parse::<u32>() else { continue };
        match name.trim() {
            "processor" => {
                current = Some(CpuId(number));
                cpus.insert(CpuId(number), CpuInfo::default());
            }
            "physical id" => with_current(&mut cpus, current, |cpu| cpu.package = Some(number)),
            "core id" => with_current(&mut cpus, current, |cpu| cpu.core = Some(number)),
            _ => {}
        }
    }
    cpus
}

fn with_current(cpus: &mut BTreeMap<CpuId, CpuInfo>, current: Option<CpuId>, change: impl FnOnce(&mut CpuInfo)) {
    if let Some(cpu) = current.and_then(|cpu| cpus.get_mut(&cpu)) {
        change(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_are_in_units_of_1024() {
        assert_eq!(cache_size("20480K"), Some(DataSize::bytes(20480 << 10)));
        assert_eq!(cache_size("16M"), Some(DataSize::bytes(16 << 20)));
        for text in ["", "K", "32X", "0K", "99999999999999999999K", "18446744073709551615G", "32é"] {
            assert_eq!(cache_size(text), None, "{text:?}");
        }
    }
}
