//! Bringing lanes up, and dialling them again after a loss.

use super::{
    MultiRailStream, discovery,
    first_messages::{EarlyTurn, FirstMessages},
    join::{Initiating, initiate, jitter, nonce, random, read_answer, send_messages},
    lane::LaneDriver,
    shared::{OpeningLane, Role, StreamShared},
    supervisor::supervise,
};
use crate::{
    RailId, StreamOptions,
    error::{FailedLane, JoinError, with_causes},
    rails::{MoveListener, Rails},
};
use rails_net::Lane;
use rails_proto::{
    LaneAddress,
    handshake::{Credentials, EarlyLane, HandshakeMessage, Hello, Joined, LONGEST_PLAIN, Purpose, StreamId},
    opening::{Attempts, Race, Turn},
    redial::{Ended, Loss, Redial},
    seal::Seals,
    session::LaneId,
    stream_number::Side,
};
use std::{
    collections::BTreeMap,
    future::pending,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

/// A lane's report while the stream is being opened.
#[derive(Debug)]
pub(super) struct LaneReport {
    pub(super) lane: u16,
    pub(super) outcome: LaneOutcome,
}

/// The outcome of an attempt to bring a lane up.
#[derive(Debug)]
pub(super) enum LaneOutcome {
    /// The lane has opened this stream.
    Opened(MultiRailStream),
    /// The lane has joined the stream.
    Joined,
    /// The lane did not come up. It goes on trying while the others do.
    Failed,
}

/// What the lanes open.
#[derive(Debug)]
pub(super) enum Opening {
    /// A stream, and the first messages of one that carries messages.
    Stream(Option<FirstMessages>),
    /// A session of many streams.
    Session,
}

/// A lane's number and its two ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// The lane's number.
    pub(super) index: u16,
    pub(super) rail: RailId,
    pub(super) remote: LaneAddress,
}

/// The state that the lanes of one stream share at the end that opened it.
#[derive(Debug)]
pub(super) struct Dialer {
    lanes: u16,
    pub(super) rails: Rails,
    pub(super) options: StreamOptions,
    /// Whether the lanes open a stream or a session.
    purpose: Purpose,
    /// The credentials of a lane that opens the stream.
    credentials: Credentials,
    /// The first messages of a stream that carries messages.
    first: Option<FirstMessages>,
    /// The stream, after a lane has opened it.
    opened: watch::Sender<Option<Arc<StreamShared>>>,
    race: Mutex<Race>,
    /// Notified when an attempt to open the stream has ended.
    turn: Notify,
    /// The lanes that did not come up and their errors, by number.
    failed: Mutex<BTreeMap<u16, Arc<FailedLane>>>,
    /// The ends of each lane, by number.
    routes: Mutex<BTreeMap<u16, Route>>,
    /// Notified after a rail has moved.
    moved: watch::Sender<()>,
}

/// The present ends of a lane.
#[derive(Debug, Clone, Copy)]
struct Route {
    path: Path,
    /// How often the lane's rail has moved to another local end.
    moves: u64,
    /// The number of these moves when the lane's latest connection was begun.
    joined_after: u64,
}

impl Dialer {
    /// A dialer for a stream or session of `lanes` lanes, which no lane has opened yet.
    pub(super) fn new(
        lanes: u16,
        rails: &Rails,
        options: &StreamOptions,
        credentials: Credentials,
        opening: Opening,
    ) -> Arc<Self> {
        let (purpose, first) = match opening {
            Opening::Stream(first) => (Purpose::Open, first),
            Opening::Session => (Purpose::OpenSession, None),
        };
        let dialer = Arc::new(Self {
            lanes,
            purpose,
            rails: rails.clone(),
            options: options.clone(),
            credentials,
            first,
            opened: watch::Sender::new(None),
            race: Mutex::new(Race::new(usize::from(lanes))),
            turn: Notify::new(),
            failed: Mutex::default(),
            routes: Mutex::default(),
            moved: watch::Sender::default(),
        });
        let weak = Arc::downgrade(&dialer);
        rails.move_listeners().add(weak);
        dialer
    }

