//! The incoming streams of a listening command: greeted concurrently, and then taken one at a time.
//! At a limit, a stream whose peer has not stated its purpose makes room for the next
//! ([`rails_proto::admission`]).

use crate::{
    exit::explain_seldom,
    purpose::{self, GreetingError, InMessages, PeerLeft, Purpose},
    reset::{self, MessageStream},
    stop::Stopped,
    turn::GaveWay,
};
use anyhow::Result;
use rails_multirail::{ListenerClosed, MultiRailListener, MultiRailStream};
use rails_net::{AcceptError, Repeated, TcpAcceptor, TcpLane};
use rails_proto::admission::{Entry, HandshakeId, Handshakes};
use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

/// A listener whose streams an [`Admission`] greets.
pub(crate) trait StreamListener: Send + 'static {
    /// The type of a stream that is greeted.
    type Stream: IncomingStream;

    /// Waits for the next stream, and returns it with its peer's address. Cancel safe.
    ///
    /// # Errors
    /// The reason why the listener has closed. The fault of one stream is no error here:
    /// [`IncomingStream::begin`] reports it.
    fn accept(&self) -> impl Future<Output = Result<(Arrived<Self>, IpAddr), ListenerClosed>> + Send;
}

/// A stream as the listener accepts it.
type Arrived<D> = <<D as StreamListener>::Stream as IncomingStream>::Arrived;

/// A stream that can be greeted.
pub(crate) trait IncomingStream: Send + Sized + 'static {
    /// The stream as the listener accepts it.
    type Arrived: IncomingStream;

    /// Prepares an accepted stream for its greeting.
    ///
    /// # Errors
    /// The reason why the stream cannot be greeted.
    fn begin(arrived: Self::Arrived) -> Result<Self, GreetingError>;

    /// Exchanges purposes with the peer, as [`purpose::greet`] does.
    fn greet(&mut self, ours: Purpose) -> impl Future<Output = Result<(), GreetingError>> + Send;

    /// Resets the stream, and waits until its lanes have closed, three seconds at most.
    fn reset(self) -> impl Future<Output = ()> + Send;
}

