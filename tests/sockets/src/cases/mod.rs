//! The cases, by what they are about.

mod connecting;
mod copying;
mod endings;
mod flow;
mod options;
pub(crate) mod sharing;
mod waiting;

use crate::{
    case::{Case, Served},
    work::{BULK, finish, read_to_end, write_all},
};
use std::io;

/// Every case.
pub(crate) const ALL: &[&[Case]] =
    &[waiting::CASES, sharing::CASES, copying::CASES, connecting::CASES, endings::CASES, flow::CASES, options::CASES];

/// The case of that name.
pub(crate) fn find(name: &str) -> Option<&'static Case> {
    ALL.iter().flat_map(|family| family.iter()).find(|case| case.name == name)
}

/// The usual server: it reads to the end, answers, and closes.
fn answer(served: &Served) -> io::Result<()> {
    read_to_end(&served.log, &served.socket)?;
    write_all(&served.log, &served.socket, &served.payload(BULK))?;
    finish(&served.log, &served.socket)
}
