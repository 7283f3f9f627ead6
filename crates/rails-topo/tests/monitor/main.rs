//! The monitor on this machine, and in network namespaces.

mod live;
mod netns;
