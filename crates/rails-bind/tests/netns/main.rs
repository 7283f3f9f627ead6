//! Tests that need a second network namespace.
//!
//! Run as root: `cargo test -p rails-bind --test netns -- --ignored netns_`

mod settings;
mod sockets;
