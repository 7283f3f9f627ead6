//! The origin of a topology, and the names of its machine.

use serde::{Deserialize, Serialize};

/// The origin of a model's facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// The machine that this process runs on.
    ThisMachine {
        /// `hwloc` (with its version) or `sysfs`, with the reason where hwloc was asked for and
        /// failed.
        reader: String,
    },
    /// An hwloc XML file.
    Xml {
        /// The file that was read.
        path: std::path::PathBuf,
    },
    /// A captured tree of `/sys` and `/proc`.
    Sysfs {
        /// The root of the tree.
        path: std::path::PathBuf,
    },
    /// A capture in one file.
    Capture {
        /// The file.
        path: std::path::PathBuf,
    },
    /// A description in hwloc's synthetic syntax.
    Synthetic {
        /// The description.
        description: String,
    },
}

/// The names of the machine; an unknown one is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Machine {
    /// Host name.
    pub host: Option<String>,
    /// Processor model.
    pub cpu_model: Option<String>,
    /// Vendor and product from the firmware's tables (DMI).
    pub product: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
}
