//! What takes a machine of two nodes that may be disturbed: run as root inside the NUMA guest, which sets `RAILS_GUEST=1`.

mod balancer;
mod machine;
mod threads;