/// The queue of a command that takes one stream at a time.
pub(crate) struct Admission<G = MultiRailStream> {
    waiting: mpsc::Receiver<Result<G, ListenerClosed>>,
    over: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl<G: IncomingStream> Admission<G> {
    /// Greets every stream of the listener with this purpose, on the calling runtime.
    pub(crate) fn of(listener: impl StreamListener<Stream = G>, purpose: Purpose) -> Self {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let (over, is_over) = watch::channel(false);
        let accepting = tokio::spawn(accept_streams(listener, purpose, queue, is_over));
        Self { waiting, over, accepting }
    }

    /// The next stream from a peer that runs the counterpart of this command. The stream waits for
    /// its turn. Streams that do not fit are explained and left out. Cancel safe.
    ///
    /// # Errors
    /// [`ListenerClosed`] or [`GreeterGone`]: [no stream comes](is_last) any more.
    pub(crate) async fn next(&mut self) -> Result<G> {
        Ok(self.waiting.recv().await.ok_or(GreeterGone)??)
    }

    /// Whether a stream waits for its turn.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Resets the waiting streams, so that their peers notice at once.
    pub(crate) async fn reset_waiting(mut self) {
        self.over.send_replace(true);
        self.waiting.close();
        let mut resets = JoinSet::new();
        while let Some(waiting) = self.waiting.recv().await {
            if let Ok(stream) = waiting {
                resets.spawn(stream.reset());
            }
        }
        resets.join_all().await;
        if let Err(error) = self.accepting.await {
            tracing::error!(%error, "who greets streams did not come to an end");
        }
    }
}

/// The task that greets streams has ended, although the listener has not closed.
#[derive(Debug, thiserror::Error)]
#[error("the task that greets streams has ended")]
pub(crate) struct GreeterGone;

/// Whether no stream follows this error: the command was stopped, or the listener has closed.
fn is_last(error: &anyhow::Error) -> bool {
    error.is::<Stopped>() || error.is::<ListenerClosed>() || error.is::<GreeterGone>()
}

/// Whether a command, with `--once` or without, takes another stream after this error. With
/// `--once` only a sender that left before its turn, or that gave way to another, is passed over.
pub(crate) fn is_passed_over(error: &anyhow::Error, once: bool) -> bool {
    !is_last(error) && (!once || error.is::<PeerLeft>() || GaveWay::is_why(error))
}

/// Accepts streams until the queue is given up, and keeps the listener as long, because lost lanes
/// reconnect to it. If the listener closes by itself, streams that have come are still taken.
async fn accept_streams<D: StreamListener>(
    listener: D,
    purpose: Purpose,
    queue: mpsc::Sender<Result<D::Stream, ListenerClosed>>,
    over: watch::Receiver<bool>,
) {
    let mut places = Handshakes::new(MAX_GREETED, MAX_GREETED_PER_PEER);
    let (mut greeting, mut leaving) = (JoinSet::new(), JoinSet::new());
    let mut closed = None;
    loop {
        if greeting.is_empty()
            && leaving.is_empty()
            && let Some(closed) = closed.take()
        {
            // The send fails if the command takes no further stream.
            let _ = queue.send(Err(closed)).await;
            return;
        }
        tokio::select! {
            () = given_up(over.clone()) => break,
            Some(greeted) = greeting.join_next() => {
                let (place, greeted): (HandshakeId, Option<Result<_>>) = greeted.expect("it leaves the work to another task");
                places.leave(place);
                match greeted {
                    Some(Ok(stream)) => drop(leaving.spawn(enqueue(stream, queue.clone()))),
                    Some(Err(fault)) => explain_seldom(&fault),
                    None => {}
                }
            }
            Some(_) = leaving.join_next() => {}
            accepted = listener.accept(), if closed.is_none() && leaving.len() < MAX_WAITING => match accepted {
                Ok((arrived, peer)) => {
                    let (evict, evicted) = oneshot::channel();
                    let place = match places.enter(peer, false, evict) {
                        Entry::Free(place) => place,
                        Entry::Evicting { id, evicted, .. } => {
                            // The send fails if the greeting has just ended.
                            let _ = evicted.send(());
                            id
                        }
                        Entry::Refused(_) => unreachable!("none of those who are greeted has proved itself"),
                    };
                    let greeted = tokio::spawn(greet::<D::Stream>(arrived, purpose, evicted, over.clone()));
                    // A panic ends this stream only.
                    greeting.spawn(async move { (place, greeted.await.unwrap_or_else(|panic| Some(Err(panic.into())))) });
                }
                Err(error) => closed = Some(error),
            }
        }
    }
    // Streams that were not accepted yet are reset like the others.
    drop(queue);
    while closed.is_none()
        && let Some(Ok((arrived, _))) = if_ready(listener.accept()).await
    {
        leaving.spawn(arrived.reset());
    }
    while let Some(greeted) = greeting.join_next().await {
        if let Ok((_, Some(Ok(stream)))) = greeted {
            leaving.spawn(stream.reset());
        }
    }
    leaving.join_all().await;
}

/// Greets a stream. Returns the stream or its fault, and `None` if the stream was reset without
/// one, because it had to make room or the queue is given up.
async fn greet<G: IncomingStream>(
    arrived: G::Arrived,
    purpose: Purpose,
    evicted: oneshot::Receiver<()>,
    over: watch::Receiver<bool>,
) -> Option<Result<G>> {
    let mut stream = match G::begin(arrived) {
        Ok(stream) => stream,
        Err(error) => return Some(Err(error.helped(purpose))),
    };
    let error = tokio::select! {
        biased;
        () = given_up(over) => None,
        greeting = stream.greet(purpose) => match greeting {
            Ok(()) => return Some(Ok(stream)),
            Err(error) => Some(error),
        },
        Ok(()) = evicted => {
            tracing::debug!("a peer that had not said its purpose made room for another");
            None
        }
    };
    stream.reset().await;
    Some(Err(error?.helped(purpose)))
}

/// Puts a greeted stream into the queue, or resets it.
async fn enqueue<G: IncomingStream>(stream: G, queue: mpsc::Sender<Result<G, ListenerClosed>>) {
    // The reservation fails if the queue has been given up.
    match queue.reserve().await {
        Ok(place) => place.send(Ok(stream)),
        Err(_) => stream.reset().await,
    }
}

/// Waits until the queue is given up.
async fn given_up(mut over: watch::Receiver<bool>) {
    // The wait fails if the queue is gone, which means the same.
    let _ = over.wait_for(|over| *over).await;
}

/// The output of `what`, if it is ready at once.
async fn if_ready<T>(what: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        what = what => Some(what),
        () = std::future::ready(()) => None,
    }
}

