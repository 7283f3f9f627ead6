use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// A table of commands with the sentence that `--help` has of each.
#[cfg(feature = "lab")]
fn table<'a>(commands: impl Iterator<Item = &'a clap::Command>) -> String {
    let rows = commands.filter(|command| !command.is_hide_set()).map(|command| {
        let about = command.get_about().unwrap().to_string();
        format!("| `{}` | {about} |\n", command.get_name())
    });
    "| command | purpose |\n|---|---|\n".to_owned() + &rows.collect::<String>()
}

#[cfg(feature = "lab")]
#[test]
fn document_of_the_commands_is_generated() {
    let of_the_laboratory = <crate::lab::Command as Subcommand>::has_subcommand;
    let all = Cli::command();
    let (laboratory, usual): (Vec<_>, Vec<_>) = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .partition(|command| of_the_laboratory(command.get_name()));
    let document = format!(
        "# Commands of rails-bench\n\n`rails-bench COMMAND --help` lists the options of each.\n\n{}\n\
         Exit codes: 0 done; 1 something failed, and was named; 2 a wrong command line; 3 (`send`) all that was sent arrived, \
         but\nspecial files, reserved names or attributes were left out (0 with `--allow-skipped`); 128 and its number after a signal.\n\
         `run` ends as its program does.\n\n\
         Those of the laboratory take the feature `lab`: they make network namespaces, emulate paths and machines, and\n\
         measure streams beside other transports.\n\n{}",
        table(usual.into_iter()),
        table(laboratory.into_iter()),
    );
    crate::published::check("commands.md", &document);
}
