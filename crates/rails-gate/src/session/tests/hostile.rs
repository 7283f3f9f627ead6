//! A peer that knows the secret, and sends frames that no gate sends.

use super::{Limits, Running, Side, messages};
use crate::{
    session::{
        SessionError,
        flow::{Violation, Windows},
    },
    wire::{ChannelNumber, Frame, Instance, Refusal, VERSION, WireError},
};
use bytes::Bytes;
use rails_multirail::{MultiRailMessages, Priority};
use std::{net::SocketAddr, time::Duration};
use tokio::time::timeout;

const HELLO: Frame = Frame::Hello { version: VERSION, instance: Instance([2; 16]) };
const PATIENCE: Duration = Duration::from_secs(60);

/// A peer that dialled a session, and writes its frames by hand.
pub(super) struct Hostile {
    messages: MultiRailMessages,
    /// Frames of a message that was heard.
    heard: Bytes,
}

impl Hostile {
    async fn say(&mut self, frame: Frame) {
        self.messages.send(frame.encode(), Priority::NORMAL).await.unwrap();
    }

    pub(super) async fn data(&mut self, channel: u64, bytes: usize) {
        let mut message = Frame::Data { channel: ChannelNumber(channel), length: bytes as u32 }.encode().to_vec();
        message.resize(message.len() + bytes, 7);
        self.messages.send(message.into(), Priority::NORMAL).await.unwrap();
    }

    pub(super) async fn open(&mut self, channel: u64) {
        self.say(open(channel)).await;
    }

    /// The next frame of the gate.
    pub(super) async fn hear(&mut self) -> Frame {
        if self.heard.is_empty() {
            let message = timeout(PATIENCE, self.messages.recv()).await.expect("the gate speaks").unwrap().unwrap();
            self.heard = message.payload;
        }
        Frame::take(&mut self.heard).unwrap().0
    }
}

fn open(channel: u64) -> Frame {
    let destination = SocketAddr::from(([127, 0, 0, 1], 80));
    Frame::Open { channel: ChannelNumber(channel), destination, source: None, limit: Windows::FIRST }
}

/// A session that accepted a hostile peer.
pub(super) async fn session(limits: Limits) -> (Running, Hostile) {
    let (dialled, accepted) = messages().await;
    let mut hostile = Hostile { messages: dialled, heard: Bytes::new() };
    hostile.say(HELLO).await;
    let running = Running::begin(accepted, Side::Accepted, 1, limits).await.unwrap();
    assert!(matches!(hostile.hear().await, Frame::Hello { version: VERSION, .. }));
    (running, hostile)
}

async fn ended(running: Running) -> SessionError {
    let error = timeout(PATIENCE, running.ended).await.expect("the session ends").unwrap();
    drop(running.asked);
    assert_eq!(running.limits.taken(), (0, 0), "all room was given back");
    error
}

#[tokio::test]
async fn a_greeting_has_to_be_right() {
    let begin = async |first: Bytes| {
        let (mut dialled, accepted) = messages().await;
        dialled.send(first, Priority::NORMAL).await.unwrap();
        let begun = Running::begin(accepted, Side::Accepted, 1, Limits::new(4, 1 << 20)).await;
        begun.err().expect("the greeting is wrong")
    };
    assert!(matches!(begin(open(0).encode()).await, SessionError::Violation(Violation::Greeting)));
    assert!(matches!(begin(Bytes::from_static(&[99])).await, SessionError::Wire(WireError::NoFrame { length: 1 })));
    assert!(matches!(begin(Bytes::new()).await, SessionError::Wire(WireError::NoFrame { length: 0 })));
    let later = Frame::Hello { version: VERSION + 1, instance: Instance([2; 16]) };
    assert!(matches!(begin(later.encode()).await, SessionError::Version { theirs } if theirs == VERSION + 1));
    let itself = Frame::Hello { version: VERSION, instance: Instance([1; 16]) };
    assert!(matches!(begin(itself.encode()).await, SessionError::Itself));
}

