//! The two machines against each other, and the receiver's against anything at all.

use super::*;
use crate::{
    message::{Digest, Held, Prefix, Settled},
    reason::Reason,
};
use proptest::{prelude::*, sample::Index};
use std::collections::VecDeque;

fn digest(byte: u8) -> Digest {
    blake3::hash(&[byte]).into()
}

fn prefix(len: u64, byte: u8) -> Option<Prefix> {
    Some(Prefix { len, digest: digest(byte) })
}

#[test]
fn kept_resumed_and_sent_anew() {
    let whole = |byte| Held { whole: Some(digest(byte)), part: None };
    assert_eq!(choose(&whole(1), 9, None, Some(digest(1))), Choice::Keep);
    assert_eq!(choose(&whole(1), 9, None, Some(digest(2))), Choice::From(0));
    assert_eq!(choose(&Held::default(), 9, None, None), Choice::From(0));

    let part = |len, byte| Held { whole: None, part: prefix(len, byte) };
    assert_eq!(choose(&part(4, 1), 9, Some(digest(1)), None), Choice::From(4));
    assert_eq!(choose(&part(9, 1), 9, Some(digest(1)), None), Choice::From(9));
    assert_eq!(choose(&part(4, 1), 9, Some(digest(2)), None), Choice::From(0));

    // An older file under the final name does not hinder resuming its successor.
    let both = Held { whole: Some(digest(3)), part: prefix(4, 1) };
    assert_eq!(choose(&both, 9, Some(digest(1)), Some(digest(5))), Choice::From(4));
}

#[test]
fn a_prefix_that_cannot_be_one_is_not_worth_a_read() {
    for (len, expected) in [(0, None), (1, Some(1)), (9, Some(9)), (10, None), (u64::MAX, None)] {
        assert_eq!(prefix_to_check(&Held { whole: None, part: prefix(len, 1) }, 9), expected);
        assert_eq!(choose(&Held { whole: None, part: prefix(len, 1) }, 9, None, None), Choice::From(0));
    }
}

#[test]
fn a_receiver_that_confirms_another_digest_is_caught() {
    let mut outbound = Outbound::default();
    let id = outbound.open(0, Kind::File);
    outbound.on_held(id).unwrap();
    outbound.start(id);
    outbound.finish(id, digest(1));
    assert!(outbound.on_settled(id, &Settled::Stored { digest: digest(2) }).is_err());
    assert_eq!(outbound.on_settled(id, &Settled::Stored { digest: digest(1) }), Ok(0));
    assert!(outbound.is_empty());
}

/// A message under way between the simulated peers.
#[derive(Debug, Clone, Copy)]
enum Down {
    Folder(u64),
    Offer(u64),
    Start(u64),
    Block,
    Finish(u64),
    Keep(u64),
    Abort(u64),
}

#[derive(Debug)]
enum Up {
    Held(u64),
    Settled(u64, Settled),
}

const SIZE: u64 = 3;

/// Both sides with the wires between them, moved on one step at a time in any order.
#[derive(Default)]
struct World {
    outbound: Outbound,
    inbound: Inbound,
    down: VecDeque<Down>,
    up: VecDeque<Up>,
    /// Files that were answered, in order, and how many blocks of the first one were sent.
    answered: VecDeque<u64>,
    sent: Option<u64>,
    opened: usize,
    settled: usize,
}

impl World {
    fn open(&mut self, is_file: bool) {
        if self.outbound.has_room() {
            let id = self.outbound.open(self.opened, if is_file { Kind::File } else { Kind::Simple });
            self.opened += 1;
            self.down.push_back(if is_file { Down::Offer(id) } else { Down::Folder(id) });
        }
    }

    /// The sender gets on with the first answered file.
    fn read_source(&mut self, choice: u8) {
        let Some(&id) = self.answered.front() else { return };
        let lost = self.outbound.is_lost(id);
        let step = match (self.sent, choice) {
            (None, 0) => {
                self.outbound.keep(id);
                Down::Keep(id)
            }
            (_, 1) => {
                self.outbound.abort(id);
                Down::Abort(id)
            }
            (None, _) => {
                self.outbound.start(id);
                self.sent = Some(0);
                return self.down.push_back(Down::Start(id));
            }
            (Some(_), _) if lost => {
                self.outbound.abort(id);
                Down::Abort(id)
            }
            (Some(sent), _) if sent < SIZE => {
                self.sent = Some(sent + 1);
                return self.down.push_back(Down::Block);
            }
            (Some(_), _) => {
                self.outbound.finish(id, digest(1));
                Down::Finish(id)
            }
        };
        self.answered.pop_front();
        self.sent = None;
        self.down.push_back(step);
    }

