//! Reading and writing a lane's socket with vectors, through a shared reference.

use bytes::{Buf, Bytes};
use std::io::{self, IoSlice, IoSliceMut};
use tokio::{io::Interest, net::TcpStream, task::coop};

/// Reads what is there, waiting until something is.
pub(super) async fn read(socket: &TcpStream, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    // A socket that always has something must not keep its rail from its other tasks.
    coop::consume_budget().await;
    let room: usize = slices.iter().map(|slice| slice.len()).sum();
    loop {
        match socket.try_read_vectored(slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.readable().await?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(count) if count > 0 && count < room => {
                // The socket is drained, and epoll tells when there is more: asking it now would only cost a call. (tokio's own reads do the
                // same.)
                let _ = socket.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                return Ok(count);
            }
            outcome => return outcome,
        }
    }
}

/// Writes the control frames and then the payload, waiting for room as often as it takes.
pub(super) async fn send_all(socket: &TcpStream, mut control: &[u8], mut payload: Vec<Bytes>) -> io::Result<()> {
    coop::consume_budget().await;
    let mut first = 0;
    while !control.is_empty() || first < payload.len() {
        let mut slices = Vec::with_capacity(1 + payload.len() - first);
        slices.push(IoSlice::new(control));
        slices.extend(payload[first..].iter().map(|slice| IoSlice::new(slice)));
        match socket.try_write_vectored(&slices) {
            Ok(written) => {
                let of_control = written.min(control.len());
                control = &control[of_control..];
                let mut written = written - of_control;
                while first < payload.len() && written >= payload[first].len() {
                    written -= payload[first].len();
                    first += 1;
                }
                if written > 0 {
                    payload[first].advance(written);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.writable().await?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills the buffer, or fails with [`io::ErrorKind::UnexpectedEof`].
pub(super) async fn read_exact(socket: &TcpStream, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match read(socket, &mut [IoSliceMut::new(buffer)]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => buffer = &mut buffer[count..],
        }
    }
    Ok(())
}
