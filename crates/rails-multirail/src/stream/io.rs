//! Reading and writing a lane.

use bytes::{Buf, Bytes};
use rails_net::Lane;
use std::{
    future::poll_fn,
    io::{self, IoSliceMut},
};
use tokio::task::coop;

/// Waits for bytes, and reads those that have arrived.
pub(super) async fn receive(lane: &dyn Lane, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    // A lane that always has bytes must not starve the other tasks of its rail.
    coop::consume_budget().await;
    loop {
        match lane.try_receive(buffers) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|context| lane.poll_receive_ready(context)).await?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Sends all control frames and then the whole payload.
pub(super) async fn send_all(lane: &dyn Lane, mut control: &[u8], mut payload: Vec<Bytes>) -> io::Result<()> {
    coop::consume_budget().await;
    let mut first = 0;
    while !control.is_empty() || first < payload.len() {
        match lane.try_submit(control, &payload[first..]) {
            Ok(taken) => {
                let of_control = taken.min(control.len());
                control = &control[of_control..];
                let mut taken = taken - of_control;
                while first < payload.len() && taken >= payload[first].len() {
                    taken -= payload[first].len();
                    first += 1;
                }
                if taken > 0 {
                    payload[first].advance(taken);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|context| lane.poll_submit_ready(context)).await?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills the buffer, or fails with [`io::ErrorKind::UnexpectedEof`].
pub(super) async fn receive_exact(lane: &dyn Lane, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match receive(lane, &mut [IoSliceMut::new(buffer)]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => buffer = &mut buffer[count..],
        }
    }
    Ok(())
}
