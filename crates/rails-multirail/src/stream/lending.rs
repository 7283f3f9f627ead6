//! Chunks that other cores of the rail seal, check and submit.

use rails_net::Lane;
use rails_proto::lane::{LaneProtocol, Outgoing};
use rails_task::{Helpers, Job, Taken};
use std::{
    io,
    ops::DerefMut,
    sync::Arc,
    task::{Poll, Waker},
    time::Instant,
};

/// The chunks of a lane that helpers of its rail prepare and send.
///
/// The lane offers a chunk if its rail is busy. Its task takes the chunk back at the next turn,
/// after the other tasks of the rail: if no helper has begun with it, the task sends it. So a rail
/// without other work loses an offer, and offers less and less often.
#[derive(Debug)]
pub(super) struct Lending {
    helpers: Helpers,
    job: Job<Lent>,
    lane: Arc<dyn Lane>,
    is_lent: bool,
    /// The chunks before the next offer.
    pause: u32,
    /// The chunks that are sent between two offers.
    pauses: u32,
}

/// The outgoing bytes of a lane.
#[derive(Debug)]
struct Lent {
    outgoing: Outgoing,
    lane: Arc<dyn Lane>,
    error: Option<io::Error>,
}

/// A chunk that was lent, when it is back.
#[derive(Debug, Clone, Copy)]
pub(super) struct TakenBack {
    /// Whether a helper has sealed or checked the chunk.
    pub(super) is_helped: bool,
    /// The chunk's length, if all of it was submitted. If not, the task submits the rest.
    pub(super) sent: Option<u32>,
}

impl Lending {
    /// Has the helpers wake the lane's task when they are done with a chunk.
    pub(super) fn new(helpers: Helpers, lane: Arc<dyn Lane>, task: Waker) -> Self {
        let job = helpers.job_with_callback(Lent::send, move || task.wake_by_ref());
        Self { helpers, job, lane, is_lent: false, pause: 0, pauses: 0 }
    }

    /// Whether a chunk is lent.
    pub(super) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Offers the chunk that leaves next, if that may help. Returns whether it is lent: the task is
    /// to have another turn.
    pub(super) fn lend<B: DerefMut<Target = [u8]>>(&mut self, now: Instant, protocol: &mut LaneProtocol<B>) -> bool {
        if protocol.unprepared_chunk() < MIN_LENT || !self.helpers.are_wanted(now) {
            return false;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let offered = self.job.offer(Lent { outgoing: protocol.lend(), lane: self.lane.clone(), error: None });
        self.is_lent = offered.is_ok();
        if let Err(refused) = offered {
            protocol.give_back(refused.outgoing);
        }
        self.is_lent
    }

    /// Takes a lent chunk back, if one is lent. Pending if a helper is at it, which will wake the
    /// task.
    pub(super) fn take_back<B: DerefMut<Target = [u8]>>(
        &mut self,
        protocol: &mut LaneProtocol<B>,
    ) -> Poll<io::Result<Option<TakenBack>>> {
        if !self.is_lent {
            return Poll::Ready(Ok(None));
        }
        let (lent, is_helped) = match self.job.take() {
            Taken::Running => return Poll::Pending,
            Taken::Done(lent) => (lent, true),
            Taken::Untouched(lent) => (lent, false),
            Taken::Nothing => return Poll::Ready(Err(io::Error::other("a helper that was to send has panicked"))),
        };
        self.is_lent = false;
        self.pauses = if is_helped { 0 } else { (2 * self.pauses).clamp(1, MAX_PAUSES) };
        self.pause = self.pauses;
        let sent = protocol.give_back(lent.outgoing);
        Poll::Ready(lent.error.map_or(Ok(Some(TakenBack { is_helped, sent })), Err))
    }
}

impl Lent {
    /// Prepares the bytes, and sends as many as the connection takes, if the lane's thread need not
    /// wait for that.
    fn send(&mut self) {
        if !self.lane.submits_beside_receiving() {
            self.outgoing.bytes();
            return;
        }
        while !self.outgoing.is_submitted() {
            let (control, payload) = self.outgoing.bytes();
            match self.lane.try_submit(control, payload) {
                Ok(bytes) => self.outgoing.submitted(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The task waits for room.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
        }
    }
}

/// A chunk that takes longer to send than a helper to wake.
const MIN_LENT: u32 = 64 << 10;
/// The most chunks between two offers.
const MAX_PAUSES: u32 = 64;
