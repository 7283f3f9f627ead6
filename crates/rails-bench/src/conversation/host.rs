//! The end that listens. It hears what every caller wants, and serves several callers at a time. At
//! a limit, a session whose peer has said nothing makes room for the next
//! ([`rails_proto::admission`]).

use super::{Claims, Control, ConversationError, PATIENCE, Reply, Request, Role, Token, control::MAX_REQUEST};
use crate::{
    exit::{Exit, explain, explain_seldom},
    parting::{Parting, part, see_off},
    service::Service,
    stop::{Stop, Stopped},
    turn::{GaveWay, Waits},
};
use anyhow::Result;
use futures_util::{StreamExt, stream::FuturesUnordered};
use rails_multirail::{
    ListenerClosed, MultiRailListener, MultiRailMessages, MultiRailSession, MultiRailStream, SessionError,
};
use rails_proto::admission::{Entry, HandshakeId, Handshakes};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{
        Semaphore, SemaphorePermit,
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    task::{JoinError, JoinHandle, JoinSet},
    time::timeout,
};

/// The end that listens, with the callers that have said what they want.
pub(crate) struct Host {
    role: Role,
    callers: mpsc::Receiver<Result<Caller, ListenerClosed>>,
    company: Arc<Company>,
    messages: Claims<MultiRailMessages>,
    batches: Batches,
    over: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

/// How an end serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// The number of callers that are served at a time; the others wait.
    pub(crate) places: usize,
    /// Whether the end is over after one caller.
    pub(crate) once: bool,
}

/// A caller that is served now.
pub(crate) struct Guest {
    /// The caller's session.
    pub(crate) session: MultiRailSession,
    /// The stream of the conversation.
    pub(crate) control: Control,
    /// The caller's wish.
    pub(crate) request: Request,
    /// The other callers.
    pub(crate) company: Arc<Company>,
    /// The streams of messages that belong to conversations.
    pub(crate) messages: Claims<MultiRailMessages>,
    /// The batches that are received.
    pub(crate) batches: Batches,
    /// The waits for the caller.
    pub(crate) waits: Arc<Waits>,
}

/// The batches that are received, by their names. One whose sender begins it again is told by a
/// sender that it drops at its own end.
pub(crate) type Batches = Claims<oneshot::Sender<()>>;

/// The callers of an end.
#[derive(Debug, Default)]
pub(crate) struct Company {
    waiting: AtomicUsize,
    served: AtomicUsize,
    /// The number of callers that were ever served.
    begun: AtomicU64,
}

/// A caller that has said what it wants.
struct Caller {
    session: MultiRailSession,
    control: Control,
    request: Request,
}

impl Caller {
    /// Closes the session of a caller that is not served.
    async fn leave(self, parting: Parting) {
        parting.close(&self.session);
        // A stream that is kept would keep the session.
        drop(self.control);
        part(self.session, parting).await;
    }
}

