//! The two machines against each other, and the receiver's against anything at all.

use super::*;
use crate::{
    error::Violation,
    frame::{MAX_RUN, Terms},
    hash::BLOCK,
    message::{Compare, Digest, Held, MAX_DIGESTS, Prefix, Settled, There},
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

/// The answer of a receiver that has another file of that size.
fn there(len: u64) -> Held {
    Held { there: Some(There { len, blocks: Vec::new() }), part: None }
}

#[test]
fn a_part_is_no_longer_than_its_file() {
    for (len, is_one) in [(0, false), (1, true), (9, true), (10, false), (u64::MAX, false)] {
        let held = Held { there: None, part: prefix(len, 1) };
        assert_eq!(held.part_of(9), prefix(len, 1).filter(|_| is_one), "{len}");
    }
}

#[test]
fn a_receiver_that_confirms_another_digest_is_caught() {
    let mut outbound = Outbound::default();
    let id = outbound.open(0, Kind::File(Compare::Digests));
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

/// The control stream and further ones.
const CARRIERS: usize = 4;

/// Both sides with the wires between them, moved on one step at a time in any order.
struct World {
    outbound: Outbound,
    inbound: Inbound,
    /// The streams, each in its order.
    down: [VecDeque<Down>; CARRIERS],
    up: VecDeque<Up>,
    /// Files that were answered, in order.
    answered: VecDeque<u64>,
    /// The file on each carrier, and how many blocks of it were sent.
    under_way: [Option<(u64, u64)>; CARRIERS],
    opened: usize,
    settled: usize,
}

impl World {
    fn new() -> Self {
        let mut inbound = Inbound::new(Terms::default(), CARRIERS - 1);
        inbound.on_totals().unwrap();
        for carrier in 1..CARRIERS {
            assert_eq!(inbound.on_stream(), Ok(carrier));
        }
        Self {
            outbound: Outbound::default(),
            inbound,
            down: Default::default(),
            up: VecDeque::new(),
            answered: VecDeque::new(),
            under_way: [None; CARRIERS],
            opened: 0,
            settled: 0,
        }
    }

    fn open(&mut self, is_file: bool) {
        if self.outbound.has_room() {
            let id = self.outbound.open(self.opened, if is_file { Kind::File(Compare::Times) } else { Kind::Simple });
            self.opened += 1;
            self.down[CONTROL].push_back(if is_file { Down::Offer(id) } else { Down::Folder(id) });
        }
    }

    /// The carrier gets on with its file, or with the first answered one.
    fn read_source(&mut self, carrier: usize, choice: u8) {
        let Some((id, sent)) = self.under_way[carrier].take() else {
            let Some(id) = self.answered.pop_front() else { return };
            let (on, step) = match choice {
                0 => {
                    self.outbound.keep(id);
                    (CONTROL, Down::Keep(id))
                }
                1 => {
                    self.outbound.abort(id);
                    (CONTROL, Down::Abort(id))
                }
                _ => {
                    self.outbound.start(id);
                    self.under_way[carrier] = Some((id, 0));
                    (carrier, Down::Start(id))
                }
            };
            return self.down[on].push_back(step);
        };
        let step = if choice == 1 || self.outbound.is_lost(id) {
            self.outbound.abort(id);
            Down::Abort(id)
        } else if sent < SIZE {
            self.under_way[carrier] = Some((id, sent + 1));
            Down::Block
        } else {
            self.outbound.finish(id, digest(1));
            Down::Finish(id)
        };
        self.down[carrier].push_back(step);
    }

    /// The receiver takes one message of a stream.
    fn arrive(&mut self, carrier: usize, fails: bool) {
        let failed = || Settled::Failed { reason: Reason::new("x") };
        let outcome = match self.down[carrier].pop_front() {
            None => return,
            Some(Down::Folder(id)) => {
                self.inbound.on_simple(id).unwrap();
                (id, if fails { failed() } else { Settled::Made })
            }
            Some(Down::Offer(id)) => {
                self.inbound.on_offer(id).unwrap();
                if !fails {
                    self.inbound.answer(id, SIZE, &there(SIZE));
                    return self.up.push_back(Up::Held(id));
                }
                (id, failed())
            }
            Some(Down::Start(id)) => {
                self.inbound.on_start(carrier, id, 0).unwrap();
                if !fails {
                    return;
                }
                assert_eq!(self.inbound.discard(carrier), Some(id));
                (id, failed())
            }
            Some(Down::Block) => match self.inbound.on_block(carrier, 1).unwrap() {
                Fate::Write if fails => (self.inbound.discard(carrier).unwrap(), failed()),
                _ => return,
            },
            Some(Down::Finish(id)) => match self.inbound.on_finish(carrier, id).unwrap() {
                Fate::Write => {
                    self.inbound.settle();
                    (id, if fails { failed() } else { Settled::Stored { digest: digest(1) } })
                }
                Fate::Discard => return,
            },
            Some(Down::Keep(id)) => {
                self.inbound.on_keep(id).unwrap();
                (id, if fails { failed() } else { Settled::Kept })
            }
            Some(Down::Abort(id)) => match self.inbound.on_abort(carrier, id).unwrap() {
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
        steps in proptest::collection::vec((0..4_u8, 0..CARRIERS, 0..8_u8), 0..2000)
    ) {
        let mut world = World::new();
        for (what, carrier, choice) in steps {
            match what {
                0 => world.open(choice > 1),
                1 => world.read_source(carrier, choice),
                2 => world.arrive(carrier, choice == 0),
                _ => world.answer(),
            }
            prop_assert!(world.up.len() < MAX_ANSWERS);
            // The sender may say that it is done, whatever is under way on the other streams.
            if world.outbound.is_empty() && world.down[CONTROL].is_empty() {
                prop_assert_eq!(world.inbound.on_done(), Ok(()));
            }
        }
        for _ in 0..10 * WINDOW {
            for carrier in 0..CARRIERS {
                world.read_source(carrier, 7);
                world.arrive(carrier, false);
                world.answer();
            }
        }
        prop_assert!(world.outbound.is_empty() && world.inbound.is_idle());
        prop_assert_eq!(world.opened, world.settled);
        prop_assert_eq!(world.inbound.on_done(), Ok(()));
    }

    #[test]
    fn any_sender_writes_within_its_files(
        steps in proptest::collection::vec((0..12_u8, 0..CARRIERS, any::<Index>(), 0..6_u64), 0..200)
    ) {
        let mut inbound = Inbound::new(Terms::default(), CARRIERS - 1);
        let mut written = std::collections::BTreeMap::<u64, u64>::new();
        let mut on = [None; CARRIERS];
        let mut next = 0;
        let _ = inbound.on_totals();
        for (what, carrier, id, number) in steps {
            let id = id.index(usize::try_from(next).unwrap() + 2) as u64;
            match what {
                0 => next += u64::from(inbound.on_simple(id).is_ok()),
                1 => if inbound.on_offer(id).is_ok() {
                    next += 1;
                    inbound.answer(id, SIZE, &Held { part: prefix(number.min(SIZE), 1), ..there(number) });
                },
                2 => if inbound.on_start(carrier, id, number).is_ok() {
                    prop_assert_eq!(written.insert(id, number), None, "a file starts once");
                    on[carrier] = Some(id);
                },
                3 => if inbound.on_block(carrier, usize::try_from(number).unwrap()).is_ok() {
                    let written = written.get_mut(&on[carrier].unwrap()).unwrap();
                    *written += number;
                    prop_assert!(*written <= SIZE);
                },
                4 => if inbound.on_finish(carrier, id).is_ok() {
                    prop_assert_eq!((on[carrier], written[&id]), (Some(id), SIZE));
                },
                5 => { let _ = inbound.on_keep(id); }
                6 => { let _ = inbound.on_abort(carrier, id); }
                7 => { let _ = inbound.on_done(); }
                8 => { let _ = inbound.on_stream_end(carrier); }
                9 => if inbound.on_same(carrier, id, number).is_ok() {
                    let written = written.get_mut(&id).unwrap();
                    *written += number;
                    prop_assert!(*written <= SIZE);
                },
                10 => { let _ = inbound.on_ask(id, number); }
                _ => drop(inbound.discard(carrier)),
            }
        }
    }
}

/// An inbound side on which file 0 is under way on carrier 1, and file 1 is offered.
fn with_a_started_file() -> Inbound {
    let mut inbound = Inbound::new(Terms::default(), 2);
    inbound.on_totals().unwrap();
    for id in 0..2 {
        inbound.on_offer(id).unwrap();
        inbound.answer(id, SIZE, &Held::default());
    }
    assert_eq!((inbound.on_stream(), inbound.on_stream()), (Ok(1), Ok(2)));
    inbound.on_start(1, 0, 0).unwrap();
    inbound
}

#[test]
fn messages_on_the_wrong_stream_are_violations() {
    let begun = with_a_started_file;
    assert_eq!(begun().on_stream(), Err(Violation::Streams { max: 2 }));
    assert_eq!(begun().on_stream_end(1), Err(Violation::StreamEnd { id: 0 }));
    assert_eq!(begun().on_stream_end(2), Ok(()));
    for start in [begun().on_start(1, 1, 0), begun().on_start(2, 0, 0), begun().on_start(2, 7, 0)] {
        assert!(matches!(start, Err(Violation::Unexpected(_) | Violation::Entry { .. })), "{start:?}");
    }
    assert_eq!(begun().on_block(2, 1), Err(Violation::Unexpected("a data block")));
    assert_eq!(begun().on_finish(2, 0), Err(Violation::Entry { what: "an end", id: 0 }));
    for carrier in [CONTROL, 2] {
        assert_eq!(begun().on_abort(carrier, 0), Err(Violation::Entry { what: "an abort", id: 0 }));
    }
    // A file that was not started is aborted on the control stream.
    assert_eq!(begun().on_abort(2, 1), Err(Violation::Entry { what: "an abort", id: 1 }));
    assert_eq!(begun().on_abort(CONTROL, 1), Ok(Fate::Write));
}

#[test]
fn a_file_that_failed_here_fills_no_window() {
    let mut inbound = with_a_started_file();
    for id in 2..WINDOW as u64 {
        inbound.on_offer(id).unwrap();
        inbound.answer(id, SIZE, &Held::default());
    }
    let next = WINDOW as u64;
    assert_eq!(inbound.discard(1), Some(0));
    inbound.on_offer(next).unwrap();
    inbound.answer(next, SIZE, &Held::default());
    assert_eq!(inbound.on_offer(next + 1), Err(Violation::Window));
    assert!(inbound.on_done().is_err(), "others are open");
}

#[test]
fn a_complete_file_is_open_until_it_is_settled() {
    let mut inbound = with_a_started_file();
    inbound.on_block(1, SIZE as usize).unwrap();
    assert_eq!(inbound.on_finish(1, 0), Ok(Fate::Write));
    for id in 2..WINDOW as u64 {
        inbound.on_offer(id).unwrap();
        inbound.answer(id, SIZE, &Held::default());
    }
    assert_eq!(inbound.on_abort(CONTROL, 2), Ok(Fate::Write));
    inbound.settle();
    for id in [WINDOW as u64, WINDOW as u64 + 1] {
        inbound.on_offer(id).unwrap();
        inbound.answer(id, SIZE, &Held::default());
    }
    assert_eq!(inbound.on_offer(WINDOW as u64 + 2), Err(Violation::Window));

    let mut inbound = with_a_started_file();
    assert_eq!(inbound.on_abort(CONTROL, 1), Ok(Fate::Write));
    inbound.on_block(1, SIZE as usize).unwrap();
    assert_eq!(inbound.on_finish(1, 0), Ok(Fate::Write));
    assert!(inbound.on_done().is_err());
    inbound.settle();
    assert_eq!(inbound.on_done(), Ok(()));
}

#[test]
fn digests_are_asked_for_once_and_in_order() {
    let question = |id| Violation::Entry { what: "a question", id };
    let run = |id| Violation::Entry { what: "a run", id };
    let mut inbound = with_a_started_file();
    assert_eq!(inbound.on_ask(0, 0), Err(question(0)), "there is no other file");
    assert_eq!(inbound.on_same(1, 0, 1), Err(run(0)));

    inbound.on_offer(2).unwrap();
    inbound.answer(2, SIZE, &there(1000 << 30));
    let window = MAX_DIGESTS as u64;
    assert_eq!(inbound.on_ask(2, 7), Ok(()));
    inbound.on_start(2, 2, 0).unwrap();
    for (block, expected) in [(7, Err(question(2))), (6 + window, Err(question(2))), (7 + window, Ok(()))] {
        assert_eq!(inbound.on_ask(2, block), expected, "{block}");
    }
    assert_eq!(inbound.on_ask(2, u64::MAX), Ok(()));
    assert_eq!(inbound.on_ask(2, u64::MAX - 1), Err(question(2)));

    assert_eq!(inbound.on_same(1, 2, 1), Err(run(2)), "it is on another stream");
    for len in [0, MAX_RUN + 1] {
        assert_eq!(inbound.on_same(2, 2, len), Err(run(2)));
    }
    assert_eq!(inbound.on_same(2, 2, BLOCK as u64), Err(Violation::Length { id: 2, size: SIZE }));
    assert_eq!(inbound.discard(2), Some(2));
    assert_eq!(inbound.on_ask(2, u64::MAX), Ok(()), "the sender still awaits an answer");
    assert_eq!(inbound.on_block(2, SIZE as usize), Ok(Fate::Discard));
    assert_eq!(inbound.on_finish(2, 2), Ok(Fate::Discard));
    assert_eq!(inbound.on_ask(2, u64::MAX), Err(question(2)));
}

/// The bytes of a run, of which a sender learns the digest, are too many to guess.
#[test]
fn runs_are_of_whole_blocks() {
    let (block, len) = (BLOCK as u64, 3 * BLOCK as u64 + 5);
    for (before, run, is_whole) in [
        (0, block, true),
        (0, 2 * block, true),
        (block, 2 * block + 5, true),
        (3 * block, 5, true),
        (0, 1, false),
        (0, block + 1, false),
        (1, block - 1, false),
        (2 * block, block + 4, false),
        (3 * block, block, false),
        (4 * block, block, false),
    ] {
        let mut inbound = with_a_started_file();
        inbound.on_offer(2).unwrap();
        inbound.answer(2, 9 * block, &there(len));
        inbound.on_start(2, 2, 0).unwrap();
        inbound.on_block(2, before as usize).unwrap();
        let expected = if is_whole { Ok(Fate::Write) } else { Err(Violation::Entry { what: "a run", id: 2 }) };
        assert_eq!(inbound.on_same(2, 2, run), expected, "{run} behind {before}");
    }
}

#[test]
fn a_file_of_another_size_is_not_kept() {
    for (len, kept) in [(SIZE, Ok(())), (SIZE + 1, Err(Violation::Entry { what: "a keep", id: 2 }))] {
        let mut inbound = with_a_started_file();
        inbound.on_offer(2).unwrap();
        inbound.answer(2, SIZE, &there(len));
        assert_eq!(inbound.on_keep(2), kept);
    }
}
