//! Streams that come to a command which listens: greeted as they come, and then taken one at a time. A stream whose
//! peer has not said its purpose yet makes room for the next at a limit ([`rails_proto::admission`]).

use crate::{
    farewell::{self, Conversation},
    purpose::{self, InMessages, Misfit, Purpose},
    stop::Stopped,
};
use anyhow::Result;
use rails_multirail::{ListenerClosed, MultiRailListener, MultiRailStream};
use rails_net::{AcceptError, TcpAcceptor, TcpLane};
use rails_proto::admission::{Entry, HandshakeId, Handshakes};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

/// A listener whose streams are greeted.
pub(crate) trait Door: Send + 'static {
    /// A stream that has come.
    type Guest: Guest;

    /// Waits for the next stream, and gives it with its peer's address. Cancel safe.
    ///
    /// # Errors
    /// Why nothing listens any more.
    fn accept(&self) -> impl Future<Output = Result<(Self::Guest, IpAddr)>> + Send;
}

/// A stream that is greeted.
pub(crate) trait Guest: Send + Sized + 'static {
    /// Hears the peer's purpose, as [`purpose::greet`] does.
    fn greet(&mut self, ours: Purpose) -> impl Future<Output = Result<(), Misfit>> + Send;

    /// Resets the stream, and waits until its peer was told.
    fn see_off(self) -> impl Future<Output = ()> + Send;
}

/// The queue before a command that takes one stream at a time.
pub(crate) struct Admission<G = MultiRailStream> {
    waiting: mpsc::Receiver<Result<G>>,
    over: watch::Sender<bool>,
    host: JoinHandle<()>,
}

impl<G: Guest> Admission<G> {
    /// Greets every stream of the listener, as a command of this purpose, on the runtime that calls.
    pub(crate) fn of(door: impl Door<Guest = G>, purpose: Purpose) -> Self {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let (over, is_over) = watch::channel(false);
        let host = tokio::spawn(host(door, purpose, queue, is_over));
        Self { waiting, over, host }
    }

    /// The next stream from a peer that runs the counterpart of this command. The stream waits for its turn. Cancel safe.
    ///
    /// # Errors
    /// The fault of a stream that came, or that nothing listens any more, [behind which](is_last) no stream comes.
    pub(crate) async fn next(&mut self) -> Result<G> {
        self.waiting.recv().await.unwrap_or_else(|| Err(ListenerClosed::RailsStopped.into()))
    }

    /// Resets those that still wait, so that each of them hears of it at once.
    pub(crate) async fn dismiss(mut self) {
        self.over.send_replace(true);
        self.waiting.close();
        let mut resets = JoinSet::new();
        while let Some(waiting) = self.waiting.recv().await {
            if let Ok(guest) = waiting {
                resets.spawn(guest.see_off());
            }
        }
        resets.join_all().await;
        if let Err(error) = self.host.await {
            tracing::error!(%error, "who greets streams did not come to an end");
        }
    }
}

/// Whether a command that takes streams gets none after this error: it was stopped, or nothing listens any more.
pub(crate) fn is_last(error: &anyhow::Error) -> bool {
    error.is::<Stopped>() || error.is::<ListenerClosed>()
}