#[tokio::test]
async fn each_violation_is_named_and_ends_the_session() {
    let channel = ChannelNumber;
    let cases: Vec<(&str, Vec<Frame>, Violation)> = vec![
        ("a second greeting", vec![HELLO], Violation::Greeting),
        ("a number of the other end", vec![open(1)], Violation::Number),
        ("the last number", vec![open(u64::MAX)], Violation::Number),
        ("a number that was used", vec![open(4), open(4)], Violation::Number),
        ("a number below the last", vec![open(4), open(2)], Violation::Number),
        ("an end before all", vec![Frame::Finish { channel: channel(0) }], Violation::NeverOpened),
        ("credit before all", vec![Frame::Credit { channel: channel(8), limit: 1 }], Violation::NeverOpened),
        ("a blocked channel that is none", vec![Frame::Blocked { channel: channel(u64::MAX) }], Violation::NeverOpened),
        ("an end before the answer", vec![open(0), Frame::Finish { channel: channel(0) }], Violation::BeforeOpen),
        (
            "an answer to the own question",
            vec![open(0), Frame::Opened { channel: channel(0), limit: 1 }],
            Violation::Answer,
        ),
        ("an answer to none", vec![Frame::Opened { channel: channel(1), limit: 1 }], Violation::NeverOpened),
        (
            "a refusal of none",
            vec![Frame::Refused { channel: channel(1), refusal: Refusal::TooMany }],
            Violation::NeverOpened,
        ),
    ];
    for (name, frames, violation) in cases {
        let (running, mut hostile) = session(Limits::new(4, 1 << 20)).await;
        for frame in frames {
            hostile.say(frame).await;
        }
        let error = ended(running).await;
        assert!(matches!(error, SessionError::Violation(found) if found == violation), "{name}: {error}");
    }
}

#[tokio::test]
async fn bytes_only_go_where_they_may() {
    let limits = || Limits::new(4, 1 << 20);
    // Before any channel, and before the answer.
    let (running, mut hostile) = session(limits()).await;
    hostile.data(0, 1).await;
    assert!(matches!(ended(running).await, SessionError::Violation(Violation::NeverOpened)));
    let (running, mut hostile) = session(limits()).await;
    hostile.open(0).await;
    hostile.data(0, 1).await;
    assert!(matches!(ended(running).await, SessionError::Violation(Violation::BeforeOpen)));
    // Behind the end, and beyond the limit, which holds though nothing reads.
    for (bytes, finish, violation) in
        [(1, true, Violation::BehindTheEnd), (Windows::FIRST as usize + 1, false, Violation::BeyondLimit)]
    {
        let (mut running, mut hostile) = session(limits()).await;
        hostile.open(0).await;
        let channel = running.asked.recv().await.unwrap().accept().unwrap();
        assert!(matches!(hostile.hear().await, Frame::Opened { .. }));
        if finish {
            hostile.say(Frame::Finish { channel: ChannelNumber(0) }).await;
        }
        hostile.data(0, bytes).await;
        let error = timeout(PATIENCE, &mut running.ended).await.unwrap().unwrap();
        assert!(matches!(error, SessionError::Violation(found) if found == violation), "{error}");
        assert!(channel.receive().await.is_err(), "the channel is reset");
        drop(channel);
        drop(running.asked);
        assert_eq!(running.limits.taken(), (0, 0));
    }
    let (running, mut hostile) = session(limits()).await;
    hostile
        .messages
        .send(Frame::Data { channel: ChannelNumber(0), length: 0 }.encode(), Priority::NORMAL)
        .await
        .unwrap();
    assert!(matches!(ended(running).await, SessionError::Wire(WireError::Data { length: 0, there: 0 })));
}

