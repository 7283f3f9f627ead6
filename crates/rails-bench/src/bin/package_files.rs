//! Writes what a package of `rails-bench` holds beside the program: a man page for each command,
//! and completions for shells.
//!
//! It is a program of its own, so that neither `rails-bench` nor the demo takes the crates that
//! write them; and one of this crate, for the features of the build say which commands there are.

use anyhow::{Context, Result};
use clap::{Command, CommandFactory, Parser};
use clap_complete::Shell;
use clap_mangen::Man;
use rails_bench::{Cli, Exit, explain};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Writes the man pages of rails-bench, and its completions for bash, zsh and fish.
#[derive(Debug, Parser)]
#[command(name = "rails-bench-package-files", version)]
struct Args {
    /// The folder to write them below, laid out as /usr/share is
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    match write_all(&Args::parse().folder) {
        Ok(()) => Exit::Done.into(),
        Err(error) => explain(&error),
    }
}

fn write_all(folder: &Path) -> Result<()> {
    let pages = make(folder.join("man/man1"))?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, &pages).with_context(|| format!("cannot write the man pages below {}", pages.display()))?;
    for (shell, place) in COMPLETIONS {
        let scripts = make(folder.join(place))?;
        clap_complete::generate_to(shell, &mut visible(&Cli::command()), "rails-bench", &scripts)
            .with_context(|| format!("cannot write the completions for {shell} below {}", scripts.display()))?;
    }
    Ok(())
}

/// Writes the page of a command, and those of the commands below it that are not hidden. The folder
/// may hold pages of other programs.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder)?;
    }
    let (page, mut text) = (Man::new(command.clone()), Vec::new());
    page.render(&mut text)?;
    fs::write(folder.join(page.get_filename()), keep_lines(&String::from_utf8_lossy(&text)))
}

/// Has a page show commands as they are typed: neither hyphenated nor stretched to the margin.
fn keep_lines(page: &str) -> String {
    let mut kept = String::new();
    for line in page.replace("\n.SH EXTRA\n", "\n.SH NOTES\n").split_inclusive('\n') {
        kept.push_str(line);
        if line.starts_with(".TH ") {
            kept.push_str(".nh\n.ad l\n");
        }
    }
    kept
}

/// A command without the hidden ones below it, which completions would offer.
fn visible(command: &Command) -> Command {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set()).map(visible);
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned();
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_owned())
        .about(about)
        .args(arguments)
        .subcommands(below)
        .disable_help_subcommand(command.is_disable_help_subcommand_set())
        .version(command.get_version().unwrap_or_default().to_owned())
}

fn make(folder: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Where each shell looks for completions, below /usr/share.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];
