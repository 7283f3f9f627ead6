//! The traits of web-transport-trait: conversations that know the traits alone go through every
//! method of them, over a session.

use crate::{SEND_BUFFER, Sessions, WINDOW, in_time, made_up, narrow_sessions, sessions};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::FutureExt;
use web_transport_trait::{Error, RecvStream, SendStream, Session, Stats};

/// Both streams of an opened pair, and both of the accepted one.
type Pairs<S> = [(<S as Session>::SendStream, <S as Session>::RecvStream); 2];

/// A stream in both directions, of which the peer has learnt by one byte.
async fn pairs<S: Session>(near: &S, far: &S) -> Pairs<S> {
    let (mut send, receive) = near.open_bi().await.unwrap();
    send.write_all(b"!").await.unwrap();
    let (reply, mut asked) = far.accept_bi().await.unwrap();
    assert_eq!(asked.read(&mut [0]).await.unwrap(), Some(1));
    [(send, receive), (reply, asked)]
}

/// Each way to write meets each way to read.
async fn streams_in_both_directions<S: Session>(near: &S, far: &S) {
    let [(mut send, mut answer), (mut reply, mut question)] = pairs(near, far).await;
    send.set_priority(7);
    let all = made_up(600_000, 1);
    let write = async {
        let (mut rest, mut buffer) = (&all[..], &[][..]);
        for part in [1, 1_000, 100_000] {
            let count = send.write(&rest[..part]).await.unwrap();
            assert!((1..=part).contains(&count));
            rest = &rest[count..];
            buffer.clone_from(&&rest[..part]);
            let before = buffer.len();
            let count = send.write_buf(&mut buffer).await.unwrap();
            assert_eq!((before - buffer.len(), count > 0), (count, true), "the buffer is behind what was written");
            rest = &rest[count..];
        }
        let (first, rest) = rest.split_at(150_000);
        let (second, mut third) = rest.split_at(150_000);
        send.write_all(first).await.unwrap();
        send.write_chunk(Bytes::copy_from_slice(second)).await.unwrap();
        send.write_all_buf(&mut third).await.unwrap();
        assert!(!third.has_remaining());
        send.finish().unwrap();
        assert!(send.finish().is_err() && send.write(b"more").await.is_err(), "it is finished");
        send.closed().await.unwrap();
    };
    let read = async {
        let mut got = Vec::new();
        let mut buffer = [0; 1_000];
        let count = question.read(&mut buffer).await.unwrap().unwrap();
        got.extend_from_slice(&buffer[..count]);
        assert_eq!(question.read(&mut []).await.unwrap(), Some(0), "this asks for nothing");
        assert_eq!(question.read_chunk(0).await.unwrap(), Some(Bytes::new()));
        let chunk = question.read_chunk(2_000).await.unwrap().unwrap();
        assert!((1..=2_000).contains(&chunk.len()));
        got.extend_from_slice(&chunk);
        let before = got.len();
        assert_eq!(question.read_buf(&mut got).await.unwrap(), Some(got.len() - before));
        let mut room = [0; 3_000];
        let mut rest = &mut room[..];
        assert_eq!(question.read_all_buf(&mut rest).await.unwrap(), 3_000);
        assert_eq!(question.read_buf(&mut rest).await.unwrap(), Some(0), "there is no room");
        got.extend_from_slice(&room);
        got.extend_from_slice(&question.read_all().await.unwrap());
        assert!(got == all, "other bytes came");
        assert_eq!(question.read(&mut [0]).await.unwrap(), None);
        assert_eq!(question.read_chunk(1).await.unwrap(), None);
        assert_eq!(question.read_buf(&mut BytesMut::with_capacity(9)).await.unwrap(), None);
        question.closed().await.unwrap();
    };
    tokio::join!(write, read);
    reply.write_all(b"the other direction goes on").await.unwrap();
    drop(reply);
    assert_eq!(answer.read_all().await.unwrap(), &b"the other direction goes on"[..], "a drop finishes it");
}

