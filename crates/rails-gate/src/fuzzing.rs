//! The decoders of a gate, for the fuzz targets.

use crate::{
    door::{Answer, DoorKind, MAX_ANSWER, MAX_QUESTION, Plain, Question, read, write},
    session::{Asking, Channel, Limits, Session, Side},
    wire::{ChannelNumber, Frame, Instance, MAX_FRAME, Refusal, VERSION},
};
use bytes::Bytes;
use futures_util::FutureExt;
use rails_multirail::{
    MessageReceiver, MessageSender, MultiRailListener, MultiRailMessages, MultiRailStream, RailRequest, Rails,
    Security, StreamOptions, plan_rails,
};
use rails_topo::Topology;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    cell::RefCell,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

/// A step of a session with a peer that sends anything.
#[derive(Debug)]
pub enum Step<'a> {
    /// The peer's next message.
    Message(&'a [u8]),
    /// This gate asks for a connection.
    Open,
    /// This gate accepts the oldest question.
    Accept,
    /// This gate refuses the oldest question.
    Refuse,
    /// A socket takes all that waits on the oldest channel.
    Read,
    /// This gate ends the oldest channel.
    Close,
}

/// Any message is decoded, or is an error; a frame comes back from its own message.
pub fn frame(data: &[u8]) {
    let mut rest = Bytes::copy_from_slice(data);
    while !rest.is_empty()
        && let Ok((frame, bytes)) = Frame::take(&mut rest)
    {
        let mut message = Bytes::from([&frame.encode()[..], &bytes].concat());
        assert_eq!(Frame::take(&mut message).expect("a frame is read back"), (frame, bytes));
        assert!(message.is_empty());
    }
}

/// A session takes no more than its limits, and gives all of it back.
pub fn session<'a>(dialled: bool, steps: impl IntoIterator<Item = Step<'a>>) {
    let limits = Arc::new(Limits::new(MAX_CHANNELS, MAX_BYTES));
    // Nobody drives it: what the session says waits for room.
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    let _entered = runtime.enter();
    let side = if dialled { Side::Dialled } else { Side::Accepted };
    let session = Session::fed(STREAM.sender.clone(), side, limits.clone());
    let (asked, mut open) = (RefCell::new(Vec::new()), Vec::<Channel>::new());
    for step in steps {
        match step {
            Step::Message(message) => {
                let waiting = session.bytes_waiting();
                // A violation ends the session.
                if session.feed(Bytes::copy_from_slice(message), |asking| asked.borrow_mut().push(asking)).is_err() {
                    break;
                }
                let answers = session.bytes_waiting() - waiting;
                assert!(answers <= message.len() * MAX_FRAME, "a frame is answered by one at most");
            }
            Step::Open => {
                let destination = SocketAddr::from(([127, 0, 0, 1], 80));
                // The question is given up where there is no answer yet.
                open.extend(session.open(destination, None).now_or_never().and_then(Result::ok));
            }
            Step::Accept => open.extend(take(&asked).and_then(|asking| asking.accept().ok())),
            Step::Refuse => drop(take(&asked).map(|asking| asking.refuse(Refusal::TooOften))),
            Step::Read => {
                if let Some(channel) = open.first() {
                    while let Some(Ok(Some(bytes))) = channel.receive().now_or_never() {
                        channel.written(bytes.len(), true);
                    }
                }
            }
            Step::Close if open.is_empty() => {}
            Step::Close => drop(open.remove(0)),
        }
        let (channels, bytes) = limits.taken();
        assert!(channels <= MAX_CHANNELS && bytes <= MAX_BYTES, "{channels} channels take {bytes} bytes");
        assert_eq!(channels, open.len() + asked.borrow().len(), "each channel has an owner");
    }
    drop((open, asked));
    assert_eq!(limits.taken(), (0, 0), "all that was taken is given back");
}

/// Frames of each kind.
pub fn frames() -> Vec<Vec<u8>> {
    let (channel, destination) = (ChannelNumber(0), SocketAddr::from(([127, 0, 0, 1], 80)));
    let source = Some("[::1]:5000".parse().expect("it is an address"));
    let mut data = Frame::Data { channel, length: 5 }.encode().to_vec();
    data.extend_from_slice(b"hello");
    let frames = [
        Frame::Open { channel, destination, source, limit: 1 << 16 },
        Frame::Opened { channel: ChannelNumber(1), limit: 1 << 16 },
        Frame::Credit { channel, limit: 1 << 17 },
        Frame::Blocked { channel },
        Frame::Finish { channel },
        Frame::Reset { channel },
        Frame::Refused { channel, refusal: Refusal::Service(111) },
        Frame::Hello { version: VERSION, instance: Instance([1; 16]) },
    ];
    frames.iter().map(|frame| frame.encode().to_vec()).chain([data]).collect()
}

