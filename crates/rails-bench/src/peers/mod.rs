//! Peers by name: `--to storage:` stands for the table `[peer.storage]` of the configuration
//! files, whose keys are the flags of the end that connects.
//!
//! A value of a file becomes the default of its flag, so that the command line and the environment
//! win over it. `chosen.rs` says which values these are, `file.rs` reads the files.

mod chosen;
mod file;
#[cfg(test)]
mod tests;

use crate::{
    endpoint::{Address, StreamArgs, StripingArgs},
    exit::Helped,
    placement::RailsArgs,
    secret,
    tls::ClientTls,
};
use anyhow::Result;
use chosen::{Given, chosen};
use clap::{Arg, ArgMatches, Args, Command, builder::ValueParser, parser::ValueSource, value_parser};
use file::Layer;
use rails_multirail::RailRequest;
use rails_topo::config;
use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The command and its arguments, with the peer that they name replaced by what the files say about
/// it. Arguments that name none stay as they are.
///
/// # Errors
/// A file is wrong or open to others, no file knows the peer, or a path follows its name.
pub(crate) fn named(command: Command, args: Vec<OsString>) -> Result<(Command, Vec<OsString>)> {
    let user = config::user_file(env::var_os("XDG_CONFIG_HOME").as_deref(), env::var_os("HOME").as_deref());
    let user = user.map(|file| file.with_file_name(FILE));
    let files: Vec<PathBuf> = user.into_iter().chain([Path::new(config::SYSTEM_FILE).with_file_name(FILE)]).collect();
    named_in(&files, secret::is_in_environment(), command, args)
}

/// As [`named`], with these files, the strongest first.
fn named_in(
    files: &[PathBuf],
    has_secret: bool,
    command: Command,
    args: Vec<OsString>,
) -> Result<(Command, Vec<OsString>)> {
    let Some(Named { peer, subcommand, given, is_configured, rest }) = Named::among(&command, &args)? else {
        return Ok((command, args));
    };
    if !is_configured {
        return Err(Helped::usage(
            format_args!("`{peer}:` names a peer of the files that --no-config leaves out"),
            PLAIN,
        ));
    }
    let layers = files.iter().filter_map(|file| Layer::read(file).transpose()).collect::<Result<Vec<_>>>()?;
    let tables: Vec<_> = layers.iter().filter_map(|layer| layer.peer(&peer)).collect();
    if tables.is_empty() {
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        let error = format!("`{peer}:` names a peer, and there is no table [peer.{peer}] in {}", files.join(" or "));
        return Err(Helped::usage(error, PLAIN));
    }
    let mut built = command.clone();
    built.build();
    let of = built.find_subcommand(&subcommand).expect("the arguments were read by it");
    let mut values = chosen(of, Given { flags: given, has_secret }, &tables);
    if !values.iter().any(|(flag, _)| *flag == TO) {
        // As in ssh's files, a peer without an address is a host of that name.
        values.push((TO.into(), vec![peer]));
    }
    let command = command.mut_subcommand(subcommand, |command| {
        values.into_iter().fold(command, |command, (flag, values)| {
            command.mut_arg(flag, |arg| arg.required(false).default_values(values))
        })
    });
    Ok((command, rest))
}

/// The flags that a table may give.
fn flags() -> Command {
    let to = Arg::new(TO).long(TO).value_delimiter(',').value_parser(value_parser!(Address));
    let from = Arg::new("from").long("from").value_parser(value_parser!(RailRequest));
    let command = RailsArgs::augment_args(Command::new("peer").no_binary_name(true).args([to, from]));
    StreamArgs::<ClientTls>::augment_args(StripingArgs::augment_args(command))
}

/// A command line that names a peer.
#[derive(Debug)]
struct Named {
    peer: String,
    subcommand: String,
    /// The flags that the command line or the environment gives.
    given: Vec<String>,
    /// Whether the files count.
    is_configured: bool,
    /// The arguments without the peer.
    rest: Vec<OsString>,
}

