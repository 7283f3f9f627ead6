//! Guarantees that are lacking, as the sender hears of them.

use super::*;
use crate::{
    guarantee::{Guarantee, LackingGuarantee},
    message::Totals,
    send,
};
use std::{io, sync::mpsc as sync_mpsc};
use tokio::io::{DuplexStream, duplex};

/// A receiver that can neither lock nor sync.
fn options() -> ReceiveOptions {
    let calls = Calls {
        lock: |_| Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        record_lock: |_| Err(io::Error::from_raw_os_error(libc::ENOLCK)),
        sync: |_| Err(io::Error::from_raw_os_error(libc::EINVAL)),
        ..Calls::KERNEL
    };
    ReceiveOptions { calls, ..ReceiveOptions::new() }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn both_ends_know_what_is_lacking() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = [from.path().join("f")];
    std::fs::write(&source[0], "abc").unwrap();
    let (a, b) = duplex(64);
    let (sent, received) = block_on(async {
        tokio::join!(send(a, &source, Arc::new(())), options().receive(b, into.path(), Arc::new(())))
    });
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert!(sent.is_complete() && received.is_complete());
    let lacking: Vec<Guarantee> = sent.lacking.iter().map(|lacking| lacking.guarantee).collect();
    assert_eq!(lacking, [Guarantee::Lock, Guarantee::Sync]);
    assert_eq!(sent.lacking, received.lacking);
}

/// Sends an empty file of that mode; gives the answers.
async fn send_empty(stream: DuplexStream, mode: u32) -> Vec<FromReceiver> {
    let (read_half, write_half) = tokio::io::split(stream);
    let (_, used) = sync_mpsc::channel();
    let (mut reader, mut writer) = (FrameReader::new(read_half, used), FrameWriter::new(write_half));
    greet(&mut reader, &mut writer, Role::Sender).await.unwrap();
    for message in [
        FromSender::Totals(Totals::default()),
        FromSender::Offer { id: 0, path: RelPath::parse("f").unwrap(), size: 0, mode },
        FromSender::Start { id: 0, offset: 0 },
        FromSender::Finish { id: 0, digest: blake3::hash(b"").into() },
        FromSender::Done,
    ] {
        writer.message(&message).await.unwrap();
    }
    writer.flush().await.unwrap();
    let mut answers = Vec::new();
    while answers.last() != Some(&FromReceiver::Bye) {
        let Frame::Message(answer) = reader.frame().await.unwrap() else { panic!("a receiver sends messages alone") };
        answers.push(answer);
    }
    answers
}

#[test]
fn a_sender_of_an_older_release_hears_nothing_new() {
    for (mode, expected) in [(0o644, 0), (0o644 | HEARS_LACKING, 2)] {
        let into = tempfile::tempdir().unwrap();
        let (a, b) = duplex(1 << 16);
        let (answers, received) =
            block_on(async { tokio::join!(send_empty(a, mode), options().receive(b, into.path(), Arc::new(()))) });
        assert_eq!(received.unwrap().lacking.len(), 2);
        let told = answers.iter().filter(|answer| matches!(answer, FromReceiver::Lacking { .. })).count();
        assert_eq!((told, answers.len()), (expected, 3 + expected), "{answers:?}");
    }
}

#[test]
fn a_lacking_guarantee_as_the_document_shows_it() {
    let lacking = LackingGuarantee { guarantee: Guarantee::Sync, cause: Reason::new("x") };
    assert_eq!(crate::message::encode(&FromReceiver::Lacking { lacking }, Vec::new()), [4, 3, 1, b'x']);
}
