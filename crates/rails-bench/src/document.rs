//! The JSON documents of the commands. Each names its schema and the schema's version, so that a
//! program that reads one can tell it from others, and from those of a later release.

use crate::print;
use anyhow::Result;
use serde::Serialize;

/// The schema of a document. A release that adds a field keeps the version; one that takes a field
/// away, or changes its meaning, has the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Schema {
    /// The name, which begins with `rails-bench.`.
    schema: &'static str,
    version: u32,
}

impl Schema {
    pub(crate) const DOCTOR: Self = Self::first("rails-bench.doctor");
    pub(crate) const GATE: Self = Self::first("rails-bench.gate");
    pub(crate) const INTERVAL: Self = Self::first("rails-bench.interval");
    pub(crate) const PLAN: Self = Self::first("rails-bench.plan");
    pub(crate) const PROBE: Self = Self::first("rails-bench.probe");
    pub(crate) const RAILS: Self = Self::first("rails-bench.rails");
    pub(crate) const RECV: Self = Self::first("rails-bench.recv");
    pub(crate) const ROUND_TRIPS: Self = Self::first("rails-bench.round-trips");
    pub(crate) const RUN: Self = Self::first("rails-bench.run");
    pub(crate) const SEND: Self = Self::first("rails-bench.send");
    pub(crate) const SERVE: Self = Self::first("rails-bench.serve");
    pub(crate) const SERVE_SENT: Self = Self::first("rails-bench.serve-sent");
    pub(crate) const STREAM: Self = Self::first("rails-bench.stream");
    pub(crate) const TASKS: Self = Self::first("rails-bench.tasks");
    pub(crate) const TOPO: Self = Self::first("rails-bench.topo");
    pub(crate) const TOPO_CHANGE: Self = Self::first("rails-bench.topo-change");
    pub(crate) const UNDO: Self = Self::first("rails-bench.undo");

    const fn first(schema: &'static str) -> Self {
        Self { schema, version: 1 }
    }

    /// A document of this schema, whose fields stand beside the schema's.
    pub(crate) fn with<T: Serialize>(self, contents: T) -> Document<T> {
        Document { schema: self, contents }
    }
}

/// A document: the schema, and the fields of the contents, which serialize as an object.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Document<T> {
    #[serde(flatten)]
    schema: Schema,
    #[serde(flatten)]
    contents: T,
}

impl<T: Serialize> Document<T> {
    /// Prints the document over several lines.
    ///
    /// # Errors
    /// As [`print::result`].
    pub(crate) fn print(&self) -> Result<()> {
        print::result(self.pretty()?)
    }

    /// Prints the document on a line of its own, for commands that may print several.
    ///
    /// # Errors
    /// As [`print::result`].
    pub(crate) fn print_line(&self) -> Result<()> {
        print::result(self.line()?)
    }

    /// The document over several lines, each with its end.
    pub(crate) fn pretty(&self) -> Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// The document on one line, with its end.
    pub(crate) fn line(&self) -> Result<String> {
        Ok(format!("{}\n", serde_json::to_string(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_and_version_beside_the_contents() {
        #[derive(Serialize)]
        struct Contents {
            bytes: u64,
        }
        let line = Schema::SEND.with(Contents { bytes: u64::MAX }).line().unwrap();
        assert_eq!(line, "{\"schema\":\"rails-bench.send\",\"version\":1,\"bytes\":18446744073709551615}\n");
    }
}
