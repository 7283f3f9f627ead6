//! Rails: a NIC lane, its interrupt, the cores beside it and the memory beside them, as one unit.
#![forbid(unsafe_code)]

pub use rails_bind as bind;
pub use rails_multirail as multirail;
pub use rails_net as net;
pub use rails_topo as topo;
