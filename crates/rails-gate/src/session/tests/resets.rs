//! Resets that a write finds before any read does.

use super::{Limits, hostile::session, random::pair};
use crate::{
    carry::carry,
    socket::{Socket, reset_on_close},
    traffic::{End, Traffic},
    wire::{ChannelNumber, Frame},
};
use futures_util::poll;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::sleep;

/// The kernel tells of a reset once: the session's receiver hears of it when it writes, and a read
/// of the connection's task finds an end.
#[tokio::test]
async fn a_reset_that_a_write_has_found_is_no_end() {
    // The directions of a connection take turns in who comes first.
    for polls in 1..=2 {
        let (mut running, mut peer) = session(Limits::new(8, 16 << 20)).await;
        peer.open(0).await;
        let channel = running.asked.recv().await.unwrap().accept().unwrap();
        assert!(matches!(peer.hear().await, Frame::Opened { .. }));
        let (program, gate) = pair().await;
        let traffic = Arc::new(Traffic::default());
        let mut carried = pin!(carry(Socket::of_tcp(gate), channel, &traffic));
        for _ in 0..polls {
            assert!(poll!(&mut carried).is_pending(), "nothing has happened");
        }
        reset_on_close(&program);
        drop(program);
        peer.data(0, 10).await;
        // Frames are taken in their order: these bytes have been written when this question arrives.
        peer.open(2).await;
        let asking = running.asked.recv().await.unwrap();
        // The runtime looks for events of sockets when it has nothing else to do.
        sleep(Duration::from_millis(1)).await;
        assert_eq!(carried.await, End::ResetHere);
        let heard = peer.hear().await;
        assert!(matches!(heard, Frame::Reset { channel: ChannelNumber(0) }), "{heard:?}");
        drop(asking);
    }
}
