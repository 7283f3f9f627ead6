//! The task of one lane.

use super::{
    active_lane::{ActiveLane, LaneSettings},
    alarm::{poll_alarm, put_off},
    drive::{Access, arrival_waker},
    shared::{StreamShared, StreamState},
    yield_budget::YieldBudget,
};
use crate::{RailId, StreamOptions, error::LaneError};
use rails_net::Lane;
use rails_proto::{
    parameters::ACK_TIMER,
    redial::{Ended, Loss},
    seal::Seals,
    session::{LaneTraits, LaneUpError},
};
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, task::yield_now, time::sleep};

/// Drives one lane that has joined.
pub(crate) struct LaneDriver {
    pub(crate) shared: Arc<StreamShared>,
    pub(crate) lane: Arc<ActiveLane>,
    /// The keys that seal and open the lane's frames, if the stream is encrypted. `None` once the
    /// lane has started.
    start: Option<Option<Seals>>,
    /// The lane's end. If the lane is dropped before it ends, its rail has stopped.
    end: Result<(), LaneError>,
}

impl LaneDriver {
    /// Adds a lane whose handshake is done to its stream; `None` if the stream is over. Runs on the
    /// runtime that is to drive the lane.
    pub(super) async fn up(
        shared: Arc<StreamShared>,
        index: u16,
        rail: RailId,
        lane: Arc<dyn Lane>,
        seals: Option<Seals>,
        options: &StreamOptions,
    ) -> Option<Self> {
        // The first round trips of a connection may include the resolution of the peer's hardware address,
        // so the least one is the path's.
        let rtt = lane.stats().ok().and_then(|stats| stats.min_rtt.or(stats.rtt));
        let traits = LaneTraits { number: index, weight: options.weight(rail), rtt };
        let home = shared.rail_of(Handle::current().id()).unwrap_or(&shared.rails()[rail]);
        let (home_rail, home) = (home.id(), home.runtime().handle().id());
        let (interleaved, application) = (options.interleaved_messages, options.application_runtime);
        let settings = LaneSettings { home, home_rail, interleaved, application };
        let mut lanes_up = shared.lanes_up.subscribe();
        let lane = loop {
            lanes_up.borrow_and_update();
            match shared.lane_up(rail, &lane, traits, settings) {
                Ok(active) => break active,
                Err(LaneUpError::StreamOver) => return None,
                // There is room as soon as the previous connection of the lane has ended.
                Err(LaneUpError::TooManyLanes) => lanes_up.changed().await.ok()?,
            }
        };
        Some(Self { shared, lane, start: Some(seals), end: Err(LaneError::RailStopped) })
    }

    /// Drives the lane to its end, and gives that end in the dialer's terms. Runs on the lane's
    /// rail.
    pub(crate) async fn run(mut self) -> Loss {
        let begun = Instant::now();
        self.start();
        self.end = self.drive().await;
        let (is_leaving, is_black_hole) = self.shared.with(|StreamState { session, .. }| {
            (session.is_leaving(self.lane.id), session.is_black_hole(self.lane.id))
        });
        Loss { ended: Ended::of(&self.end, is_leaving), lived: begun.elapsed(), is_black_hole }
    }

    /// Sends the frames that there are, as far as the connection takes them at once. Receives
    /// nothing. Runs on the lane's rail.
    pub(super) fn send_ahead(&mut self) {
        self.start();
        let Some(mut driving) = self.lane.drive() else { return };
        let (driven, waker) = (driving.driven(), self.lane.task_waker());
        driven.protocol.wake();
        Access::on_rail(&self.shared, &self.lane).transmit(&mut Context::from_waker(&waker), driven);
    }

    /// Resets a stream that no application has at this end, as far as the connection takes the
    /// frame at once.
    pub(super) fn reset(mut self) {
        self.shared.with(|state| state.session.abort(Instant::now()));
        self.send_ahead();
        self.end = Ok(());
    }

    fn start(&mut self) {
        if let Some(seals) = self.start.take() {
            self.lane.start(arrival_waker(&self.shared, &self.lane), seals);
        }
    }

