//! What carries the messages of a link: a stream over rails, or a connection of Celeritas.

use bytes::Bytes;
use rails_celeritas::Connection;
use rails_multirail::{MessageReceiver, MessageSender, MultiRailMessages, Priority};
use std::{io, sync::Arc};

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
            Self::Simulated(sender) => sender.send(parts.concat().into()),
        }
    }

    /// The rate of the link in bytes a second, as its own statistics have it; `None` while it is
    /// unknown.
    pub(crate) fn bytes_per_second(&self) -> Option<u64> {
        match self {
            Self::Rails(sender) => {
                let lanes = sender.stats().lanes;
                let rates = lanes.iter().filter(|lane| lane.up).filter_map(|lane| lane.rate);
                rates.map(|rate| rate.as_bits_per_second() / 8).reduce(u64::saturating_add)
            }
            Self::Celeritas(connection) => Some(connection.stats().rate.as_bits_per_second() / 8),
            #[cfg(test)]
            Self::Simulated(_) => None,
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
