//! What the two-socket guest is like, seen from inside. Run: `cargo xtask lab`

mod interrupts;
mod machine;
