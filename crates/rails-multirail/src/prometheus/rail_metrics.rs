//! The statistics of rails, as a collector and as text.

use super::{
    CONTENT_TYPE,
    series::{
        Metric, SECONDS, Sample,
        Value::{self, Gauge, Seconds, Total},
        counter, encode, gauge, text_of,
    },
};
use crate::{Rail, RailStats, Rails, rails::WeakRails};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use rails_bind::usage::ThreadUsage;
use std::fmt;

/// The statistics of all rails of a set, for a server that Prometheus reads. The text has them as
/// long as the set lives; this does not keep the rails running.
///
/// `RailMetrics` is also a collector of the crate `prometheus-client`, so that one registry, and
/// one page, has the metrics of rails, of streams ([`StreamMetrics`](super::StreamMetrics)) and of
/// the application:
///
/// ```
/// # use prometheus_client::{encoding::text, registry::Registry};
/// # use rails_multirail::{RailMetrics, RailRequest, Rails, StreamMetrics, plan_rails};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let rails = Rails::build(&plan_rails(&rails_topo::Topology::detect()?, &RailRequest::loopback(2))?)?;
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(RailMetrics::new(&rails)));
/// registry.register_collector(Box::new(StreamMetrics::new()));
/// let mut page = String::new();
/// text::encode(&mut page, &registry)?;
/// assert!(page.contains("rails_rail_tasks{rail=\"1\"} 0"));
/// # Ok(())
/// # }
/// ```
/// `docs/metrics.md` lists the metrics.
#[derive(Debug, Clone)]
pub struct RailMetrics {
    rails: WeakRails,
    labels: Vec<(String, String)>,
}

impl RailMetrics {
    /// The content type of the text.
    pub const CONTENT_TYPE: &'static str = CONTENT_TYPE;

    /// The statistics of these rails.
    pub fn new(rails: &Rails) -> Self {
        Self { rails: rails.downgrade(), labels: Vec::new() }
    }

    /// Adds a label to every series, to tell this set's rails from another's.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    /// The statistics of all rails, as text. Reads three small files in `/proc` for each rail.
    pub fn to_prometheus(&self) -> String {
        text_of(self.clone())
    }

    fn stats(&self) -> Vec<RailStats> {
        // The last handle may be dropped here meanwhile, which stops the rails.
        let rails = self.rails.upgrade();
        rails.iter().flat_map(Rails::iter).map(Rail::stats).collect()
    }
}

impl Collector for RailMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(encoder, RAIL_METRICS, &self.stats(), &self.labels)
    }
}

pub(super) const RAIL_METRICS: &[Metric<RailStats>] = &[
    gauge(
        "rails_rail_thread",
        None,
        "1; its labels say which thread is the rail's, and which CPU was planned for it.",
        |stats, to| {
            let thread = ("thread", i32::from(stats.thread).to_string());
            let cpu = ("cpu", stats.planned_cpu.to_string());
            to.push(of(stats, &[thread, cpu], Gauge(1.0)));
        },
    ),
    gauge("rails_rail_tasks", None, "Tasks that the runtime has and that have not ended.", |stats, to| {
        to.push(of(stats, &[], Gauge(stats.tasks as f64)));
    }),
    gauge(
        "rails_rail_queued_tasks",
        None,
        "Tasks that other threads have spawned or woken, and that wait for the rail.",
        |stats, to| {
            to.push(of(stats, &[], Gauge(stats.queued_tasks as f64)));
        },
    ),
    counter("rails_rail_busy", Some(SECONDS), "Time that the runtime was not parked.", |stats, to| {
        to.push(of(stats, &[], Seconds(stats.busy)));
    }),
    counter("rails_rail_parks", None, "How often the runtime had no task to run and parked.", |stats, to| {
        to.push(of(stats, &[], Total(stats.parks)));
    }),
    counter("rails_rail_moves", None, "How often the rail was moved to another place.", |stats, to| {
        to.push(of(stats, &[], Total(stats.moves)));
    }),
    counter("rails_rail_cpu", Some(SECONDS), "CPU time of the rail's thread.", |stats, to| {
        usage(stats, to, |usage, put| put(None, Seconds(usage.cpu_time.unwrap_or(usage.user + usage.system))));
    }),
    counter(
        "rails_rail_run_queue_wait",
        Some(SECONDS),
        "Time that the thread was ready to run and waited for its CPU.",
        |stats, to| {
            usage(stats, to, |usage, put| usage.run_queue_wait.into_iter().for_each(|time| put(None, Seconds(time))));
        },
    ),
    counter(
        "rails_rail_switches",
        None,
        "Context switches: the thread waited (voluntary), or lost its CPU (involuntary).",
        |stats, to| {
            usage(stats, to, |usage, put| {
                put(Some("voluntary"), Total(usage.voluntary_switches));
                put(Some("involuntary"), Total(usage.involuntary_switches));
            });
        },
    ),
    counter("rails_rail_migrations", None, "Moves of the thread to another CPU.", |stats, to| {
        usage(stats, to, |usage, put| usage.migrations.into_iter().for_each(|moves| put(None, Total(moves))));
    }),
    counter(
        "rails_rail_faults",
        None,
        "Page faults of the thread, without (minor) and with (major) reading from a disk.",
        |stats, to| {
            usage(stats, to, |usage, put| {
                put(Some("minor"), Total(usage.minor_faults));
                put(Some("major"), Total(usage.major_faults));
            });
        },
    ),
];

/// A sample of a rail.
fn of(stats: &RailStats, labels: &[(&'static str, String)], value: Value) -> Sample {
    let rail = ("rail", stats.rail.0.to_string());
    Sample { labels: std::iter::once(rail).chain(labels.iter().cloned()).collect(), value }
}

/// Adds a sample of a thread, with its `kind` if there are several.
type Put<'a> = &'a mut dyn FnMut(Option<&str>, Value);

/// The samples of a thread whose usage is known.
fn usage(stats: &RailStats, to: &mut Vec<Sample>, samples: fn(&ThreadUsage, Put<'_>)) {
    if let Some(usage) = &stats.usage {
        samples(usage, &mut |kind, value| {
            let kind = kind.map(|kind| ("kind", kind.to_owned()));
            to.push(of(stats, kind.as_slice(), value));
        });
    }
}