impl StreamListener for MultiRailListener {
    type Stream = MultiRailStream;

    async fn accept(&self) -> Result<(MultiRailStream, IpAddr), ListenerClosed> {
        let stream = self.accept().await?;
        let peer = stream.peer_addr().expect("a stream has a peer").ip();
        Ok((stream, peer))
    }
}

impl IncomingStream for MultiRailStream {
    type Arrived = Self;

    fn begin(arrived: Self) -> Result<Self, GreetingError> {
        Ok(arrived)
    }

    async fn greet(&mut self, ours: Purpose) -> Result<(), GreetingError> {
        purpose::greet(self, ours).await
    }

    async fn reset(self) {
        reset::reset_stream(self).await;
    }
}

/// A listener whose streams carry messages.
pub(crate) struct MessageListener(pub(crate) MultiRailListener);

impl StreamListener for MessageListener {
    type Stream = MessageStream;

    async fn accept(&self) -> Result<(MultiRailStream, IpAddr), ListenerClosed> {
        StreamListener::accept(&self.0).await
    }
}

impl IncomingStream for MessageStream {
    type Arrived = MultiRailStream;

    fn begin(arrived: MultiRailStream) -> Result<Self, GreetingError> {
        Self::new(arrived).map_err(GreetingError::Messages)
    }

    async fn greet(&mut self, ours: Purpose) -> Result<(), GreetingError> {
        purpose::greet(&mut InMessages(&mut self.messages), ours).await
    }

    async fn reset(self) {
        self.reset().await;
    }
}

impl StreamListener for TcpAcceptor {
    type Stream = TcpLane;

    async fn accept(&self) -> Result<(TcpLane, IpAddr), ListenerClosed> {
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

impl IncomingStream for TcpLane {
    type Arrived = Self;

    fn begin(arrived: Self) -> Result<Self, GreetingError> {
        Ok(arrived)
    }

    async fn greet(&mut self, ours: Purpose) -> Result<(), GreetingError> {
        purpose::greet(self.get_mut(), ours).await
    }

    /// Dropping the socket closes it, which the peer notices.
    async fn reset(self) {}
}

impl IncomingStream for TcpStream {
    type Arrived = Self;

    fn begin(arrived: Self) -> Result<Self, GreetingError> {
        Ok(arrived)
    }

    async fn greet(&mut self, ours: Purpose) -> Result<(), GreetingError> {
        purpose::greet(self, ours).await
    }

    /// Dropping the socket closes it, which the peer notices.
    async fn reset(self) {}
}

/// Pauses after a transient accept error.
///
/// # Errors
/// [`ListenerClosed`] after a permanent one.
pub(crate) async fn wait_out(error: AcceptError) -> Result<(), ListenerClosed> {
    if !error.is_transient() {
        return Err(ListenerClosed::Accept(Arc::new(error)));
    }
    let error = format!("{:#}", anyhow::Error::new(error));
    if let Some(left_out) = SHORTAGES.due(Instant::now(), &error) {
        tracing::warn!(error, left_out, "a connection was not accepted");
    }
    // Without a free descriptor, an immediate retry would spin.
    sleep(PAUSE).await;
    Ok(())
}

/// The logged reasons why no connection was accepted.
static SHORTAGES: Repeated = Repeated::new();
/// The length of the queue. As many again may wait for a place in it; further streams wait in the
/// listener.
const MAX_WAITING: usize = 64;
/// The limit on streams that are greeted at a time.
const MAX_GREETED: usize = 256;
/// The limit on streams of one peer that are greeted at a time.
const MAX_GREETED_PER_PEER: usize = 64;
/// The pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use rails_multirail::{RailRequest, Rails, Security, StreamOptions, plan_rails};
    use rails_topo::Topology;
    use std::net::SocketAddr;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::{Mutex, Notify},
        time::timeout,
    };

