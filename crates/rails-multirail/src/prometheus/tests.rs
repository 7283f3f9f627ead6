use super::{
    RailMetrics,
    rail_metrics::RAIL_METRICS,
    series::{Metric, encode},
    stream_series::STREAM_METRICS,
};
use crate::{LaneStats, RailId, RailRequest, Rails, StreamId, StreamStats, ThreadStats, plan_rails};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    metrics::MetricType,
    registry::Registry,
};
use rails_bind::thread;
use rails_proto::session::{LaneTimes, Reordered, Stalls, WindowUse};
use rails_topo::Topology;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    time::Duration,
};

fn lane(number: u16) -> LaneStats {
    LaneStats {
        lane: number,
        rail: RailId(usize::from(number) % 2),
        thread: thread::current_tid(),
        local: "127.0.0.1:1".parse().unwrap(),
        remote: "127.0.0.2:2".parse().unwrap(),
        up: true,
        bytes_sent: 1000 + u64::from(number),
        chunks_sent: 3,
        chunks_helped: 0,
        sent_again: Default::default(),
        bytes_received: 0,
        chunks_received: 0,
        duplicated: Default::default(),
        bytes_in_flight: 17,
        rate: Some(rails_topo::Bandwidth::mbps(8)),
        unused: false,
        service: None,
        rtt: Some(Duration::from_micros(1500)),
        min_rtt: Some(Duration::from_micros(500)),
        bytes_retransmitted: Some(0),
        segments_retransmitted: Some(0),
        times: LaneTimes { busy: Duration::from_millis(1250), ..LaneTimes::default() },
        down: Duration::ZERO,
        transport: None,
        joined: 1,
        losses: 0,
        lost: None,
    }
}

fn stats(id: u8) -> StreamStats {
    let window = WindowUse { size_bytes: 100, used_bytes: 25, max_used_bytes: 50 };
    StreamStats {
        stream: StreamId([id; 16]),
        age: Duration::from_secs(2),
        bytes_written: 2001,
        bytes_consumed_by_peer: 2000,
        bytes_sent_again: 0,
        sent_again: Default::default(),
        bytes_read: 0,
        bytes_duplicated: 0,
        chunks_duplicated: 0,
        reordered: Some(Reordered { bytes: 1, max_bytes: 2 }),
        send_window: window,
        receive_window: window,
        stalls: Stalls { no_room: Duration::from_millis(500), ..Stalls::default() },
        lanes: vec![lane(0), lane(1)],
        threads: vec![ThreadStats {
            thread: thread::current_tid(),
            lanes: vec![0, 1],
            cpu: Some(Duration::from_secs(3)),
        }],
    }
}

/// Parses the text: the type of each metric, and each series' value. Panics at a line that is not
/// in the format.
fn parse(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, f64>) {
    let (mut types, mut series) = (BTreeMap::new(), BTreeMap::new());
    let body = text.strip_suffix("# EOF\n").expect("the text ends with EOF");
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (kind, rest) = comment.split_once(' ').expect(line);
            let (name, said) = rest.split_once(' ').expect(line);
            assert!(["HELP", "TYPE", "UNIT"].contains(&kind) && !said.is_empty(), "{line}");
            match kind {
                "TYPE" => assert!(types.insert(name.to_owned(), said.to_owned()).is_none(), "{name} comes twice"),
                "UNIT" => assert!(name.ends_with(&format!("_{said}")), "{line}"),
                _ => assert!(said.ends_with('.'), "{line}"),
            }
            continue;
        }
        let (key, value) = line.rsplit_once(' ').expect(line);
        let (name, labels) = key.split_once('{').expect(line);
        let family = name.strip_suffix("_total").unwrap_or(name);
        assert_eq!(types.get(family).map(String::as_str) == Some("counter"), name.ends_with("_total"), "{line}");
        for label in labels.strip_suffix('}').expect(line).split(',') {
            let (label, value) = label.split_once('=').expect(line);
            assert!(label.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
            assert!(value.len() >= 2 && value.starts_with('"') && value.ends_with('"'), "{line}");
        }
        let value: f64 = value.parse().expect(line);
        assert!(value.is_finite() && series.insert(key.to_owned(), value).is_none(), "{line}");
    }
    (types, series)
}

/// The name of the metric's series.
fn full_name<S>(metric: &Metric<S>) -> String {
    let unit = metric.unit.map(|unit| format!("_{unit}")).unwrap_or_default();
    let total = if matches!(metric.kind, MetricType::Counter) { "_total" } else { "" };
    format!("{}{unit}{total}", metric.name)
}

