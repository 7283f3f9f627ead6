//! The statistics of streams, as a collector and as text.

use super::{
    CONTENT_TYPE,
    series::{encode, text_of},
    stream_series::STREAM_METRICS,
};
use crate::{MultiRailStream, StreamStats, stream::StreamShared};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// The statistics of many streams, for a server that Prometheus reads.
///
/// The text has a [watched](Self::watch) stream as long as the stream lasts; then its series end.
/// Every series has the label `stream`, so an application with many short streams should sum up
/// [`StreamStats`] itself.
///
/// `StreamMetrics` is also a collector of the crate `prometheus-client`, so that an application can
/// register it beside its own metrics.
/// `docs/metrics.md` lists the metrics.
#[derive(Debug, Clone, Default)]
pub struct StreamMetrics {
    watched: Arc<Mutex<Vec<Weak<StreamShared>>>>,
    labels: Vec<(String, String)>,
}

impl StreamMetrics {
    /// The content type of the text.
    pub const CONTENT_TYPE: &'static str = CONTENT_TYPE;

    /// A set without streams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label to every series, to tell this process's series from another's.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    /// Adds `stream` to the text as long as it lasts. This does not keep the stream open.
    pub fn watch(&self, stream: &MultiRailStream) {
        let mut watched = self.lock();
        watched.retain(|known| known.strong_count() > 0);
        let new = Arc::downgrade(&stream.shared);
        if !watched.iter().any(|known| known.ptr_eq(&new)) {
            watched.push(new);
        }
    }

    /// The statistics of all watched streams that last, as text. It takes each stream's lock for a
    /// moment, and asks the kernel about each lane and thread.
    pub fn to_prometheus(&self) -> String {
        text_of(Encoded(self.clone()))
    }

    fn stats(&self) -> Vec<StreamStats> {
        // The list's lock is released before the streams are read, and before a last handle is dropped.
        let streams: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        streams.iter().map(|shared| shared.stats()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<StreamShared>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for StreamMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(encoder, STREAM_METRICS, &self.stats(), &self.labels)
    }
}

impl StreamStats {
    /// The statistics as text for Prometheus, with these labels before each series' own: for a file
    /// or a push gateway. For open streams see [`StreamMetrics`].
    pub fn to_prometheus(&self, labels: &[(&str, &str)]) -> String {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        text_of(Once { stats: self.clone(), labels: labels.collect() })
    }
}

/// A snapshot of one stream's statistics.
#[derive(Debug)]
struct Once {
    stats: StreamStats,
    labels: Vec<(String, String)>,
}

/// A collector by value, because a registry takes it so.
#[derive(Debug)]
struct Encoded(StreamMetrics);

impl Collector for Once {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(encoder, STREAM_METRICS, std::slice::from_ref(&self.stats), &self.labels)
    }
}

impl Collector for Encoded {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}
