//! Guarantees that are lacking, as the sender hears of them.

use super::*;
use crate::{
    frame::MAX_RUN,
    guarantee::{Guarantee, LackingGuarantee},
    message::{Compare, Held, Offer, Totals},
    meta::Meta,
    path::RelPath,
    send,
};
use std::{io, sync::Mutex};
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
    assert_eq!(crate::codec::encode(&FromReceiver::Lacking { lacking }, Vec::new()), [4, 3, 1, b'x']);
}

#[test]
fn a_file_may_start_after_the_control_stream_has_ended() {
    let into = tempfile::tempdir().unwrap();
    std::fs::write(into.path().join(".f.rails-part"), "").unwrap();
    let (answers, mut answered) = mpsc::channel(MAX_ANSWERS);
    let (guarantees, terms) = (Guarantees::new(Calls::KERNEL, false, Arc::new(())), Terms::default());
    let folder =
        Folder { path: into.path().to_owned(), guarantees, observer: Arc::new(()), answers, streams: 1, terms };
    let (work_in, work) = mpsc::channel(WRITE_BEHIND);
    let (batch, worker) = block_on(Main::start(work, sync_mpsc::channel().0).unwrap().begin(folder)).unwrap();
    let offer =
        |name| Offer { path: RelPath::parse(name).unwrap(), size: 3, meta: Meta::default(), compare: Compare::Times };
    for message in [
        FromSender::Totals(Totals::default()),
        FromSender::Offer { id: 0, offer: offer("f") },
        FromSender::Offer { id: 1, offer: offer("g") },
    ] {
        block_on(work_in.send(Frame::Message(message))).unwrap();
    }
    drop(work_in);
    assert_eq!(block_on(worker).unwrap(), Ok(false), "the batch did not come to its end");

    let mut carrier = batch.on_stream().unwrap();
    carrier.on_start(1, 0, Meta::default()).unwrap();
    carrier.on_block(b"ab").unwrap();
    drop((carrier, batch));
    let held = |id| Some(FromReceiver::Held { id, held: Held::default() });
    assert_eq!([answered.try_recv().ok(), answered.try_recv().ok()], [held(0), held(1)]);
    // What came is kept, and a part without a byte is not.
    let there: Vec<_> = std::fs::read_dir(into.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, [".g.rails-part"]);
}

/// Holds up a file's first thread until the test has an answer for it.
struct Gate(Mutex<sync_mpsc::Receiver<()>>);

impl Observer for Gate {
    fn started(&self, _: &RelPath, _: u64, _: u64) {
        let _ = self.0.lock().unwrap().recv();
    }
}

#[test]
fn runs_behind_a_cut_are_copied_no_more() {
    let (into, size) = (tempfile::tempdir().unwrap(), 16 * MAX_RUN);
    std::fs::File::create(into.path().join("f")).unwrap().set_len(size).unwrap();
    let (opens, gate) = sync_mpsc::channel();
    let (observer, terms) = (Arc::new(Gate(Mutex::new(gate))), Terms::default());
    let (answers, _answered) = mpsc::channel(MAX_ANSWERS);
    let guarantees = Guarantees::new(Calls::KERNEL, false, Arc::new(()));
    let folder = Folder { path: into.path().to_owned(), guarantees, observer, answers, streams: 1, terms };
    let (work_in, work) = mpsc::channel(WRITE_BEHIND);
    let (batch, worker) = block_on(Main::start(work, sync_mpsc::channel().0).unwrap().begin(folder)).unwrap();
    let meta = Meta::default;
    let offer = Offer { path: RelPath::parse("f").unwrap(), size, meta: meta(), compare: Compare::Digests };
    for message in [FromSender::Totals(Totals::default()), FromSender::Offer { id: 0, offer }] {
        block_on(work_in.send(Frame::Message(message))).unwrap();
    }
    drop(work_in);
    assert_eq!(block_on(worker).unwrap(), Ok(false));

    let mut bytes = Vec::new();
    block_on(async {
        let mut stream = FrameWriter::new(&mut bytes);
        stream.message(&FromSender::Start { id: 0, offset: 0, meta: meta() }).await.unwrap();
        for _ in 0..16 {
            stream.message(&FromSender::Same { id: 0, len: MAX_RUN }).await.unwrap();
        }
        stream.flush().await.unwrap();
    });
    let mut carriers = Carriers::start(1, &());
    let stop = Stop::new();
    carriers.begin(io::Cursor::new(bytes), &batch, &stop).unwrap();
    drop((stop, opens));
    assert!(block_on(carriers.end()).is_none());
    assert_eq!(std::fs::metadata(into.path().join(".f.rails-part")).unwrap().len(), MAX_RUN);
}
