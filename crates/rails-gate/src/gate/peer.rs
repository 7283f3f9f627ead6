//! The sessions with one peer.

use super::{Shared, lock};
use crate::{
    policy::{self, PeerLimits, PeerName, Rate},
    session::{Asking, Limits, Session, SessionError, Side},
    status::PeerStatus,
};
use rails_multirail::{MessageSender, MultiRailMessages, RailId, error::with_causes};
use std::{
    sync::{Arc, Mutex},
    time::Instant,
};
use tokio::sync::{Notify, Semaphore, watch};

/// A peer of the policy, as the gate keeps it.
#[derive(Debug)]
pub(super) struct Peer {
    name: PeerName,
    /// The rail that takes the messages of the sessions.
    home: RailId,
    /// The sessions; new connections are opened on the first.
    sessions: Mutex<Vec<Kept>>,
    /// Room for further sessions.
    room: Semaphore,
    /// The sessions, or the policy, have changed.
    changed: Notify,
    bounds: Mutex<Bounds>,
    last_error: Mutex<Option<String>>,
    ends: watch::Sender<Ending>,
}

/// The policy's limits of a peer, and how much of them it has used.
#[derive(Debug)]
struct Bounds {
    of: PeerLimits,
    /// The connections that the peer may ask for.
    rate: Rate,
    /// For sessions that begin now.
    limits: Arc<Limits>,
}

/// Whether a peer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// The policy no longer names it: each session ends once it carries no connection.
    WhenIdle,
    Now,
}

#[derive(Debug)]
struct Kept {
    session: Arc<Session>,
    since: Instant,
    /// For statistics.
    sender: MessageSender,
    /// Of two sessions that both gates dialled at once, both keep this one.
    stays: bool,
}

impl Peer {
    pub(super) fn of(peer: &policy::Peer, home: RailId) -> Arc<Self> {
        Arc::new(Self {
            name: peer.name.clone(),
            home,
            sessions: Mutex::default(),
            room: Semaphore::new(MAX_SESSIONS),
            changed: Notify::new(),
            bounds: Mutex::new(Bounds::of(peer.limits)),
            last_error: Mutex::default(),
            ends: watch::Sender::new(Ending::No),
        })
    }

    pub(super) fn home(&self) -> RailId {
        self.home
    }

    /// Takes a new policy of a peer, which may have been about to end. The limits of streams and
    /// bytes hold for the next session.
    pub(super) fn update(&self, peer: &policy::Peer) {
        let mut bounds = lock(&self.bounds);
        let Bounds { of, rate, limits } = std::mem::replace(&mut *bounds, Bounds::of(peer.limits));
        if of.connections_per_second == peer.limits.connections_per_second {
            bounds.rate = rate;
        }
        if (of.streams, of.bytes) == (peer.limits.streams, peer.limits.bytes) {
            bounds.limits = limits;
        }
        drop(bounds);
        self.ends.send_replace(Ending::No);
        self.changed.notify_waiters();
    }

    /// Whether the peer may ask for one more connection now.
    pub(super) fn may_ask(&self, now: Instant) -> bool {
        lock(&self.bounds).rate.take(now)
    }

    pub(super) fn name(&self) -> &PeerName {
        &self.name
    }