    async fn listener() -> (Rails, StreamOptions, MultiRailListener) {
        let topology = Topology::detect().unwrap();
        let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(1)).unwrap()).unwrap();
        let options = StreamOptions::new(Security::insecure());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = MultiRailListener::bind(&rails, any, &options).await.unwrap();
        (rails, options, listener)
    }

    /// A listener for messages that gives the streams a test sends in.
    struct TestStreams(Mutex<mpsc::UnboundedReceiver<MultiRailStream>>);

    impl StreamListener for TestStreams {
        type Stream = MessageStream;

        async fn accept(&self) -> Result<(MultiRailStream, IpAddr), ListenerClosed> {
            let stream = self.0.lock().await.recv().await.ok_or(ListenerClosed::Closed)?;
            Ok((stream, [127, 0, 0, 1].into()))
        }
    }

    #[tokio::test]
    async fn a_stream_not_for_messages_ends_no_listener() {
        let (rails, options, listener) = listener().await;
        let address = listener.local_addrs()[0];
        let (sender, arriving) = mpsc::unbounded_channel();
        let mut admission = Admission::of(TestStreams(Mutex::new(arriving)), Purpose::Answer);
        let mut unfit = MultiRailStream::connect(&rails, address, &options).await.unwrap();
        let mut came = listener.accept().await.unwrap();
        unfit.write_all(b"no message").await.unwrap();
        // A stream that has given bytes carries no messages.
        came.read_u8().await.unwrap();
        sender.send(came).unwrap();
        let asks = MultiRailStream::connect(&rails, address, &options).await.unwrap();
        sender.send(listener.accept().await.unwrap()).unwrap();
        let mut asks = asks.into_messages().unwrap();
        let mut asks = InMessages(&mut asks);
        let both = async { tokio::join!(purpose::greet(&mut asks, Purpose::Ask), admission.next()) };
        let (greeted, next) = timeout(Duration::from_secs(60), both).await.expect("nobody waits for ever");
        greeted.expect("it is greeted after the other");
        assert!(next.is_ok());
        admission.reset_waiting().await;
    }

    #[tokio::test]
    async fn silent_streams_keep_no_sender_waiting() {
        let (rails, options, listener) = listener().await;
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
        admission.reset_waiting().await;
    }

    /// A listener whose guests a test sends in. It tells when it has ended.
    struct TestListener(Mutex<mpsc::UnboundedReceiver<TestStream>>, Arc<Notify>);

    /// A stream with the work of greeting it.
    struct TestStream(oneshot::Receiver<()>);

    impl StreamListener for TestListener {
        type Stream = TestStream;

        async fn accept(&self) -> Result<(TestStream, IpAddr), ListenerClosed> {
            let stream = self.0.lock().await.recv().await.ok_or(ListenerClosed::RailsStopped);
            stream.map(|stream| (stream, [127, 0, 0, 1].into())).inspect_err(|_| self.1.notify_one())
        }
    }

    impl IncomingStream for TestStream {
        type Arrived = Self;

        fn begin(arrived: Self) -> Result<Self, GreetingError> {
            Ok(arrived)
        }

        async fn greet(&mut self, _: Purpose) -> Result<(), GreetingError> {
            (&mut self.0).await.expect("the test lets the greeting end");
            Ok(())
        }

        async fn reset(self) {
            panic!("a guest is sent away");
        }
    }

    fn admission() -> (mpsc::UnboundedSender<TestStream>, Arc<Notify>, Admission<TestStream>) {
        let ((sender, arriving), ended) = (mpsc::unbounded_channel(), Arc::new(Notify::new()));
        (sender, ended.clone(), Admission::of(TestListener(Mutex::new(arriving), ended), Purpose::Receive))
    }

    #[tokio::test]
    async fn a_listener_that_ends_costs_no_greeted_stream() {
        let (sender, ended, mut admission) = admission();
        let (speak, heard): (Vec<_>, Vec<_>) = (0..MAX_GREETED_PER_PEER).map(|_| oneshot::channel()).unzip();
        heard.into_iter().for_each(|heard| sender.send(TestStream(heard)).ok().unwrap());
        drop(sender);
        ended.notified().await;
        speak.into_iter().for_each(|speak| speak.send(()).unwrap());
        for _ in 0..MAX_GREETED_PER_PEER {
            assert!(admission.next().await.is_ok());
        }
        assert!(is_last(&admission.next().await.err().unwrap()));
    }

    #[tokio::test]
    async fn a_panic_costs_the_stream_that_is_greeted() {
        let (sender, _, mut admission) = admission();
        let (speak, heard) = oneshot::channel();
        drop(speak);
        sender.send(TestStream(heard)).ok().unwrap();
        let (speak, heard) = oneshot::channel();
        sender.send(TestStream(heard)).ok().unwrap();
        speak.send(()).unwrap();
        assert!(admission.next().await.is_ok());
        admission.reset_waiting().await;
    }
}
