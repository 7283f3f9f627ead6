//! Which of several places gives a flag its value: one order for all of them.

use super::file::Table;
use crate::{secret::JoinArgs, tls::ClientTls};
use clap::{Args, Command};

/// The flags that stand above all files.
#[derive(Debug)]
pub(super) struct Given {
    /// The flags of the command line, and those that a variable gives.
    pub(super) flags: Vec<String>,
    /// Whether a variable has a secret.
    pub(super) has_secret: bool,
}

/// The flags of a command, and the values that the tables give them, the strongest table first.
///
/// A table gives no flag that a stronger place gives, or that cannot go with one of those. Who may
/// join is one question: the strongest place that answers it does so alone, and nothing weaker is
/// mixed in.
pub(super) fn chosen(command: &Command, given: Given, tables: &[&Table]) -> Vec<(String, Vec<String>)> {
    let joining = ClientTls::augment_args(JoinArgs::augment_args(Command::new("joining")));
    let is_joining = |flag: &str| joining.get_arguments().any(|arg| arg.get_id() == flag);
    // Which is no answer: it says how a secret is used.
    let answers = |flag: &str| is_joining(flag) && flag != "no_encryption";
    let mut is_answered = given.has_secret || given.flags.iter().any(|flag| answers(flag));
    let (mut taken, mut values) = (given.flags, Vec::new());
    for table in tables {
        let keys = table.keys.iter().filter(|key| {
            let known = command.get_arguments().any(|arg| arg.get_id() == key.flag.as_str());
            let free = !taken.iter().any(|other| *other == key.flag || exclude(command, other, &key.flag));
            known && free && !(is_answered && is_joining(&key.flag))
        });
        let keys: Vec<_> = keys.collect();
        is_answered |= keys.iter().any(|key| answers(&key.flag));
        for key in keys {
            taken.push(key.flag.clone());
            values.extend(key.values.clone().map(|values| (key.flag.clone(), values)));
        }
    }
    values
}

/// Whether the command takes one of two flags at most.
fn exclude(command: &Command, one: &str, other: &str) -> bool {
    let arg = |id: &str| command.get_arguments().find(|arg| arg.get_id() == id);
    let (Some(one), Some(other)) = (arg(one), arg(other)) else { return false };
    let names = |arg, id| command.get_arg_conflicts_with(arg).iter().any(|against| against.get_id() == id);
    names(one, other.get_id()) || names(other, one.get_id())
}
