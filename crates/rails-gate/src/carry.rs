//! Bytes between a connection on this host and its channel.

use crate::{
    session::{Channel, MAX_MESSAGE, Reset, Unfinished},
    socket::{Socket, reset_on_close},
    traffic::{End, Traffic},
    wire::MAX_FRAME,
};
use bytes::{BufMut, Bytes, BytesMut};
use std::{cell::RefCell, io, sync::Arc};
use tokio::{io::Interest, sync::Notify};

/// Carries bytes in both directions until both have ended. A direction that ends is ended at the
/// other host, and a reset resets there.
pub(crate) async fn carry(socket: Socket, channel: Channel, traffic: &Arc<Traffic>) -> End {
    // Also if this process dies: half a file must not look like a whole one.
    reset_on_close(&socket);
    let socket = Arc::new(socket);
    channel.attach(&socket, traffic);
    let has_no_more = Notify::new();
    let both = async {
        let outward = async {
            outward(&socket, &channel, traffic).await?;
            // Nobody reads from the socket any more, and it may still be reset.
            tokio::select! {
                biased;
                () = has_no_more.notified() => Ok(()),
                ready = socket.ready(Interest::ERROR) => ready.map_err(Stopped::from).and(Err(Stopped::Here)),
            }
        };
        let inward = async {
            inward(&socket, &channel, traffic).await?;
            has_no_more.notify_one();
            Ok(())
        };
        tokio::try_join!(outward, inward)
    };
    tokio::select! {
        biased;
        ended = both => match ended {
            Ok(((), ())) => {
                socket.end_on_close();
                End::Finished
            }
            Err(Stopped::Here) => End::ResetHere,
            Err(Stopped::There) => End::ResetThere,
        },
        Reset = channel.is_reset() => End::ResetThere,
    }
}

/// Why a direction stopped before its end.
enum Stopped {
    Here,
    There,
}

impl From<Reset> for Stopped {
    fn from(_: Reset) -> Self {
        Self::There
    }
}

impl From<Unfinished> for Stopped {
    fn from(why: Unfinished) -> Self {
        match why {
            Unfinished::ResetHere => Self::Here,
            Unfinished::Reset(reset) => reset.into(),
        }
    }
}

impl From<io::Error> for Stopped {
    fn from(_: io::Error) -> Self {
        Self::Here
    }
}

/// From the socket to the channel.
async fn outward(socket: &Socket, channel: &Channel, traffic: &Traffic) -> Result<(), Stopped> {
    loop {
        let credit = tokio::select! {
            biased;
            credit = channel.credit() => credit?,
            // A connection that is reset while its bytes wait is reset at the other host at once.
            ready = socket.ready(Interest::ERROR) => {
                ready?;
                return Err(Stopped::Here);
            }
        };
        socket.ready(Interest::READABLE).await?;
        match read(socket, channel, credit) {
            Ok(Read::Message { message, bytes }) => {
                traffic.sent(bytes);
                channel.send(message, bytes).await?;
            }
            Ok(Read::Few { bytes, sent }) => {
                traffic.sent(bytes);
                if sent? {
                    channel.wait_for_room().await?;
                }
            }
            Ok(Read::End) => return Ok(channel.finish().await?),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        // A program that always has bytes must not starve other tasks of this thread.
        tokio::task::coop::consume_budget().await;
    }
}

/// From the channel to the socket.
async fn inward(socket: &Socket, channel: &Channel, traffic: &Traffic) -> Result<(), Stopped> {
    while let Some(bytes) = channel.receive().await? {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match socket.try_write(rest) {
                Ok(written) => {
                    traffic.received(written);
                    rest = &rest[written..];
                    channel.written(written, rest.is_empty());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.ready(Interest::WRITABLE).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        // A peer that always has bytes must not starve other tasks of this thread.
        tokio::task::coop::consume_budget().await;
    }
    // A connection that is gone already has no direction to end.
    let _ = socket.finish();
    Ok(())
}

thread_local! {
    /// Bytes are read into this before anybody knows how many there are. An idle connection so has
    /// no buffer.
    static SCRATCH: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// What was read.
enum Read {
    /// Many bytes, as a message with their header.
    Message { message: Bytes, bytes: usize },
    /// A few bytes, which have been sent, and whether so much waits for room that their sender
    /// waits.
    Few { bytes: usize, sent: Result<bool, Reset> },
    /// The end of the direction.
    End,
}

/// Reads at most `credit` bytes, and sends them if they are few.
fn read(socket: &Socket, channel: &Channel, credit: u64) -> io::Result<Read> {
    SCRATCH.with_borrow_mut(|buffer| {
        buffer.clear();
        if buffer.capacity() < MAX_FRAME + MIN_ROOM {
            buffer.reserve(MAX_FRAME + MAX_MESSAGE);
        }
        let max = (buffer.capacity() - MAX_FRAME).min(MAX_MESSAGE).min(usize::try_from(credit).unwrap_or(usize::MAX));
        buffer.put_bytes(0, MAX_FRAME);
        let bytes = socket.try_read(buffer, max)?;
        if bytes == 0 {
            return Ok(Read::End);
        }
        if bytes <= FEW {
            return Ok(Read::Few { bytes, sent: channel.send_soon(&buffer[MAX_FRAME..]) });
        }
        let mut room = [0; MAX_FRAME];
        let header = channel.header(bytes);
        let header = header.encode_into(&mut room);
        let start = MAX_FRAME - header.len();
        buffer[start..MAX_FRAME].copy_from_slice(header);
        Ok(Read::Message { message: buffer.split().freeze().slice(start..), bytes })
    })
}

/// Up to so many bytes are copied into a batch, so that small messages share one, and keep no large
/// buffer.
const FEW: usize = 16 << 10;
/// A buffer with less room is replaced, so that reads are large.
const MIN_ROOM: usize = 32 << 10;
