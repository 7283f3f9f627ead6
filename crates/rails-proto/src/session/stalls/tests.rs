use super::*;
use crate::{
    scheduler::LaneTraits,
    session::{LaneEnd, LaneId, LinkSample, Session, Transmit, fixture},
    stream_number::StreamNumber,
    wire::{Ack, DataHeader},
};
use bytes::Bytes;

const MS: Duration = Duration::from_millis(1);

fn session(window: u64) -> Session {
    fixture::end(1000, window, 100 * MS)
}

/// Asks the stream as a driver does when a lane has room. Returns the chunk's length, if there is
/// one.
fn transmit(session: &mut Session, now: Instant, lane: LaneId) -> Option<u32> {
    match session.poll_transmit(now, lane, &mut Vec::new()) {
        Transmit::Send(chunk) => chunk.map(|chunk| chunk.length),
        Transmit::Idle | Transmit::Close => None,
    }
}

#[test]
fn times_of_a_stream_by_cause() {
    let start = Instant::now();
    let at = |ms: u32| start + ms * MS;
    let mut session = session(2000);
    let lane = session.lane_up(at(0), LaneTraits::default()).unwrap();
    assert_eq!(transmit(&mut session, at(0), lane), None);
    // The application writes three chunks after 10 ms; the lane is busy with the first for 5 ms, with
    // the second for 3.
    session.write(at(10), StreamNumber::FIRST, Bytes::from(vec![1; 3000]));
    assert_eq!(transmit(&mut session, at(10), lane), Some(1000));
    assert_eq!(transmit(&mut session, at(15), lane), Some(1000));
    // Then the window is full, until the peer has read.
    assert_eq!(transmit(&mut session, at(18), lane), None);
    session.handle_ack(at(38), lane, &Ack { chunks: 2, limit: 4000, complete: false }).unwrap();
    assert_eq!(transmit(&mut session, at(38), lane), Some(1000));
    assert_eq!(transmit(&mut session, at(40), lane), None);

    let stalls = session.stats(at(45)).stalls;
    assert_eq!(stalls.nothing_to_send, (10 + 7) * MS);
    assert_eq!(stalls.no_room, 5 * MS);
    assert_eq!(stalls.window_full, 23 * MS, "since the lane took the last chunk that fits");
    assert_eq!((stalls.no_lane, stalls.not_read), (Duration::ZERO, Duration::ZERO));
    let stats = session.lane_stats(at(45), lane);
    assert_eq!(stats.times.total(), 45 * MS);
    assert_eq!((stats.times.busy, stats.times.window_full, stats.times.nothing_to_send), (10 * MS, 20 * MS, 15 * MS));
    let window = session.stats(at(45)).sending;
    assert_eq!((window.size_bytes, window.used_bytes, window.max_used_bytes), (2000, 1000, 2000));
    assert!((window.share() - 0.5).abs() < 1e-9 && (window.max_share() - 1.0).abs() < 1e-9);
}

#[test]
fn a_finished_stream_waits_for_nothing() {
    let start = Instant::now();
    let mut session = session(2000);
    let lane = session.lane_up(start, LaneTraits::default()).unwrap();
    session.write(start, StreamNumber::FIRST, Bytes::from(vec![1; 500]));
    session.finish(start, StreamNumber::FIRST);
    assert_eq!(transmit(&mut session, start, lane), Some(500));
    assert_eq!(transmit(&mut session, start, lane), None);
    assert_eq!(session.stats(start + 100 * MS).stalls, Stalls::default());
    assert_eq!(session.lane_stats(start + 100 * MS, lane).times.nothing_to_send, 100 * MS);
}

#[test]
fn times_of_an_outage_and_of_a_stalled_lane() {
    let start = Instant::now();
    let at = |ms: u32| start + ms * MS;
    let mut session = session(100_000);
    let lanes = [0, 1].map(|_| session.lane_up(at(0), LaneTraits::default()).unwrap());
    session.write(at(0), StreamNumber::FIRST, Bytes::from(vec![1; 3000]));
    for lane in lanes {
        assert_eq!(transmit(&mut session, at(0), lane), Some(1000));
    }
    session.link_down(at(5), lanes[0]);
    session.lane_down(at(10), lanes[1], LaneEnd::Lost);
    let stalls = session.stats(at(30)).stalls;
    assert_eq!((stalls.no_room, stalls.no_lane), (10 * MS, 20 * MS));
    let times = session.lane_stats(at(30), lanes[0]).times;
    assert_eq!((times.busy, times.stalled, times.total()), (5 * MS, 25 * MS, 30 * MS));

    // The stalled lane answers, and takes the bytes that the other had.
    session.link_up(at(30), lanes[0]);
    let sample = LinkSample { rtt: Some(MS), rtt_variation: Some(MS), ..LinkSample::default() };
    session.check_progress(at(30), lanes[0], &sample, None);
    let sent: u32 = std::iter::from_fn(|| transmit(&mut session, at(31), lanes[0])).sum();
    assert_eq!(sent, 2000, "the lane keeps the chunks that no other lane took");
    let again = session.stats(at(31)).reissued;
    assert_eq!((again.requeued.bytes, again.requeued.chunks), (1000, 1));
    assert_eq!(again.reinjected, Default::default());
    assert_eq!(session.lane_stats(at(31), lanes[0]).reissued, again);
}

#[test]
fn time_of_readable_bytes_before_they_are_read() {
    let start = Instant::now();
    let at = |ms: u32| start + ms * MS;
    let mut session = session(10_000);
    let lane = session.lane_up(at(0), LaneTraits::default()).unwrap();
    let arrive = |session: &mut Session, ms: u32, offset: u64| {
        let payload = Bytes::from(vec![1; 1000]);
        let header = DataHeader::of(StreamNumber::FIRST, offset, std::slice::from_ref(&payload), false);
        session.handle_data(at(ms), lane, &header, payload).unwrap();
    };
    // The second chunk comes first, and once more.
    arrive(&mut session, 10, 1000);
    arrive(&mut session, 11, 1000);
    let stats = session.stats(at(15));
    assert_eq!(stats.stalls.not_read, Duration::ZERO, "the chunk cannot be read yet");
    let reordered = stats.reordered.unwrap();
    assert_eq!((reordered.bytes, reordered.max_bytes), (1000, 1000));
    assert_eq!((stats.duplicated.bytes, stats.duplicated.chunks), (1000, 1));
    assert_eq!(session.lane_stats(at(15), lane).duplicated, stats.duplicated);
    arrive(&mut session, 20, 0);
    while session.read(at(26), StreamNumber::FIRST).is_some() {}
    let stats = session.stats(at(50));
    assert_eq!(stats.stalls.not_read, 6 * MS);
    assert_eq!(stats.reordered.map(|reordered| (reordered.bytes, reordered.max_bytes)), Some((0, 1000)));
    assert_eq!((stats.receiving.used_bytes, stats.receiving.max_used_bytes), (0, 2000));
}

#[test]
fn a_time_before_the_last_one_counts_for_nothing() {
    let start = Instant::now();
    let mut clock = Clock::<2>::default();
    clock.switch(start + 10 * MS, Some(0));
    clock.switch(start + 5 * MS, Some(1));
    clock.switch(start + 20 * MS, None);
    assert_eq!(clock.at(start + 90 * MS), [Duration::ZERO, 10 * MS]);
}
