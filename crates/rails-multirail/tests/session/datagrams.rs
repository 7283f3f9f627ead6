//! Datagrams.

use crate::util::{Ends, ends, in_time, pattern};
use bytes::Bytes;
use rails_multirail::SendDatagramError;
use std::io::ErrorKind;

#[tokio::test]
async fn datagrams_arrive_whole() {
    let Ends { near, far, _listener, _rails } = ends().await;
    for (ours, theirs) in [(&near, &far), (&far, &near)] {
        for length in [0, 1, 1_000, ours.max_datagram_size()] {
            let datagram = Bytes::from(pattern(length, length as u64));
            ours.send_datagram(datagram.clone()).unwrap();
            assert!(in_time(theirs.read_datagram()).await.unwrap() == datagram, "another datagram arrived");
        }
        let error = ours.send_datagram(vec![0; ours.max_datagram_size() + 1].into()).unwrap_err();
        assert!(matches!(error, SendDatagramError::TooLong { length } if length == ours.max_datagram_size() + 1));
        assert_eq!(std::io::Error::from(error).kind(), ErrorKind::InvalidInput);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tasks_read_datagrams() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let reading: Vec<_> = (0..4)
        .map(|_| {
            let far = far.clone();
            tokio::spawn(async move { far.read_datagram().await.unwrap() })
        })
        .collect();
    (0..4u8).for_each(|number| near.send_datagram(vec![number].into()).unwrap());
    let mut read = Vec::new();
    for task in reading {
        read.push(in_time(task).await.unwrap()[0]);
    }
    read.sort_unstable();
    assert_eq!(read, [0, 1, 2, 3]);
}

/// Datagrams that have arrived are read after the end of the session, and none is sent.
#[tokio::test]
async fn datagrams_and_the_end() {
    let Ends { near, far, _listener, _rails } = ends().await;
    near.send_datagram(Bytes::from_static(b"first")).unwrap();
    near.send_datagram(Bytes::from_static(b"last")).unwrap();
    assert_eq!(in_time(far.read_datagram()).await.unwrap(), &b"first"[..]);
    far.close(0, b"");
    let error = far.send_datagram(Bytes::from_static(b"too late")).unwrap_err();
    assert!(matches!(error, SendDatagramError::SessionLost(_)), "{error:?}");
    while in_time(far.read_datagram()).await.is_ok() {}
}
