//! Reading and writing frames and greetings on the byte stream.

use crate::{
    codec,
    error::WireError,
    frame::{
        Block, Frame, GREETING_LEN, HEADER_LEN, KIND_BLOCK, KIND_MESSAGE, MAGIC, MAX_BLOCK, MAX_CONTROL, Role, Terms,
        VERSION, header,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{io, sync::mpsc};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};

/// The reading half.
pub(crate) struct FrameReader<R> {
    inner: BufReader<R>,
    control: Vec<u8>,
    /// Blocks whose bytes have been used, to be filled again.
    used: mpsc::Receiver<Vec<u8>>,
}

/// The writing half. Written bytes may stay in the buffer until [`flush`](Self::flush).
pub(crate) struct FrameWriter<W> {
    inner: BufWriter<W>,
    control: Vec<u8>,
}

/// Exchanges greetings: 8 bytes of magic, the version, the role, the number of further streams that
/// this end opens or takes, and the terms. Gives the peer's number of streams, and its terms.
///
/// Both directions at once, because a stream may hold fewer bytes than one greeting.
pub(crate) async fn greet<R, W>(
    reader: &mut FrameReader<R>,
    writer: &mut FrameWriter<W>,
    role: Role,
    streams: usize,
    terms: Terms,
) -> Result<(usize, Terms), WireError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let say = async {
        let [low, high] = VERSION.to_le_bytes();
        let streams = u8::try_from(streams).expect("an end has at most 64 further streams");
        writer.inner.write_all(MAGIC).await.map_err(writing)?;
        writer.inner.write_all(&[low, high, role as u8, streams, terms.byte()]).await.map_err(writing)?;
        writer.flush().await
    };
    let hear = async {
        let mut greeting = [0; GREETING_LEN];
        reader.inner.read_exact(&mut greeting).await.map_err(reading)?;
        // What follows depends on the version.
        check_greeting(&greeting, role)?;
        let streams = reader.inner.read_u8().await.map(usize::from).map_err(reading)?;
        let byte = reader.inner.read_u8().await.map_err(reading)?;
        // A receiver has no terms.
        let terms = Terms::of(byte).filter(|_| role == Role::Receiver || byte == 0);
        terms.map(|terms| (streams, terms)).ok_or(WireError::Terms { byte })
    };
    // Both exchanges finish, so that a peer of another version receives this end's version before
    // the error.
    let (said, heard) = tokio::join!(say, hear);
    let heard = heard?;
    said?;
    Ok(heard)
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from `inner`, filling buffers that come back through `used`.
    pub(crate) fn new(inner: R, used: mpsc::Receiver<Vec<u8>>) -> Self {
        Self { inner: BufReader::with_capacity(BUFFER, inner), control: Vec::new(), used }
    }

    /// As [`frame`](Self::frame); `None` if the stream ends before the frame.
    pub(crate) async fn next<M: DeserializeOwned>(&mut self) -> Result<Option<Frame<M>>, WireError> {
        if self.inner.fill_buf().await.map_err(reading)?.is_empty() {
            return Ok(None);
        }
        self.frame().await.map(Some)
    }

    /// Reads one frame. Not cancel-safe: a dropped call may have taken half a frame.
    pub(crate) async fn frame<M: DeserializeOwned>(&mut self) -> Result<Frame<M>, WireError> {
        let mut header = [0; HEADER_LEN];
        self.inner.read_exact(&mut header).await.map_err(reading)?;
        let [kind, len @ ..] = header;
        let len = u32::from_le_bytes(len);
        let most = match kind {
            KIND_MESSAGE => MAX_CONTROL,
            KIND_BLOCK => MAX_BLOCK,
            kind => return Err(WireError::FrameKind { kind }),
        };
        // The length is checked before memory is allocated for it.
        let Some(len) = usize::try_from(len).ok().filter(|len| (1..=most).contains(len)) else {
            return Err(WireError::FrameLength { kind, len });
        };
        if kind == KIND_BLOCK {
            let mut block = self.used.try_recv().unwrap_or_default();
            block.resize(len, 0);
            self.inner.read_exact(&mut block).await.map_err(reading)?;
            return Ok(Frame::Block(block));
        }
        self.control.resize(len, 0);
        self.inner.read_exact(&mut self.control).await.map_err(reading)?;
        codec::decode(&self.control).map(Frame::Message).map_err(WireError::Message)
    }

    /// Reads and drops bytes until the peer closes: the last step of an orderly end.
    pub(crate) async fn drain(&mut self) {
        let mut rest = [0; 256];
        while matches!(self.inner.read(&mut rest).await, Ok(1..)) {}
    }
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner: BufWriter::with_capacity(BUFFER, inner), control: Vec::new() }
    }

    /// Writes one message.
    pub(crate) async fn message<M: Serialize>(&mut self, message: &M) -> Result<(), WireError> {
        let mut frame = std::mem::take(&mut self.control);
        frame.clear();
        frame.extend_from_slice(&[0; HEADER_LEN]);
        frame = codec::encode(message, frame);
        let len = frame.len() - HEADER_LEN;
        assert!(len <= MAX_CONTROL, "a message of {len} bytes exceeds the limit that the peer checks");
        frame[..HEADER_LEN].copy_from_slice(&header(KIND_MESSAGE, len));
        self.control = frame;
        self.inner.write_all(&self.control).await.map_err(writing)
    }

    /// Writes one block.
    pub(crate) async fn block(&mut self, block: &Block) -> Result<(), WireError> {
        self.inner.write_all(block.as_bytes()).await.map_err(writing)
    }

    /// Passes all written bytes to the stream.
    pub(crate) async fn flush(&mut self) -> Result<(), WireError> {
        self.inner.flush().await.map_err(writing)
    }

    /// Ends the writing side.
    pub(crate) async fn shutdown(&mut self) -> Result<(), WireError> {
        self.inner.shutdown().await.map_err(writing)
    }
}