/// Takes streams from the listener until the queue is given up, and holds the listener as long: lanes that were lost
/// come back to it. A listener that ends by itself costs no stream that has come.
async fn host<D: Door>(door: D, purpose: Purpose, queue: mpsc::Sender<Result<D::Guest>>, over: watch::Receiver<bool>) {
    let mut places = Handshakes::new(MAX_GREETED, MAX_GREETED_PER_PEER);
    let (mut greeting, mut leaving) = (JoinSet::new(), JoinSet::new());
    let mut closed = None;
    loop {
        if greeting.is_empty()
            && leaving.is_empty()
            && let Some(closed) = closed.take()
        {
            // It fails where nobody waits for a stream any more.
            let _ = queue.send(Err(closed)).await;
            return;
        }
        tokio::select! {
            () = given_up(over.clone()) => break,
            Some(greeted) = greeting.join_next() => {
                let (place, greeted): (HandshakeId, Option<Result<_>>) = greeted.expect("it leaves the work to another task");
                places.leave(place);
                match greeted {
                    Some(Ok(guest)) => drop(leaving.spawn(queue_up(guest, queue.clone()))),
                    // A caller with a full queue needs no fault, and one that has gone needs none either.
                    Some(fault) => drop(queue.try_send(fault)),
                    None => {}
                }
            }
            Some(_) = leaving.join_next() => {}
            accepted = door.accept(), if closed.is_none() && leaving.len() < MAX_WAITING => match accepted {
                Ok((guest, peer)) => {
                    let (tell, told) = oneshot::channel();
                    let place = match places.enter(peer, false, tell) {
                        Entry::Free(place) => place,
                        Entry::Instead { id, evicted, .. } => {
                            // The call fails where the greeting has just ended.
                            let _ = evicted.send(());
                            id
                        }
                        Entry::Refused(_) => unreachable!("none of those who are greeted has proved itself"),
                    };
                    let greeted = tokio::spawn(greet(guest, purpose, told, over.clone()));
                    // A panic is the fault of this stream alone.
                    greeting.spawn(async move { (place, greeted.await.unwrap_or_else(|panic| Some(Err(panic.into())))) });
                }
                Err(error) => closed = Some(error),
            }
        }
    }
    // A stream that has not been accepted yet is reset as the others are.
    drop(queue);
    while closed.is_none()
        && let Some(Ok((guest, _))) = at_once(door.accept()).await
    {
        leaving.spawn(guest.see_off());
    }
    while let Some(greeted) = greeting.join_next().await {
        if let Ok((_, Some(Ok(guest)))) = greeted {
            leaving.spawn(guest.see_off());
        }
    }
    leaving.join_all().await;
}

/// Greets a stream. Gives the stream or its fault, and `None` where it was reset without one: it had to make room, or
/// the queue is given up.
async fn greet<G: Guest>(
    mut guest: G,
    purpose: Purpose,
    told: oneshot::Receiver<()>,
    over: watch::Receiver<bool>,
) -> Option<Result<G>> {
    let misfit = tokio::select! {
        biased;
        () = given_up(over) => None,
        greeting = guest.greet(purpose) => match greeting {
            Ok(()) => return Some(Ok(guest)),
            Err(misfit) => Some(misfit),
        },
        Ok(()) = told => {
            tracing::debug!("a peer that had not said its purpose made room for another");
            None
        }
    };
    guest.see_off().await;
    Some(Err(misfit?.helped(purpose)))
}

