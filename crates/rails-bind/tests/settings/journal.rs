//! The changes of dead processes.

use crate::machine::{Machine, cpus, moved, steered};
use rails_bind::settings::{ApplyError, Journal, JournalError, PutBack, Refusals, SettingState, Undo, Value};
use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Another process that holds interrupt 24 on CPU 2 and steers packets to CPU 1, until it is
/// killed.
struct Holder(Child);

impl Holder {
    /// The test of this name, which must call [`hold_if_asked`] first, plays the other process.
    fn start(machine: &Machine, test: &str) -> Self {
        let mut child = Command::new(env::current_exe().expect("it is running"))
            .args(["--exact", test, "--nocapture"])
            .env(HOLD, machine.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let held = lines.map_while(Result::ok).any(|line| line.ends_with(HOLDING));
        assert!(held, "the other process holds nothing");
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was killed");
    }
}

fn hold_if_asked() {
    let Some(root) = env::var_os(HOLD) else { return };
    let machine = Machine::at(Path::new(&root));
    let _guard = machine
        .host()
        .apply(&machine.journal(), &[moved(24, "2"), steered("1")], Refusals::Fail)
        .expect("it is allowed");
    println!("{HOLDING}");
    std::io::stdout().flush().expect("somebody reads");
    // Ends when the other end of the pipe does.
    let _ = std::io::stdin().lines().next();
    std::process::exit(0);
}

#[test]
fn killed_process_is_undone_by_hand() {
    hold_if_asked();
    let machine = Machine::new();
    let holder = Holder::start(&machine, "journal::killed_process_is_undone_by_hand");
    let pid = holder.0.id();
    let journal = machine.journal();
    assert!(journal.records().expect("it can be read")[0].is_live);
    assert!(journal.undo(&machine.host(), Undo::AbandonedAndKept, true).expect("it can be read").is_empty());
    holder.kill();
    assert_eq!(machine.affinity(24), "2", "it had no chance to put it back");

    let undone = journal.undo(&machine.host(), Undo::Abandoned, false).expect("it can be read");
    assert_eq!(undone.len(), 2);
    assert!(undone.iter().all(|undone| undone.owner.pid == pid && matches!(undone.outcome, PutBack::Restored { .. })));
    assert_eq!((machine.affinity(24), machine.records()), ("0-3".to_owned(), 0));
    assert_eq!(machine.host().read(&steered("1").setting).expect("it is there"), Value::Cpus(cpus("")));
}

#[test]
fn killed_process_is_undone_by_the_next_apply() {
    hold_if_asked();
    let machine = Machine::new();
    Holder::start(&machine, "journal::killed_process_is_undone_by_the_next_apply").kill();
    let guard = machine.host().apply(&machine.journal(), &[moved(25, "1")], Refusals::Fail).expect("allowed");
    assert_eq!(guard.recovered().len(), 2);
    assert_eq!((machine.affinity(24), machine.affinity(25)), ("0-3".to_owned(), "1".to_owned()));
}

#[test]
fn settings_of_a_living_process_stay() {
    hold_if_asked();
    let machine = Machine::new();
    let holder = Holder::start(&machine, "journal::settings_of_a_living_process_stay");
    let error = machine
        .host()
        .apply(&machine.journal(), &[moved(25, "1"), moved(24, "1")], Refusals::Report)
        .expect_err("it is held");
    assert!(matches!(error, ApplyError::Held { by, .. } if by == holder.0.id()), "{error}");
    assert_eq!((machine.affinity(24), machine.affinity(25)), ("2".to_owned(), "0-3".to_owned()));
    holder.kill();
}

/// Each of two containers that share the journal may have a process of the same number.
#[test]
fn a_holder_of_the_same_number_elsewhere_is_another() {
    hold_if_asked();
    let machine = Machine::new();
    let holder = Holder::start(&machine, "journal::a_holder_of_the_same_number_elsewhere_is_another");
    let ours = std::process::id();
    machine.rewrite_record(|record| record["owner"]["pid"] = ours.into());
    let error = machine.host().apply(&machine.journal(), &[moved(24, "1")], Refusals::Fail).expect_err("it is held");
    assert!(matches!(error, ApplyError::Held { by, .. } if by == ours), "{error}");
    // The holder's death loses no original value.
    holder.kill();
    let guard =
        machine.host().apply(&machine.journal(), &[moved(24, "1")], Refusals::Fail).expect("the setting is free");
    // Guards of one process may be nested.
    drop(machine.host().apply(&machine.journal(), &[moved(24, "3")], Refusals::Fail).expect("this process holds it"));
    assert_eq!(machine.affinity(24), "1");
    drop(guard);
    assert_eq!(machine.affinity(24), "0-3");
}

#[test]
fn later_changes_are_undone_by_force_alone() {
    hold_if_asked();
    let machine = Machine::new();
    Holder::start(&machine, "journal::later_changes_are_undone_by_force_alone").kill();
    machine.write("proc/irq/24/smp_affinity_list", "1\n");
    for (force, affinity, records) in [(false, "1", 1), (false, "1", 1), (true, "0-3", 0)] {
        machine.journal().undo(&machine.host(), Undo::Abandoned, force).expect("it can be read");
        assert_eq!((machine.affinity(24), machine.records()), (affinity.to_owned(), records));
    }
}

#[test]
fn kept_changes_stay_until_undone() {
    let machine = Machine::new();
    let (host, journal) = (machine.host(), machine.journal());
    let kept = host.apply(&journal, &[moved(24, "2")], Refusals::Fail).expect("allowed").keep();
    assert_eq!(kept.expect("the journal is there").len(), 1);
    let record = &journal.records().expect("it can be read")[0];
    assert!(record.is_kept && !record.is_live);
    // Neither the next apply nor a plain undo takes it back, and the next apply builds on it.
    drop(host.apply(&journal, &[moved(24, "3"), moved(25, "1")], Refusals::Fail).expect("allowed"));
    assert!(journal.undo(&host, Undo::Abandoned, false).expect("it can be read").is_empty());
    assert_eq!((machine.affinity(24), machine.affinity(25)), ("2".to_owned(), "0-3".to_owned()));
    let undone = journal.undo(&host, Undo::AbandonedAndKept, false).expect("it can be read");
    assert_eq!((undone.len(), machine.affinity(24), machine.records()), (1, "0-3".to_owned(), 0));
}

/// A process that is killed between a change and reading it back cannot have written down what the
/// kernel made of it: it leaves CPUs out that are offline.
#[test]
fn undo_of_a_change_in_progress() {
    for (now, after, records) in
        [("2-3", "0-3", 0), ("2", "0-3", 0), ("0-3", "0-3", 0), ("1", "1", 1), ("1-2", "1-2", 1)]
    {
        let machine = Machine::new();
        let (host, journal) = (machine.host(), machine.journal());
        host.apply(&journal, &[moved(24, "2-3")], Refusals::Fail)
            .expect("allowed")
            .keep()
            .expect("the journal is there");
        machine.came_to(&["changing"]);
        machine.write("proc/irq/24/smp_affinity_list", &format!("{now}\n"));
        journal.undo(&host, Undo::AbandonedAndKept, false).expect("it can be read");
        assert_eq!((machine.affinity(24).as_str(), machine.records()), (after, records), "{now}");
    }
}

#[test]
fn undo_after_a_kill_at_any_step() {
    // Each step of changing interrupts 24 and 25 to CPU 2: the record and the files at that step.
    let steps: [([&str; 2], [&str; 2]); 6] = [
        (["planned", "planned"], ["0-3", "0-3"]),
        (["changing", "planned"], ["0-3", "0-3"]),
        (["changing", "planned"], ["2", "0-3"]),
        (["made", "changing"], ["2", "0-3"]),
        (["made", "changing"], ["2", "2"]),
        (["made", "made"], ["2", "2"]),
    ];
    for (progress, values) in steps {
        // The interrupts whose values an administrator has changed since.
        for changed in [&[][..], &[24], &[25], &[24, 25]] {
            let machine = Machine::new();
            let (host, journal) = (machine.host(), machine.journal());
            let guard = host.apply(&journal, &[moved(24, "2"), moved(25, "2")], Refusals::Fail).expect("allowed");
            guard.keep().expect("the journal is there");
            machine.came_to(&progress);
            for (interrupt, value) in [24, 25].into_iter().zip(values) {
                let value = if changed.contains(&interrupt) { "1" } else { value };
                machine.write(&format!("proc/irq/{interrupt}/smp_affinity_list"), &format!("{value}\n"));
            }
            let undone = journal.undo(&host, Undo::AbandonedAndKept, false).expect("it can be read");
            let found = format!("{progress:?}, {values:?}, changed {changed:?}: {undone:?}");
            assert_eq!(undone.len(), 2, "each is reported: {found}");
            for interrupt in [24, 25] {
                let after = if changed.contains(&interrupt) { "1" } else { "0-3" };
                assert_eq!(machine.affinity(interrupt), after, "{found}");
            }
            // An administrator's later change can still be put back by force; a setting that we never touched
            // cannot.
            let touched = [24, 25].into_iter().zip(progress).filter(|(_, progress)| *progress != "planned");
            let forced = touched.filter(|(interrupt, _)| changed.contains(interrupt)).count();
            let undone = journal.undo(&host, Undo::AbandonedAndKept, true).expect("it can be read");
            assert_eq!((undone.len(), machine.records()), (forced, 0), "{found}");
        }
    }
}

/// The process is killed while it changes two hundred interrupts.
#[test]
fn real_kill_leaves_a_record_that_is_right() {
    let name = "journal::real_kill_leaves_a_record_that_is_right";
    let changes: Vec<_> = (100..300).map(|interrupt| moved(interrupt, "2")).collect();
    if let Some(root) = env::var_os(HOLD) {
        let machine = Machine::at(Path::new(&root));
        println!("{HOLDING}");
        std::io::stdout().flush().expect("somebody reads");
        loop {
            drop(machine.host().apply(&machine.journal(), &changes, Refusals::Fail).expect("it is allowed"));
        }
    }
    for (wait, administrator) in [(3, None), (17, Some("1")), (41, None), (73, Some("1"))] {
        let machine = Machine::new();
        for interrupt in 100..300 {
            machine.write(&format!("proc/irq/{interrupt}/smp_affinity_list"), "0-3\n");
        }
        let holder = Holder::start(&machine, name);
        std::thread::sleep(std::time::Duration::from_millis(wait));
        holder.kill();
        if let Some(value) = administrator {
            (100..300).for_each(|interrupt| {
                machine.write(&format!("proc/irq/{interrupt}/smp_affinity_list"), &format!("{value}\n"));
            });
        }
        let journal = machine.journal();
        let undone = journal.undo(&machine.host(), Undo::Abandoned, false).expect("it can be read");
        for interrupt in 100..300 {
            assert_eq!(machine.affinity(interrupt), administrator.unwrap_or("0-3"), "{undone:?}");
        }
    }
}

/// A record of a version that did not write down how far each change came.
#[test]
fn record_without_progress_is_refused_by_name() {
    let machine = Machine::new();
    let kept = machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect("allowed").keep();
    kept.expect("the journal is there");
    machine.rewrite_record(|record| {
        record["settled"] = true.into();
        record["entries"][0].as_object_mut().expect("an object").remove("progress");
    });
    let error = machine.journal().undo(&machine.host(), Undo::AbandonedAndKept, false).expect_err("it is old");
    assert!(matches!(error, JournalError::Malformed { .. }), "{error}");
    let source = std::error::Error::source(&error).expect("it says why").to_string();
    assert!(source.contains("missing field `progress`"), "{source}");
    assert_eq!(machine.affinity(24), "2");
}

#[test]
fn refused_changes_are_not_recorded() {
    let machine = Machine::new();
    machine.cannot_be_moved(25);
    let (host, journal) = (machine.host(), machine.journal());
    let guard = host.apply(&journal, &[moved(24, "2"), moved(25, "77")], Refusals::Report).expect("one of them may");
    assert!(matches!(guard.changes()[1].state, SettingState::Refused(_)), "{:?}", guard.changes());
    let record = &journal.records().expect("it can be read")[0];
    assert_eq!(record.changes.len(), 1, "{record:?}");
    assert_eq!(guard.keep().expect("the journal is there").len(), 2);
    let undone = journal.undo(&host, Undo::AbandonedAndKept, false).expect("it can be read");
    assert_eq!(undone.len(), 1, "{undone:?}");
}

#[test]
fn folder_that_others_can_write_to_is_no_journal() {
    let machine = Machine::new();
    let journal = machine.journal();
    drop(machine.host().apply(&journal, &[moved(24, "2")], Refusals::Fail).expect("allowed"));
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(journal.folder()), mode(&journal.folder().join("lock"))), (0o700, 0o600));
    for open in [0o777, 0o770, 0o702] {
        fs::set_permissions(journal.folder(), fs::Permissions::from_mode(open)).expect("it is ours");
        let error = journal.undo(&machine.host(), Undo::AbandonedAndKept, true).expect_err("others can write to it");
        assert!(matches!(error, JournalError::OpenToOthers { mode, .. } if mode == open), "{error}");
        let error = Journal::at(journal.folder()).expect_err("likewise");
        assert!(matches!(error, JournalError::OpenToOthers { .. }), "{error}");
        let error = machine.host().apply(&journal, &[moved(24, "2")], Refusals::Fail).expect_err("likewise");
        assert!(matches!(error, ApplyError::Journal(JournalError::OpenToOthers { .. })), "{error}");
        assert_eq!(machine.affinity(24), "0-3");
    }
}

