//! Tests that take a machine of two nodes with real interrupts: run as root inside the NUMA guest
//! (`cargo xtask lab`).

mod bonding;
mod claimed_nic;
mod claims;
mod doctor;
mod run;
mod topo;
mod util;
mod watch;
