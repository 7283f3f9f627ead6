//! Errors of sessions whose lanes are lost, and of peers that open something else.

use crate::util::{Ends, ends_by, in_time, options};
use rails_multirail::{Failure, ReadError, SessionError};
use std::{io::ErrorKind, time::Duration};

#[tokio::test]
async fn a_session_without_lanes_fails() {
    let impatient = options().outage_limit(Duration::ZERO);
    let Ends { near, far, _listener, _rails } = ends_by(&impatient, &impatient).await;
    let (mut send, mut receive) = in_time(near.open_bi()).await.unwrap();
    in_time(send.write_all(b"1")).await.unwrap();
    let _kept = in_time(far.accept_bi()).await.unwrap();
    assert!(near.remove_lane(0) && near.remove_lane(1));
    let error = in_time(receive.read_chunk(1)).await.unwrap_err();
    let ReadError::SessionLost(SessionError::Failed(lost)) = &error else { panic!("{error:?}") };
    assert!(matches!(lost.failure, Failure::LanesLost { .. }), "{lost}");
    assert_eq!(lost.stream, near.id());
    assert_eq!(std::io::Error::from(error).kind(), ErrorKind::ConnectionReset);
    assert!(matches!(in_time(far.closed()).await, SessionError::Failed(_)));
}
