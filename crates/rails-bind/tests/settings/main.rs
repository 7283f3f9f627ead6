//! Settings changed, read back, put back and recovered, on trees that look like the kernel's files.

mod apply;
mod journal;
mod machine;
