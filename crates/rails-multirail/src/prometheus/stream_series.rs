//! The metrics of streams and their lanes.

use super::series::{BYTES, Metric, SECONDS, Sample, Value, counter, gauge};
use crate::{LaneStats, StreamStats};
use Value::{Gauge, Seconds, Total};
use rails_proto::session::{Reissued, WindowUse};
use std::time::Duration;

pub(super) const STREAM_METRICS: &[Metric<StreamStats>] = &[
    // Metrics of a stream.
    gauge("rails_stream_age", Some(SECONDS), "Time since this end of the stream was made.", |stats, to| {
        to.push(of(stats, &[], Gauge(stats.age.as_secs_f64())));
    }),
    counter(
        "rails_stream",
        Some(BYTES),
        "Bytes that the application wrote (sent) and read (received).",
        |stats, to| {
            to.push(of(stats, &[("direction", "sent")], Total(stats.bytes_written)));
            to.push(of(stats, &[("direction", "received")], Total(stats.bytes_read)));
        },
    ),
    counter(
        "rails_stream_consumed",
        Some(BYTES),
        "Bytes that the peer's application is known to have read.",
        |stats, to| to.push(of(stats, &[], Total(stats.bytes_consumed_by_peer))),
    ),
    counter(
        "rails_stream_reissued",
        Some(BYTES),
        "Bytes that were given to a lane once more, by cause.",
        |stats, to| {
            reissued(&stats.sent_again, |reissued| reissued.bytes, |cause, value| to.push(of(stats, &[cause], value)));
        },
    ),
    counter(
        "rails_stream_reissued_chunks",
        None,
        "Chunks that were given to a lane once more, by cause.",
        |stats, to| {
            reissued(&stats.sent_again, |reissued| reissued.chunks, |cause, value| to.push(of(stats, &[cause], value)));
        },
    ),
    counter("rails_stream_duplicate", Some(BYTES), "Bytes that arrived and had arrived before.", |stats, to| {
        to.push(of(stats, &[], Total(stats.bytes_duplicated)));
    }),
    counter("rails_stream_duplicate_chunks", None, "Chunks that arrived with such bytes in them.", |stats, to| {
        to.push(of(stats, &[], Total(stats.chunks_duplicated)));
    }),
    gauge(
        "rails_stream_reordered",
        Some(BYTES),
        "Bytes that have arrived and wait for others before them.",
        |stats, to| to.extend(stats.reordered.map(|reordered| of(stats, &[], Gauge(reordered.bytes as f64)))),
    ),
    gauge("rails_stream_reordered_max", Some(BYTES), "The most bytes that did.", |stats, to| {
        to.extend(stats.reordered.map(|reordered| of(stats, &[], Gauge(reordered.max_bytes as f64))));
    }),
    gauge(
        "rails_stream_window",
        Some(BYTES),
        "The window of the peer (sent) and of this one (received).",
        |stats, to| windows(stats, to, |window| window.size_bytes as f64),
    ),
    gauge("rails_stream_window_used", Some("ratio"), "The part of the window that is in use.", |stats, to| {
        windows(stats, to, WindowUse::share);
    }),
    gauge("rails_stream_window_used_max", Some("ratio"), "The largest part that was in use.", |stats, to| {
        windows(stats, to, WindowUse::max_share);
    }),
    counter(
        "rails_stream_stalled",
        Some(SECONDS),
        "Time that the stream waited, by cause; not_read may go with any other.",
        |stats, to| {
            let stalls = &stats.stalls;
            let causes = [
                ("nothing_to_send", stalls.nothing_to_send),
                ("window_full", stalls.window_full),
                ("no_room", stalls.no_room),
                ("no_lane", stalls.no_lane),
                ("not_read", stalls.not_read),
            ];
            to.extend(causes.map(|(cause, time)| of(stats, &[("cause", cause)], Seconds(time))));
        },
    ),
    // Metrics of a lane.
    gauge("rails_lane_up", None, "1 while the lane is up, 0 while it is down.", |stats, to| {
        lanes(stats, to, |lane, put| put(&[], Gauge(f64::from(u8::from(lane.up)))));
    }),
    gauge(
        "rails_lane_unused",
        None,
        "1 while the lane is up and has been given nothing for two seconds in which the stream had work, else 0.",
        |stats, to| lanes(stats, to, |lane, put| put(&[], Gauge(f64::from(u8::from(lane.unused))))),
    ),
    counter("rails_lane_joins", None, "How often the lane came up.", |stats, to| {
        lanes(stats, to, |lane, put| put(&[], Total(lane.joined)));
    }),
    counter("rails_lane_losses", None, "How often the lane was lost.", |stats, to| {
        lanes(stats, to, |lane, put| put(&[], Total(lane.losses)));
    }),
    counter("rails_lane", Some(BYTES), "Bytes of the stream on the lane, retransmitted ones included.", |stats, to| {
        lanes(stats, to, |lane, put| {
            put(&[("direction", "sent")], Total(lane.bytes_sent));
            put(&[("direction", "received")], Total(lane.bytes_received));
        });
    }),
    counter("rails_lane_chunks", None, "Chunks on the lane.", |stats, to| {
        lanes(stats, to, |lane, put| {
            put(&[("direction", "sent")], Total(lane.chunks_sent));
            put(&[("direction", "received")], Total(lane.chunks_received));
        });
    }),
    counter(
        "rails_lane_helped_chunks",
        None,
        "Chunks that another core of the lane's rail sealed or checked.",
        |stats, to| {
            lanes(stats, to, |lane, put| put(&[], Total(lane.chunks_helped)));
        },
    ),
    counter(
        "rails_lane_reissued",
        Some(BYTES),
        "Bytes that the lane was given after another had been, by cause.",
        |stats, to| {
            lanes(stats, to, |lane, put| {
                reissued(&lane.sent_again, |reissued| reissued.bytes, |cause, value| put(&[cause], value));
            });
        },
    ),
    counter(
        "rails_lane_reissued_chunks",
        None,
        "Chunks that the lane was given after another had been, by cause.",
        |stats, to| {
            lanes(stats, to, |lane, put| {
                reissued(&lane.sent_again, |reissued| reissued.chunks, |cause, value| put(&[cause], value));
            });
        },
    ),
    counter(
        "rails_lane_duplicate",
        Some(BYTES),
        "Bytes that arrived on the lane and had arrived before.",
        |stats, to| lanes(stats, to, |lane, put| put(&[], Total(lane.duplicated.bytes))),
    ),
    counter(
        "rails_lane_duplicate_chunks",
        None,
        "Chunks that arrived on the lane with such bytes in them.",
        |stats, to| lanes(stats, to, |lane, put| put(&[], Total(lane.duplicated.chunks))),
    ),
    gauge(
        "rails_lane_in_flight",
        Some(BYTES),
        "Bytes that the lane was given and that are not acknowledged.",
        |stats, to| lanes(stats, to, |lane, put| put(&[], Gauge(lane.bytes_in_flight as f64))),
    ),
    gauge(
        "rails_lane_rate",
        Some("bytes_per_second"),
        "The rate at which the lane delivered lately while it was busy.",
        |stats, to| {
            lanes(stats, to, |lane, put| {
                let rate = lane.rate.map(|rate| rate.as_bits_per_second() as f64 / 8.0);
                rate.into_iter().for_each(|rate| put(&[], Gauge(rate)));
            });
        },
    ),
    gauge(
        "rails_lane_service",
        Some(SECONDS),
        "How long a chunk takes from being taken to being acknowledged.",
        |stats, to| lanes(stats, to, |lane, put| known(lane.service, put)),
    ),
    gauge("rails_lane_rtt", Some(SECONDS), "Smoothed round trip, by the kernel.", |stats, to| {
        lanes(stats, to, |lane, put| known(lane.rtt, put));
    }),
    gauge("rails_lane_min_rtt", Some(SECONDS), "Least round trip lately, by the kernel.", |stats, to| {
        lanes(stats, to, |lane, put| known(lane.min_rtt, put));
    }),
    counter("rails_lane_retransmitted", Some(BYTES), "Bytes that TCP sent again.", |stats, to| {
        lanes(stats, to, |lane, put| lane.bytes_retransmitted.into_iter().for_each(|bytes| put(&[], Total(bytes))));
    }),
    counter("rails_lane_retransmitted_segments", None, "Segments that TCP sent again.", |stats, to| {
        lanes(stats, to, |lane, put| {
            lane.segments_retransmitted.into_iter().for_each(|segments| put(&[], Total(segments)));
        });
    }),
    counter("rails_lane_time", Some(SECONDS), "The time that the lane spent in each state.", |stats, to| {
        lanes(stats, to, |lane, put| {
            let states = [
                ("busy", lane.times.busy),
                ("nothing_to_send", lane.times.nothing_to_send),
                ("window_full", lane.times.window_full),
                ("left_to_others", lane.times.left_to_others),
                ("stalled", lane.times.stalled),
                ("down", lane.down),
            ];
            states.into_iter().for_each(|(state, time)| put(&[("state", state)], Seconds(time)));
        });
    }),
    gauge("rails_lane_thread", None, "1; its labels say which thread drives which lane.", |stats, to| {
        for lane in &stats.lanes {
            let mut sample =
                of(stats, &[("lane", &lane.lane.to_string()), ("rail", &lane.rail.0.to_string())], Gauge(1.0));
            sample.labels.push(("thread", i32::from(lane.thread).to_string()));
            to.push(sample);
        }
    }),
    // Metrics of a thread, which may drive several lanes.
    counter(
        "rails_thread_cpu",
        Some(SECONDS),
        "CPU time of a thread that drives lanes, since it began, its other tasks included.",
        |stats, to| {
            let known = stats.threads.iter().filter_map(|thread| Some((thread.thread, thread.cpu?)));
            to.extend(known.map(|(thread, cpu)| Sample {
                labels: vec![("thread", i32::from(thread).to_string())],
                value: Seconds(cpu),
            }));
        },
    ),
];

