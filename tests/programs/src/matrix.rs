//! Every way to use a socket, through a door.

use crate::{passage::Passage, process::sibling, room::Room};
use anyhow::{Context, Result};
use rails_sockets::{Difference, Row, compare, rows};
use std::time::Duration;

/// A difference from plain TCP that a door is known to make.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// The case's name.
    pub case: &'static str,
    /// The step's call, or another subject of a [`Difference`].
    pub subject: &'static str,
    /// The reason why no gate can do better, or does not try to.
    pub reason: &'static str,
}

impl Expected {
    /// Whether this is the difference.
    pub fn covers(&self, difference: &Difference) -> bool {
        self.case == difference.case && self.subject == difference.subject
    }

    /// The differences that were not expected, and the expectations that nothing came of.
    pub fn judge(expected: &'static [Self], plain: &[Row], other: &[Row]) -> (Vec<Difference>, Vec<&'static Self>) {
        let found = compare(plain, other);
        let idle = expected.iter().filter(|one| !found.iter().any(|difference| one.covers(difference))).collect();
        let new = found.into_iter().filter(|difference| !expected.iter().any(|one| one.covers(difference))).collect();
        (new, idle)
    }
}

/// Goes through every case of `rails-sockets` with its client behind the passage, and returns the
/// rows of both ends.
///
/// The address that the client is told is the passage's own for the server, so a case that counts
/// on the port beside it, or on its name, may differ behind a forwarded port.
///
/// # Errors
///
/// The program has not been built, or an end of it dies.
pub fn matrix(room: &Room, passage: &Passage) -> Result<Vec<Row>> {
    let program = sibling("rails-sockets")?;
    let address = room.service_address();
    let mut server = room.service(passage, &program);
    server.args(["server", &address.to_string()]);
    let mut server = room.start(server)?;
    server.wait_for("listening on")?;
    let mut client = room.client(passage, &program);
    client.args(["client", &passage.destination(address).to_string(), "all"]);
    let printed = room.start(client)?.finish(PATIENCE)?.output;
    let mut all = rows(&printed).context("the client's rows")?;
    all.extend(rows(&server.output()?).context("the server's rows")?);
    Ok(all)
}

/// Far above the time of all cases, and below that of a person who waits.
const PATIENCE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;
    use rails_sockets::{End, Step};

    fn row(outcome: &str) -> Row {
        let steps = vec![Step { call: "recv".into(), outcome: outcome.into() }];
        Row { case: "urgent".into(), end: End::Server, steps, sent: None, received: None, measured: vec![] }
    }

    #[test]
    fn only_what_is_expected_may_differ_and_it_has_to() {
        const URGENT: &[Expected] = &[Expected { case: "urgent", subject: "recv", reason: "there is no such mark" }];
        let (new, idle) = Expected::judge(URGENT, &[row("ok")], &[row("EINVAL")]);
        assert!(new.is_empty() && idle.is_empty(), "{new:?} {idle:?}");
        let (new, _) = Expected::judge(&[], &[row("ok")], &[row("EINVAL")]);
        assert_eq!(new.len(), 1);
        let (_, idle) = Expected::judge(URGENT, &[row("ok")], &[row("ok")]);
        assert_eq!(idle.len(), 1);
    }
}
