//! Caches, from `/sys/devices/system/cpu/cpu*/cache`
//! (Documentation/ABI/testing/sysfs-devices-system-cpu in the kernel's sources).

use super::{
    cpus::{CPUS, Cpus},
    root::Root,
    votes::majority_sets,
};
use crate::{Cache, CacheKind, Core, CpuId, CpuSet, DataSize};
use std::collections::{BTreeMap, HashMap};

/// The caches of the online CPUs, which have these cores.
pub(super) fn caches(root: &Root, cpus: &Cpus, cores: &[Core]) -> Vec<Cache> {
    let core_of = |cpu| cores.iter().find(|core| core.cpus.contains(cpu));
    let mut stated: BTreeMap<(u8, CacheKind), StatedCaches> = BTreeMap::new();
    let mut known: HashMap<(u32, CpuSet), Description> = HashMap::new();
    for cpu in cpus.described.iter() {
        let folder = format!("{CPUS}/cpu{cpu}/cache");
        for index in root.numbered(&folder, "index") {
            let folder = format!("{folder}/index{index}");
            let Some(mut shared) = shared_with(root, &folder) else { continue };
            if shared.is_empty() {
                // Many Itaniums leave the mask of the core's own cache empty.
                shared = core_of(cpu).map_or_else(|| CpuSet::single(cpu), |core| core.cpus.clone());
            }
            let key = (index, shared.intersection(&cpus.online));
            // All CPUs of a cache describe it alike; only the sharing CPUs are read for every CPU.
            let description = known.get(&key).copied().or_else(|| Description::read(root, &folder));
            let Some(description) = description else { continue };
            let stated = stated.entry((description.level, description.kind)).or_default();
            stated.shared.push((cpu, key.1.clone()));
            stated.sizes.entry(key.1.clone()).or_insert(description.size);
            known.insert(key, description);
        }
    }
    let of_one_kind = |((level, kind), StatedCaches { shared, sizes }): ((u8, CacheKind), StatedCaches)| {
        let size = move |cpus: &CpuSet| sizes.get(cpus).copied().flatten();
        majority_sets(shared).into_iter().map(move |(cpus, _)| Cache { level, kind, size: size(&cpus), cpus })
    };
    stated.into_iter().flat_map(of_one_kind).collect()
}

/// The CPUs' statements about their caches of one level and kind.
#[derive(Default)]
struct StatedCaches {
    /// The sharing CPUs, by the CPU that states them.
    shared: Vec<(CpuId, CpuSet)>,
    /// The size, by the sharing CPUs.
    sizes: HashMap<CpuSet, Option<DataSize>>,
}

/// A CPU's statement about one of its caches.
#[derive(Clone, Copy)]
struct Description {
    level: u8,
    kind: CacheKind,
    size: Option<DataSize>,
}

impl Description {
    fn read(root: &Root, folder: &str) -> Option<Self> {
        Some(Self {
            level: root.value(&format!("{folder}/level"))?,
            kind: cache_kind(&root.text(&format!("{folder}/type"))?)?,
            size: root.text(&format!("{folder}/size")).as_deref().and_then(cache_size),
        })
    }
}

/// The mask decides, as for hwloc: the kernel makes both files of one set, but for some on AMD's
/// family 15h, whose list denies that the two cores of a compute unit share a cache.
fn shared_with(root: &Root, folder: &str) -> Option<CpuSet> {
    let mask = root.text(&format!("{folder}/shared_cpu_map")).and_then(|mask| CpuSet::parse_mask(&mask).ok());
    mask.or_else(|| root.value(&format!("{folder}/shared_cpu_list")))
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