/// Any bytes of a door are a question, or an error.
pub fn question(data: &[u8]) {
    read_back::<Question>(data, MAX_QUESTION);
}

/// Any bytes of a gate are an answer, or an error.
pub fn answer(data: &[u8]) {
    read_back::<Answer>(data, MAX_ANSWER);
}

/// Questions of doors.
pub fn questions() -> Vec<Vec<u8>> {
    let destination = SocketAddr::from(([10, 0, 0, 1], 443));
    let connect = Question::Connect { door: DoorKind::Stripe, destination, source: Some(destination) };
    [connect, Question::Networks, Question::Status, Question::Metrics].iter().map(written).collect()
}

/// Answers of gates.
pub fn answers() -> Vec<Vec<u8>> {
    let answers = [
        Answer::Asked { within: Duration::from_millis(50) },
        Answer::Through { peer: "beta".to_owned() },
        Answer::Plain(Plain::Refused(Refusal::Service(111))),
        Answer::Networks(vec!["10.0.0.0/8:*".to_owned()]),
        Answer::Metrics("# text".to_owned()),
    ];
    answers.iter().map(written).collect()
}

fn take(asked: &RefCell<Vec<Asking>>) -> Option<Asking> {
    let mut asked = asked.borrow_mut();
    if asked.is_empty() { None } else { Some(asked.remove(0)) }
}

fn read_back<T: Serialize + DeserializeOwned>(mut data: &[u8], max: u32) {
    let value = read::<T>(&mut data, max).now_or_never().expect("all bytes are there");
    if let Ok(value) = value {
        let once = written(&value);
        let again: T = read(&mut &once[..], max).now_or_never().expect("all bytes are there").expect("it is read back");
        assert_eq!(written(&again), once);
    }
}

fn written<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, value).now_or_never().expect("memory takes all bytes").expect("it is as short as it was");
    bytes
}

/// A stream whose other end reads nothing.
struct Unread {
    sender: MessageSender,
    _rails: Rails,
    _receiver: MessageReceiver,
    _theirs: MultiRailMessages,
}

static STREAM: LazyLock<Unread> = LazyLock::new(|| {
    let topology = Topology::detect().expect("the machine is known");
    let plan = plan_rails(&topology, &RailRequest::loopback(1)).expect("there is loopback");
    let rails = Rails::build(&plan).expect("rails are built");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime is built");
    let [ours, theirs] = runtime.block_on(async {
        let options = StreamOptions::new(Security::insecure());
        let listener = MultiRailListener::bind(&rails, &["127.0.0.1:0"][..], &options).await.expect("a port is free");
        let address = [listener.local_addrs()[0].socket.to_string()];
        let (ours, theirs) = tokio::join!(MultiRailStream::connect(&rails, &address, &options), listener.accept());
        let ends = [ours.expect("it is opened"), theirs.expect("it is accepted")];
        ends.map(|end| end.into_messages().expect("it is new"))
    });
    let (sender, receiver) = ours.split();
    // The runtime drove the listener alone, which is no longer needed.
    Unread { sender, _rails: rails, _receiver: receiver, _theirs: theirs }
});

const MAX_CHANNELS: usize = 6;
const MAX_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #[test]
        fn a_session_keeps_its_limits_whatever_its_peer_sends(
            dialled: bool,
            steps in vec((0..14_u8, 0..9_usize, 0..6_u64), 0..60),
        ) {
            let frames = frames();
            let messages: Vec<Option<Vec<u8>>> = steps.iter().map(|(step, kind, channel)| {
                let (mut frame, bytes) = Frame::take(&mut frames[*kind].clone().into()).unwrap();
                let numbers = match &mut frame {
                    Frame::Data { channel, .. } | Frame::Credit { channel, .. } | Frame::Blocked { channel }
                    | Frame::Open { channel, .. } | Frame::Opened { channel, .. } | Frame::Refused { channel, .. }
                    | Frame::Finish { channel } | Frame::Reset { channel } => Some(channel),
                    Frame::Hello { .. } => None,
                };
                numbers.into_iter().for_each(|number| *number = ChannelNumber(*channel));
                (*step < 8).then(|| [&frame.encode()[..], &bytes].concat())
            }).collect();
            session(dialled, steps.iter().zip(&messages).map(|((step, ..), message)| match (step, message) {
                (_, Some(message)) => Step::Message(message),
                (8, _) => Step::Open,
                (9 | 10, _) => Step::Accept,
                (11, _) => Step::Refuse,
                (12, _) => Step::Read,
                _ => Step::Close,
            }));
        }
    }
}
