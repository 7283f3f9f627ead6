//! The JSON documents of the commands. Each names its schema and the schema's version, so that a
//! program that reads one can tell it from others, and from those of a later release.

use crate::print;
use anyhow::Result;
use serde::Serialize;

/// The schema of a document. A release that adds a field keeps the version; one that takes a field
/// away, or changes its meaning, has the next. `docs/json.md` lists all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Schema {
    /// The name, which begins with `rails-bench.`.
    schema: &'static str,
    version: u32,
}

/// The schemas by their names, each with its version.
macro_rules! schemas {
    ($($constant:ident: $name:literal $version:literal)*) => {
        impl Schema {
            $(pub(crate) const $constant: Self = Self { schema: concat!("rails-bench.", $name), version: $version };)*

            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$constant),*];
        }
    };
}

schemas! {
    DOCTOR: "doctor" 1
    GATE: "gate" 1
    INTERVAL: "interval" 1
    PLAN: "plan" 1
    PROBE: "probe" 1
    RAILS: "rails" 1
    RECV: "recv" 1
    ROUND_TRIPS: "round-trips" 1
    RUN: "run" 1
    SEND: "send" 1
    SERVE: "serve" 1
    SERVE_SENT: "serve-sent" 1
    STREAM: "stream" 1
    TASKS: "tasks" 1
    TOPO: "topo" 1
    TOPO_CHANGE: "topo-change" 1
    UNDO: "undo" 1
}

#[cfg(test)]
impl Schema {
    pub(crate) fn name(self) -> &'static str {
        self.schema
    }

    pub(crate) fn version(self) -> u32 {
        self.version
    }
}

/// The fields of a document beside those of its schema. They serialize as an object.
pub(crate) trait Contents: Serialize {
    const SCHEMA: Schema;
}

impl<T: Contents> Contents for &T {
    const SCHEMA: Schema = T::SCHEMA;
}

/// A document: the schema, and beside it the fields of the contents.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Document<T> {
    #[serde(flatten)]
    schema: Schema,
    #[serde(flatten)]
    contents: T,
}

impl<T: Contents> Document<T> {
    pub(crate) fn of(contents: T) -> Self {
        Self { schema: T::SCHEMA, contents }
    }

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
        struct Bytes {
            bytes: u64,
        }
        impl Contents for Bytes {
            const SCHEMA: Schema = Schema::SEND;
        }
        let line = Document::of(Bytes { bytes: u64::MAX }).line().unwrap();
        assert_eq!(line, "{\"schema\":\"rails-bench.send\",\"version\":1,\"bytes\":18446744073709551615}\n");
    }
}
