//! Packages, dies, caches, cores and their kinds.

use crate::{CpuSet, DataSize};
use serde::{Deserialize, Serialize};

/// A processor package: what is plugged into one processor socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The kernel's number of it (`physical_package_id`), unknown where the kernel gives none.
    pub id: Option<u32>,
    /// Its PUs.
    pub cpus: CpuSet,
}

/// A die: a piece of silicon of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Die {
    /// The kernel's number of it within its package (`topology/die_id`), unknown where the kernel gives none.
    pub id: Option<u32>,
    /// Its PUs.
    pub cpus: CpuSet,
}

/// A cache and the PUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 for L1, 2 for L2 and so on.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size, unknown where the source does not say.
    #[serde(rename = "size_bytes")]
    pub size: Option<DataSize>,
    /// The PUs that share it.
    pub cpus: CpuSet,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
pub struct Core {
    /// The kernel's number of it within its package, unknown where the kernel gives none.
    pub id: Option<u32>,
    /// Its PUs.
    pub cpus: CpuSet,
}

/// Cores of one kind, on a machine whose cores are not all alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreKind {
    /// Their PUs.
    pub cpus: CpuSet,
    /// Their rank by speed: 0 is the slowest kind, and the most thrifty one. `None` where nothing tells the kinds' order.
    pub efficiency: Option<u32>,
    /// What the kernel calls them: `cpu_core` and `cpu_atom` of Intel's hybrid processors (`/sys/devices/cpu_core/cpus`). `None` elsewhere.
    pub name: Option<String>,
    /// Arm's relative capacity, of which the fastest have 1,024 (`cpu_capacity`). `None` where the kernel gives none.
    pub capacity: Option<u32>,
    /// The highest frequency in kHz (`cpufreq/cpuinfo_max_freq`). `None` where there is no frequency driver.
    #[serde(rename = "max_frequency_khz")]
    pub max_frequency: Option<u64>,
    /// The frequency without boost in kHz (`cpufreq/base_frequency`). `None` where the driver does not say.
    #[serde(rename = "base_frequency_khz")]
    pub base_frequency: Option<u64>,
}
