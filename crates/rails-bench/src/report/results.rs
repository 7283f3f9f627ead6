//! The results of commands.

use super::{Column, Goodput, Part, lost, table, unheld, unused, verdicts};
use crate::{
    batch::Batch,
    measure::{
        Count,
        report::{Measurement, Transport},
    },
    print,
    side::Side,
};
use anyhow::Result;
use rails_multirail::Policy;
use rails_topo::DataSize;
use rails_transfer::{How, ReceiveSummary, SendSummary};
use std::time::Duration;

/// Prints the result of sending, for which the batch was begun again so many times. Returns whether
/// everything arrived.
pub(crate) fn sent(batch: &Batch<SendSummary>, summary: &SendSummary, begun_again: u32, details: bool) -> Result<bool> {
    say_off(summary);
    let unchanged = summary.files.iter().filter(|file| file.how == How::AlreadyThere).count();
    let mut counts = format!(
        "files: {} sent, {unchanged} unchanged, {} left out, {} failed",
        summary.files.len() - unchanged,
        summary.skipped.len(),
        summary.failures.len()
    );
    if summary.removed > 0 {
        counts += &removed(summary.removed);
    }
    if begun_again > 0 {
        let times = if begun_again == 1 { "once" } else { &format!("{begun_again} times") };
        counts += &format!("\nbegun again: {times}; the table below tells of the last time alone");
    }
    for lacking in &summary.lacking {
        print::note(format_args!("warning: receiver: {lacking}"));
    }
    let part = Part { name: "send", sends: true, side: &batch.side };
    print_batch("sent", summary.bytes_sent, batch, &counts, part, details)?;
    Ok(summary.is_complete())
}

/// Prints the result of a dry run. Returns whether nothing failed.
pub(crate) fn compared(summary: &SendSummary) -> Result<bool> {
    say_off(summary);
    let (mut wanted, mut bytes, mut updated) = (0, 0, 0);
    for file in &summary.files {
        match file.how {
            How::WouldSend { resumed_at } => (wanted, bytes) = (wanted + 1, bytes + (file.size - resumed_at)),
            How::WouldUpdate => updated += 1,
            _ => {}
        }
    }
    print::result(format!(
        "would send {wanted} files ({}), make {} folders and links, and remove {} entries\n\
         files: {wanted} to send, {updated} to update, {} unchanged, {} left out, {} failed\n\
         a dry run: nothing was changed\n",
        DataSize::bytes(bytes),
        summary.would_make,
        summary.removed,
        summary.files.len() - wanted - updated,
        summary.skipped.len(),
        summary.failures.len()
    ))?;
    Ok(summary.is_complete())
}

/// Says that nothing was removed at the receiver, as had been asked, because entries failed.
fn say_off(summary: &SendSummary) {
    if summary.is_removal_off {
        let failed = summary.failures.len();
        print::note(format_args!("--delete: nothing is removed at the receiver, because {failed} entries failed"));
    }
}

/// The removals of a batch, as a part of its counts.
fn removed(entries: u64) -> String {
    format!("\nremoved at the receiver: {entries} entries that the sender does not have")
}

/// Prints the result of receiving. Returns whether everything arrived.
pub(crate) fn received(batch: &Batch<ReceiveSummary>, summary: &ReceiveSummary, details: bool) -> Result<bool> {
    if summary.is_dry_run {
        let (wanted, unchanged) = (summary.would_store, summary.already_there);
        print::result(format!(
            "files: {wanted} to store, {unchanged} unchanged, {} failed\na dry run: nothing was changed\n",
            summary.failed
        ))?;
        return Ok(summary.is_complete());
    }
    let mut counts =
        format!("files: {} stored, {} unchanged, {} failed", summary.stored, summary.already_there, summary.failed);
    if summary.removed > 0 {
        counts += &removed(summary.removed);
    }
    let part = Part { name: "receive", sends: false, side: &batch.side };
    print_batch("received", summary.bytes_received, batch, &counts, part, details)?;
    Ok(summary.is_complete())
}

/// Prints a measurement: the bytes the receiver got, and each rail's part in them at both ends.
pub(crate) fn measured(measurement: &Measurement, details: bool) -> Result<()> {
    let transport = match measurement.transport {
        Transport::Rails { policy: Policy::Adaptive, .. } => "one stream, adaptive",
        Transport::Rails { policy: Policy::Static, .. } => "one stream, static",
        Transport::Rails { policy: Policy::Weighted, .. } => "one stream, weighted",
        Transport::PlainTcp => "plain TCP flows",
        Transport::Mptcp => "one MPTCP socket",
    };
    let time = Duration::from_secs_f64(measurement.seconds);
    let goodput = Goodput::new(measurement.bytes, time).at(measurement.receiver_goodput_bits_per_second);
    let parts = [
        Part { name: "send", sends: true, side: &measurement.sender },
        Part { name: "receive", sends: false, side: &measurement.receiver },
    ];
    let security = measurement.security.as_ref().map(|mode| format!(", {mode}")).unwrap_or_default();
    let beside = beside(measurement.served_beside);
    print_parts(&format!("{transport}{security}: {goodput}\n{beside}"), &parts, details)
}

/// Prints the bytes that the receiving end of a measurement got, and each rail's part in them.
pub(crate) fn counted(
    count: &Count,
    bits_per_second: f64,
    receiver: &Side,
    served_beside: u64,
    details: bool,
) -> Result<()> {
    let goodput = Goodput::new(count.bytes, Duration::from_secs_f64(count.seconds())).at(bits_per_second);
    let head = format!("received {goodput}\n{}", beside(served_beside));
    print_parts(&head, &[Part { name: "receive", sends: false, side: receiver }], details)
}

/// A warning of other callers.
fn beside(others: u64) -> String {
    match others {
        0 => String::new(),
        1 => "not alone: the receiver served another caller meanwhile\n".to_owned(),
        others => format!("not alone: the receiver served {others} other callers meanwhile\n"),
    }
}

fn print_batch<T>(did: &str, bytes: u64, batch: &Batch<T>, counts: &str, part: Part<'_>, details: bool) -> Result<()> {
    let goodput = Goodput::new(bytes, batch.time);
    print_parts(&format!("{did} {goodput}\n{counts}\nsecurity: {}\n", batch.security), &[part], details)
}

fn print_parts(head: &str, parts: &[Part<'_>], details: bool) -> Result<()> {
    use Column::*;
    let mut columns =
        vec![Rail, Lane, Bytes, Share, Resent, Congestion, Seconds, Cpus, Node, Interrupt, Thread, Memory];
    if parts.len() > 1 {
        columns.insert(0, Side);
    }
    let mut text = format!("{head}\n{}{}{}{}", table(&columns, parts), unused(parts), lost(parts), unheld(parts));
    if details {
        text += &format!("\n{}", verdicts(parts));
    }
    print::result(text)
}