/// The peer has gone before it was served.
#[derive(Debug, thiserror::Error)]
#[error("a peer went away while it waited")]
struct PeerLeft(#[source] SessionError);

/// The end takes no further caller.
#[derive(Debug, thiserror::Error)]
#[error("no further caller is served")]
struct Over;

/// The task that hears callers has ended, although the listener has not closed.
#[derive(Debug, thiserror::Error)]
#[error("the task that hears callers has ended")]
struct HearerGone;

impl Host {
    /// Hears the callers of the listener, on the calling runtime.
    pub(crate) fn of(listener: MultiRailListener, role: Role) -> Self {
        let (queue, callers) = mpsc::channel(MAX_WAITING);
        let (over, is_over) = watch::channel(false);
        let (messages, batches) = (Claims::default(), Batches::default());
        let company = Arc::<Company>::default();
        let hearer = Hearer {
            role,
            queue,
            company: company.clone(),
            messages: messages.clone(),
            batches: batches.clone(),
            over: is_over,
        };
        let accepting = tokio::spawn(hearer.accept(listener));
        Self { role, callers, company, messages, batches, over, accepting }
    }

    /// Serves callers, up to a signal, or one. `work` serves one caller, and ends its session.
    /// Failures are explained, and end no other conversation.
    ///
    /// # Errors
    /// [`Stopped`] after a signal, the listener's failure, or that of the one caller.
    pub(crate) async fn serve<W>(mut self, terms: Terms, stop: &mut Stop, work: impl Fn(Guest) -> W) -> Result<Exit>
    where
        W: Future<Output = Result<Exit>>,
    {
        let places = Semaphore::new(terms.places);
        let mut serving = FuturesUnordered::new();
        let mut service = Service::ready();
        let ended = loop {
            tokio::select! {
                biased;
                signal = stop.requested() => break Err(Stopped(signal).into()),
                () = service.lives() => {}
                Some(served) = serving.next(), if !serving.is_empty() => match served {
                    Ok(exit) if terms.once || matches!(exit, Exit::Signal(_)) => break Ok(exit),
                    Ok(_) => {}
                    Err(error) if is_passed_over(&error, terms.once) => drop(explain(&error)),
                    Err(error) => break Err(error),
                },
                caller = self.callers.recv() => match caller {
                    Some(Ok(caller)) => {
                        let waiting = self.company.clone().seat(caller, &places, self.over.subscribe(), stop.clone());
                        let (work, messages, batches) = (&work, self.messages.clone(), self.batches.clone());
                        serving.push(async move {
                            let Seated { caller: Caller { session, control, request }, presence, _place } = waiting.await?;
                            let (company, waits) = (presence.0.clone(), Arc::new(Waits::new()));
                            work(Guest { session, control, request, company, messages, batches, waits }).await
                        });
                    }
                    Some(Err(closed)) => break Err(closed.into()),
                    None => break Err(HearerGone.into()),
                },
            }
        };
        // Those that wait leave, and those that are served end by themselves, or by the signal.
        drop(service);
        self.over.send_replace(true);
        while let Some(served) = serving.next().await {
            match served {
                Err(error) if !error.is::<Stopped>() && !error.is::<Over>() => drop(explain(&error)),
                _ => {}
            }
        }
        drop(serving);
        self.close().await;
        ended
    }

    /// Sends off the callers that were not served.
    async fn close(mut self) {
        tracing::debug!("`{}` is over", self.role);
        self.callers.close();
        let mut leaving = JoinSet::new();
        while let Some(caller) = self.callers.recv().await {
            if let Ok(caller) = caller {
                leaving.spawn(caller.leave(Parting::Over));
            }
        }
        leaving.join_all().await;
        if let Err(error) = self.accepting.await {
            tracing::error!(%error, "the task that hears callers did not come to its end");
        }
    }
}

/// Whether an end goes on after this error. One that serves one caller passes over a caller that
/// left before it was served, or that gave way to another.
fn is_passed_over(error: &anyhow::Error, once: bool) -> bool {
    !error.is::<Stopped>() && (!once || error.is::<PeerLeft>() || GaveWay::is_why(error))
}

/// A caller with its place.
struct Seated<'a> {
    caller: Caller,
    presence: Presence,
    _place: SemaphorePermit<'a>,
}

/// The presence of a caller that is served.
struct Presence(Arc<Company>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.served.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Company {
    /// Waits for a place for a caller.
    async fn seat<'a>(
        self: Arc<Self>,
        mut caller: Caller,
        places: &'a Semaphore,
        over: watch::Receiver<bool>,
        mut stop: Stop,
    ) -> Result<Seated<'a>> {
        let place: Result<_> = match places.try_acquire() {
            Ok(place) => Ok(place),
            Err(_) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                let waited = async {
                    caller.control.say(&Reply::Busy).await?;
                    tokio::select! {
                        biased;
                        signal = stop.requested() => Err(Stopped(signal).into()),
                        () = is_over(over) => Err(Over.into()),
                        left = caller.session.closed() => Err(PeerLeft(left).into()),
                        place = places.acquire() => Ok(place.expect("the places are never closed")),
                    }
                };
                let waited = waited.await;
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                waited
            }
        };
        match place {
            Ok(place) => {
                self.served.fetch_add(1, Ordering::Relaxed);
                self.begun.fetch_add(1, Ordering::Relaxed);
                Ok(Seated { caller, presence: Presence(self), _place: place })
            }
            Err(error) => {
                let parting = if error.is::<Over>() { Parting::Over } else { Parting::of(&error) };
                caller.leave(parting).await;
                Err(error)
            }
        }
    }

    /// The number of callers that wait for a place.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Begins to count the callers that are served beside one.
    pub(crate) fn observe(self: &Arc<Self>) -> Beside {
        let others = self.served.load(Ordering::Relaxed).saturating_sub(1);
        Beside { company: self.clone(), others: others as u64, begun: self.begun.load(Ordering::Relaxed) }
    }
}

