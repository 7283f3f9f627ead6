//! Connections that go plain, where a door's process has to carry them.

use crate::socket::reset_on_close;
use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};

/// Carries bytes between two connections until both directions have ended. A direction that ends is
/// ended at the other connection, and a reset resets the other one.
pub async fn carry_plain(mut one: TcpStream, mut other: TcpStream) {
    for stream in [&one, &other] {
        // An improvement only.
        let _ = stream.set_nodelay(true);
    }
    let ended = {
        let ((from_one, to_one), (from_other, to_other)) = (one.split(), other.split());
        tokio::try_join!(copy(from_one, to_other), copy(from_other, to_one))
    };
    if ended.is_err() {
        reset_on_close(&one);
        reset_on_close(&other);
    }
}

async fn copy(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        // An idle connection has no buffer.
        from.readable().await?;
        buffer.reserve(BUFFER);
        let read = from.read_buf(&mut buffer).await?;
        if read == 0 {
            break;
        }
        to.write_all(&buffer).await?;
        buffer.clear();
        if read < BUFFER / 2 {
            buffer.shrink_to(0);
        }
    }
    // The other end may have gone meanwhile, which its own direction finds out.
    let _ = to.shutdown().await;
    Ok(())
}

/// The bytes that are read at a time.
const BUFFER: usize = 64 << 10;