#[test]
fn metrics_text_equals_the_statistics() {
    let text = stats(0xab).to_prometheus(&[("host", "a \"b\"\\")]);
    let stream = "ab".repeat(16);
    let own = format!("host=\"a \\\"b\\\"\\\\\",stream=\"{stream}\"");
    // The parser above does not handle a quotation mark in a label.
    let (types, series) = parse(&text.replace("a \\\"b\\\"\\\\", "x"));
    assert_eq!(types.len(), STREAM_METRICS.len() - 1, "a metric without samples is left out: the service time");
    assert!(text.contains(&format!("rails_lane_bytes_total{{{own},lane=\"1\",rail=\"1\",direction=\"sent\"}} 1001\n")));
    let value = |name: &str, labels: &str| series[&format!("{name}{{host=\"x\",stream=\"{stream}\"{labels}}}")];
    assert_eq!(value("rails_stream_stalled_seconds_total", ",cause=\"no_room\""), 0.5);
    assert_eq!(value("rails_stream_window_used_max_ratio", ",direction=\"received\""), 0.5);
    assert_eq!(value("rails_lane_time_seconds_total", ",lane=\"0\",rail=\"0\",state=\"busy\""), 1.25);
    assert_eq!(value("rails_lane_rate_bytes_per_second", ",lane=\"0\",rail=\"0\""), 1e6);
}

#[test]
fn streams_that_share_a_thread_tell_of_it_once() {
    let mut text = String::new();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Both));
    text::encode(&mut text, &registry).unwrap();
    let (_, series) = parse(&text);
    let named = |name: &str| series.keys().filter(|key| key.starts_with(&format!("{name}{{"))).count();
    assert_eq!((named("rails_thread_cpu_seconds_total"), named("rails_lane_thread")), (1, 4));
    assert_eq!(named("rails_lane_bytes_total"), 8);
}

#[derive(Debug)]
struct Both;

impl Collector for Both {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(encoder, STREAM_METRICS, &[stats(1), stats(2)], &[])
    }
}

#[test]
fn rails_are_told_of_as_long_as_they_run() {
    let plan = plan_rails(&Topology::detect().unwrap(), &RailRequest::loopback(2)).unwrap();
    let rails = Rails::build(&plan).unwrap();
    let metrics = RailMetrics::new(&rails).label("set", "a");
    let runtime = rails[RailId(1)].runtime();
    let computes = Duration::from_millis(40);
    let busy = runtime.block_on(move || async move {
        let start = thread_usage();
        while thread_usage() < start + computes {}
        tokio::time::sleep(Duration::from_millis(1)).await;
    });
    busy.unwrap();
    let waiting = runtime.spawn(std::future::pending::<()>());
    // A task counts for a moment longer than its result takes to arrive.
    let start = std::time::Instant::now();
    while rails[RailId(1)].stats().tasks > 1 && start.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    let text = metrics.to_prometheus();
    let (types, series) = parse(&text);
    let value = |name: &str, labels: &str| series.get(&format!("{name}{{set=\"a\",rail=\"1\"{labels}}}")).copied();
    let tid = i32::from(runtime.placement().tid);
    let cpu = rails[RailId(1)].planned().cpu;
    assert_eq!(value("rails_rail_thread", &format!(",thread=\"{tid}\",cpu=\"{cpu}\"")), Some(1.0), "{text}");
    assert_eq!(value("rails_rail_tasks", ""), Some(1.0));
    // The scheduler accounts for CPU time at a tick or a switch, and the task's sleep was one.
    assert!(value("rails_rail_cpu_seconds_total", "").unwrap() >= computes.as_secs_f64(), "{text}");
    assert!(value("rails_rail_busy_seconds_total", "").unwrap() >= computes.as_secs_f64(), "{text}");
    assert!(value("rails_rail_parks_total", "").unwrap() >= 2.0, "{text}");
    assert_eq!(value("rails_rail_moves_total", ""), Some(0.0), "{text}");
    assert!(value("rails_rail_switches_total", ",kind=\"voluntary\"").unwrap() >= 1.0, "{text}");
    assert!(value("rails_rail_faults_total", ",kind=\"minor\"").unwrap() >= 1.0, "{text}");
    let known = usize::from(rails[RailId(1)].stats().usage.unwrap().migrations.is_some());
    assert!(types.len() >= RAIL_METRICS.len() - 1 && types.contains_key("rails_rail_migrations") == (known == 1));

    rails.blocking_shutdown(Duration::from_secs(20)).unwrap();
    drop(waiting);
    let (types, series) = parse(&metrics.to_prometheus());
    assert_eq!(series["rails_rail_tasks{set=\"a\",rail=\"1\"}"], 0.0);
    assert!(!types.contains_key("rails_rail_cpu_seconds"), "a thread that has ended has no usage");
    let json = serde_json::to_value(rails[RailId(1)].stats()).unwrap();
    assert_eq!((&json["rail"], &json["tasks"], &json["usage"]), (&1.into(), &0.into(), &serde_json::Value::Null));
    drop(rails);
    assert_eq!(metrics.to_prometheus(), "# EOF\n", "the metrics do not keep the rails");
}

/// The CPU time of the calling thread.
fn thread_usage() -> Duration {
    rails_bind::usage::ThreadUsage::of(thread::current_tid()).unwrap().cpu_time.expect("the kernel counts it")
}

#[test]
fn documented_metrics_are_all_metrics() {
    let list = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).unwrap();
    let row = |line: &str| Some(line.strip_prefix("| `rails_")?.split_once('`')?.0.to_owned());
    let listed: BTreeSet<String> = list.lines().filter_map(row).map(|name| format!("rails_{name}")).collect();
    let metrics = STREAM_METRICS.iter().map(full_name).chain(RAIL_METRICS.iter().map(full_name));
    assert_eq!(listed, metrics.collect());
}
