//! Kinds of cores, from hwloc.

use super::sets;
use crate::{CoreKind, CpuSet};
use hwlocality::{Topology as Hwloc, cpu::kind::CpuKind};

/// The kinds, the slowest first; none where hwloc knows of one kind at most.
pub(super) fn core_kinds(hwloc: &Hwloc, online: &CpuSet) -> Vec<CoreKind> {
    let kinds = hwloc.cpu_kinds().into_iter().flatten().map(|kind| core_kind(&kind, online));
    let kinds: Vec<CoreKind> = kinds.filter(|kind| !kind.cpus.is_empty()).collect();
    if kinds.len() > 1 { kinds } else { Vec::new() }
}

fn core_kind(kind: &CpuKind<'_>, online: &CpuSet) -> CoreKind {
    let text = |wanted: &str| {
        let info = kind.infos.iter().find(|info| info.name().to_bytes() == wanted.as_bytes())?;
        Some(info.value().to_string_lossy().trim().to_owned()).filter(|text| !text.is_empty())
    };
    let kilohertz = |name| text(name)?.parse::<u64>().ok()?.checked_mul(1000);
    CoreKind {
        cpus: sets::cpus(&kind.cpuset).intersection(online),
        efficiency: kind.efficiency.and_then(|rank| rank.try_into().ok()),
        name: text("CoreType").map(kernel_name),
        capacity: text("LinuxCapacity").and_then(|capacity| capacity.parse().ok()),
        max_frequency: kilohertz("FrequencyMaxMHz"),
        base_frequency: kilohertz("FrequencyBaseMHz"),
    }
}

/// hwloc has names of its own for Linux's names; names of other systems stay.
fn kernel_name(name: String) -> String {
    let known = KERNEL_NAMES.iter().find(|(hwloc, _)| *hwloc == name);
    known.map_or(name, |(_, kernel)| (*kernel).to_owned())
}

const KERNEL_NAMES: [(&str, &str); 3] =
    [("IntelCore", "cpu_core"), ("IntelAtom", "cpu_atom"), ("IntelLowPower", "cpu_lowpower")];