    /// Starts a task on the runtime that drives the lane. The task keeps the lane up as long as the
    /// stream lasts.
    pub(super) fn start(self: &Arc<Self>, path: Path, report: mpsc::Sender<LaneReport>) {
        let dialer = self.clone();
        self.routes().insert(path.index, Route { path, moves: 0, joined_after: 0 });
        // The task sends its reports through `report`, so its handle is not needed.
        let home = self.options.driver.home(&self.rails, path.rail).runtime();
        drop(home.spawn(dialer.keep(path, report)));
    }

    /// The addresses of the peer that pair with that rail; none if the peer does not tell them.
    async fn remotes_of(&self, rail: RailId) -> Vec<LaneAddress> {
        let paths: Vec<Path> = self.routes().values().map(|route| route.path).collect();
        let Some(own) = paths.iter().find(|path| path.rail == rail) else { return Vec::new() };
        // The lanes of the other rails work, as far as is known.
        let (own, others): (Vec<Path>, Vec<Path>) =
            paths.iter().filter(|path| path.remote.scheme == own.remote.scheme).partition(|path| path.rail == rail);
        let mut contacts: Vec<LaneAddress> = Vec::new();
        for path in others.iter().chain(&own) {
            if !contacts.contains(&path.remote) {
                contacts.push(path.remote);
            }
        }
        for contact in contacts {
            match discovery::plan_lanes(&self.rails, vec![contact], &self.options).await {
                Ok(pairing) => {
                    return pairing.lanes().filter(|(paired, _)| *paired == rail).map(|(_, remote)| remote).collect();
                }
                Err(error) => tracing::debug!(%rail, %contact, %error, "a peer does not tell its addresses"),
            }
        }
        tracing::warn!(%rail, "the lanes of a rail that has moved go to the peer's addresses as before");
        Vec::new()
    }

    /// The lanes that have not come up so far, by number.
    pub(super) fn failed_lanes(&self) -> Vec<Arc<FailedLane>> {
        self.failed().values().cloned().collect()
    }

    /// The failed lanes if none has come up. A lane without an error gets this one.
    pub(super) fn unanswered(&self, paths: &[Path], error: impl Fn() -> JoinError) -> Vec<Arc<FailedLane>> {
        for Path { index, rail, remote } in paths.iter().copied() {
            let unheard = || Arc::new(FailedLane { rail, remote, error: error() });
            self.failed().entry(index).or_insert_with(unheard);
        }
        self.failed_lanes()
    }

    /// Whether a lane has opened the stream.
    pub(super) fn is_open(&self) -> bool {
        self.opened.borrow().is_some()
    }

    /// Brings one lane up, drives it, and dials it again, until the stream is over or the lane is
    /// removed. Runs on the runtime that drives the lane ([`Driver`](crate::Driver)).
    async fn keep(self: Arc<Self>, path: Path, report: mpsc::Sender<LaneReport>) {
        let first = tokio::select! {
            biased;
            first = self.come_up(path, &report) => first,
            () = self.given_up(&report) => return,
        };
        drop(report);
        let Some((first, longest_attempt)) = first else { return };
        let kept = DialedLane { path, shared: first.shared.clone(), longest_attempt };
        let (mut lane, mut redial) = (Some(first), Redial::new());
        while let Some(current) = lane {
            lane = match self.drive(&kept, current, &mut redial).await {
                NextStep::Successor(successor) => Some(*successor),
                NextStep::Dial(loss) => {
                    redial.start(loss);
                    tokio::select! {
                        joined = self.join_again(&kept, &mut redial) => joined,
                        () = over(&kept.shared) => None,
                    }
                }
                NextStep::Nothing => None,
            };
        }
    }

