//! `--prometheus`: the statistics of a stream, as text for Prometheus.

use anyhow::Result;
use rails_multirail::StreamStats;

/// The destination of the statistics.
#[derive(Debug, clap::Args)]
pub(super) struct MetricsArgs {
    /// Write the statistics of each stream and its lanes to this file when it ends, in place of the
    /// last, as text for Prometheus; `-` is stdout
    #[cfg(feature = "prometheus")]
    #[arg(long, value_name = "FILE")]
    prometheus: Option<std::path::PathBuf>,
}

impl MetricsArgs {
    /// Refuses `--prometheus` for a measurement without such statistics.
    #[cfg(feature = "prometheus")]
    pub(super) fn ensure_none(&self) -> Result<()> {
        match &self.prometheus {
            None => Ok(()),
            Some(_) => Err(crate::exit::Helped::usage(
                "--prometheus: only a striped stream has statistics",
                "leave it out, or --plain, --mptcp and --ping",
            )),
        }
    }

    /// Does nothing: this build is without Prometheus.
    #[cfg(not(feature = "prometheus"))]
    pub(super) fn ensure_none(&self) -> Result<()> {
        Ok(())
    }

    /// Writes the statistics to the destination of `--prometheus`, if it was given.
    #[cfg(feature = "prometheus")]
    pub(super) fn write(&self, stats: Option<&StreamStats>) -> Result<()> {
        use anyhow::Context;

        let (Some(to), Some(stats)) = (&self.prometheus, stats) else { return Ok(()) };
        let text = stats.to_prometheus(&[]);
        if to.as_os_str() == "-" {
            return crate::print::result(text);
        }
        crate::output_file::write(to, text).with_context(|| format!("--prometheus: cannot write {}", to.display()))
    }

    /// Does nothing: this build is without Prometheus.
    #[cfg(not(feature = "prometheus"))]
    pub(super) fn write(&self, _: Option<&StreamStats>) -> Result<()> {
        Ok(())
    }
}
