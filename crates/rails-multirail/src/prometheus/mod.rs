//! Statistics for Prometheus, in the text format of OpenMetrics. `docs/metrics.md` has the same
//! lists of metrics for readers, and a test compares them.

mod rail_metrics;
mod series;
mod stream_metrics;
mod stream_series;

pub use rail_metrics::RailMetrics;
pub use stream_metrics::StreamMetrics;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests;
