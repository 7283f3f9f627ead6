//! A batch that goes on after its peer was away: which failures are worth another try, when it is
//! made, and the work of all tries together.

mod outlook;
mod tally;

use crate::{exit::Help, print};
use anyhow::Result;
use outlook::Outlook;
use std::time::{Duration, Instant};
pub(crate) use tally::Tally;

/// The tries of a batch.
#[derive(Debug)]
pub(crate) struct Retry {
    patience: Patience,
    /// Whether a peer was there that knows this end's secret.
    is_reached: bool,
    /// Whether the user knows that the peer is gone.
    is_told: bool,
}

impl Retry {
    /// Tries for up to `limit` without progress. With none, there is one try.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { patience: Patience::new(limit), is_reached: false, is_told: false }
    }

    /// The peer takes the batch.
    pub(crate) fn begun(&mut self) {
        if self.is_told {
            print::note("the receiver is there again: the batch goes on");
        }
        (self.is_reached, self.is_told) = (true, false);
    }

    /// A try has failed; `progressed`: bytes moved in it, or an entry was settled. Gives the pause
    /// before the next one, and tells the user why there is one.
    ///
    /// # Errors
    /// The failure, if no further try is made.
    pub(crate) fn failed(&mut self, now: Instant, error: anyhow::Error, progressed: bool) -> Result<Duration> {
        match outlook::of(&error) {
            Outlook::Final => return Err(error),
            Outlook::Absent if !self.is_reached => return Err(error),
            Outlook::Absent => {}
            Outlook::Cut => self.is_reached = true,
        }
        let limit = self.patience.limit;
        if limit.is_zero() {
            return Err(error);
        }
        let Some(pause) = self.patience.pause(now, progressed) else {
            let error = error.context(format!("the receiver was away for {} s (--retry)", limit.as_secs_f64()));
            return Err(error.help(
                "see that `rails-bench recv` runs there; the same command then goes on from where this one was, and a \
                 longer --retry waits longer",
            ));
        };
        if !self.is_told {
            print::note(format_args!(
                "the receiver is gone ({error:#}): trying again for up to {} s",
                limit.as_secs_f64()
            ));
            self.is_told = true;
        }
        Ok(pause)
    }
}

/// The time for further tries, which begins anew with progress, and the growing pauses between
/// them.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    /// When the first try failed after which there was no progress.
    since: Option<Instant>,
    next_pause: Duration,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, since: None, next_pause: FIRST_PAUSE }
    }

    /// The pause after a try that failed `now`; `None` if the time is up. The last try is made at
    /// the end of the time.
    fn pause(&mut self, now: Instant, progressed: bool) -> Option<Duration> {
        if progressed {
            *self = Self::new(self.limit);
        }
        let since = *self.since.get_or_insert(now);
        let left = self.limit.saturating_sub(now.saturating_duration_since(since));
        let pause = self.next_pause.min(left);
        self.next_pause = (2 * self.next_pause).min(MAX_PAUSE);
        (!pause.is_zero()).then_some(pause)
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::ConversationError;
    use std::io;

    /// The pauses after tries that fail at once, in milliseconds.
    fn pauses(patience: &mut Patience, mut now: Instant) -> Vec<u128> {
        std::iter::from_fn(|| {
            let pause = patience.pause(now, false)?;
            now += pause;
            Some(pause.as_millis())
        })
        .collect()
    }

    #[test]
    fn pauses_that_grow_up_to_the_end_of_the_time() {
        let now = Instant::now();
        let of = |seconds| pauses(&mut Patience::new(Duration::from_secs(seconds)), now);
        assert_eq!(of(20), [500, 1000, 2000, 4000, 5000, 5000, 2500]);
        assert_eq!(of(2), [500, 1000, 500]);
        assert_eq!(of(0), []);
    }

    #[test]
    fn progress_begins_the_time_anew() {
        let mut now = Instant::now();
        let mut patience = Patience::new(Duration::from_secs(2));
        // However long the try before was.
        now += Duration::from_secs(900);
        assert_eq!(pauses(&mut patience, now), [500, 1000, 500]);
        now += Duration::from_secs(2);
        assert_eq!(patience.pause(now, false), None);
        assert_eq!(patience.pause(now, true), Some(FIRST_PAUSE));
        assert_eq!(patience.pause(now + Duration::from_secs(3), false), None, "a batch that begins is no progress");
    }

    fn cut() -> anyhow::Error {
        ConversationError::Cut(io::ErrorKind::UnexpectedEof.into()).into()
    }

    fn silent() -> anyhow::Error {
        ConversationError::Silent(10).into()
    }

    #[test]
    fn peers_that_were_never_there_are_not_awaited() {
        let now = Instant::now();
        let mut retry = Retry::new(Duration::from_secs(2));
        assert!(retry.failed(now, silent(), false).is_err());
        assert!(retry.failed(now, cut(), false).is_ok());
        assert!(retry.failed(now, silent(), false).is_ok());
        assert!(retry.failed(now, anyhow::anyhow!("the disk is full"), false).is_err());
        let mut retry = Retry::new(Duration::from_secs(2));
        retry.begun();
        assert!(retry.failed(now, silent(), false).is_ok());
    }

    #[test]
    fn last_cause_and_remedy_at_the_end_of_the_time() {
        let now = Instant::now();
        let mut retry = Retry::new(Duration::from_secs(2));
        retry.failed(now, cut(), true).unwrap();
        let over = retry.failed(now + Duration::from_secs(2), silent(), false).unwrap_err();
        assert_eq!(format!("{over:#}"), "the receiver was away for 2 s (--retry): the peer has said nothing for 10 s");
        let mut never = Retry::new(Duration::ZERO);
        assert_eq!(format!("{:#}", never.failed(now, silent(), false).unwrap_err()), format!("{:#}", silent()));
        assert_eq!(format!("{:#}", never.failed(now, cut(), true).unwrap_err()), format!("{:#}", cut()));
    }
}
