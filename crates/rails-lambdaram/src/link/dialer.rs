//! How a link to another node is opened.

use super::carrier::{LinkReceiver, LinkSender, over_celeritas, over_rails};
use bytes::Bytes;
use rails_celeritas::{CeleritasOptions, OpenConnectionError};
use rails_multirail::{
    LaneAddress, MultiRailMessages, OpenError, Pairing, Priority, Rails, StreamOptions, connect_first,
};
use std::{fmt, io};

/// The way to one node.
#[derive(Clone)]
pub(crate) enum Dialer {
    /// A stream with these lanes.
    Rails { rails: Rails, pairing: Pairing, options: Box<StreamOptions> },
    /// One connection of Celeritas, to the first of these addresses that answers.
    Celeritas { addresses: Vec<LaneAddress>, options: Box<CeleritasOptions> },
    #[cfg(test)]
    Simulated(crate::simulation::SimulatedNode),
}

/// Why a node was not reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// No lane came up.
    #[error(transparent)]
    Rails(#[from] OpenError),
    /// The connection was lost before the first messages were sent.
    #[error("the connection was lost at once")]
    Lost(#[source] io::Error),
    /// No address answered over Celeritas; this is the first one's error.
    #[error("no answer over Celeritas from {address}")]
    Celeritas {
        /// The address.
        address: LaneAddress,
        /// The cause.
        #[source]
        error: OpenConnectionError,
    },
    /// There is no address.
    #[error("there is no address to call")]
    NoAddress,
}

impl Dialer {
    /// Opens a link, and sends the first messages: over rails along with the opening, and more than
    /// once if an attempt to open it has to be repeated.
    pub(super) async fn dial(&self, first: &[Bytes]) -> Result<(LinkSender, LinkReceiver), DialError> {
        let (mut sender, receiver) = match self {
            Self::Rails { rails, pairing, options } => {
                let first: Vec<_> = first.iter().map(|message| (message.clone(), Priority::HIGHEST)).collect();
                let messages = MultiRailMessages::connect_paired(rails, pairing, options, &first).await?;
                return Ok(over_rails(messages));
            }
            Self::Celeritas { addresses, options } => {
                match connect_first(addresses, |address| options.connect(address.socket)).await {
                    Ok((_, connection)) => over_celeritas(connection),
                    Err(errors) => match errors.into_iter().next() {
                        Some((address, error)) => return Err(DialError::Celeritas { address, error }),
                        None => return Err(DialError::NoAddress),
                    },
                }
            }
            #[cfg(test)]
            Self::Simulated(node) => node.dial().await.ok_or(DialError::NoAddress)?,
        };
        for message in first {
            sender.send(vec![message.clone()], Priority::HIGHEST).await.map_err(DialError::Lost)?;
        }
        Ok((sender, receiver))
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rails { pairing, .. } => f.debug_struct("Rails").field("pairs", &pairing.pairs.len()).finish(),
            Self::Celeritas { addresses, .. } => f.debug_struct("Celeritas").field("addresses", addresses).finish(),
            #[cfg(test)]
            Self::Simulated(_) => f.write_str("Simulated"),
        }
    }
}
