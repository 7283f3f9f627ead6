//! Tests that need a machine of two nodes that may be disturbed: run as root inside the NUMA guest,
//! which sets `RAILS_GUEST=1`.

mod affinity;
mod interrupts;
mod irqbalance;
mod machine;
mod memory;
mod threads;
