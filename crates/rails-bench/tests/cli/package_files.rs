//! Man pages, and completions for shells.

use crate::util::{run, stderr, stdout};
use assert_cmd::cargo::cargo_bin;
use std::{collections::BTreeSet, fs, path::Path, process::Command};

#[test]
fn every_command_has_a_page() {
    let folder = written();
    for command in commands() {
        let page = folder.path().join(format!("man/man1/rails-bench-{command}.1"));
        check_page(&page, &format!("rails-bench {command}"));
    }
    check_page(&folder.path().join("man/man1/rails-bench.1"), "rails-bench");
    assert!(!folder.path().join("man/man1/rails-bench-keeper.1").exists(), "a hidden command has a page");
}

#[test]
fn pages_of_other_programs_stay() {
    let folder = written();
    let other = folder.path().join("man/man1/other.1");
    fs::write(&other, ".TH other 1\n.SH EXTRA\n").unwrap();
    write_into(folder.path());
    assert_eq!(fs::read_to_string(other).unwrap(), ".TH other 1\n.SH EXTRA\n");
}

#[test]
fn completions_of_each_shell_name_every_command() {
    let folder = written();
    for (shell, script) in SCRIPTS {
        let text = fs::read_to_string(folder.path().join(script)).unwrap();
        let words: BTreeSet<&str> = text.split(|part: char| !part.is_ascii_alphanumeric() && part != '-').collect();
        for command in commands() {
            assert!(words.contains(&*command), "{shell}: {command}");
        }
        assert!(!words.contains("keeper"), "{shell}: a hidden command is offered");
    }
    check_syntax(folder.path(), "bash");
}

#[test]
#[ignore = "needs zsh and fish"]
fn completions_are_programs_of_zsh_and_fish() {
    let folder = written();
    for shell in ["zsh", "fish"] {
        check_syntax(folder.path(), shell);
    }
}

fn check_syntax(folder: &Path, shell: &str) {
    let (_, script) = SCRIPTS.iter().find(|(of, _)| *of == shell).unwrap();
    let output = Command::new(shell).arg("-n").arg(folder.join(script)).output().expect("the shell is installed");
    assert!(output.status.success(), "{shell}: {}", stderr(&output));
}

fn check_page(page: &Path, command: &str) {
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    for heading in ["NAME", "SYNOPSIS", "OPTIONS"] {
        assert!(text.lines().any(|line| line == format!(".SH {heading}")), "{}: {heading}", page.display());
    }
    assert!(!text.contains(".SH EXTRA") && text.contains("\n.nh\n.ad l\n"), "{}", page.display());
    let synopsis = text.split_once(".SH SYNOPSIS").unwrap().1.replace('\\', "");
    assert!(synopsis.trim_start().starts_with(&format!("fB{command}fR")), "{synopsis}");
}

/// The files, in a folder that ends with the test.
fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_into(folder.path());
    folder
}

fn write_into(folder: &Path) {
    let output = Command::new(cargo_bin("rails-bench-package-files")).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = stdout(&run(["--help"]));
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

const SCRIPTS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/rails-bench.bash"),
    ("zsh", "zsh/site-functions/_rails-bench"),
    ("fish", "fish/vendor_completions.d/rails-bench.fish"),
];
