//! What takes a machine of two nodes that may be disturbed: run as root inside the NUMA guest, which sets `RAILS_GUEST=1`.

mod affinity;
mod balancer;
mod interrupts;
mod machine;
mod memory;
mod threads;
