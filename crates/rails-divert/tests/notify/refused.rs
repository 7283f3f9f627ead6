//! Programs that are not started.

use crate::support::{NOWHERE, program, start, this};
use rails_divert::notify::{self, NotifyError, Privilege};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
};

fn refusal(command: Command) -> NotifyError {
    notify::spawn(command, this("keeper")).map(drop).expect_err("it does not start")
}

#[test]
fn a_missing_program_is_told() {
    let error = refusal(Command::new("/no/such/program"));
    assert!(matches!(error, NotifyError::Start { .. }), "{error:?}");
    assert_eq!(error.to_string(), "cannot start `/no/such/program`");
}

#[test]
fn a_keeper_that_does_not_keep_is_told() {
    for keeper in ["/no/such/keeper", "true"] {
        let error =
            notify::spawn(program("nothing", NOWHERE, 0), Command::new(keeper)).map(drop).expect_err("it fails");
        assert!(matches!(error, NotifyError::Keeper { .. }), "{error:?}");
        assert!(error.to_string().contains(keeper));
    }
}

#[test]
fn a_second_notifier_is_refused() {
    // The role fails where it gets another answer.
    let (mut child, notifier) = start(this("spawns"));
    assert!(notifier.next().expect("it is told").is_none());
    assert!(crate::support::end(&mut child).success());
}

/// Starts a program from one that has a notifier.
pub(crate) fn spawns() {
    let error = refusal(program("nothing", NOWHERE, 0));
    assert!(matches!(error, NotifyError::HasNotifier), "{error:?}");
}

#[test]
#[ignore = "needs root: it makes files of other users"]
fn netns_privileged_programs_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let by = |name: &str, user: Option<u32>, group: Option<u32>, mode: u32| {
        let file = folder.path().join(name);
        fs::write(&file, "#!/bin/sh\n").expect("a file");
        chown(&file, user, group).expect("root may");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("root may");
        let script = folder.path().join(format!("{name}-script"));
        fs::write(&script, format!("#!{}\n", file.display())).expect("a file");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("root may");
        let refused = [&file, &script].map(|command| match refusal(Command::new(command)) {
            NotifyError::GainsPrivileges { program, by } => (program, by),
            other => panic!("{other:?}"),
        });
        assert_eq!(refused[0], refused[1], "the script's interpreter is named");
        assert_eq!(refused[0].0, file);
        refused[0].1
    };
    assert_eq!(by("user", Some(65534), None, 0o4755), Privilege::SetUser);
    assert_eq!(by("group", None, Some(65534), 0o2755), Privilege::SetGroup);
}