#[tokio::test]
async fn credit_that_shrinks_or_has_no_end_hurts_nobody() {
    let (mut running, mut hostile) = session(Limits::new(4, 1 << 20)).await;
    hostile.open(0).await;
    let channel = running.asked.recv().await.unwrap().accept().unwrap();
    assert!(matches!(hostile.hear().await, Frame::Opened { .. }));
    for limit in [0, u64::MAX, 5, u64::MAX] {
        hostile.say(Frame::Credit { channel: ChannelNumber(0), limit }).await;
    }
    hostile.say(Frame::Finish { channel: ChannelNumber(0) }).await;
    assert_eq!(channel.receive().await, Ok(None));
    assert_eq!(channel.credit().await, Ok(u64::MAX));
    drop(channel);
    assert!(matches!(hostile.hear().await, Frame::Reset { .. }));
    assert_eq!(running.limits.taken(), (0, 0));
    // Frames of a channel that has ended come late, and mean nothing.
    for frame in [Frame::Reset { channel: ChannelNumber(0) }, Frame::Blocked { channel: ChannelNumber(0) }] {
        hostile.say(frame).await;
    }
    hostile.data(0, 1 << 20).await;
    hostile.open(2).await;
    assert!(running.asked.recv().await.is_some(), "the session goes on");
}

#[tokio::test]
async fn a_peer_that_says_it_is_blocked_gets_no_more_than_the_bytes_of_all() {
    const MAX: u64 = 1 << 20;
    let (mut running, mut hostile) = session(Limits::new(8, MAX)).await;
    let mut channels = Vec::new();
    for number in 0..4 {
        hostile.open(2 * number).await;
        channels.push(running.asked.recv().await.unwrap().accept().unwrap());
    }
    for _ in 0..50 {
        for number in 0..4 {
            hostile.say(Frame::Blocked { channel: ChannelNumber(2 * number) }).await;
        }
    }
    hostile.open(100).await;
    let refused = loop {
        if let Frame::Refused { channel, refusal } = hostile.hear().await {
            break (channel, refusal);
        }
    };
    assert_eq!(refused, (ChannelNumber(100), Refusal::NoMemory));
    assert!(running.limits.taken().1 <= MAX);
    drop(channels);
    assert_eq!(running.limits.taken(), (0, 0));
}

#[tokio::test]
async fn a_flood_of_questions_that_are_given_up_leaves_nothing() {
    const MAX: usize = 8;
    let (mut running, hostile) = session(Limits::new(MAX, 1 << 30)).await;
    let (mut sender, mut receiver) = hostile.messages.split();
    // The peer takes the refusals.
    let refusals = tokio::spawn(async move { while let Ok(Some(_)) = receiver.recv().await {} });
    let flood = async move {
        for number in 0..5_000 {
            let reset = Frame::Reset { channel: ChannelNumber(2 * number) };
            for frame in [open(2 * number), reset] {
                sender.send(frame.encode(), Priority::NORMAL).await.unwrap();
            }
        }
    };
    let serve = async {
        while let Some(asking) = running.asked.recv().await {
            assert!(running.limits.taken().0 <= MAX);
            asking.given_up().await;
        }
        (&mut running.ended).await.unwrap()
    };
    let (end, ()) = tokio::join!(serve, flood);
    refusals.abort();
    assert!(matches!(end, SessionError::Ended), "{end}");
    assert_eq!(running.limits.taken(), (0, 0));
}

#[tokio::test]
async fn a_peer_that_answers_nothing_leaves_nothing_behind_but_its_own_questions() {
    let (running, mut hostile) = session(Limits::new(64, 1 << 30)).await;
    let destination = SocketAddr::from(([127, 0, 0, 1], 80));
    for _ in 0..200 {
        assert!(timeout(Duration::from_millis(1), running.session.open(destination, None)).await.is_err());
    }
    assert_eq!(running.limits.taken(), (0, 0));
    // Late answers to questions that were given up are no violation, and answers to others are one.
    let mut last = 0;
    while let Ok(Ok(Some(message))) = timeout(Duration::from_millis(200), hostile.messages.recv()).await {
        let mut frames = message.payload;
        while !frames.is_empty() {
            if let (Frame::Open { channel, .. }, _) = Frame::take(&mut frames).unwrap() {
                last = channel.0;
                hostile.say(Frame::Opened { channel, limit: 1 }).await;
            }
        }
    }
    hostile.say(Frame::Opened { channel: ChannelNumber(last + 2), limit: 1 }).await;
    assert!(matches!(ended(running).await, SessionError::Violation(Violation::NeverOpened)));
}
