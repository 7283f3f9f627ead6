//! The transaction and its guard.

use crate::machine::{Machine, cpus, moved, steered};
use rails_bind::{
    claims::Resource,
    settings::{ApplyError, Change, PutBack, Refusals, Setting, SettingError, SettingState, Undo, Value},
};
use std::panic::{self, AssertUnwindSafe};

#[test]
fn changes_are_read_back_and_put_back() {
    let machine = Machine::new();
    let mut guard =
        machine.host().apply(&machine.journal(), &[moved(24, "2-3"), steered("1")], Refusals::Fail).expect("allowed");
    assert_eq!(machine.affinity(24), "2-3");
    assert_eq!(guard.changes()[0].former, Value::Cpus(cpus("0-3")));
    // The wish is there, and the interrupt is served elsewhere until it fires.
    assert!(
        matches!(&guard.changes()[0].state, SettingState::Pending { effective: Some(on) } if *on == cpus("0")),
        "{:?}",
        guard.changes()
    );
    assert!(matches!(guard.changes()[1].state, SettingState::Applied));
    machine.write("proc/irq/24/effective_affinity_list", "3\n");
    assert!(matches!(guard.refresh()[0].state, SettingState::Applied));

    let outcomes = guard.restore().expect("the journal is there");
    assert!(outcomes.iter().all(|(_, outcome)| matches!(outcome, PutBack::Restored { .. })), "{outcomes:?}");
    assert_eq!(machine.affinity(24), "0-3");
    assert_eq!(machine.host().read(&steered("1").setting).expect("it is there"), Value::Cpus(cpus("")));
    assert_eq!(machine.records(), 0);
}

#[test]
fn pending_without_effective_affinity() {
    let machine = Machine::new();
    std::fs::remove_file(machine.root().join("proc/irq/24/effective_affinity_list")).expect("it was there");
    let guard = machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect("allowed");
    assert!(matches!(guard.changes()[0].state, SettingState::Pending { effective: None }));
}

#[test]
fn panic_puts_everything_back() {
    let machine = Machine::new();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let _guard = machine
            .host()
            .apply(&machine.journal(), &[moved(24, "2"), moved(25, "3")], Refusals::Fail)
            .expect("allowed");
        panic!("on purpose");
    }));
    assert!(outcome.is_err());
    assert_eq!((machine.affinity(24), machine.affinity(25)), ("0-3".to_owned(), "0-3".to_owned()));
    assert_eq!(machine.records(), 0);
}

#[test]
fn impossible_change_stops_the_transaction() {
    let machine = Machine::new();
    let refuse = |changes: &[Change]| {
        let error = machine.host().apply(&machine.journal(), changes, Refusals::Report).expect_err("it cannot be");
        assert_eq!((machine.affinity(24), machine.records()), ("0-3".to_owned(), 0));
        error
    };
    let gone = refuse(&[moved(24, "2"), moved(77, "2")]);
    assert!(matches!(gone, ApplyError::Setting(SettingError::NotThere { .. })), "{gone}");
    assert!(gone.to_string().starts_with("the affinity of interrupt 77 does not exist"), "{gone}");
    let empty = refuse(&[moved(24, "2"), moved(25, "")]);
    assert!(matches!(empty, ApplyError::Setting(SettingError::EmptySet { .. })), "{empty}");
    let twice = refuse(&[moved(24, "2"), moved(24, "3")]);
    assert!(matches!(twice, ApplyError::Duplicate { .. }), "{twice}");
    let number = Change { setting: moved(24, "2").setting, value: Value::Number(2) };
    let wrong = refuse(&[moved(25, "2"), number]);
    assert!(matches!(wrong, ApplyError::Setting(SettingError::WrongKind { .. })), "{wrong}");
    machine.write("proc/irq/25/smp_affinity_list", "garbage\n");
    let malformed = refuse(&[moved(24, "2"), moved(25, "2")]);
    assert!(matches!(malformed, ApplyError::Setting(SettingError::Malformed { .. })), "{malformed}");
}

#[test]
fn value_that_is_there_already_is_left_alone() {
    let machine = Machine::new();
    let guard = machine.host().apply(&machine.journal(), &[moved(24, "0-3")], Refusals::Fail).expect("allowed");
    assert!(matches!(guard.changes()[0].state, SettingState::Applied));
    assert!(guard.restore().expect("the journal is there").is_empty());
}

#[test]
fn settings_that_others_changed_stay() {
    let machine = Machine::new();
    let guard = machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect("allowed");
    machine.write("proc/irq/24/smp_affinity_list", "1\n");
    let outcomes = guard.restore().expect("the journal is there");
    assert!(matches!(&outcomes[0].1, PutBack::ChangedSince { now, .. } if *now == Value::Cpus(cpus("1"))));
    assert_eq!((machine.affinity(24), machine.records()), ("1".to_owned(), 0));
}