/// Counts the callers that are served beside one.
pub(crate) struct Beside {
    company: Arc<Company>,
    others: u64,
    begun: u64,
}

impl Beside {
    /// The number of other callers that were served since the observation began.
    pub(crate) fn count(&self) -> u64 {
        self.others + (self.company.begun.load(Ordering::Relaxed) - self.begun)
    }
}

impl Guest {
    /// Gives what this end needs for the guest, or tells the guest that this end lacks it.
    ///
    /// # Errors
    /// The reason why this end lacks it.
    pub(crate) async fn unless_refused<T>(&mut self, needed: Result<T>) -> Result<T> {
        if let Err(error) = &needed {
            refuse(&self.session, &mut self.control, &Reply::Refused(format!("{error:#}"))).await;
        }
        needed
    }

    /// Ends the session after its work: in order if all is done, and at once otherwise.
    pub(crate) async fn end<T>(self, result: &Result<T>) {
        match result {
            Ok(_) => {
                drop(self.control);
                see_off(self.session, Parting::Done).await;
            }
            Err(error) => {
                let parting = Parting::of(error);
                parting.close(&self.session);
                drop(self.control);
                part(self.session, parting).await;
            }
        }
    }
}

/// Hears what the peers of a listener want.
#[derive(Clone)]
struct Hearer {
    role: Role,
    queue: mpsc::Sender<Result<Caller, ListenerClosed>>,
    company: Arc<Company>,
    messages: Claims<MultiRailMessages>,
    batches: Batches,
    over: watch::Receiver<bool>,
}

impl Hearer {
    /// Accepts sessions until the end is over, and keeps the listener as long, because lost lanes
    /// reconnect to it. If the listener closes by itself, callers that have come are handed on
    /// before.
    async fn accept(self, listener: MultiRailListener) {
        let mut places = Handshakes::new(MAX_HEARD, MAX_HEARD_PER_PEER);
        let mut hearing = JoinSet::new();
        let mut closed = None;
        loop {
            if hearing.is_empty()
                && let Some(closed) = closed.take()
            {
                // The send fails if the end is over.
                let _ = self.queue.send(Err(closed)).await;
                return;
            }
            let arrived = tokio::select! {
                () = is_over(self.over.clone()) => break,
                Some(heard) = hearing.join_next() => {
                    let (place, ended): (HandshakeId, Result<_, JoinError>) = heard.expect("it leaves the work to another task");
                    places.leave(place);
                    // A panic ends this conversation only.
                    if let Err(panic) = ended {
                        explain_seldom(&panic.into());
                    }
                    continue;
                }
                session = listener.accept_session(), if closed.is_none() => session.map(Arrived::Session),
                stream = listener.accept(), if closed.is_none() => stream.map(Arrived::Stream),
            };
            let arrived = match arrived {
                Ok(arrived) => arrived,
                Err(error) => {
                    closed = Some(error);
                    continue;
                }
            };
            let (evict, evicted) = oneshot::channel();
            let place = match places.enter(arrived.peer(), false, evict) {
                Entry::Free(place) => place,
                Entry::Evicting { id, evicted, .. } => {
                    // The send fails if the hearing has just ended.
                    let _ = evicted.send(());
                    id
                }
                Entry::Refused(_) => unreachable!("none of those who are heard has proved itself"),
            };
            let heard = tokio::spawn(self.clone().hear(arrived, evicted));
            hearing.spawn(async move { (place, heard.await) });
        }
        drop(self);
        // Sessions that were not accepted are closed as the listener closes.
        listener.close().await;
        hearing.join_all().await;
    }

    /// Hears what an arrival wants, and hands it on. Its fault is explained before it learns of it.
    async fn hear(self, arrived: Arrived, evicted: oneshot::Receiver<()>) {
        match arrived {
            Arrived::Session(session) => {
                let heard = tokio::select! {
                    biased;
                    () = is_over(self.over.clone()) => Err((Parting::Over, None)),
                    heard = timeout(PATIENCE, hear_caller(&session, self.role)) => match heard {
                        Ok(Ok(heard)) => Ok(heard),
                        Ok(Err(error)) => Err((Parting::Refused, Some(error))),
                        Err(_) => Err((Parting::Silent, Some(ConversationError::Silent(PATIENCE.as_secs())))),
                    },
                    Ok(()) = evicted => Err((Parting::Silent, None)),
                };
                match heard {
                    Ok((control, request)) => {
                        if let Request::Files { batch } = request {
                            self.end_earlier(batch).await;
                        }
                        self.enqueue(Caller { session, control, request }).await;
                    }
                    Err((parting, error)) => {
                        if let Some(error) = error {
                            explain_seldom(&error.helped());
                        }
                        part(session, parting).await;
                    }
                }
            }
            Arrived::Stream(stream) => tokio::select! {
                biased;
                () = is_over(self.over) => {}
                heard = timeout(PATIENCE, hear_messages(stream, &self.messages)) => {
                    if let Err(strangers) = heard.unwrap_or(Err(None)) {
                        explain_seldom(&ConversationError::NoSession.helped());
                        if let Some(strangers) = strangers {
                            strangers.abort();
                        }
                    }
                }
                Ok(()) = evicted => {}
            },
        }
    }

