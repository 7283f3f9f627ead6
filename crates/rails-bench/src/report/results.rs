//! The results of commands.

use super::{Column, Goodput, Part, lost, table, unheld, unused, verdicts};
use crate::{
    batch::Batch,
    measure::{
        Received,
        report::{Measurement, Transport},
        striped::Sent,
    },
    print,
};
use anyhow::Result;
use rails_multirail::Policy;
use rails_topo::DataSize;
use rails_transfer::{How, NotKept, ReceiveSummary, SendSummary};
use std::time::Duration;

/// Prints the result of sending, for which the batch was begun again so many times.
pub(crate) fn sent(batch: &Batch<SendSummary>, summary: &SendSummary, begun_again: u32, details: bool) -> Result<()> {
    say_off(summary);
    let unchanged = summary.files.iter().filter(|file| file.how == How::AlreadyThere).count();
    let mut counts = format!(
        "files: {} sent, {unchanged} unchanged, {} left out, {} failed",
        summary.files.len() - unchanged,
        summary.skipped.len(),
        summary.failures.len()
    );
    counts += &removed(summary.removed);
    counts += &hard_links(summary.hard_links);
    counts += &not_kept(&summary.not_kept);
    counts += &reused(summary.bytes_reused);
    if begun_again > 0 {
        let times = if begun_again == 1 { "once" } else { &format!("{begun_again} times") };
        counts += &format!("\nbegun again: {times}; the table below tells of the last time alone");
    }
    say_lacking(summary);
    let part = Part { name: "send", sends: true, side: &batch.side };
    print_batch("sent", summary.bytes_sent, batch, &counts, part, details)
}

/// Prints the result of a dry run.
pub(crate) fn compared(summary: &SendSummary) -> Result<()> {
    say_off(summary);
    say_lacking(summary);
    let (mut wanted, mut bytes, mut updated) = (0, 0, 0);
    for file in &summary.files {
        match file.how {
            How::WouldSend { resumed_at } => (wanted, bytes) = (wanted + 1, bytes + (file.size - resumed_at)),
            How::WouldUpdate => updated += 1,
            _ => {}
        }
    }
    print::text(format!(
        "would send {wanted} files ({}), make {} folders and links, and remove {} entries\n\
         files: {wanted} to send, {updated} to update, {} unchanged, {} left out, {} failed{}\n\
         a dry run: nothing was changed\n",
        DataSize::bytes(bytes),
        summary.would_make,
        summary.removed,
        summary.files.len() - wanted - updated,
        summary.skipped.len(),
        summary.failures.len(),
        not_kept(&summary.not_kept)
    ))
}

/// Says that nothing was removed at the receiver, as had been asked, because entries failed.
fn say_off(summary: &SendSummary) {
    if summary.is_removal_off {
        let failed = summary.failures.len();
        print::note(format_args!(
            "--delete: nothing further is removed at the receiver, because {failed} entries failed"
        ));
    }
}

/// Says what the receiver does not keep.
fn say_lacking(summary: &SendSummary) {
    for lacking in &summary.lacking {
        print::note(format_args!("warning: receiver: {lacking}"));
    }
}

/// The removals of a batch, as a part of its counts.
fn removed(entries: u64) -> String {
    match entries {
        0 => String::new(),
        entries => format!("\nremoved at the receiver: {entries} entries that the sender does not have"),
    }
}

/// The bytes of changed files that needed no sending, as a part of a batch's counts.
fn reused(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!("\nchanged files: the receiver had {} of them", DataSize::bytes(bytes)),
    }
}

/// The hard links of a batch, as a part of its counts.
fn hard_links(links: u64) -> String {
    match links {
        0 => String::new(),
        links => format!("\nhard links: {links}"),
    }
}

/// The properties that the sender's entries have and the copy has not, as a part of its counts.
fn not_kept(NotKept { hard_links, why_apart, set_id_bits, .. }: &NotKept) -> String {
    let mut text = String::new();
    if *hard_links > 0 {
        let why = why_apart.as_ref().map_or("-H keeps them".to_owned(), ToString::to_string);
        text += &format!("\nnot kept: {hard_links} hard links, which became files of their own ({why})");
    }
    if *set_id_bits > 0 {
        text +=
            &format!("\nnot kept: the set-ID bits of {set_id_bits} entries (-o and -g keep them with their owners)");
    }
    text
}

/// Prints the result of receiving.
pub(crate) fn received(batch: &Batch<ReceiveSummary>, summary: &ReceiveSummary, details: bool) -> Result<()> {
    if summary.is_dry_run {
        let (wanted, unchanged) = (summary.would_store, summary.already_there);
        return print::text(format!(
            "files: {wanted} to store, {unchanged} unchanged, {} failed\na dry run: nothing was changed\n",
            summary.failed
        ));
    }
    let mut counts =
        format!("files: {} stored, {} unchanged, {} failed", summary.stored, summary.already_there, summary.failed);
    counts += &removed(summary.removed);
    counts += &hard_links(summary.hard_links);
    counts += &reused(summary.bytes_reused);
    let part = Part { name: "receive", sends: false, side: &batch.side };
    print_batch("received", summary.bytes_received, batch, &counts, part, details)
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
    let (security, beside) = (security(measurement.security.as_deref()), beside(measurement.served_beside));
    let way = if measurement.from_peer { " from the peer" } else { "" };
    let early = early(measurement.interrupted);
    print_parts(&format!("{transport}{way}: {goodput}{early}\n{security}{beside}"), &parts, details)
}

/// Prints the bytes that the receiving end of a measurement got, and each rail's part in them.
pub(crate) fn counted(received: &Received, details: bool) -> Result<()> {
    let Received { count, goodput_bits_per_second: rate, side, served_beside, interrupted, .. } = received;
    let goodput = Goodput::new(count.bytes, Duration::from_secs_f64(count.seconds())).at(*rate);
    let (security, early) = (security(received.security.as_deref()), early(*interrupted));
    let head = format!("received {goodput}{early}\n{security}{}", beside(*served_beside));
    print_parts(&head, &[Part { name: "receive", sends: false, side }], details)
}

/// Prints the bytes that the serving end of a measurement sent, and each rail's part in them.
pub(crate) fn given(sent: &Sent, mode: &str, interrupted: bool, details: bool) -> Result<()> {
    let Sent { bytes_written, seconds, side, served_beside } = sent;
    let goodput = Goodput::new(*bytes_written, Duration::from_secs_f64(*seconds));
    let head = format!("sent {goodput}{}\n{}{}", early(interrupted), security(Some(mode)), beside(*served_beside));
    print_parts(&head, &[Part { name: "send", sends: true, side }], details)
}

/// A remark on a measurement that a signal ended.
fn early(interrupted: bool) -> &'static str {
    if interrupted { " (ended early, by a signal)" } else { "" }
}

/// The line that says how a stream was kept; plain flows are insecure.
pub(crate) fn security(mode: Option<&str>) -> String {
    format!("security: {}\n", mode.unwrap_or("insecure"))
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
    print_parts(
        &format!("{did} {goodput}\n{counts}\n{}", security(Some(&batch.security.to_string()))),
        &[part],
        details,
    )
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
    print::text(text)
}