    /// Drives a lane to its end, and gives the next step.
    async fn drive(&self, kept: &DialedLane, lane: LaneDriver, redial: &mut Redial) -> NextStep {
        let (id, stalled) = (lane.lane.id, lane.lane.stalled.clone());
        let mut run = pin!(lane.run());
        let mut instead = pin!(self.join_instead(kept, id, &stalled, redial));
        let after = tokio::select! {
            loss = &mut run => match loss.ended {
                Ended::Left => return NextStep::Nothing,
                // The successor only waits for the lane's slot.
                Ended::Replaced => {
                    let successor = timeout(kept.longest_attempt, instead).await;
                    successor.map_or(NextStep::Dial(loss), NextStep::taken_by)
                }
                _ => NextStep::Dial(loss),
            },
            // The old connection closes as soon as the new one has replaced it.
            successor = &mut instead => {
                run.await;
                NextStep::taken_by(successor)
            }
        };
        if !*kept.shared.over.borrow() {
            return after;
        }
        // A lane that has just joined still has to be driven to its end.
        if let NextStep::Successor(successor) = after {
            successor.run().await;
        }
        NextStep::Nothing
    }

    /// Tries until the lane is up for the first time. Gives the lane, and the longest time that an
    /// attempt to dial it again may take. `None` if the stream that the lane could join is
    /// over.
    async fn come_up(&self, path: Path, report: &mpsc::Sender<LaneReport>) -> Option<(LaneDriver, Duration)> {
        let mut attempts = Attempts::default();
        let mut is_told = false;
        let mut moved = self.moved.subscribe();
        loop {
            let begun = Instant::now();
            let error = match self.join(path).await {
                Ok((lane, stream)) => {
                    self.failed().remove(&path.index);
                    let outcome = stream.map_or(LaneOutcome::Joined, LaneOutcome::Opened);
                    // If the caller has gone, the stream is dropped with the report, and the lane notices.
                    let _ = report.send(LaneReport { lane: path.index, outcome }).await;
                    let longest = Redial::longest_attempt(begun.elapsed(), self.options.handshake_timeout);
                    return Some((lane, longest));
                }
                Err(error) => error,
            };
            let opened = self.stream();
            if opened.as_ref().is_some_and(|shared| dial_failed(shared, path, &error)) {
                tracing::debug!(lane = path.index, remote = %path.remote, %error, "a lane comes too late for its stream");
                return None;
            }
            let is_spare = opened.as_ref().is_some_and(|shared| *shared.lanes_up.borrow() > 0);
            let next = attempts.after(error.setback(), opened.is_some(), is_spare, jitter());
            let failed = Arc::new(FailedLane { rail: path.rail, remote: path.remote, error });
            self.failed().insert(path.index, failed.clone());
            if next.counts_as_failed {
                let is_awaited =
                    report.send(LaneReport { lane: path.index, outcome: LaneOutcome::Failed }).await.is_ok();
                if !is_awaited && !is_told {
                    tracing::warn!("lane did not come up: {failed}");
                }
                is_told = true;
            }
            let Some(wait) = next.wait else {
                drop(self.opened().await);
                continue;
            };
            let alone = async {
                match opened.filter(|_| is_spare) {
                    Some(shared) => alone(&shared).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                // From another place it may succeed at once. The channel lives as long as `self`.
                _ = moved.changed() => {}
                () = alone => {}
            }
        }
    }

    /// Waits until a lane that has not come up is not needed: the caller has given up, or the
    /// stream is over.
    async fn given_up(&self, report: &mpsc::Sender<LaneReport>) {
        let shared = tokio::select! {
            biased;
            shared = self.opened() => shared,
            () = report.closed() => match self.stream() {
                Some(shared) => shared,
                None => return,
            },
        };
        over(&shared).await;
    }

    /// Tries to join until it succeeds; `None` if the stream is over.
    async fn join_again(&self, kept: &DialedLane, redial: &mut Redial) -> Option<LaneDriver> {
        let DialedLane { path, shared, longest_attempt } = kept;
        let mut moved = self.moved.subscribe();
        loop {
            tokio::select! {
                () = sleep(redial.wait()) => {}
                // From another place it may succeed at once. The channel lives as long as `self`.
                _ = moved.changed() => {}
            }
            let error = match timeout(*longest_attempt, self.join(*path)).await.unwrap_or(Err(JoinError::Timeout)) {
                Ok((lane, _)) => return Some(lane),
                Err(JoinError::StreamOver) => return None,
                Err(error) => error,
            };
            tracing::debug!(stream = %shared.id, lane = path.index, remote = %path.remote, %error, "a lane is dialled again");
            if dial_failed(shared, *path, &error) && error.refused().is_some() {
                // The peer has forgotten the stream, so this end stops dialling.
                return None;
            }
            redial.failed(error.refused());
        }
    }

    /// Opens a new connection when the lane has been stalled for a while: the old connection may
    /// take far longer to notice that a fault is over than a new one takes to connect. Also
    /// when the lane's rail has moved to another local end. Waits otherwise.
    async fn join_instead(&self, kept: &DialedLane, lane: LaneId, stalled: &Notify, redial: &mut Redial) -> LaneDriver {
        let begun = Instant::now();
        // A removed lane is not dialled again.
        let is_missed = || {
            let has_moved = self.has_moved(kept.path.index);
            kept.shared.with(|state| (has_moved || state.session.is_stalled(lane)) && !state.session.is_leaving(lane))
        };
        let mut moved = self.moved.subscribe();
        if self.has_moved(kept.path.index) {
            moved.mark_changed();
        }
        loop {
            let has_stalled = tokio::select! {
                () = stalled.notified() => true,
                // The channel lives as long as `self`.
                _ = moved.changed() => false,
            };
            let is_black_hole = kept.shared.with(|state| state.session.is_black_hole(lane));
            redial.start(Loss { ended: Ended::Otherwise, lived: begun.elapsed(), is_black_hole });
            if has_stalled {
                sleep(redial.wait()).await;
            }
            let mut is_told = false;
            while is_missed() {
                let joined = timeout(kept.longest_attempt, self.join(kept.path)).await;
                let error = match joined.unwrap_or(Err(JoinError::Timeout)) {
                    Ok((lane, _)) => return lane,
                    Err(error) => with_causes(&error),
                };
                if !std::mem::replace(&mut is_told, true) {
                    let Path { index, rail, remote } = kept.path;
                    let stream = kept.shared.id;
                    tracing::warn!(%stream, lane = index, %rail, %remote, error, "a lane cannot be used, nor dialled again");
                }
                redial.failed(None);
                sleep(redial.wait()).await;
            }
        }
    }

    /// Whether the rail of a lane has moved since the lane's connection was opened.
    fn has_moved(&self, lane: u16) -> bool {
        self.routes().get(&lane).is_some_and(|route| route.moves != route.joined_after)
    }

    /// Connects, and opens or joins the stream. Gives the stream if this lane opened it.
    async fn join(&self, path: Path) -> Result<(LaneDriver, Option<MultiRailStream>), JoinError> {
        let route = self.routes().get(&path.index).copied();
        let joined = self.join_along(route.map_or(path, |route| route.path)).await;
        if let (Some(then), Some(now), Ok(_)) = (route, self.routes().get_mut(&path.index), &joined) {
            now.joined_after = then.moves;
        }
        joined
    }

    async fn join_along(&self, path: Path) -> Result<(LaneDriver, Option<MultiRailStream>), JoinError> {
        loop {
            let connection = self.connect(path).await?;
            let turn = tokio::select! {
                biased;
                shared = self.opened() => return Ok((self.join_over(path, connection, shared).await?, None)),
                turn = self.wait_for_turn() => turn,
            };
            let attempt = tokio::select! {
                biased;
                attempt = self.try_to_open(path, &connection, turn) => attempt?,
                // The handshake on this connection is for a stream that loses the race.
                _ = self.opened() => continue,
            };
            if let Some((lane, stream)) = self.open_over(path, connection, attempt).await? {
                return Ok((lane, Some(stream)));
            }
        }
    }

    async fn connect(&self, path: Path) -> Result<Arc<dyn Lane>, JoinError> {
        let transport = self.options.transport_of(path.remote.scheme)?;
        Ok(transport.connect(&self.rails[path.rail].local_end(), path.remote.socket).await?)
    }

    async fn join_over(
        &self,
        path: Path,
        connection: Arc<dyn Lane>,
        shared: Arc<StreamShared>,
    ) -> Result<LaneDriver, JoinError> {
        let credentials = shared.opened_by.joining.clone();
        let joined = self.shake_hands(&*connection, path.index, Purpose::Join, shared.id, credentials).await?;
        let lane = LaneDriver::up(shared, path.index, path.rail, connection, joined.seals, &self.options).await;
        lane.ok_or(JoinError::StreamOver)
    }

    /// Asks the listener for a new stream, within the handshake's time.
    async fn try_to_open<'a>(
        &'a self,
        path: Path,
        connection: &Arc<dyn Lane>,
        turn: Trying<'a>,
    ) -> Result<Attempt<'a>, JoinError> {
        let attempt = self.ask_to_open(path, connection, turn);
        timeout(self.options.handshake_timeout, attempt).await.map_err(|_| JoinError::Timeout)?
    }

    async fn ask_to_open<'a>(
        &'a self,
        path: Path,
        connection: &Arc<dyn Lane>,
        _turn: Trying<'a>,
    ) -> Result<Attempt<'a>, JoinError> {
        // Each attempt names a stream of its own, so the outcome of an attempt without an answer does not
        // matter.
        let id = StreamId(random().map_err(JoinError::Random)?);
        let credentials = self.credentials.clone();
        let hello = self.hello(&credentials, path.index, self.purpose, id)?;
        let mut asking = Initiating::start(credentials, hello);
        asking.prove(&**connection).await?;
        if let Some(early_turn) = self.first.as_ref().and_then(FirstMessages::early_turn) {
            match asking.initiator.into_early() {
                Ok(lane) => {
                    let lane = self.speak_early(path, id, connection, asking.messages, lane).await?;
                    return Ok(Attempt { lane, _early_turn: Some(early_turn), _turn });
                }
                Err(initiator) => asking.initiator = *initiator,
            }
        }
        let joined = asking.finish(&**connection).await?;
        let lane = OpenedLane::Accepted(self.stream_over(id, joined, connection)?);
        Ok(Attempt { lane, _early_turn: None, _turn })
    }

    /// Sends the first messages of the stream right behind the proof, and waits until the peer has
    /// accepted the lane.
    async fn speak_early(
        &self,
        path: Path,
        id: StreamId,
        connection: &Arc<dyn Lane>,
        mut messages: Vec<HandshakeMessage>,
        EarlyLane { joined, mut acceptance }: EarlyLane,
    ) -> Result<OpenedLane, JoinError> {
        let NewStream { shared, seals, confirmation } = self.stream_over(id, joined, connection)?;
        messages.extend(confirmation);
        let sent = send_messages(&**connection, &messages).await;
        let lane = LaneDriver::up(shared, path.index, path.rail, connection.clone(), seals, &self.options).await;
        let mut lane = UntakenLane(Some(lane.ok_or(JoinError::StreamOver)?));
        if let (Some(lane), Ok(())) = (&mut lane.0, &sent) {
            lane.send_ahead();
        }
        let answer = read_answer(&**connection, LONGEST_PLAIN, sent).await?;
        // The peer expects frames, so the end of the lane tells a responder whose answer is wrong.
        acceptance.check(&answer)?;
        Ok(OpenedLane::Early(lane))
    }

    /// A new stream over a lane that has joined.
    fn stream_over(&self, id: StreamId, joined: Joined, connection: &Arc<dyn Lane>) -> Result<NewStream, JoinError> {
        let mut state = self.options.session(self.purpose, joined.parameters, Side::Initiator);
        if let Some(first) = &self.first {
            first.queue(&mut state)?;
        }
        let opened_by = OpeningLane {
            role: Role::Opened,
            joining: joined.joining,
            peer_certificates: joined.peer_certificates,
            peer_name: None,
            local: connection.local_addr(),
            peer: connection.peer_addr(),
        };
        let shared = StreamShared::new(id, state, self.rails.clone(), opened_by, &self.options);
        Ok(NewStream { shared, seals: joined.seals, confirmation: joined.confirmation })
    }

    /// Takes the new stream if no other lane was first, and confirms it to the peer.
    async fn open_over(
        &self,
        path: Path,
        connection: Arc<dyn Lane>,
        attempt: Attempt<'_>,
    ) -> Result<Option<(LaneDriver, MultiRailStream)>, JoinError> {
        let shared = match &attempt.lane {
            OpenedLane::Early(lane) => lane.0.as_ref().map(|lane| lane.shared.clone()),
            OpenedLane::Accepted(stream) => Some(stream.shared.clone()),
        };
        let Some(shared) = shared.filter(|_| !self.is_open()) else { return Ok(None) };
        let failed: Vec<u16> = self.failed().keys().copied().collect();
        shared.with(|state| {
            (0..self.lanes).filter(|lane| !failed.contains(lane)).for_each(|lane| state.session.dialled(lane));
        });
        let is_first = self.opened.send_if_modified(|opened| {
            let is_first = opened.is_none();
            if is_first {
                *opened = Some(shared.clone());
            }
            is_first
        });
        if !is_first {
            return Ok(None);
        }
        if let Some(first) = &self.first {
            first.forget();
        }
        supervise(shared.clone());
        let stream = MultiRailStream::new(shared.clone());
        let (seals, confirmation) = match attempt.lane {
            OpenedLane::Early(mut lane) => return Ok(lane.0.take().map(|lane| (lane, stream))),
            OpenedLane::Accepted(NewStream { seals, confirmation, .. }) => (seals, confirmation),
        };
        let (index, rail) = (path.index, path.rail);
        let lane = LaneDriver::up(shared, index, rail, connection.clone(), seals, &self.options).await;
        let lane = lane.ok_or(JoinError::StreamOver)?;
        // If the connection fails here, the lane's driver finds out, and another lane that joins confirms
        // the stream as well.
        let confirmation = confirmation.as_slice();
        let sent = timeout(self.options.handshake_timeout, send_messages(&*connection, confirmation)).await;
        if sent.is_err() {
            // The connection may have taken a part of the message, and no frame may follow that.
            let _ = connection.close_write();
        }
        Ok(Some((lane, stream)))
    }

    async fn wait_for_turn(&self) -> Trying<'_> {
        loop {
            let ended = self.turn.notified();
            let turn = self.race().turn(Instant::now().into_std());
            match turn {
                Turn::Open => return Trying(self),
                Turn::Wait(until) => tokio::select! {
                    () = sleep_until(until.into()) => {}
                    () = ended => {}
                },
            }
        }
    }

    async fn shake_hands(
        &self,
        connection: &dyn Lane,
        lane: u16,
        purpose: Purpose,
        stream: StreamId,
        credentials: Credentials,
    ) -> Result<Joined, JoinError> {
        let hello = self.hello(&credentials, lane, purpose, stream)?;
        let handshake = initiate(connection, credentials, hello);
        timeout(self.options.handshake_timeout, handshake).await.map_err(|_| JoinError::Timeout)?
    }

    fn hello(
        &self,
        credentials: &Credentials,
        lane: u16,
        purpose: Purpose,
        stream: StreamId,
    ) -> Result<Hello, JoinError> {
        let (mode, parameters) = (credentials.mode(), self.options.parameters(purpose));
        Ok(Hello { mode, purpose, stream, lane, lanes: self.lanes, parameters, nonce: nonce()? })
    }

    fn stream(&self) -> Option<Arc<StreamShared>> {
        self.opened.borrow().clone()
    }

    /// Waits until a lane has opened the stream.
    async fn opened(&self) -> Arc<StreamShared> {
        let mut opened = self.opened.subscribe();
        loop {
            if let Some(shared) = opened.borrow_and_update().clone() {
                return shared;
            }
            // The channel lives as long as `self`, so waiting for it cannot fail.
            let _ = opened.changed().await;
        }
    }

    fn routes(&self) -> MutexGuard<'_, BTreeMap<u16, Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn race(&self) -> MutexGuard<'_, Race> {
        self.race.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<FailedLane>>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MoveListener for Dialer {
    /// Connects the lanes of a rail anew, from its new local end, to the addresses of the peer that
    /// pair with it best.
    fn rail_moved(self: Arc<Self>, rail: RailId) {
        let home = self.rails.clone();
        drop(home[rail].runtime().spawn(async move {
            // The rails end with the stream, so a peer that does not answer keeps none of them.
            let remotes = tokio::select! {
                remotes = self.remotes_of(rail) => remotes,
                () = async { over(&*self.opened().await).await } => return,
            };
            let mut remotes = remotes.iter().cycle();
            for route in self.routes().values_mut().filter(|route| route.path.rail == rail) {
                route.path.remote = remotes.next().copied().unwrap_or(route.path.remote);
                route.moves += 1;
            }
            self.moved.send_replace(());
        }));
    }
}

/// A lane that has been up, and that this end dials again.
struct DialedLane {
    path: Path,
    shared: Arc<StreamShared>,
    /// The longest time that one attempt to dial the lane again may take.
    longest_attempt: Duration,
}

/// The next step after a lane has ended.
enum NextStep {
    /// This lane has replaced the one that ended.
    Successor(Box<LaneDriver>),
    /// The lane is dialled again.
    Dial(Loss),
    /// No step: the lane was removed, or the stream is over.
    Nothing,
}

impl NextStep {
    fn taken_by(successor: LaneDriver) -> Self {
        Self::Successor(Box::new(successor))
    }
}

/// A stream that a listener has made for a lane, and that this end has not taken yet.
struct Attempt<'a> {
    lane: OpenedLane,
    _early_turn: Option<EarlyTurn<'a>>,
    _turn: Trying<'a>,
}