    /// Ends the batch of that name if it is still received, and waits for its end. Its sender has
    /// lost it and begins it again, while this end may not know yet: the parts of its files are
    /// locked, and perhaps it has the last place.
    async fn end_earlier(&self, batch: Token) {
        let (ended, end) = oneshot::channel();
        if self.batches.hand(batch, ended).is_ok() {
            tokio::select! {
                // The batch drops its sender, and never sends a value.
                _ = end => {}
                () = is_over(self.over.clone()) => {}
            }
        }
    }

    /// Hands a caller to those who serve, or refuses it.
    async fn enqueue(self, mut caller: Caller) {
        let place =
            if self.company.waiting() < MAX_WAITING { self.queue.try_reserve() } else { Err(TrySendError::Full(())) };
        match place {
            Ok(place) => place.send(Ok(caller)),
            Err(TrySendError::Full(())) => {
                let why = Reply::Refused("too many callers wait already".to_owned());
                refuse(&caller.session, &mut caller.control, &why).await;
                caller.leave(Parting::Refused).await;
            }
            Err(TrySendError::Closed(())) => caller.leave(Parting::Over).await,
        }
    }
}

/// What a listener accepts.
enum Arrived {
    Session(MultiRailSession),
    Stream(MultiRailStream),
}

impl Arrived {
    fn peer(&self) -> std::net::IpAddr {
        match self {
            Self::Session(session) => session.peer_addr().ip(),
            Self::Stream(stream) => stream.peer_addr().expect("a stream has a peer").ip(),
        }
    }
}

/// Hears what a caller wants. One that wants something of another command is told so.
async fn hear_caller(session: &MultiRailSession, role: Role) -> Result<(Control, Request), ConversationError> {
    let (writing, reading) = session.accept_bi().await.map_err(|error| ConversationError::Cut(error.into()))?;
    let mut control = Control::new(reading, writing);
    control.greet().await?;
    control.hear_greeting().await?;
    let request: Request = control.hear(MAX_REQUEST).await?;
    if request.role() != role {
        refuse(session, &mut control, &Reply::Misfit(role)).await;
        return Err(ConversationError::Caller { request: request.to_string(), role });
    }
    if let Some(why) = request.unfit() {
        refuse(session, &mut control, &Reply::Refused(why.to_owned())).await;
        return Err(ConversationError::Unfit(why));
    }
    Ok((control, request))
}

/// Says why the caller is not served, and waits a moment for it to leave.
pub(super) async fn refuse(session: &MultiRailSession, control: &mut Control, why: &Reply) {
    let farewell = async {
        control.say(why).await?;
        control.end().await.map_err(ConversationError::Cut)?;
        session.closed().await;
        Ok::<_, ConversationError>(())
    };
    // The result is the same if the peer does not hear it.
    let _ = timeout(FAREWELL, farewell).await;
}

/// Hands a stream of messages to the conversation whose token it shows. Gives the stream back where
/// there is none.
async fn hear_messages(
    stream: MultiRailStream,
    claims: &Claims<MultiRailMessages>,
) -> Result<(), Option<MultiRailMessages>> {
    let mut messages = stream.into_messages().map_err(|_| None)?;
    let token = match messages.recv().await {
        Ok(Some(first)) => (*first.payload).try_into().ok().map(Token::from_bytes),
        _ => None,
    };
    match token {
        Some(token) => claims.hand(token, messages).map_err(Some),
        None => Err(Some(messages)),
    }
}

/// Waits until the end is over.
async fn is_over(mut over: watch::Receiver<bool>) {
    // The wait fails if the end is gone, which means the same.
    let _ = over.wait_for(|over| *over).await;
}

