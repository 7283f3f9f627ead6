//! Streams between two network namespaces, over links that fail. Run as root:
//! `cargo test -p rails-multirail --test netns -- --ignored`

mod ends;
mod flaps;
