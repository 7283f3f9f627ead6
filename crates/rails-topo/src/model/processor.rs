//! Packages, dies, caches, cores and their kinds.

use crate::{CpuSet, DataSize};
use serde::{Deserialize, Serialize};

/// A processor package: the processor in one socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Package {
    /// The package's number in the kernel (`topology/physical_package_id`); `None` without one.
    pub id: Option<u32>,
    /// Online PUs (`topology/package_cpus_list`, `core_siblings_list` before Linux 5.3); never
    /// empty.
    pub cpus: CpuSet,
}

/// A die: a piece of silicon of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Die {
    /// The die's number within its package (`topology/die_id`); `None` without one.
    pub id: Option<u32>,
    /// The die's online PUs (`topology/die_cpus_list`); never empty, and inside one package.
    pub cpus: CpuSet,
}

/// A cache and the PUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// The cache's level: 1 for L1, 2 for L2 and so on (`cache/index*/level`).
    pub level: u8,
    /// The contents (`cache/index*/type`).
    pub kind: CacheKind,
    /// The cache's size (`cache/index*/size`); `None` is unknown.
    #[serde(rename = "size_bytes")]
    pub size: Option<DataSize>,
    /// The online PUs that share the cache (`cache/index*/shared_cpu_list`); never empty.
    pub cpus: CpuSet,
}

/// The contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// A core and its PUs (hardware threads).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Core {
    /// The core's number within its package (`topology/core_id`); `None` without one.
    pub id: Option<u32>,
    /// The core's online PUs (`topology/core_cpus_list`, `thread_siblings_list` before Linux 5.3);
    /// never empty.
    pub cpus: CpuSet,
}

/// Cores of one kind, on a machine whose cores differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreKind {
    /// The online PUs of the cores; never empty, and no PU is of two kinds.
    pub cpus: CpuSet,
    /// The kind's rank by speed: 0 is the slowest kind, and the most thrifty one. `None` if the
    /// order of the kinds is unknown, as in some of hwloc's XML files.
    pub efficiency: Option<u32>,
    /// The kernel's name for the kind: `cpu_core`, `cpu_atom` and `cpu_lowpower` of Intel's hybrid
    /// processors (`/sys/devices/cpu_core/cpus`; `CoreType` in hwloc's XML files, in the kernel's
    /// words if there are any). `None` without a name.
    pub name: Option<String>,
    /// The capacity, 1,024 for the fastest CPUs (`cpu_capacity`, on Arm and hybrid x86); the lowest
    /// within the kind. `None` where the kernel gives none for some of them.
    pub capacity: Option<u32>,
    /// The highest frequency in kHz (`cpufreq/cpuinfo_max_freq`) that all of them reach. `None`
    /// where there is no frequency driver; hwloc's XML files give whole MHz.
    #[serde(rename = "max_frequency_khz")]
    pub max_frequency: Option<u64>,
    /// The frequency without boost in kHz (`cpufreq/base_frequency`), the lowest within the kind.
    /// `None` is unknown.
    #[serde(rename = "base_frequency_khz")]
    pub base_frequency: Option<u64>,
}