/// The limit on callers that wait for a place.
const MAX_WAITING: usize = 128;
/// The limit on sessions that are heard at a time.
const MAX_HEARD: usize = 256;
/// The limit on sessions of one peer that are heard at a time.
const MAX_HEARD_PER_PEER: usize = 64;
/// The time that a caller that is refused has to leave.
const FAREWELL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Call, Carrier};
    use rails_multirail::{LaneAddress, RailRequest, Rails, Security, StreamOptions, plan_rails};
    use rails_topo::Topology;
    use std::net::SocketAddr;

    /// A host that serves by beginning alone, and how it is reached.
    struct Served {
        rails: Rails,
        options: StreamOptions,
        address: LaneAddress,
    }

    impl Served {
        async fn start() -> (Self, Host) {
            let topology = Topology::detect().unwrap();
            let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(1)).unwrap()).unwrap();
            let options = StreamOptions::new(Security::insecure());
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = MultiRailListener::bind(&rails, any, &options).await.unwrap();
            let address = listener.local_addrs()[0];
            (Self { rails, options, address }, Host::of(listener, Role::Serve))
        }

        async fn session(&self) -> MultiRailSession {
            MultiRailSession::connect(&self.rails, self.address, &self.options).await.unwrap()
        }

        async fn call(&self) -> Result<Call> {
            Call::over(&self.session().await, &Request::Echo { over: Carrier::Stream }).await
        }
    }

    async fn begin(mut guest: Guest) -> Result<Exit> {
        guest.control.say(&Reply::Begin).await?;
        let served = Ok(Exit::Done);
        guest.end(&served).await;
        served
    }

    #[tokio::test]
    async fn silent_sessions_keep_no_caller_waiting() {
        let (served, host) = Served::start().await;
        let calling = async {
            let mut silent = Vec::new();
            for _ in 0..=MAX_HEARD_PER_PEER {
                silent.push(served.session().await);
            }
            let call = served.call().await.expect("it is served beside them");
            call.end(&Ok(())).await;
        };
        let mut stop = Stop::on_signals().unwrap();
        let terms = Terms { places: 1, once: true };
        let (served, ()) = tokio::join!(host.serve(terms, &mut stop, begin), calling);
        assert_eq!(served.unwrap(), Exit::Done);
    }

    #[tokio::test]
    async fn callers_that_wait_leave_at_once() {
        let (served, host) = Served::start().await;
        let (release, released) = watch::channel(false);
        let work = |guest: Guest| {
            let released = released.clone();
            async move {
                is_over(released).await;
                begin(guest).await
            }
        };
        let calling = async {
            let call = || async {
                if let Ok(call) = served.call().await {
                    call.end(&Ok(())).await;
                }
            };
            // The first is served, and the second has said what it wants.
            let let_go = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                release.send_replace(true);
                std::time::Instant::now()
            };
            tokio::join!(call(), call(), let_go).2
        };
        let mut stop = Stop::on_signals().unwrap();
        let terms = Terms { places: 1, once: true };
        let (ended, let_go) = tokio::join!(host.serve(terms, &mut stop, work), calling);
        assert_eq!(ended.unwrap(), Exit::Done);
        assert!(let_go.elapsed() < Duration::from_secs(2), "{:?}", let_go.elapsed());
    }

    #[tokio::test]
    async fn a_failure_ends_one_conversation_alone() {
        let (served, host) = Served::start().await;
        let failing = |mut guest: Guest| async move {
            if matches!(guest.request, Request::Echo { .. }) {
                return begin(guest).await;
            }
            guest.control.say(&Reply::Begin).await?;
            // The end of the session would overtake the answer.
            guest.session.accept_uni().await?;
            let failed = Err(anyhow::anyhow!("for once"));
            guest.end(&failed).await;
            failed
        };
        let calling = async {
            let call = Call::over(&served.session().await, &Request::Probe).await.unwrap();
            drop(call.session.open_uni().await.unwrap());
            let left = call.session.closed().await.to_string();
            assert!(left.contains("with code 3: the command failed"), "{left}");
            let call = served.call().await.expect("the next is served");
            call.end(&Ok(())).await;
        };
        let mut stop = Stop::on_signals().unwrap();
        let serving = host.serve(Terms { places: 1, once: false }, &mut stop, failing);
        // It serves for as long as it is asked to.
        tokio::select! {
            ended = serving => panic!("{ended:?}"),
            () = calling => {}
        }
    }
}
