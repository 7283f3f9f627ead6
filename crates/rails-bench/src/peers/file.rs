//! The files of peers.

use super::flags;
use crate::exit::Help;
use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use clap::{
    Arg, Command,
    error::{ContextKind, ContextValue},
};
use nix::unistd::Uid;
use std::{
    any::TypeId,
    env, fs,
    fs::File,
    io::{self, Read},
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use toml::de::{DeTable, DeValue};

/// A file, checked.
#[derive(Debug)]
pub(super) struct Layer {
    tables: Vec<Table>,
}

/// The table of a peer.
#[derive(Debug)]
pub(super) struct Table {
    name: String,
    line: usize,
    pub(super) keys: Vec<Key>,
}

/// A key of a table.
#[derive(Debug)]
pub(super) struct Key {
    /// The name of its flag among those of the parser.
    pub(super) flag: String,
    /// The values of the flag; `None`: the flag is not given, even if weaker files give it.
    pub(super) values: Option<Vec<String>>,
    name: String,
    line: usize,
}

impl Layer {
    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, others may write it, or it is wrong: then with file, line and key.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        match text(path) {
            Ok(text) => Self::parse(path, &text).map(Some),
            Err(error) if is_missing(path, &error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The table of a peer.
    pub(super) fn peer(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let at = |span: Range<usize>| text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1;
        let wrong = |line: usize, fault: Error| fault.context(format!("{}:{line}", path.display()));
        let document = DeTable::parse(text)
            .map_err(|error| wrong(error.span().map_or(1, at), anyhow!("{}", error.message().replace('\n', " "))))?;
        let flags = flags();
        let mut tables = Vec::new();
        for (key, value) in document.get_ref() {
            let (line, key) = (at(key.span()), key.get_ref());
            let peers = match value.get_ref() {
                DeValue::Table(peers) if key == "peer" => peers,
                _ => return Err(wrong(line, anyhow!("{key}: there is no such key: the file has tables [peer.NAME]"))),
            };
            for (name, value) in peers {
                let (line, name) = (at(name.span()), name.get_ref());
                let DeValue::Table(keys) = value.get_ref() else {
                    return Err(wrong(line, anyhow!("peer.{name}: a peer is a table, [peer.NAME]")));
                };
                let mut table = Table { name: name.to_string(), line, keys: Vec::new() };
                for (key, value) in keys {
                    let (line, name) = (at(key.span()), key.get_ref());
                    let read = Key::of(&flags, path, name, value.get_ref(), line);
                    let read = read.map_err(|fault| wrong(line, fault.context(format!("peer.{}.{name}", table.name))));
                    table.keys.push(read?);
                }
                table.check(&flags).map_err(|(line, fault)| wrong(line, fault))?;
                tables.push(table);
            }
        }
        Ok(Self { tables })
    }
}

impl Table {
    /// Has the parser of the command line read the flags.
    fn check(&self, flags: &Command) -> Result<(), (usize, Error)> {
        let args = self.keys.iter().flat_map(|key| {
            let (name, values) = (&key.name, key.values.as_deref());
            let is_switch = flag(flags, name).is_some_and(|arg| !arg.get_action().takes_values());
            values.map(|values| match is_switch {
                true => format!("--{name}"),
                false => format!("--{name}={}", values.join(",")),
            })
        });
        let Err(error) = flags.clone().try_get_matches_from(args) else { return Ok(()) };
        let key = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(arg)) => self.keys.iter().find(|key| {
                arg.strip_prefix("--")
                    .and_then(|arg| arg.strip_prefix(&*key.name))
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '=']))
            }),
            _ => None,
        };
        let text = error.render().to_string();
        let reason = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        Err(match key {
            Some(key) => (key.line, anyhow!("peer.{}.{}: {reason}", self.name, key.name)),
            None => (self.line, anyhow!("peer.{}: {reason}", self.name)),
        })
    }
}

impl Key {
    fn of(flags: &Command, file: &Path, name: &str, value: &DeValue<'_>, line: usize) -> Result<Self> {
        ensure!(!name.contains("secret") || name == "secret-file", "{NO_SECRETS}");
        let Some(arg) = flag(flags, name) else {
            let known: Vec<_> = flags.get_arguments().filter_map(Arg::get_long).collect();
            return Err(anyhow!("there is no such key").help(format!("these are known: {}", known.join(", "))));
        };
        let is_switch = !arg.get_action().takes_values();
        let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let single = |value: &DeValue<'_>| {
            Ok(match value {
                DeValue::String(text) if is_path => located(file, text)?,
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.to_string(),
                _ => bail!("a flag's value is a text or a number"),
            })
        };
        let values = match value {
            DeValue::Boolean(is_given) if is_switch => is_given.then(|| vec!["true".to_owned()]),
            _ if is_switch => bail!("it is true or false"),
            DeValue::Array(values) if arg.get_value_delimiter().is_some() || name == "from" => {
                let values = values.iter().map(|value| single(value.get_ref())).collect::<Result<Vec<_>>>()?;
                Some(if name == "from" { vec![values.join(",")] } else { values })
            }
            value => Some(match (single(value)?, arg.get_value_delimiter()) {
                (text, Some(delimiter)) => text.split(delimiter).map(str::to_owned).collect(),
                (text, None) => vec![text],
            }),
        };
        Ok(Self { flag: arg.get_id().to_string(), values, name: name.to_owned(), line })
    }
}

/// The flag of a key.
fn flag<'a>(flags: &'a Command, name: &str) -> Option<&'a Arg> {
    flags.get_arguments().find(|arg| arg.get_long() == Some(name))
}

/// A path of a file, from that file's folder on; `~/` is the home directory.
fn located(file: &Path, text: &str) -> Result<String> {
    let path = match text.strip_prefix("~/") {
        Some(rest) => {
            let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
            home.context("HOME names no folder from / on")?.join(rest)
        }
        None => file.parent().unwrap_or(Path::new("")).join(text),
    };
    path.into_os_string().into_string().map_err(|path| anyhow!("{} is no text", path.display()))
}

/// The text of a file that only its user and root may write: it says where files go, and by
/// which key the peer is known.
fn text(path: &Path) -> Result<String> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let metadata = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    let (owner, mode) = (Uid::from_raw(metadata.uid()), metadata.mode());
    if mode & 0o022 != 0 {
        let error = anyhow!("{}: others than its owner may write it (mode {:o})", path.display(), mode & 0o777);
        return Err(error.help(format!("`chmod go-w {}`, and see that it says what you mean", path.display())));
    }
    if !owner.is_root() && owner != Uid::effective() {
        let error = anyhow!("{}: it belongs to another user ({owner})", path.display());
        return Err(error.help("have it belong to you or to root, and see that it says what you mean"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(text.len() as u64 <= MAX_BYTES, "{} is longer than {MAX_BYTES} bytes", path.display());
    Ok(text)
}

/// Whether the file or its folder does not exist, or is hidden by a folder that may not be
/// searched.
fn is_missing(path: &Path, error: &Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => fs::symlink_metadata(path).is_err(),
        _ => false,
    })
}

/// The bytes that a file may have.
const MAX_BYTES: u64 = 256 << 10;

/// The refusal of a secret in the file.
const NO_SECRETS: &str = "a secret has a file of its own: secret-file = \"PATH\"";