async fn streams_in_one_direction<S: Session>(near: &S, far: &S) {
    for (ours, theirs) in [(near, far), (far, near)] {
        let mut send = ours.open_uni().await.unwrap();
        send.write_all(b"one direction").await.unwrap();
        send.finish().unwrap();
        let mut receive = theirs.accept_uni().await.unwrap();
        assert_eq!(receive.read_all().await.unwrap(), &b"one direction"[..]);
    }
}

/// `unread` bytes are more than a stream's window takes, and fewer than that and the send buffer.
async fn streams_that_end_early<S: Session>(near: &S, far: &S, unread: usize) {
    let [(mut send, mut answer), (mut reply, mut question)] = pairs(near, far).await;
    send.reset(17);
    send.closed().await.unwrap();
    let error = question.read(&mut [0]).await.unwrap_err();
    assert_eq!((error.stream_error(), error.session_error()), (Some(17), None));
    assert_eq!(question.closed().await.unwrap_err().stream_error(), Some(17));

    answer.stop(19);
    answer.closed().await.unwrap();
    assert!(answer.read(&mut [0]).await.is_err(), "this end has stopped it");
    assert_eq!(reply.closed().await.unwrap_err().stream_error(), Some(19));
    let error = reply.write(b"more").await.unwrap_err();
    assert_eq!((error.stream_error(), error.session_error()), (Some(19), None));

    // A finished stream can still be reset.
    let [(mut send, _answer), (_reply, mut question)] = pairs(near, far).await;
    send.write_all(&vec![0; unread]).await.unwrap();
    send.finish().unwrap();
    send.reset(u32::MAX);
    let error = loop {
        match question.read_chunk(usize::MAX).await {
            Ok(chunk) => assert!(chunk.is_some(), "it has no end"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.stream_error(), Some(u32::MAX));

    // A stream that is dropped with unread bytes is stopped.
    let [(mut send, _answer), (_reply, question)] = pairs(near, far).await;
    send.write_all(b"nobody reads this").await.unwrap();
    drop(question);
    assert_eq!(send.closed().await.unwrap_err().stream_error(), Some(0));
}

/// A write that is given up takes nothing out of its buffer.
async fn a_write_without_room<S: Session>(near: &S, far: &S) {
    let [(mut send, _answer), (_reply, mut question)] = pairs(near, far).await;
    // More than the windows and the send buffer take.
    let all = made_up(8 << 20, 2);
    let mut rest = &all[..];
    loop {
        let before = rest.len();
        match send.write_buf(&mut rest).now_or_never() {
            Some(written) => assert_eq!(written.unwrap(), before - rest.len()),
            None => break assert_eq!(rest.len(), before),
        }
        // The lanes take what was written.
        tokio::task::yield_now().await;
        assert!(!rest.is_empty(), "nobody reads");
    }
    let written = async {
        send.write_all_buf(&mut rest).await.unwrap();
        send.finish().unwrap();
    };
    let (got, ()) = tokio::join!(question.read_all(), written);
    assert!(got.unwrap() == all, "other bytes came");
}

async fn datagrams<S: Session>(near: &S, far: &S) {
    for (ours, theirs) in [(near, far), (far, near)] {
        for length in [0, 1, ours.max_datagram_size()] {
            let datagram = Bytes::from(made_up(length, 3));
            ours.send_datagram(datagram.clone()).unwrap();
            assert!(theirs.recv_datagram().await.unwrap() == datagram, "{length} bytes");
        }
        let error = ours.send_datagram(vec![0; ours.max_datagram_size() + 1].into()).unwrap_err();
        assert_eq!((error.session_error(), error.stream_error()), (None, None));
    }
}

/// The streams of a session of which no other one ends meanwhile.
async fn open_streams<S: Session>(near: &S, far: &S) {
    let before = near.stats().streams().expect("a session counts its streams");
    let [(mut send, receive), (mut reply, question)] = pairs(near, far).await;
    let during = near.stats().streams().unwrap();
    assert_eq!((during.bidi.open, during.uni), (before.bidi.open + 1, before.uni));
    assert_eq!(during.bidi.available, before.bidi.available - 1);
    send.finish().unwrap();
    reply.finish().unwrap();
    send.closed().await.unwrap();
    reply.closed().await.unwrap();
    drop((send, receive, reply, question));
    assert_eq!(near.stats().streams().unwrap().bidi.open, before.bidi.open);
}

/// The figures of a session that has carried bytes both ways.
fn statistics<S: Session>(session: &S) {
    assert_eq!(session.protocol(), None);
    let stats = session.stats();
    assert!(stats.bytes_sent().unwrap() > 0 && stats.bytes_received().unwrap() > 0);
    assert!(stats.bytes_lost().is_some() && stats.rtt().is_some() && stats.estimated_send_rate().is_some());
    assert_eq!((stats.packets_sent(), stats.packets_received(), stats.packets_lost()), (None, None, None));
}

/// Calls that wait, and later ones, fail with the code and the reason at both ends.
async fn the_end_of_a_session<S: Session>(near: &S, far: &S) {
    let told = Some((23, "no more".to_owned()));
    let [(_send, mut receive), (mut reply, _question)] = pairs(near, far).await;
    let reading = async { receive.read(&mut [0]).await.unwrap_err().session_error() };
    let closing = async { far.close(23, "no more") };
    assert_eq!(tokio::join!(reading, closing).0, told);
    for end in [near, far] {
        assert_eq!(end.closed().await.session_error(), told);
        assert_eq!(end.accept_uni().await.err().unwrap().session_error(), told);
        assert_eq!(end.accept_bi().await.err().unwrap().session_error(), told);
        assert_eq!(end.open_uni().await.err().unwrap().session_error(), told);
        assert_eq!(end.open_bi().await.err().unwrap().session_error(), told);
        assert_eq!(end.send_datagram(Bytes::new()).unwrap_err().session_error(), told);
        assert_eq!(end.recv_datagram().await.unwrap_err().session_error(), told);
        end.close(0, "a session ends once");
    }
    assert_eq!(reply.write(b"too late").await.unwrap_err().session_error(), told);
    assert_eq!(reply.closed().await.unwrap_err().session_error(), told);
    assert_eq!(near.clone().closed().await.session_error(), told);
}

async fn conform<S: Session>(near: S, far: S, unread: usize) {
    for (near, far) in [(&near, &far), (&far, &near)] {
        in_time(open_streams(near, far)).await;
    }
    for (near, far) in [(&near, &far), (&far, &near)] {
        in_time(streams_in_both_directions(near, far)).await;
        in_time(streams_in_one_direction(near, far)).await;
        in_time(streams_that_end_early(near, far, unread)).await;
        in_time(a_write_without_room(near, far)).await;
        in_time(datagrams(near, far)).await;
    }
    [&near, &far].into_iter().for_each(statistics);
    in_time(the_end_of_a_session(&near, &far)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_conforms() {
    let Sessions { near, far, rails: _rails } = sessions().await;
    conform(near, far, 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_narrow_session_conforms() {
    let Sessions { near, far, rails: _rails } = narrow_sessions().await;
    conform(near, far, WINDOW + SEND_BUFFER / 2).await;
}

/// A reason has as many bytes as are sent, and whole characters.
#[tokio::test]
async fn a_long_reason_is_cut_between_characters() {
    let Sessions { near, far, rails: _rails } = sessions().await;
    Session::close(&near, 1, &"\u{20ac}".repeat(1_000));
    let (code, reason) = in_time(Session::closed(&far)).await.session_error().unwrap();
    assert_eq!((code, reason), (1, "\u{20ac}".repeat(341)));
}