#[test]
fn record_of_another_boot_is_history() {
    let machine = Machine::new();
    let kept = machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect("allowed").keep();
    kept.expect("the journal is there");
    let path = machine.journal().folder().join("0000000001.json");
    let text = fs::read_to_string(&path).expect("the record");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the kernel says");
    fs::write(&path, text.replace(boot.trim(), "another")).expect("it can be written");
    let undone = machine.journal().undo(&machine.host(), Undo::AbandonedAndKept, false).expect("it can be read");
    assert!(undone.is_empty());
    assert_eq!((machine.affinity(24), machine.records()), ("2".to_owned(), 0));
}

#[test]
fn damaged_record_stops_every_change() {
    let machine = Machine::new();
    let path = machine.journal().folder().join("0000000007.json");
    for text in ["", "{", "{\"entries\": 1}", "[]", "\u{0}\u{1}"] {
        fs::write(&path, text).expect("it can be written");
        let error = machine.journal().records().expect_err("it is damaged");
        assert!(matches!(error, JournalError::Malformed { .. }), "{error}");
        let error =
            machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect_err("it is damaged");
        assert!(matches!(error, ApplyError::Journal(_)), "{error}");
        assert_eq!(machine.affinity(24), "0-3");
    }
}

#[test]
fn journal_that_cannot_be_written_to_is_an_error() {
    let error = Journal::at("/proc/self/journal").expect_err("nothing can be made there");
    assert!(matches!(error, JournalError::File { call: "make", .. }), "{error}");
}

const HOLD: &str = "RAILS_TEST_HOLD";
const HOLDING: &str = "holding";
