//! The files of a thread below `/proc`; pure functions of their text.

use super::{NodeFaults, NumaFaults};
use crate::kernel_files::status_field;
use rails_topo::{CpuId, NodeId};
use std::time::Duration;

/// The used fields of `stat` (proc_pid_stat(5)); times are in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// The parent's number; 0 for a process whose parent is outside the reader's PID namespace.
    pub(super) parent: i32,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) user_ticks: u64,
    pub(super) system_ticks: u64,
    pub(super) priority: i32,
    pub(super) nice: i32,
    pub(super) started_ticks: u64,
    pub(super) last_cpu: CpuId,
    pub(super) real_time_priority: u32,
    pub(super) policy: u32,
}

/// The times of a `schedstat` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) on_cpu: Duration,
    pub(super) waiting: Duration,
}

/// The facts that only a `sched` file has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sched {
    pub(super) switches: Option<(u64, u64)>,
    pub(super) migrations: Option<u64>,
    pub(super) numa: Option<NumaFaults>,
}

/// Field 2 is the thread's name in parentheses, which may itself hold blanks and parentheses, so
/// the fields are counted from the last closing one.
pub(super) fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let mut next_field = 3;
    // Fields are read in ascending order, so the number of fields to skip is known.
    let mut field = |number: usize| {
        let text = fields.nth(number - next_field);
        next_field = number + 1;
        text
    };
    Some(Stat {
        parent: field(4)?.parse().ok()?,
        minor_faults: field(10)?.parse().ok()?,
        major_faults: field(12)?.parse().ok()?,
        user_ticks: field(14)?.parse().ok()?,
        system_ticks: field(15)?.parse().ok()?,
        priority: field(18)?.parse().ok()?,
        nice: field(19)?.parse().ok()?,
        started_ticks: field(22)?.parse().ok()?,
        last_cpu: CpuId(field(39)?.parse().ok()?),
        real_time_priority: field(40)?.parse().ok()?,
        policy: field(41)?.parse().ok()?,
    })
}

/// `schedstat`: nanoseconds on a CPU, nanoseconds ready and waiting, number of time slices. All
/// three are zero where the kernel does not account (`proc_pid_schedstat` in fs/proc/base.c), so no
/// time slice means that the times are unknown.
pub(super) fn parse_schedstat(text: &str) -> Option<Option<Times>> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (on_cpu, waiting, slices) = (next()?, next()?, next()?);
    let times = Times { on_cpu: Duration::from_nanos(on_cpu), waiting: Duration::from_nanos(waiting) };
    Some((slices > 0).then_some(times))
}

pub(super) fn parse_switches(status: &str) -> Option<(u64, u64)> {
    let switches = |name| status_field(status, name)?.parse().ok();
    Some((switches("voluntary_ctxt_switches")?, switches("nonvoluntary_ctxt_switches")?))
}

/// `sched` (`proc_sched_show_task` in kernel/sched/debug.c; Linux 6.1 and 6.18 print the same
/// figures).
///
/// The first line holds the thread's name, which may hold a line feed and so forge lines, but is
/// too short to forge the ruler that follows it.
pub(super) fn parse_sched(text: &str) -> Sched {
    let (_, lines) = text.split_once(RULER).unwrap_or_default();
    let mut sched = Sched { switches: None, migrations: None, numa: None };
    let (mut voluntary, mut involuntary) = (None, None);
    let (mut scans, mut preferred, mut pages_migrated, mut current) = (0, None, None, None);
    let mut by_node = Vec::new();
    for line in lines.lines() {
        if let Some(faults) = parse_node(line) {
            by_node.push(faults);
        } else if let Some(rest) = line.strip_prefix("current_node=") {
            current = rest.split(',').next().and_then(|node| node.parse().ok()).map(NodeId);
        } else if let Some((name, value)) = line.split_once(':') {
            let value = value.trim();
            match name.trim_end() {
                "se.nr_migrations" => sched.migrations = value.parse().ok(),
                "nr_voluntary_switches" => voluntary = value.parse().ok(),
                "nr_involuntary_switches" => involuntary = value.parse().ok(),
                "mm->numa_scan_seq" => scans = value.parse().unwrap_or(0_u64),
                "numa_pages_migrated" => pages_migrated = value.parse().ok(),
                // -1 where there is none.
                "numa_preferred_nid" => preferred = value.parse().ok().map(NodeId),
                _ => {}
            }
        }
    }
    sched.switches = voluntary.zip(involuntary);
    // Without a scan the kernel has measured nothing, and the zeros are no figures.
    if let (1.., Some(pages_migrated), Some(current)) = (scans, pages_migrated, current)
        && !by_node.is_empty()
    {
        sched.numa = Some(NumaFaults { preferred, current, pages_migrated, by_node });
    }
    sched
}

