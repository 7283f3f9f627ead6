//! Sessions on the loopback interface.

use crate::loopback::{PATIENCE, listener, patient, rails, secret};
use rails_multirail::{MultiRailListener, MultiRailSession, Rails, RecvStream, SendStream, StreamOptions};
use std::{future::Future, time::Duration};
use tokio::time::{sleep, timeout};

/// Patient options with the tests' secret.
pub(crate) fn options() -> StreamOptions {
    patient(secret())
}

/// The two ends of a session over two rails, the opening one first. The listener stays open for
/// lanes that come back.
pub(crate) struct Ends {
    pub(crate) near: MultiRailSession,
    pub(crate) far: MultiRailSession,
    pub(crate) _listener: MultiRailListener,
    pub(crate) _rails: Rails,
}

pub(crate) async fn ends() -> Ends {
    ends_by(&options(), &options()).await
}

pub(crate) async fn ends_by(ours: &StreamOptions, theirs: &StreamOptions) -> Ends {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, theirs).await;
    let near = in_time(MultiRailSession::connect(&rails, &addresses, ours)).await.expect("loopback can be reached");
    let far = in_time(listener.accept_session()).await.expect("a session was opened");
    until(|| far.lanes_up() == near.lanes_up()).await;
    Ends { near, far, _listener: listener, _rails: rails }
}

/// Waits for a step that is short on an idle machine.
pub(crate) async fn in_time<T>(step: impl Future<Output = T>) -> T {
    timeout(PATIENCE, step).await.expect("no step hangs")
}

/// Waits until the condition holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    in_time(async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Sends back every byte of each stream in both directions that the peer opens.
pub(crate) fn echo(session: &MultiRailSession) {
    let session = session.clone();
    tokio::spawn(async move {
        while let Ok((send, receive)) = session.accept_bi().await {
            tokio::spawn(echo_one(send, receive));
        }
    });
}

pub(crate) async fn echo_one(mut send: SendStream, mut receive: RecvStream) {
    while let Ok(Some(bytes)) = receive.read_chunk(usize::MAX).await {
        if send.write_chunk(bytes).await.is_err() {
            return;
        }
    }
}

/// Sends the bytes on a new stream, finishes it, and gives the answer.
pub(crate) async fn asked(session: &MultiRailSession, bytes: &[u8]) -> Vec<u8> {
    let (mut send, mut receive) = session.open_bi().await.expect("the session is open");
    let (sent, answer) = tokio::join!(
        async {
            send.write_all(bytes).await?;
            send.finish().expect("it was not finished before");
            Ok::<_, rails_multirail::WriteError>(())
        },
        receive.read_to_end(usize::MAX)
    );
    sent.expect("the peer reads");
    answer.expect("the peer answers")
}

/// Bytes that differ from their neighbours, near and far.
pub(crate) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    use rand::{Rng, SeedableRng};
    let mut bytes = vec![0; length];
    rand::rngs::ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
