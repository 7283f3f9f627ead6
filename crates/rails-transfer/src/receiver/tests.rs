//! Guarantees that are lacking, as the sender hears of them.

use super::*;
use crate::{
    guarantee::{Guarantee, LackingGuarantee},
    send,
};
use std::io;
use tokio::io::duplex;

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

#[test]
fn a_lacking_guarantee_as_the_document_shows_it() {
    let lacking = LackingGuarantee { guarantee: Guarantee::Sync, cause: Reason::new("x") };
    assert_eq!(crate::message::encode(&FromReceiver::Lacking { lacking }, Vec::new()), [4, 3, 1, b'x']);
}