    /// Moves bytes between the connection and the lane's protocol until the protocol ends.
    async fn drive(&self) -> Result<(), LaneError> {
        let Self { shared, lane, .. } = self;
        let mut budget = YieldBudget::new();
        let mut alarm = pin!(sleep(Duration::ZERO));
        let mut woken = pin!(lane.woken());
        let (mut watch, mut is_woken) = (None, false);
        loop {
            let step = poll_fn(|context| {
                // From here on every wake polls this task again, so it comes before the reason to wake is looked
                // at.
                while woken.as_mut().poll(context).is_ready() {
                    woken.set(lane.woken());
                    is_woken = true;
                }
                let Some(mut driving) = lane.drive() else { return Poll::Pending };
                let mut access = Access::on_rail(shared, lane);
                loop {
                    let driven = driving.driven();
                    let has_ended = self.watch_reader(&mut watch);
                    // The lane receives first: a received acknowledgement may open the window for the next chunk.
                    let received = access.receive(driven, &mut budget);
                    // Arrivals may have woken this lane itself.
                    if std::mem::take(&mut is_woken) | lane.takes_word_to_send() {
                        driven.protocol.wake();
                    }
                    access.transmit(context, driven);
                    if has_ended {
                        driven.protocol.rest(&mut access);
                    }
                    let at = driven.protocol.poll_timeout(&mut access);
                    if let Some(end) = driven.protocol.end() {
                        let end = end.clone();
                        driving.end();
                        return Poll::Ready(TaskPoll::End(end));
                    }
                    let of_watch = watch.as_ref().map(|watch| watch.until);
                    let at = [at, of_watch, driven.home_again].into_iter().flatten().min();
                    if has_ended && at.is_none() {
                        put_off(alarm.as_mut());
                    }
                    if poll_alarm(context, alarm.as_mut(), at).is_pending() {
                        // A timer that was never polled has no deadline to come.
                        let now = Instant::now();
                        driven.alarm = Some(alarm.deadline().into_std()).filter(|at| *at > now);
                        return received.map(|()| TaskPoll::Yield);
                    }
                    driven.protocol.handle_timeout(Instant::now(), &mut access, || lane.sample());
                }
            });
            match step.await {
                TaskPoll::End(end) => return end,
                TaskPoll::Yield => yield_now().await,
            }
        }
    }

    /// Begins and ends the periods of the watch over the reader. Returns whether the last one has
    /// ended.
    fn watch_reader(&self, watch: &mut Option<Watch>) -> bool {
        let now = Instant::now();
        match watch {
            None if self.lane.is_watched() => {
                *watch = Some(Watch { from: now + ACK_TIMER, until: now + 2 * ACK_TIMER })
            }
            Some(Watch { from, .. }) if *from <= now => {
                let next = Watch { from: now + ACK_TIMER, until: now + ACK_TIMER };
                // The turn of a task that has let its writes wait may not have ended.
                self.lane.wake_to_send();
                *watch = self.lane.end_period().then_some(next);
                return watch.is_none();
            }
            _ => {}
        }
        false
    }
}

/// A period of the watch over the reader, at whose end the task checks that the reader has come for
/// its arrivals, and sends the writes that [wait](super::burst) for the end of a turn. The first
/// period lasts long enough for the peer's acknowledgement of an answer. In a conversation, each
/// later period ends when an acknowledgement would be due, so that no arrival has to wake the task
/// for its alarm.
struct Watch {
    /// The task checks from this time on, if something else wakes it.
    from: Instant,
    /// The task checks at this time at the latest.
    until: Instant,
}

/// Tells the stream that the lane has ended, in every case.
impl Drop for LaneDriver {
    fn drop(&mut self) {
        self.lane.stop();
        self.shared.lane_down(&self.lane, std::mem::replace(&mut self.end, Ok(())));
    }
}

/// The result of a poll of the lane's task.
enum TaskPoll {
    /// The lane has ended.
    End(Result<(), LaneError>),
    /// The other tasks of the thread come first.
    Yield,
}