#[test]
fn claimed_interrupts_and_queues_stay() {
    let machine = Machine::new();
    let (host, journal) = (machine.host(), machine.journal());
    let mut other = machine.claims_of_another_process(&["interrupts", "queues.eth0"]);
    // Of this process's own claims nothing stays.
    let _ours = machine.claims().claim([Resource::Interrupt(25)]).expect("it is free");
    let flows = |flows| Change {
        setting: Setting::ReceiveFlows { interface: "eth0".parse().expect("a name"), queue: 0 },
        value: Value::Number(flows),
    };
    other.lock("interrupts", 24);
    other.lock("queues.eth0", 0);
    let wanted = [moved(24, "2"), moved(25, "3"), steered("1"), flows(32)];
    let error = host.apply(&journal, &wanted, Refusals::Fail).expect_err("it is claimed");
    let said = error.to_string();
    let holder =
        format!("the affinity of interrupt 24 is left alone: interrupt 24 is claimed by process {} ", other.pid());
    assert!(said.starts_with(&holder) && said.ends_with(", which holds interrupt 24, rx queue 0 of eth0"), "{said}");
    assert_eq!((machine.affinity(25), machine.records()), ("0-3".to_owned(), 0), "all or nothing");

    let guard = host.apply(&journal, &wanted, Refusals::Report).expect("the others may be made");
    let is_refused = |state: &SettingState| matches!(state, SettingState::Refused(SettingError::Claimed { .. }));
    let refused: Vec<bool> = guard.changes().iter().map(|changed| is_refused(&changed.state)).collect();
    assert_eq!(refused, [true, false, true, true]);
    assert_eq!((machine.affinity(24), machine.affinity(25)), ("0-3".to_owned(), "3".to_owned()));
    drop(guard);
    assert_eq!((machine.affinity(25), machine.records()), ("0-3".to_owned(), 0));
}

/// An interrupt that was moved before it was claimed goes back once the claim has ended.
#[test]
fn claimed_interrupt_is_put_back_later() {
    let machine = Machine::new();
    let mut other = machine.claims_of_another_process(&["interrupts"]);
    let guard = machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect("allowed");
    other.lock("interrupts", 24);
    let outcomes = guard.restore().expect("the journal is there");
    assert!(matches!(&outcomes[0].1, PutBack::Failed(SettingError::Claimed { .. })), "{outcomes:?}");
    assert_eq!((machine.affinity(24), machine.records()), ("2".to_owned(), 1));
    drop(other);
    let undone = machine.journal().undo(&machine.host(), Undo::Abandoned, false).expect("the journal is there");
    assert!(matches!(undone[0].outcome, PutBack::Restored { .. }), "{undone:?}");
    assert_eq!((machine.affinity(24), machine.records()), ("0-3".to_owned(), 0));
}

#[test]
fn unusable_claims_stop_no_process() {
    let machine = Machine::new();
    machine.write("run/lock/rails", "no folder");
    assert!(machine.claims().list().is_err());
    let _guard = machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect("allowed");
    assert_eq!(machine.affinity(24), "2");
}

#[test]
fn interrupt_that_has_gone_takes_its_setting_along() {
    let machine = Machine::new();
    let mut guard = machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect("allowed");
    machine.remove("proc/irq/24");
    assert!(matches!(&guard.refresh()[0].state, SettingState::Refused(SettingError::NotThere { .. })));
    let outcomes = guard.restore().expect("the journal is there");
    assert!(matches!(outcomes[0].1, PutBack::Gone));
    assert_eq!(machine.records(), 0);
}

#[test]
fn guards_of_one_process_nest() {
    let machine = Machine::new();
    let outer = machine.host().apply(&machine.journal(), &[moved(24, "2")], Refusals::Fail).expect("allowed");
    let inner = machine.host().apply(&machine.journal(), &[moved(24, "3")], Refusals::Fail).expect("allowed");
    assert_eq!(machine.records(), 2);
    drop(inner);
    assert_eq!(machine.affinity(24), "2");
    drop(outer);
    assert_eq!((machine.affinity(24), machine.records()), ("0-3".to_owned(), 0));
}

#[test]
fn numbers_are_set_like_sets() {
    let machine = Machine::new();
    let changes = [
        Change { setting: Setting::FlowTable, value: Value::Number(32768) },
        Change {
            setting: Setting::ThreadedNapi { interface: "eth0".parse().expect("a name") },
            value: Value::Number(1),
        },
    ];
    let guard = machine.host().apply(&machine.journal(), &changes, Refusals::Fail).expect("allowed");
    assert!(guard.changes().iter().all(|changed| matches!(changed.state, SettingState::Applied)));
    drop(guard);
    assert_eq!(machine.host().read(&Setting::FlowTable).expect("it is there"), Value::Number(0));
}
