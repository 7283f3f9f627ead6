//! Streams that come to a command which listens: greeted as they come, and then taken one at a time. A stream whose
//! peer has not said its purpose yet makes room for the next at a limit ([`rails_proto::admission`]).

use crate::{
    farewell,
    purpose::{self, Purpose},
};
use anyhow::Result;
use rails_multirail::{ListenerClosed, MultiRailListener, MultiRailStream};
use rails_proto::admission::{Entry, Handshakes};
use std::panic::resume_unwind;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
};

/// The queue before a command that takes one stream at a time.
pub(crate) struct Admission {
    waiting: mpsc::Receiver<Result<MultiRailStream>>,
    over: watch::Sender<bool>,
    host: JoinHandle<()>,
}

impl Admission {
    /// Greets every stream of the listener, as a command of this purpose.
    pub(crate) fn of(listener: MultiRailListener, purpose: Purpose) -> Self {
        let (queue, waiting) = mpsc::channel(MOST);
        let (over, is_over) = watch::channel(false);
        let host = tokio::spawn(host(listener, purpose, queue, is_over));
        Self { waiting, over, host }
    }

    /// The next stream from a peer that runs the counterpart of this command. The stream waits for its turn. Cancel safe.
    ///
    /// # Errors
    /// The fault of a stream that came, or that nothing listens any more.
    pub(crate) async fn next(&mut self) -> Result<MultiRailStream> {
        self.waiting.recv().await.unwrap_or_else(|| Err(ListenerClosed::RailsStopped.into()))
    }

    /// Resets those that still wait, so that each of them hears of it at once.
    pub(crate) async fn dismiss(mut self) {
        self.over.send_replace(true);
        self.waiting.close();
        let mut resets = JoinSet::new();
        while let Some(waiting) = self.waiting.recv().await {
            if let Ok(stream) = waiting {
                resets.spawn(farewell::reset(stream));
            }
        }
        resets.join_all().await;
        if let Err(error) = self.host.await {
            tracing::error!(%error, "who greets streams did not come to an end");
        }
    }
}

/// Takes streams from the listener until the queue is given up, and holds the listener as long: lanes that were lost come back to it.
async fn host(
    listener: MultiRailListener,
    purpose: Purpose,
    queue: mpsc::Sender<Result<MultiRailStream>>,
    over: watch::Receiver<bool>,
) {
    let mut places = Handshakes::new(MAX_GREETED, MAX_GREETED_PER_PEER);
    let (mut greeting, mut leaving) = (JoinSet::new(), JoinSet::new());
    loop {
        tokio::select! {
            () = given_up(over.clone()) => break,
            Some(greeted) = greeting.join_next() => {
                let (place, greeted) = greeted.unwrap_or_else(|panic| resume_unwind(panic.into_panic()));
                places.leave(place);
                match greeted {
                    Some(Ok(stream)) => drop(leaving.spawn(queue_up(stream, queue.clone()))),
                    // A caller with a full queue needs no fault, and one that has gone needs none either.
                    Some(fault) => drop(queue.try_send(fault)),
                    None => {}
                }
            }
            Some(_) = leaving.join_next() => {}
            accepted = listener.accept(), if leaving.len() < MOST => match accepted {
                Ok(stream) => {
                    let (tell, told) = oneshot::channel();
                    let place = match places.enter(stream.peer_addr().expect("a stream has a peer").ip(), false, tell) {
                        Entry::Free(place) => place,
                        Entry::Instead { id, evicted, .. } => {
                            // The call fails where the greeting has just ended.
                            let _ = evicted.send(());
                            id
                        }
                        Entry::Refused(_) => unreachable!("none of those who are greeted has proved itself"),
                    };
                    let over = over.clone();
                    greeting.spawn(async move { (place, greet(stream, purpose, told, over).await) });
                }
                Err(closed) => {
                    // It fails where nobody waits for a stream any more.
                    let _ = queue.send(Err(closed.into())).await;
                    break;
                }
            }
        }
    }
    // A stream that has not been accepted yet is reset as the others are.
    drop(queue);
    while let Some(Ok(stream)) = at_once(listener.accept()).await {
        leaving.spawn(farewell::reset(stream));
    }
    while let Some(greeted) = greeting.join_next().await {
        if let Ok((_, Some(Ok(stream)))) = greeted {
            leaving.spawn(farewell::reset(stream));
        }
    }
    leaving.join_all().await;
}

/// Greets a stream. Gives the stream or its fault, and `None` where it was reset without one: it had to make room, or
/// the queue is given up.
async fn greet(
    mut stream: MultiRailStream,
    purpose: Purpose,
    told: oneshot::Receiver<()>,
    over: watch::Receiver<bool>,
) -> Option<Result<MultiRailStream>> {
    let misfit = tokio::select! {
        biased;
        () = given_up(over) => None,
        greeting = purpose::greet(&mut stream, purpose) => match greeting {
            Ok(()) => return Some(Ok(stream)),
            Err(misfit) => Some(misfit),
        },
        Ok(()) = told => {
            tracing::debug!(stream = %stream.id(), "a peer that had not said its purpose made room for another");
            None
        }
    };
    farewell::reset(stream).await;
    Some(Err(misfit?.helped(purpose)))
}

/// Puts a stream that was greeted into the queue.
async fn queue_up(stream: MultiRailStream, queue: mpsc::Sender<Result<MultiRailStream>>) {
    // The queue may have been given up.
    match queue.reserve().await {
        Ok(place) => place.send(Ok(stream)),
        Err(_) => farewell::reset(stream).await,
    }
}

/// Waits until the queue is given up.
async fn given_up(mut over: watch::Receiver<bool>) {
    // It fails where the queue is gone, which is as good.
    let _ = over.wait_for(|over| *over).await;
}

/// The first value, if it comes without waiting.
async fn at_once<T>(what: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        what = what => Some(what),
        () = std::future::ready(()) => None,
    }
}

/// So many may wait for their turn, and as many for a place in that queue; the others wait in the listener.
const MOST: usize = 64;
/// The most streams that are greeted at a time.
const MAX_GREETED: usize = 256;
/// The most streams of one peer that are greeted at a time.
const MAX_GREETED_PER_PEER: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use rails_multirail::{RailRequest, Rails, Security, StreamOptions, plan_rails};
    use rails_topo::Topology;
    use std::{net::SocketAddr, time::Duration};
    use tokio::time::timeout;

    #[tokio::test]
    async fn silent_streams_keep_no_sender_waiting() {
        let topology = Topology::detect().unwrap();
        let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(1)).unwrap()).unwrap();
        let options = StreamOptions::new(Security::insecure());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = MultiRailListener::bind(&rails, any, &options).await.unwrap();
        let address = listener.local_addrs()[0];
        let mut admission = Admission::of(listener, Purpose::Receive);
        let open = || MultiRailStream::connect(&rails, address, &options);
        let mut silent = Vec::new();
        for _ in 0..=MAX_GREETED_PER_PEER {
            silent.push(open().await.unwrap());
        }
        let mut sender = open().await.unwrap();
        let both = async { tokio::join!(purpose::greet(&mut sender, Purpose::Send), admission.next()) };
        let (greeted, next) = timeout(Duration::from_secs(60), both).await.expect("nobody waits for ever");
        greeted.expect("it is greeted beside them");
        assert_eq!(next.expect("no silent stream is over before").id(), sender.id());
        drop(silent);
        admission.dismiss().await;
    }
}
