//! What carries the messages of a link: a stream over rails, or a connection of Celeritas.

use bytes::Bytes;
use rails_celeritas::Connection;
use rails_multirail::{MessageReceiver, MessageSender, MultiRailMessages, Priority};
use std::{io, sync::Arc, time::Duration};

/// The sending half of a link.
#[derive(Debug, Clone)]
pub(crate) enum LinkSender {
    Rails(MessageSender),
    Celeritas(Arc<Connection>),
    #[cfg(test)]
    Simulated(crate::simulation::WireSender),
}

/// The receiving half of a link.
#[derive(Debug)]
pub(crate) enum LinkReceiver {
    Rails(MessageReceiver),
    Celeritas(Arc<Connection>),
    #[cfg(test)]
    Simulated(crate::simulation::WireReceiver),
}

/// What a link's own statistics say; `None` is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LinkFigures {
    /// The rate.
    pub(crate) bytes_per_second: Option<u64>,
    /// The round trip of the longest lane, without queues.
    pub(crate) round_trip: Option<Duration>,
}

/// Both halves of a link over rails.
pub(crate) fn over_rails(messages: MultiRailMessages) -> (LinkSender, LinkReceiver) {
    let (sender, receiver) = messages.split();
    (LinkSender::Rails(sender), LinkReceiver::Rails(receiver))
}

/// Both halves of a link over one connection of Celeritas.
pub(crate) fn over_celeritas(connection: Connection) -> (LinkSender, LinkReceiver) {
    let connection = Arc::new(connection);
    (LinkSender::Celeritas(Arc::clone(&connection)), LinkReceiver::Celeritas(connection))
}

impl LinkSender {
    /// Sends a message, whose parts are sent one after the other. Waits for room.
    ///
    /// # Errors
    /// The link has failed.
    pub(crate) async fn send(&mut self, parts: Vec<Bytes>, priority: Priority) -> io::Result<()> {
        match self {
            Self::Rails(sender) => {
                let message = match <[Bytes; 1]>::try_from(parts) {
                    Ok([whole]) => whole,
                    Err(parts) => parts.concat().into(),
                };
                sender.send(message, priority).await
            }
            Self::Celeritas(connection) => connection.send(parts).await.map(drop).map_err(io::Error::other),
            #[cfg(test)]
            Self::Simulated(sender) => sender.send(parts.concat().into()).await,
        }
    }

    /// The link as its own statistics have it.
    pub(crate) fn figures(&self) -> LinkFigures {
        match self {
            Self::Rails(sender) => {
                let lanes = sender.stats().lanes;
                let up = || lanes.iter().filter(|lane| lane.up);
                let rates = up().filter_map(|lane| lane.rate).map(|rate| rate.as_bits_per_second() / 8);
                LinkFigures {
                    bytes_per_second: rates.reduce(u64::saturating_add),
                    round_trip: up().filter_map(|lane| lane.min_rtt).max(),
                }
            }
            Self::Celeritas(connection) => {
                let stats = connection.stats();
                LinkFigures {
                    bytes_per_second: Some(stats.rate.as_bits_per_second() / 8),
                    round_trip: Some(stats.min_rtt),
                }
            }
            #[cfg(test)]
            Self::Simulated(_) => LinkFigures::default(),
        }
    }

    /// Tells the peer that no message follows.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Rails(sender) => sender.finish().await,
            Self::Celeritas(connection) => {
                connection.finish();
                Ok(())
            }
            #[cfg(test)]
            Self::Simulated(_) => Ok(()),
        }
    }
}

impl LinkReceiver {
    /// The next message; `None` at the end of the link.
    ///
    /// # Errors
    /// The link has failed.
    pub(crate) async fn recv(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Self::Rails(receiver) => Ok(receiver.recv().await?.map(|message| message.payload)),
            Self::Celeritas(connection) => {
                let message = connection.receive().await.map_err(io::Error::other)?;
                Ok(message.map(|message| match <[_; 1]>::try_from(message.blocks) {
                    Ok([whole]) => whole.freeze(),
                    Err(blocks) => blocks.concat().into(),
                }))
            }
            #[cfg(test)]
            Self::Simulated(receiver) => receiver.recv().await,
        }
    }
}