    /// The session for a new connection.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        lock(&self.sessions).first().map(|kept| kept.session.clone())
    }

    /// Waits until there is a session other than one that was lost.
    pub(super) async fn session_other_than(&self, lost: &Arc<Session>) -> Arc<Session> {
        loop {
            let changed = self.changed.notified();
            match self.session() {
                Some(session) if !Arc::ptr_eq(&session, lost) => return session,
                _ => changed.await,
            }
        }
    }

    /// Waits until the peer is to be dialled: the policy has addresses of it, and there is no
    /// session.
    pub(super) async fn is_missing(&self, shared: &Shared) -> Arc<policy::Peer> {
        loop {
            let changed = self.changed.notified();
            if lock(&self.sessions).is_empty()
                && let Some(policy) = shared.policy().peer(self.name.as_str()).filter(|peer| !peer.dial.is_empty())
            {
                return policy.clone();
            }
            changed.await;
        }
    }

    pub(super) fn failed(&self, why: String) {
        *lock(&self.last_error) = Some(why);
    }

    /// Keeps a session until it ends; the peer's questions go to `answer`. Says whether this gate
    /// ended the session, because it was not needed.
    pub(super) async fn keep(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        messages: MultiRailMessages,
        side: Side,
        answer: fn(&Arc<Shared>, &Arc<Self>, Asking),
    ) -> bool {
        if shared.policy().peer(self.name.as_str()).is_none() {
            messages.abort();
            return true;
        }
        let Ok(_place) = self.room.try_acquire() else {
            shared.warn(&format!("{} opens more sessions than the {MAX_SESSIONS} that a peer may have", self.name));
            messages.abort();
            return false;
        };
        let limits = lock(&self.bounds).limits.clone();
        let (sender, receiver) = messages.split();
        let statistics = sender.clone();
        let ended = match Session::begin(sender, receiver, side, shared.instance, limits).await {
            Ok((session, receiver)) => {
                self.add(shared, session.clone(), statistics.clone());
                tracing::info!(peer = %self.name, "there is a session with the peer");
                let run = session.run(receiver, |asking| answer(shared, self, asking));
                let ended = tokio::select! {
                    error = run => Err(error),
                    () = self.is_let_go(&session) => Ok(()),
                };
                lock(&self.sessions).retain(|kept| !Arc::ptr_eq(&kept.session, &session));
                self.changed.notify_waiters();
                ended
            }
            Err(error) => Err(error),
        };
        statistics.abort();
        let was_let_go = ended.is_ok();
        match ended {
            Ok(()) => tracing::info!(peer = %self.name, "a session with the peer is no longer needed"),
            // The other gate has let go of one of two sessions.
            Err(SessionError::Lost(_) | SessionError::Ended) if self.session().is_some() => {}
            Err(error) => {
                let why = with_causes(&error);
                shared.warn(&format!("the session with {} ended: {why}", self.name));
                self.failed(why);
            }
        }
        shared.forget(self);
        was_let_go
    }

    /// Adds a session. New connections go through the latest, as the peer may have been started
    /// anew; if both gates have dialled at once, through the one that the gate of the smaller
    /// instance has dialled, so that both choose the same.
    fn add(&self, shared: &Shared, session: Arc<Session>, sender: MessageSender) {
        let stays = match session.side() {
            Side::Dialled => shared.instance < session.peer(),
            Side::Accepted => session.peer() < shared.instance,
        };
        let mut sessions = lock(&self.sessions);
        let first = sessions.first();
        let is_spare = first.is_some_and(|first| first.session.peer() == session.peer() && first.stays && !stays);
        sessions.insert(usize::from(is_spare), Kept { session, since: Instant::now(), sender, stays });
        drop(sessions);
        self.changed.notify_waiters();
    }

    /// Waits until a session is to end: it carries no connection, and the policy no longer names
    /// the peer, or there is a better session with the same gate.
    async fn is_let_go(&self, session: &Arc<Session>) {
        let mut ends = self.ends.subscribe();
        loop {
            let (changed, channel_ended) = (self.changed.notified(), session.channel_ended());
            let ending = *ends.borrow_and_update();
            let is_needed = ending == Ending::No && !self.has_better(session);
            if ending == Ending::Now || !is_needed && session.channels() == 0 {
                return;
            }
            tokio::select! {
                ended = ends.changed() => if ended.is_err() { return },
                () = changed => {}
                () = channel_ended => {}
            }
        }
    }

    fn has_better(&self, session: &Arc<Session>) -> bool {
        let sessions = lock(&self.sessions);
        let better = sessions.first().filter(|first| !Arc::ptr_eq(&first.session, session));
        better.is_some_and(|first| first.session.peer() == session.peer())
    }

    /// Lets go of a peer that the policy no longer names. Whether it has a session still.
    pub(super) fn let_go(&self) -> bool {
        self.ends.send_replace(Ending::WhenIdle);
        self.has_session()
    }

    /// Whether the peer is let go, and has no session left.
    pub(super) fn is_gone(&self) -> bool {
        *self.ends.borrow() != Ending::No && !self.has_session()
    }

    fn has_session(&self) -> bool {
        !lock(&self.sessions).is_empty()
    }

    /// Ends every session, and dials no more.
    pub(super) fn end(&self) {
        self.ends.send_replace(Ending::Now);
    }

    /// Waits until the peer has [ended](Self::end).
    pub(super) async fn has_ended(&self) {
        // The sender is this peer's.
        let _ = self.ends.subscribe().wait_for(|ending| *ending == Ending::Now).await;
    }

    pub(super) fn status(&self) -> PeerStatus {
        let sessions = lock(&self.sessions);
        let kept: Vec<_> =
            sessions.iter().map(|kept| (kept.session.clone(), kept.since, kept.sender.clone())).collect();
        drop(sessions);
        PeerStatus {
            name: self.name.to_string(),
            sessions: kept.len(),
            lanes: kept.iter().map(|(.., sender)| sender.lanes_up()).sum(),
            connections: kept.iter().map(|(session, ..)| session.channels()).sum(),
            since: kept.iter().map(|(_, since, _)| since.elapsed()).max(),
            last_error: lock(&self.last_error).clone(),
        }
    }
}

impl Bounds {
    fn of(limits: PeerLimits) -> Self {
        Self {
            of: limits,
            rate: Rate::new(limits.connections_per_second).expect("a policy allows one at least"),
            limits: Arc::new(Limits::new(limits.streams as usize, limits.bytes)),
        }
    }
}

/// The sessions at most with a peer: one, one that a gate which is no longer there has left, and
/// one more of each where both gates dial at once.
const MAX_SESSIONS: usize = 4;
