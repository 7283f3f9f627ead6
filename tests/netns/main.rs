//! A stream over two real links: network namespaces joined by shaped veth pairs, each end with its
//! own TCP stack.
//!
//! Run as root: `cargo test --test netns -- --ignored netns_`

mod celeritas;
mod ends;
mod streams;
