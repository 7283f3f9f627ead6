//! `rails-bench topo --watch`: changes as they happen.

use crate::{
    document::Schema,
    exit::{Exit, Signal},
    print,
    stop::Stop,
    thread::block_on,
};
use anyhow::{Context, Result};
use humantime::format_rfc3339_millis;
use rails_topo::monitor::{Changes, Monitor, MonitorOptions, Update};
use serde_json::{Value, json};
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
            true => Schema::TOPO_CHANGE.with(json_line(&update, now)).line()?,
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

/// The change's own fields, and `time`; missed changes have the kind `lagged`, with the present
/// machine.
fn json_line(update: &Update, now: SystemTime) -> Value {
    let (at, mut line) = match update {
        Update::Change(stamped) => (stamped.at, json!(stamped.change)),
        Update::Lagged { missed, snapshot } => {
            (now, json!({ "kind": "lagged", "missed": missed, "snapshot": **snapshot }))
        }
    };
    line["time"] = json!(format_rfc3339_millis(at).to_string());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_topo::{
        CpuId, Topology,
        monitor::{Change, Snapshot, Stamped},
    };
    use std::{sync::Arc, time::Duration};

    #[test]
    fn a_change_is_one_line_with_its_time() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_042);
        let change = Change::CpuOffline { cpu: CpuId(3) };
        let update = Update::Change(Arc::new(Stamped { at, change }));
        assert_eq!(text_line(&update, SystemTime::now()), "2023-11-14T22:13:20.042Z  CPU 3 went offline");
        let expected = json!({ "time": "2023-11-14T22:13:20.042Z", "kind": "cpu_offline", "cpu": 3 });
        assert_eq!(json_line(&update, SystemTime::now()), expected);
    }

    #[test]
    fn missed_changes_and_the_machine_anew() {
        let topology = Topology::synthetic("core:2 pu:1", Vec::new()).unwrap();
        let snapshot = Arc::new(Snapshot { topology, memory_blocks: None });
        let update = Update::Lagged { missed: 7, snapshot };
        let line = json_line(&update, SystemTime::UNIX_EPOCH);
        assert_eq!((&line["kind"], &line["missed"]), (&json!("lagged"), &json!(7)));
        assert_eq!(line["snapshot"]["topology"]["online_cpus"], json!("0-1"));
        assert!(text_line(&update, SystemTime::UNIX_EPOCH).ends_with("7 changes were missed"));
    }
}
