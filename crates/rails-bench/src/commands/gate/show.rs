//! The state of the gate that runs on this host.

use crate::{
    document::{Contents, Document, Schema},
    exit::{Exit, Help},
    print,
};
use anyhow::Result;
use rails_gate::{Door, DoorError, status::GateStatus};
use std::{fmt::Write, io::ErrorKind};

impl Contents for GateStatus {
    const SCHEMA: Schema = Schema::GATE;
}

/// Prints the state.
pub(super) async fn status(door: &Door, json: bool) -> Result<Exit> {
    let status = door.status().await.map_err(no_gate)?;
    match json {
        true => Document::of(&status).print_line()?,
        false => print::text(tables(&status)?)?,
    }
    Ok(Exit::Done)
}

/// Writes the counts as text for Prometheus.
#[cfg(feature = "prometheus")]
pub(super) async fn prometheus(door: &Door, to: &std::path::Path) -> Result<Exit> {
    use anyhow::Context;

    let text = door.metrics().await.map_err(no_gate)?;
    match to.as_os_str() == "-" {
        true => print::result(text)?,
        false => crate::output_file::write(to, text)
            .with_context(|| format!("--prometheus: cannot write {}", to.display()))?,
    }
    Ok(Exit::Done)
}

fn no_gate(error: DoorError) -> anyhow::Error {
    let help = match &error {
        DoorError::NoGate { error, .. } if error.kind() == ErrorKind::PermissionDenied => {
            "the policy's `socket_mode` and `socket_group` say who may ask the gate; `--gate SOCKET` names another one"
        }
        DoorError::NoGate { error, .. } if error.kind() == ErrorKind::TimedOut => {
            "the gate is there and does not answer: it may be stopped (`kill -CONT` lets it go on)"
        }
        _ => "`--gate SOCKET` names the socket of a gate, and `rails-bench gate` starts one",
    };
    anyhow::Error::new(error).help(help)
}

fn tables(status: &GateStatus) -> Result<String> {
    let mut text = String::new();
    let mut peers = print::table(2, vec!["peer", "session", "lanes", "connections", "for"]);
    for peer in &status.peers {
        let session = if peer.sessions > 0 { "up" } else { "none" };
        let since = peer.since.map(|since| humantime::format_duration(std::time::Duration::from_secs(since.as_secs())));
        peers.add_row(vec![
            peer.name.clone(),
            session.to_owned(),
            peer.lanes.to_string(),
            peer.connections.to_string(),
            since.map(|since| since.to_string()).unwrap_or_default(),
        ]);
    }
    writeln!(text, "{peers}")?;
    for peer in status.peers.iter().filter(|peer| peer.sessions == 0) {
        if let Some(error) = &peer.last_error {
            writeln!(text, "{}: {error}", peer.name)?;
        }
    }
    if !status.connections.is_empty() {
        let header = vec!["door", "peer", "destination", "opened", "now", "reset", "refused", "sent", "received"];
        let mut connections = print::table(3, header);
        for counts in &status.connections {
            let door = counts.door.map_or_else(|| "(served)".to_owned(), |door| door.to_string());
            let numbers = [counts.opened, counts.active, counts.reset, counts.refused];
            let bytes = [counts.sent_bytes, counts.received_bytes].map(bytes);
            let names = [door, counts.peer.clone(), counts.destination.clone()];
            connections.add_row(names.into_iter().chain(numbers.map(|number| number.to_string())).chain(bytes));
        }
        writeln!(text, "{connections}")?;
    }
    for plain in &status.plain {
        let peer = plain.peer.as_deref().map(|peer| format!(" to {peer}")).unwrap_or_default();
        let connections = if plain.count == 1 { "connection" } else { "connections" };
        writeln!(text, "{} {connections}{peer} by {} went plain: {}", plain.count, plain.door, plain.why)?;
    }
    Ok(text)
}

fn bytes(count: u64) -> String {
    rails_topo::DataSize::bytes(count).to_string()
}
