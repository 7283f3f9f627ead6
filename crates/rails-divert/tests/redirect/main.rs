//! Redirects of cgroups, in network namespaces. Run as root:
//! `cargo test -p rails-divert --test redirect -- --ignored`

mod crowd;
mod ground;
mod guest;
mod life;
mod neighbours;
mod parts;
mod refusals;
mod sockets;
mod untouched;
