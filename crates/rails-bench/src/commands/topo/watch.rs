//! `rails-bench topo --watch`: changes as they happen.

use crate::{
    document::{Contents, Document, Schema},
    exit::{Exit, Signal},
    print,
    stop::Stop,
    thread::block_on,
};
use anyhow::{Context, Result};
use humantime::format_rfc3339_millis;
use rails_topo::monitor::{Change, Changes, Monitor, MonitorOptions, Snapshot, Update};
use serde::Serialize;
use std::{
    error::Error,
    io::{self, Write},
    time::SystemTime,
};

/// Prints a line for each change until Ctrl-C.
pub(super) fn run(as_json: bool) -> Result<Exit> {
    block_on(async {
        let mut stop = Stop::on_signals().context("Ctrl-C cannot be heeded")?;
        let monitor = Monitor::start(MonitorOptions::new()).await.context("this machine cannot be watched")?;
        for error in monitor.refused() {
            let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
            print::note(format!("some changes show late: {error}{why}"));
        }
        let mut changes = monitor.subscribe();
        print::note("watching; Ctrl-C ends it");
        tokio::select! {
            signal = stop.requested() => Ok(match signal {
                // Ctrl-C is the usual end of a watch.
                Signal::Interrupt => Exit::Done,
                signal => Exit::Signal(signal),
            }),
            ended = follow(&mut changes, as_json) => ended,
        }
    })
}

/// Prints changes until the monitor ends, or the reader of stdout is gone.
async fn follow(changes: &mut Changes, as_json: bool) -> Result<Exit> {
    while let Some(update) = changes.next().await {
        let update = update.context("this machine can be watched no longer")?;
        let now = SystemTime::now();
        let line = match as_json {
            true => Document::of(Line::of(&update, now)).line()?,
            false => text_line(&update, now) + "\n",
        };
        let mut out = io::stdout().lock();
        match write!(out, "{line}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.context("cannot write to stdout")?,
        }
    }
    Ok(Exit::Done)
}

fn text_line(update: &Update, now: SystemTime) -> String {
    match update {
        Update::Change(stamped) => format!("{}  {}", format_rfc3339_millis(stamped.at), stamped.change),
        Update::Lagged { missed, .. } => format!("{}  {missed} changes were missed", format_rfc3339_millis(now)),
    }
}

/// A change of the machine.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct Line<'a> {
    /// The time at which the change was noticed, as RFC 3339 has it.
    time: String,
    #[serde(flatten)]
    news: News<'a>,
}

impl Contents for Line<'_> {
    const SCHEMA: Schema = Schema::TOPO_CHANGE;
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum News<'a> {
    Change(&'a Change),
    Missed(Missed<'a>),
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Missed<'a> {
    /// Changes came faster than they were read.
    Lagged {
        /// The number of changes left out.
        missed: u64,
        /// The machine after these changes.
        snapshot: &'a Snapshot,
    },
}

impl<'a> Line<'a> {
    fn of(update: &'a Update, now: SystemTime) -> Self {
        let (at, news) = match update {
            Update::Change(stamped) => (stamped.at, News::Change(&stamped.change)),
            Update::Lagged { missed, snapshot } => (now, News::Missed(Missed::Lagged { missed: *missed, snapshot })),
        };
        Self { time: format_rfc3339_millis(at).to_string(), news }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_topo::{
        CpuId, Topology,
        monitor::{Change, Snapshot, Stamped},
    };
    use serde_json::json;
    use std::{sync::Arc, time::Duration};

    #[test]
    fn a_change_is_one_line_with_its_time() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_042);
        let change = Change::CpuOffline { cpu: CpuId(3) };
        let update = Update::Change(Arc::new(Stamped { at, change }));
        assert_eq!(text_line(&update, SystemTime::now()), "2023-11-14T22:13:20.042Z  CPU 3 went offline");
        let expected = json!({ "time": "2023-11-14T22:13:20.042Z", "kind": "cpu_offline", "cpu": 3 });
        assert_eq!(json!(Line::of(&update, SystemTime::now())), expected);
    }

    #[test]
    fn missed_changes_and_the_machine_anew() {
        let topology = Topology::synthetic("core:2 pu:1", Vec::new()).unwrap();
        let snapshot = Arc::new(Snapshot { topology, memory_blocks: None });
        let update = Update::Lagged { missed: 7, snapshot };
        let line = json!(Line::of(&update, SystemTime::UNIX_EPOCH));
        assert_eq!((&line["kind"], &line["missed"]), (&json!("lagged"), &json!(7)));
        assert_eq!(line["snapshot"]["topology"]["online_cpus"], json!("0-1"));
        assert!(text_line(&update, SystemTime::UNIX_EPOCH).ends_with("7 changes were missed"));
    }
}
