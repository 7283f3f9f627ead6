//! What takes two memory nodes to prove: run in the NUMA guest, with `RAILS_GUEST=1`.

mod memory;
