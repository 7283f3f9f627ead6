//! Other people's machines, from hwloc's own test suite; they are not part of this repository.
//!
//! Run: `RAILS_CAPTURES=FOLDER cargo test -p rails-topo --test captured_machines -- --ignored`. The
//! folder holds `xml/*.xml` and `sysfs/*.tar.bz2`; without the variable it is `shared/topologies`
//! beside the repository.

mod devices;
#[cfg(feature = "hwloc")]
mod lstopo;
mod machines;
mod pictures;
mod sysfs;
#[cfg(feature = "hwloc")]
mod versus_hwloc;
mod xml;
