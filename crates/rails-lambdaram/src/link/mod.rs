//! Links between nodes.
//!
//! - `carrier`: what carries the messages; `dialer`: how a link is opened;
//! - `meter`: the round trip and the rate of a link;
//! - `reader_protocol`: a link as the node that reads sees it, without I/O; `reader`: its driver;
//! - `remote`: the links to one or several nodes that serve the same datasets;
//! - `server_queue`: the blocks that a peer has asked for; `server`: one link of a node that
//!   serves.

mod carrier;
mod dialer;
mod meter;
mod reader;
mod reader_protocol;
mod remote;
mod server;
mod server_queue;

pub(crate) use carrier::{LinkReceiver, LinkSender, over_celeritas, over_rails};
pub use dialer::DialError;
pub(crate) use dialer::Dialer;
pub use reader::LinkError;
pub(crate) use reader::{Greeting, LinkStatus};
pub(crate) use reader_protocol::{Answer, Question};
pub(crate) use remote::{Peer as RemotePeer, Remote};
pub(crate) use server::serve;
