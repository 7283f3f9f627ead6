//! The messages of a session between gates, and the questions and answers of doors.

use crate::script::Script;
use rails_gate::fuzzing::{self, Step};

/// A message by itself.
pub(crate) fn frame(data: &[u8]) {
    fuzzing::frame(data);
}

pub(crate) fn frames() -> Vec<Vec<u8>> {
    fuzzing::frames()
}

/// A session whose peer sends anything, while this end opens, accepts, reads and ends channels.
pub(crate) fn session(data: &[u8]) {
    let mut script = Script::new(data);
    let dialled = script.flag();
    let mut steps = Vec::new();
    while let Some(step) = script.step() {
        steps.push(match step {
            0..=199 => {
                let length = script.number() as usize % MAX_MESSAGE;
                let mut message: Vec<u8> = (0..length.min(LONGEST_LITERAL)).map(|_| script.byte()).collect();
                message.resize(length, 7);
                Ok(message)
            }
            step => Err(step),
        });
    }
    fuzzing::session(
        dialled,
        steps.iter().map(|step| match step {
            Ok(message) => Step::Message(message),
            Err(200..=210) => Step::Open,
            Err(211..=230) => Step::Accept,
            Err(231..=237) => Step::Refuse,
            Err(238..=246) => Step::Read,
            Err(_) => Step::Close,
        }),
    );
}

/// A connection that is opened, carries bytes, and ends; and each frame at the start.
pub(crate) fn sessions() -> Vec<Vec<u8>> {
    let say = |message: &[u8]| [&[0, message.len() as u8], message].concat();
    let frames = fuzzing::frames();
    let [open, _, credit, blocked, finish, reset, .., data] = &frames[..] else { unreachable!("there are nine") };
    let (accept, read, close) = (vec![220], vec![240], vec![250]);
    let life = [vec![0], say(open), accept, say(data), say(blocked), read, say(credit), say(finish), close, say(reset)];
    let alone = frames.iter().map(|frame| [vec![1, 205], say(frame)].concat());
    alone.chain([life.concat()]).collect()
}

/// The bytes of a door.
pub(crate) fn question(data: &[u8]) {
    fuzzing::question(data);
}

pub(crate) fn questions() -> Vec<Vec<u8>> {
    fuzzing::questions()
}

/// The bytes of a gate to its door.
pub(crate) fn answer(data: &[u8]) {
    fuzzing::answer(data);
}

pub(crate) fn answers() -> Vec<Vec<u8>> {
    fuzzing::answers()
}

/// Longer than the window of a new channel.
const MAX_MESSAGE: usize = 100_000;
/// A message's bytes in the input; more are always the same.
const LONGEST_LITERAL: usize = 80;