/// A sample of a stream.
fn of(stats: &StreamStats, labels: &[(&'static str, &str)], value: Value) -> Sample {
    let stream = ("stream", stats.stream.to_string());
    let own = labels.iter().map(|(name, value)| (*name, (*value).to_owned()));
    Sample { labels: std::iter::once(stream).chain(own).collect(), value }
}

/// Adds a sample of a lane with further labels.
type Put<'a> = &'a mut dyn FnMut(&[(&'static str, &str)], Value);

/// The samples of each lane.
fn lanes(stats: &StreamStats, to: &mut Vec<Sample>, samples: fn(&LaneStats, Put<'_>)) {
    for lane in &stats.lanes {
        let (number, rail) = (lane.lane.to_string(), lane.rail.0.to_string());
        samples(lane, &mut |labels, value| {
            let mut all = vec![("lane", number.as_str()), ("rail", rail.as_str())];
            all.extend_from_slice(labels);
            to.push(of(stats, &all, value));
        });
    }
}

fn known(time: Option<Duration>, put: Put<'_>) {
    time.into_iter().for_each(|time| put(&[], Gauge(time.as_secs_f64())));
}

fn windows(stats: &StreamStats, to: &mut Vec<Sample>, value: impl Fn(&WindowUse) -> f64) {
    to.push(of(stats, &[("direction", "sent")], Gauge(value(&stats.send_window))));
    to.push(of(stats, &[("direction", "received")], Gauge(value(&stats.receive_window))));
}

fn reissued(
    of: &Reissued,
    count: fn(&rails_proto::session::ByteCount) -> u64,
    mut put: impl FnMut((&'static str, &str), Value),
) {
    put(("cause", "requeued"), Total(count(&of.requeued)));
    put(("cause", "reinjected"), Total(count(&of.reinjected)));
    put(("cause", "probed"), Total(count(&of.probed)));
}
