//! Metrics and their series, as text.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};
use std::{fmt, time::Duration};

/// One metric. The name has neither the unit nor `_total`, because the encoder adds them.
pub(super) struct Metric<S> {
    pub(super) name: &'static str,
    pub(super) unit: Option<&'static str>,
    pub(super) kind: MetricType,
    pub(super) help: &'static str,
    /// Appends the samples of one stream or rail; none if the value is unknown.
    pub(super) samples: fn(&S, &mut Vec<Sample>),
}

/// The value of one series.
pub(super) struct Sample {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: Value,
}

/// A value of a counter or a gauge.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Total(u64),
    Seconds(Duration),
    Gauge(f64),
}

/// The unit of that name.
fn unit(name: &str) -> Unit {
    match name {
        BYTES => Unit::Bytes,
        SECONDS => Unit::Seconds,
        other => Unit::Other(other.to_owned()),
    }
}

pub(super) const fn counter<S>(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    samples: fn(&S, &mut Vec<Sample>),
) -> Metric<S> {
    Metric { name, unit, kind: MetricType::Counter, help, samples }
}

pub(super) const fn gauge<S>(
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    samples: fn(&S, &mut Vec<Sample>),
) -> Metric<S> {
    Metric { name, unit, kind: MetricType::Gauge, help, samples }
}

pub(super) fn text_of(collector: impl Collector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}

/// Encodes each metric once, with the samples of all streams or rails, as the format demands.
pub(super) fn encode<S>(
    mut encoder: DescriptorEncoder<'_>,
    metrics: &[Metric<S>],
    of: &[S],
    labels: &[(String, String)],
) -> fmt::Result {
    for metric in metrics {
        let mut samples = Vec::new();
        of.iter().for_each(|stats| (metric.samples)(stats, &mut samples));
        // Streams share threads, and a series must not occur twice.
        let mut told = std::collections::HashSet::new();
        samples.retain(|sample: &Sample| told.insert(sample.labels.clone()));
        if samples.is_empty() {
            continue;
        }
        let unit = metric.unit.map(unit);
        let mut family = encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), metric.kind)?;
        for sample in samples {
            let own = sample.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let all: Vec<(String, String)> = labels.iter().cloned().chain(own).collect();
            let mut series = family.encode_family(&all)?;
            match sample.value {
                Value::Total(total) => series.encode_counter::<NoLabelSet, _, u64>(&total, None)?,
                Value::Seconds(time) => series.encode_counter::<NoLabelSet, _, f64>(&time.as_secs_f64(), None)?,
                Value::Gauge(value) => series.encode_gauge(&value)?,
            }
        }
    }
    Ok(())
}

pub(super) const BYTES: &str = "bytes";
pub(super) const SECONDS: &str = "seconds";