/// The lane of a new stream, which the peer has accepted.
enum OpenedLane {
    /// The lane has sent the stream's first messages.
    Early(UntakenLane),
    /// The lane has to be confirmed.
    Accepted(NewStream),
}

/// A stream that no lane drives yet, with the seals and the confirmation of its first.
struct NewStream {
    shared: Arc<StreamShared>,
    seals: Option<Seals>,
    confirmation: Option<HandshakeMessage>,
}

/// A lane that has sent messages of a stream that this end has not taken. A stream that is not
/// taken is reset, on drop: the peer's application has it.
struct UntakenLane(Option<LaneDriver>);

impl Drop for UntakenLane {
    fn drop(&mut self) {
        if let Some(lane) = self.0.take() {
            lane.reset();
        }
    }
}

/// A lane's turn to try to open the stream, until this is dropped.
struct Trying<'a>(&'a Dialer);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        self.0.race().ended();
        self.0.turn.notify_waiters();
    }
}

/// Tells the stream that a lane did not come up. Returns whether the stream is over.
fn dial_failed(shared: &StreamShared, path: Path, error: &JoinError) -> bool {
    shared.with(|state| {
        state.session.dial_failed(Instant::now().into_std(), path.index, error.refused());
        state.is_over()
    })
}

/// Waits until no lane is up: then the stream needs any lane that comes.
async fn alone(shared: &StreamShared) {
    // The channel lives as long as `shared`, so waiting for it cannot fail.
    let _ = shared.lanes_up.subscribe().wait_for(|up| *up == 0).await;
}

/// Waits until the stream needs no lane any more.
async fn over(shared: &StreamShared) {
    // The channel lives as long as `shared`, so waiting for it cannot fail.
    let _ = shared.over.subscribe().wait_for(|over| *over).await;
}
