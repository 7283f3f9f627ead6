//! The bounds of a redirect's networks.

/// The most networks of a redirect: some 20 MB of the kernel's memory.
pub const MAX_NETWORKS: usize = 1 << 16;
/// The most ranges of ports of one network, after those that touch each other are joined. The
/// kernel's programs compare one after the other.
pub const MAX_PORT_RANGES: usize = 16;
