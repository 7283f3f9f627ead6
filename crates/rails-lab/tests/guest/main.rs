//! The two-socket guest, seen from inside. Run: `cargo xtask lab`

mod interrupts;
mod machine;