impl Named {
    /// The peer among the arguments of a command that connects: `NAME:` alone after `--to`, or as
    /// the last of the files without that flag.
    fn among(command: &Command, args: &[OsString]) -> Result<Option<Self>> {
        let Some((subcommand, matches)) = read(command, args) else { return Ok(None) };
        let Ok(to) = matches.try_get_many::<OsString>(TO) else { return Ok(None) };
        let to: Vec<&OsString> = to.into_iter().flatten().collect();
        let files = files(&matches);
        let (text, flag) = match (&to[..], files.last()) {
            ([], Some(last)) => (*last, ""),
            ([one], _) => (*one, "--to "),
            (several, _) => {
                return match several.iter().find(|text| peer_of(text).is_some_and(|(_, path)| path.is_empty())) {
                    Some(peer) => Err(Helped::usage(
                        format_args!("--to: `{}` names a peer, which stands alone", peer.display()),
                        "the table of the peer has all of its addresses, as to = [\"10.0.1.9\", \"10.0.2.9\"]",
                    )),
                    None => Ok(None),
                };
            }
        };
        let Some((peer, path)) = peer_of(text) else { return Ok(None) };
        if !path.is_empty() {
            if !flag.is_empty() && path.starts_with(|first: char| first.is_ascii_digit()) {
                return Ok(None);
            }
            return Err(Helped::usage(
                format_args!("{flag}{}: the receiver alone chooses the folder (`recv --into`)", text.display()),
                format!(
                    "give `{peer}:` alone for the peer of that name; a file of this name here is ./{}",
                    text.display()
                ),
            ));
        }
        let is_rest = |rest: &Vec<OsString>| {
            read(command, rest).is_some_and(|(_, without)| {
                let kept = if flag.is_empty() { files.len() - 1 } else { files.len() };
                without.get_many::<OsString>(TO).is_none() && self::files(&without)[..] == files[..kept]
            })
        };
        // Another flag may have the same text as its value.
        let Some(rest) = without(args, text, !flag.is_empty()).find(is_rest) else { return Ok(None) };
        let is_given = |id: &str| {
            matches!(matches.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable)) && id != TO
        };
        let given = matches.ids().map(|id| id.as_str().to_owned()).filter(|id| is_given(id)).collect();
        let is_configured = !matches.get_flag("no_config");
        Ok(Some(Self { peer: peer.to_owned(), subcommand, given, is_configured, rest }))
    }
}

/// The subcommand and its values as they were written. Faults are left to the parser that reads the
/// arguments after this.
fn read(command: &Command, args: &[OsString]) -> Option<(String, ArgMatches)> {
    let as_written = |command: Command| {
        command.ignore_errors(true).mut_args(|arg| match arg.get_action().takes_values() {
            true => arg.required(false).value_parser(ValueParser::os_string()),
            false => arg,
        })
    };
    let command = as_written(command.clone()).mut_subcommands(as_written);
    command.try_get_matches_from(args).ok()?.remove_subcommand()
}

/// The files that a command is given.
fn files(matches: &ArgMatches) -> Vec<&OsString> {
    matches.try_get_many(FILES).ok().flatten().into_iter().flatten().collect()
}

/// The name and the path of `NAME:PATH`; `None` where that is an address, or the path of a file.
fn peer_of(text: &OsStr) -> Option<(&str, &str)> {
    let (name, path) = text.to_str()?.split_once(':')?;
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "/[%".contains(c));
    (is_name && !path.starts_with("//") && !path.contains(':') && name.parse::<std::net::IpAddr>().is_err())
        .then_some((name, path))
}

/// The arguments without one of those that are `text`, or `--to` with it, from the last on.
fn without<'a>(args: &'a [OsString], text: &'a OsStr, is_flag: bool) -> impl Iterator<Item = Vec<OsString>> {
    let with_flag = [OsStr::new("--to="), text].into_iter().collect::<OsString>();
    let places = (1..args.len()).rev().filter_map(move |at| match is_flag {
        false => (args[at] == text).then_some(at..at + 1),
        true if args[at] == with_flag => Some(at..at + 1),
        true => (args[at] == text && args[at - 1] == "--to").then_some(at - 1..at + 1),
    });
    places.map(|place| [&args[..place.start], &args[place.end..]].concat())
}

/// The flag of the peer's addresses.
const TO: &str = "to";
/// The files that `send` sends.
const FILES: &str = "files";
/// The file's name, beside that of the facts about the machine.
const FILE: &str = "config.toml";
/// The remedy where there is no such peer.
const PLAIN: &str = "a host of that name takes no colon: `--to NAME`";
