//! What connections cost a door on which nothing happens.

use crate::{passage::Passage, process::sibling, room::Room};
use anyhow::{Context, Result};
use serde::Serialize;
use std::{fs, thread, time::Duration};

/// What idle connections cost a program of a door's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Idle {
    /// The program's process.
    pub process: u32,
    /// Memory that the process has in use, for each connection, beyond that of few.
    pub bytes_per_connection: f64,
    /// How often its threads were woken in that time.
    pub wake_ups: u64,
}

/// Opens connections through a passage, lets nothing happen on them for a time, and returns what
/// that cost each of the passage's helpers: a fair figure takes hundreds of connections.
///
/// # Errors
///
/// A connection that does not come about, or a helper that has ended.
pub fn idle(room: &Room, passage: &Passage, connections: usize, time: Duration) -> Result<Vec<Idle>> {
    let program = sibling("rails-sockets")?;
    let address = room.service_address();
    let mut sink = room.service(passage, &program);
    sink.args(["sink", &address.to_string()]);
    let mut sink = room.start(sink)?;
    sink.wait_for("listening on")?;
    let hold = |count: usize| {
        let mut crowd = room.client(passage, &program);
        crowd.args(["hold", &passage.destination(address).to_string(), &count.to_string()]);
        let mut crowd = room.start(crowd)?;
        crowd.wait_for("holding")?;
        anyhow::Ok(crowd)
    };
    // The first ones take what a door needs once.
    let _few = hold(FEW)?;
    thread::sleep(SETTLING);
    let processes = || passage.helpers.iter().map(|helper| helper.id());
    let before = processes().map(resident_bytes).collect::<Result<Vec<_>>>()?;
    let _crowd = hold(connections)?;
    thread::sleep(SETTLING);
    let woken = processes().map(wake_ups).collect::<Result<Vec<_>>>()?;
    thread::sleep(time);
    let costs = processes().zip(before).zip(woken).map(|((process, before), woken)| {
        let grown = resident_bytes(process)?.saturating_sub(before);
        let wake_ups = wake_ups(process)?.saturating_sub(woken);
        Ok(Idle { process, bytes_per_connection: grown as f64 / connections as f64, wake_ups })
    });
    costs.collect()
}

/// The memory of a process that is in use (`VmRSS`, proc_pid_status(5)).
fn resident_bytes(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    Ok(number(&text, "VmRSS:").with_context(|| format!("{path} has no VmRSS"))? * 1024)
}

/// How often all threads of a process have been woken after they had given up the processor.
fn wake_ups(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/task");
    let mut sum = 0;
    for task in fs::read_dir(&path).with_context(|| format!("{path} cannot be read"))? {
        // A thread may have ended meanwhile.
        let text = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        sum += number(&text, "voluntary_ctxt_switches:").unwrap_or(0);
    }
    Ok(sum)
}

fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// The connections before the first look at the memory.
const FEW: usize = 10;
/// Programs go on for a while with what a new connection brings.
const SETTLING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_whole_names() {
        let text = "VmRSS:\t    1234 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(number(text, "VmRSS:"), Some(1234));
        assert_eq!(number(text, "voluntary_ctxt_switches:"), Some(7));
        assert_eq!(number(text, "VmSwap:"), None);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        assert!(resident_bytes(std::process::id()).unwrap() > 1 << 16);
        wake_ups(std::process::id()).unwrap();
        assert!(resident_bytes(u32::MAX).is_err());
    }
}
