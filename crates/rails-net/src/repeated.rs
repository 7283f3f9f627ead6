//! A rate limit for warnings that every connection would repeat.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Decides which of many equal warnings to log: the first of each cause, and then one a minute at
/// most.
///
/// A `Repeated` remembers 64 causes. A further cause replaces the one that was logged longest ago.
#[derive(Debug, Default)]
pub struct Repeated(Mutex<BTreeMap<String, LastLogged>>);

#[derive(Debug)]
struct LastLogged {
    at: Instant,
    left_out: u64,
}

impl Repeated {
    /// A rate limit without logged warnings.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// If a warning of that cause should be logged at `now`: the number of those left out since the
    /// last one. `None` if it should not.
    pub fn due(&self, now: Instant, cause: &str) -> Option<u64> {
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = causes.get_mut(cause) {
            if now < told.at + INTERVAL {
                told.left_out += 1;
                return None;
            }
            told.at = now;
            return Some(std::mem::take(&mut told.left_out));
        }
        if causes.len() == MAX_CAUSES {
            let oldest = causes.iter().min_by_key(|(_, told)| told.at).map(|(cause, _)| cause.clone());
            causes.remove(&oldest.expect("there are causes"));
        }
        causes.insert(cause.to_owned(), LastLogged { at: now, left_out: 0 });
        Some(0)
    }
}

/// The time between two warnings of one cause.
const INTERVAL: Duration = Duration::from_secs(60);
/// The bound on remembered causes: a peer may choose a part of the text.
const MAX_CAUSES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_a_minute_for_each_cause() {
        let (repeated, start) = (Repeated::new(), Instant::now());
        assert_eq!(repeated.due(start, "refused"), Some(0));
        assert_eq!(repeated.due(start, "reset"), Some(0), "another cause");
        for _ in 0..1000 {
            assert_eq!(repeated.due(start + INTERVAL / 2, "refused"), None);
        }
        assert_eq!(repeated.due(start + INTERVAL, "refused"), Some(1000));
        assert_eq!(repeated.due(start + INTERVAL, "refused"), None);
    }

    #[test]
    fn causes_that_are_remembered_are_bounded() {
        let (repeated, start) = (Repeated::new(), Instant::now());
        for number in 0..1000 {
            assert_eq!(repeated.due(start + Duration::from_millis(number), &number.to_string()), Some(0));
        }
        assert_eq!(repeated.0.lock().unwrap().len(), MAX_CAUSES);
        assert_eq!(repeated.due(start + Duration::from_secs(1), "999"), None, "the latest stay");
    }
}