    /// The receiver takes one message.
    fn arrive(&mut self, fails: bool) {
        let failed = || Settled::Failed { reason: Reason::new("x") };
        let outcome = match self.down.pop_front() {
            None => return,
            Some(Down::Folder(id)) => {
                self.inbound.on_simple(id).unwrap();
                (id, if fails { failed() } else { Settled::Made })
            }
            Some(Down::Offer(id)) => {
                self.inbound.on_offer(id).unwrap();
                if !fails {
                    let held = Held { whole: Some(digest(1)), part: None };
                    self.inbound.answer(id, SIZE, &held);
                    return self.up.push_back(Up::Held(id));
                }
                (id, failed())
            }
            Some(Down::Start(id)) => {
                self.inbound.on_start(id, 0).unwrap();
                if !fails {
                    return;
                }
                self.inbound.discard();
                (id, failed())
            }
            Some(Down::Block) => match self.inbound.on_block(1).unwrap() {
                (id, Fate::Write) if fails => {
                    self.inbound.discard();
                    (id, failed())
                }
                _ => return,
            },
            Some(Down::Finish(id)) => match self.inbound.on_finish(id).unwrap() {
                Fate::Write if fails => (id, failed()),
                Fate::Write => (id, Settled::Stored { digest: digest(1) }),
                Fate::Discard => return,
            },
            Some(Down::Keep(id)) => {
                self.inbound.on_keep(id).unwrap();
                (id, if fails { failed() } else { Settled::Kept })
            }
            Some(Down::Abort(id)) => match self.inbound.on_abort(id).unwrap() {
                Fate::Write => (id, Settled::Aborted),
                Fate::Discard => return,
            },
        };
        self.up.push_back(Up::Settled(outcome.0, outcome.1));
    }

    /// The sender takes one answer.
    fn answer(&mut self) {
        match self.up.pop_front() {
            None => {}
            Some(Up::Held(id)) => {
                self.outbound.on_held(id).unwrap();
                self.answered.push_back(id);
            }
            Some(Up::Settled(id, outcome)) => {
                self.outbound.on_settled(id, &outcome).unwrap();
                self.settled += 1;
            }
        }
    }
}

proptest! {
    #[test]
    fn two_correct_peers_come_to_an_end(
        steps in proptest::collection::vec((0..4_u8, 0..8_u8), 0..2000)
    ) {
        let mut world = World::default();
        world.inbound.on_totals().unwrap();
        for (what, choice) in steps {
            match what {
                0 => world.open(choice > 1),
                1 => world.read_source(choice),
                2 => world.arrive(choice == 0),
                _ => world.answer(),
            }
            prop_assert!(world.up.len() < MAX_ANSWERS);
        }
        for _ in 0..10 * WINDOW {
            world.read_source(7);
            world.arrive(false);
            world.answer();
        }
        prop_assert!(world.outbound.is_empty());
        prop_assert_eq!(world.opened, world.settled);
        prop_assert_eq!(world.inbound.on_done(), Ok(()));
    }

    #[test]
    fn any_sender_writes_within_its_files(
        steps in proptest::collection::vec((0..9_u8, any::<Index>(), 0..6_u64), 0..200)
    ) {
        let mut inbound = Inbound::default();
        let mut written = std::collections::BTreeMap::<u64, u64>::new();
        let mut next = 0;
        let _ = inbound.on_totals();
        for (what, id, number) in steps {
            let id = id.index(usize::try_from(next).unwrap() + 2) as u64;
            match what {
                0 => next += u64::from(inbound.on_simple(id).is_ok()),
                1 => if inbound.on_offer(id).is_ok() {
                    next += 1;
                    inbound.answer(id, SIZE, &Held { whole: None, part: prefix(number.min(SIZE), 1) });
                },
                2 => if inbound.on_start(id, number).is_ok() { written.insert(id, number); },
                3 => if let Ok((id, _)) = inbound.on_block(usize::try_from(number).unwrap()) {
                    *written.get_mut(&id).unwrap() += number;
                    prop_assert!(written[&id] <= SIZE);
                },
                4 => if inbound.on_finish(id).is_ok() { prop_assert_eq!(written[&id], SIZE); },
                5 => { let _ = inbound.on_keep(id); }
                6 => { let _ = inbound.on_abort(id); }
                7 => { let _ = inbound.on_done(); }
                _ => inbound.discard(),
            }
        }
    }
}