fn check_greeting(greeting: &[u8; GREETING_LEN], ours: Role) -> Result<(), WireError> {
    let (magic, rest) = greeting.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(WireError::Foreign);
    }
    let theirs = u16::from_le_bytes([rest[0], rest[1]]);
    if theirs != VERSION {
        return Err(WireError::Version { theirs });
    }
    match (ours, rest[2]) {
        (Role::Sender, b'R') | (Role::Receiver, b'S') => Ok(()),
        (_, b'R' | b'S') => Err(WireError::SameRole),
        _ => Err(WireError::Foreign),
    }
}

fn reading(source: io::Error) -> WireError {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => WireError::Cut,
        _ => WireError::Io { doing: "reading", source },
    }
}

fn writing(source: io::Error) -> WireError {
    WireError::Io { doing: "writing", source }
}

/// The buffer that gathers small messages into one write; blocks are larger and bypass it.
const BUFFER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::FromSender;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Result<Frame<FromSender>, WireError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (_, used) = mpsc::channel();
        runtime.block_on(async { FrameReader::new(bytes, used).frame().await })
    }

    #[test]
    fn lengths_past_the_limit_are_refused_at_once() {
        for (kind, limit) in [(KIND_MESSAGE, MAX_CONTROL), (KIND_BLOCK, MAX_BLOCK)] {
            assert!(matches!(read_all(&header(kind, limit)), Err(WireError::Cut)));
            assert!(matches!(read_all(&header(kind, limit + 1)), Err(WireError::FrameLength { .. })));
            assert!(matches!(read_all(&header(kind, 0)), Err(WireError::FrameLength { len: 0, .. })));
        }
        assert!(matches!(read_all(&header(7, 1)), Err(WireError::FrameKind { kind: 7 })));
    }

    #[test]
    fn a_stream_may_end_before_a_frame_and_not_within_one() {
        let next = |bytes: &'static [u8]| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (_, used) = mpsc::channel();
            runtime.block_on(async { FrameReader::new(bytes, used).next::<FromSender>().await })
        };
        assert!(matches!(next(&[]), Ok(None)));
        assert!(matches!(next(&[0, 1, 0, 0, 0, 9]), Ok(Some(Frame::Message(FromSender::Done)))));
        for cut in [&[0][..], &[0, 1, 0, 0, 0], &[1, 2, 0, 0, 0, 7]] {
            assert!(matches!(next(cut), Err(WireError::Cut)));
        }
    }

    #[test]
    fn greetings_name_what_is_wrong() {
        let check = |bytes: &[u8; GREETING_LEN]| check_greeting(bytes, Role::Sender);
        assert!(check(b"RAILS-FT\x06\x00R").is_ok());
        assert!(matches!(check(b"RAILS-FT\x06\x00S"), Err(WireError::SameRole)));
        let older = check(b"RAILS-FT\x01\x00R").unwrap_err().to_string();
        assert!(older.contains("version 1 of") && older.ends_with("this end version 6"), "{older}");
        assert!(matches!(check(b"RAILS-FT\x06\x01R"), Err(WireError::Version { theirs: 0x106 })));
        assert!(matches!(check(b"RAILS-FT\x06\x00x"), Err(WireError::Foreign)));
        assert!(matches!(check(b"GET / HTTP/"), Err(WireError::Foreign)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_a_named_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_all(&bytes);
        }
    }
}
