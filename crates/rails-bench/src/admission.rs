//! Streams that come to a command which listens: greeted as they come, and then taken one at a time.

use crate::{
    farewell,
    purpose::{self, Purpose},
};
use anyhow::Result;
use rails_multirail::{ListenerClosed, MultiRailListener, MultiRailStream};
use tokio::{
    sync::{mpsc, watch},
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
    let mut greeted = JoinSet::new();
    loop {
        tokio::select! {
            () = given_up(over.clone()) => break,
            Some(_) = greeted.join_next() => {}
            accepted = listener.accept(), if greeted.len() < MOST => match accepted {
                Ok(stream) => drop(greeted.spawn(greet(stream, purpose, queue.clone(), over.clone()))),
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
        greeted.spawn(farewell::reset(stream));
    }
    greeted.join_all().await;
}

/// Greets a stream, and puts it into the queue.
async fn greet(
    mut stream: MultiRailStream,
    purpose: Purpose,
    queue: mpsc::Sender<Result<MultiRailStream>>,
    over: watch::Receiver<bool>,
) {
    let greeting = tokio::select! {
        biased;
        () = given_up(over) => None,
        greeting = purpose::greet(&mut stream, purpose) => Some(greeting.map_err(|misfit| misfit.helped(purpose))),
    };
    let misfit = match greeting {
        Some(Ok(())) => {
            // It fails where the queue is given up.
            if let Ok(place) = queue.reserve().await {
                return place.send(Ok(stream));
            }
            None
        }
        Some(Err(misfit)) => Some(misfit),
        None => None,
    };
    farewell::reset(stream).await;
    if let Some(misfit) = misfit {
        // Likewise, and then nobody needs to know.
        let _ = queue.send(Err(misfit)).await;
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

/// So many may wait, and so many be greeted at a time; the others wait in the listener.
const MOST: usize = 64;