/// Puts a stream that was greeted into the queue.
async fn queue_up<G: Guest>(guest: G, queue: mpsc::Sender<Result<G>>) {
    // The queue may have been given up.
    match queue.reserve().await {
        Ok(place) => place.send(Ok(guest)),
        Err(_) => guest.see_off().await,
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

impl Door for MultiRailListener {
    type Guest = MultiRailStream;

    async fn accept(&self) -> Result<(MultiRailStream, IpAddr)> {
        let stream = self.accept().await?;
        let peer = stream.peer_addr().expect("a stream has a peer").ip();
        Ok((stream, peer))
    }
}

impl Guest for MultiRailStream {
    async fn greet(&mut self, ours: Purpose) -> Result<(), Misfit> {
        purpose::greet(self, ours).await
    }

    async fn see_off(self) {
        farewell::reset(self).await;
    }
}

/// A listener whose streams carry messages.
pub(crate) struct OfMessages(pub(crate) MultiRailListener);

impl Door for OfMessages {
    type Guest = Conversation;

    async fn accept(&self) -> Result<(Conversation, IpAddr)> {
        let (stream, peer) = Door::accept(&self.0).await?;
        Ok((Conversation::over(stream)?, peer))
    }
}

impl Guest for Conversation {
    async fn greet(&mut self, ours: Purpose) -> Result<(), Misfit> {
        purpose::greet(&mut InMessages(&mut self.messages), ours).await
    }

    async fn see_off(self) {
        self.reset().await;
    }
}

impl Door for TcpAcceptor {
    type Guest = TcpLane;

    async fn accept(&self) -> Result<(TcpLane, IpAddr)> {
        loop {
            match self.accept().await {
                Ok(lane) => {
                    let peer = lane.peer_addr().ip();
                    return Ok((lane, peer));
                }
                Err(error) => wait_out(error).await?,
            }
        }
    }
}

impl Guest for TcpLane {
    async fn greet(&mut self, ours: Purpose) -> Result<(), Misfit> {
        purpose::greet(self.get_mut(), ours).await
    }

    /// Closing a socket tells the peer.
    async fn see_off(self) {}
}

impl Guest for TcpStream {
    async fn greet(&mut self, ours: Purpose) -> Result<(), Misfit> {
        purpose::greet(self, ours).await
    }

    /// Closing a socket tells the peer.
    async fn see_off(self) {}
}

/// Waits for a while where a listening socket accepts no connection at present.
///
/// # Errors
/// [`ListenerClosed`] where it never will.
pub(crate) async fn wait_out(error: AcceptError) -> Result<(), ListenerClosed> {
    if !error.is_transient() {
        return Err(ListenerClosed::Accept(Arc::new(error)));
    }
    tracing::warn!(%error, "a connection was not accepted");
    // Where the process has no descriptor left, trying again at once would spin.
    sleep(PAUSE).await;
    Ok(())
}

/// So many may wait for their turn, and as many for a place in that queue; the others wait in the listener.
const MAX_WAITING: usize = 64;
/// The most streams that are greeted at a time.
const MAX_GREETED: usize = 256;
/// The most streams of one peer that are greeted at a time.
const MAX_GREETED_PER_PEER: usize = 64;
/// The pause of a listening socket that cannot accept.
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use rails_multirail::{RailRequest, Rails, Security, StreamOptions, plan_rails};
    use rails_topo::Topology;
    use std::net::SocketAddr;
    use tokio::{
        sync::{Mutex, Notify},
        time::timeout,
    };

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

    /// A listener whose guests a test sends in. It tells when it has ended.
    struct TestDoor(Mutex<mpsc::UnboundedReceiver<TestGuest>>, Arc<Notify>);

    /// A stream with the work of greeting it.
    struct TestGuest(oneshot::Receiver<()>);

    impl Door for TestDoor {
        type Guest = TestGuest;

        async fn accept(&self) -> Result<(TestGuest, IpAddr)> {
            let guest = self.0.lock().await.recv().await.ok_or(ListenerClosed::RailsStopped);
            guest.map(|guest| (guest, [127, 0, 0, 1].into())).map_err(|closed| {
                self.1.notify_one();
                closed.into()
            })
        }
    }

    impl Guest for TestGuest {
        async fn greet(&mut self, _: Purpose) -> Result<(), Misfit> {
            (&mut self.0).await.expect("the test lets the greeting end");
            Ok(())
        }

        async fn see_off(self) {
            panic!("a guest is sent away");
        }
    }

    fn admission() -> (mpsc::UnboundedSender<TestGuest>, Arc<Notify>, Admission<TestGuest>) {
        let ((street, door), ended) = (mpsc::unbounded_channel(), Arc::new(Notify::new()));
        (street, ended.clone(), Admission::of(TestDoor(Mutex::new(door), ended), Purpose::Receive))
    }

    #[tokio::test]
    async fn a_listener_that_ends_costs_no_greeted_stream() {
        let (street, ended, mut admission) = admission();
        let (speak, heard): (Vec<_>, Vec<_>) = (0..MAX_GREETED_PER_PEER).map(|_| oneshot::channel()).unzip();
        heard.into_iter().for_each(|heard| street.send(TestGuest(heard)).ok().unwrap());
        drop(street);
        ended.notified().await;
        speak.into_iter().for_each(|speak| speak.send(()).unwrap());
        for _ in 0..MAX_GREETED_PER_PEER {
            assert!(admission.next().await.is_ok());
        }
        assert!(is_last(&admission.next().await.err().unwrap()));
    }

    #[tokio::test]
    async fn a_panic_costs_the_stream_that_is_greeted() {
        let (street, _, mut admission) = admission();
        let (speak, heard) = oneshot::channel();
        drop(speak);
        street.send(TestGuest(heard)).ok().unwrap();
        assert!(admission.next().await.is_err());
        let (speak, heard) = oneshot::channel();
        street.send(TestGuest(heard)).ok().unwrap();
        speak.send(()).unwrap();
        assert!(admission.next().await.is_ok());
        admission.dismiss().await;
    }
}