/// `numa_faults node=0 task_private=0 task_shared=0 group_private=0 group_shared=0`
fn parse_node(line: &str) -> Option<NodeFaults> {
    let mut values = line.strip_prefix("numa_faults ")?.split_ascii_whitespace();
    let mut value = |name: &str| values.next()?.strip_prefix(name)?.strip_prefix('=');
    let node = NodeId(value("node")?.parse().ok()?);
    Some(NodeFaults {
        node,
        private: value("task_private")?.parse().ok()?,
        shared: value("task_shared")?.parse().ok()?,
    })
}

/// 20 of the 67 dashes: more than the 15 bytes of a name.
const RULER: &str = "\n--------------------";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Linux 6.1 prints it on a machine of two nodes, shortened.
    const SCHED: &str = "\
rail0 (148, #threads: 1)
-------------------------------------------------------------------
se.exec_start                                :         10596.810515
se.nr_migrations                             :                    6
nr_switches                                  :                 1181
nr_voluntary_switches                        :                 1175
nr_involuntary_switches                      :                    6
policy                                       :                    0
mm->numa_scan_seq                            :                    3
numa_pages_migrated                          :                   12
numa_preferred_nid                           :                    1
total_numa_faults                            :                   40
current_node=1, numa_group_id=0
numa_faults node=0 task_private=1 task_shared=2 group_private=0 group_shared=0
numa_faults node=1 task_private=30 task_shared=7 group_private=0 group_shared=0
";

    #[test]
    fn migrations_switches_and_faults_are_read() {
        let sched = parse_sched(SCHED);
        assert_eq!((sched.migrations, sched.switches), (Some(6), Some((1175, 6))));
        let numa = sched.numa.expect("the kernel has scanned");
        assert_eq!((numa.preferred, numa.current, numa.pages_migrated), (Some(NodeId(1)), NodeId(1), 12));
        assert_eq!((numa.local(), numa.remote()), (37, 3));
    }

    #[test]
    fn kernel_that_never_scanned_knows_no_faults() {
        let never = SCHED
            .replace("                    3\n", "                    0\n")
            .replace(":                    1\n", ": -1\n");
        assert_eq!(parse_sched(&never).numa, None);
        assert_eq!(parse_sched(&never).migrations, Some(6));
        let without =
            parse_sched("x (1, #threads: 1)\n-------------------------------------------------------------------\n");
        assert_eq!(without, Sched { switches: None, migrations: None, numa: None });
    }

    #[test]
    fn threads_name_cannot_forge_a_line() {
        let forged = SCHED.replace("rail0", "x\nse.nr_migra:9");
        assert_eq!(parse_sched(&forged).migrations, Some(6));
        let ruled = SCHED.replace("rail0", "\n-----\nnr_x : 5").replace("se.nr_migrations", "se.other");
        assert_eq!(parse_sched(&ruled).migrations, None);
    }

    #[test]
    fn unknown_times_without_accounting() {
        assert_eq!(parse_schedstat("0 0 0\n"), Some(None));
        let times = Times { on_cpu: Duration::from_nanos(5), waiting: Duration::from_nanos(7) };
        assert_eq!(parse_schedstat("5 7 1\n"), Some(Some(times)));
        assert_eq!(parse_schedstat("5 7"), None);
        assert_eq!(parse_schedstat("5 x 1"), None);
    }

    proptest! {
        #[test]
        fn threads_name_cannot_disturb_its_fields(name in "\\PC{0,15}", cpu in 0_u32..8192) {
            let fields: Vec<String> = (4..=52).map(|field| (if field == 39 { cpu } else { field }).to_string()).collect();
            let stat = format!("4711 ({name}) S {}\n", fields.join(" "));
            prop_assert_eq!(parse_stat(&stat), Some(Stat {
                parent: 4, minor_faults: 10, major_faults: 12, user_ticks: 14, system_ticks: 15, priority: 18, nice: 19,
                started_ticks: 22, last_cpu: CpuId(cpu), real_time_priority: 40, policy: 41,
            }));
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC*", lines in "[a-z_=:0-9 \n-]*") {
            for text in [text, format!("{RULER}\nnuma_faults {lines}")] {
                let _ = (parse_schedstat(&text), parse_switches(&text), parse_stat(&text), parse_sched(&text));
            }
        }
    }
}
