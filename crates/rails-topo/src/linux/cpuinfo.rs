//! `/proc/cpuinfo`, for kernels without facts in `/sys/devices/system/cpu` (before 2.6.16), and for
//! the make of the processor.

use super::root::Root;
use crate::{CpuId, sets::LARGEST_PARSED};
use std::collections::BTreeMap;

/// The facts of one CPU.
#[derive(Default)]
pub(super) struct CpuInfo {
    pub(super) package: Option<u32>,
    pub(super) core: Option<u32>,
}

/// The facts, by CPU.
pub(super) type ByCpu = BTreeMap<CpuId, CpuInfo>;

/// `/proc/cpuinfo` by CPU: a paragraph of lines `name : value` for each online CPU.
pub(super) fn read(root: &Root) -> ByCpu {
    let mut cpus = ByCpu::new();
    let mut current = None;
    for line in root.text("proc/cpuinfo").unwrap_or_default().lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let Ok(number) = value.trim().parse::<u32>() else { continue };
        match name.trim() {
            "processor" => {
                current = Some(CpuId(number)).filter(|cpu| cpu.0 <= LARGEST_PARSED);
                cpus.extend(current.map(|cpu| (cpu, CpuInfo::default())));
            }
            "physical id" => with_current(&mut cpus, current, |cpu| cpu.package = Some(number)),
            "core id" => with_current(&mut cpus, current, |cpu| cpu.core = Some(number)),
            _ => {}
        }
    }
    cpus
}

/// Whether the processor is of AMD's family 15h, whose cores come in compute units.
pub(super) fn has_compute_units(root: &Root) -> bool {
    let text = root.text("proc/cpuinfo").unwrap_or_default();
    let first = text.lines().take_while(|line| !line.trim().is_empty()).filter_map(|line| line.split_once(':'));
    let facts: Vec<(&str, &str)> = first.map(|(name, value)| (name.trim(), value.trim())).collect();
    [("vendor_id", "AuthenticAMD"), ("cpu family", "21")].iter().all(|fact| facts.contains(fact))
}

fn with_current(cpus: &mut ByCpu, current: Option<CpuId>, change: impl FnOnce(&mut CpuInfo)) {
    if let Some(cpu) = current.and_then(|cpu| cpus.get_mut(&cpu)) {
        change(cpu);
    }
}
