//! Headers and plans, read from open files.

use super::{
    error::ReadError,
    fetch::{fetch, keyed_below},
    source::{Root, Source},
};
use crate::{
    header::{HeaderError, Step},
    manifest::ObjectPath,
    plan::RegionPlan,
};
use std::borrow::Borrow;

/// Fills `goal` with the region of a plan. `source_of` gives the open file of a number, once for
/// each file. It blocks.
///
/// The generation of a file is compared before the first and after the last read of it, so all its
/// bytes are of one generation. Chunks that are fetched whole ask for their file once more each.
///
/// # Errors
/// The first error of `source_of` and of the reads, as [`Source::read_at`] has them;
/// [`ReadError::Chunk`] for a chunk that cannot be decoded; [`ReadError::NoRoot`] for chunks in
/// files without a number, which [`read_plan_below`] reads. The goal is partly filled then, and its
/// bytes mean nothing.
///
/// # Panics
/// If `goal` has not the size of the region.
pub fn read_plan<S: Borrow<Source>>(
    plan: &RegionPlan,
    goal: &mut [u8],
    source_of: impl FnMut(u32) -> Result<S, ReadError>,
) -> Result<(), ReadError> {
    carry_out(None, plan, goal, source_of)
}

/// Fills `goal` as [`read_plan`] does, also with chunks in files that are named by the chunks'
/// places in their grid, below `root`. It blocks.
///
/// Such a file is opened when its chunk is read, and the bytes of a chunk are of one generation of
/// the file.
///
/// # Errors
/// Those of [`read_plan`] but [`ReadError::NoRoot`], and [`ReadError::Shard`].
///
/// # Panics
/// If `goal` has not the size of the region.
pub fn read_plan_below<S: Borrow<Source>>(
    root: &Root,
    plan: &RegionPlan,
    goal: &mut [u8],
    source_of: impl FnMut(u32) -> Result<S, ReadError>,
) -> Result<(), ReadError> {
    carry_out(Some(root), plan, goal, source_of)
}

fn carry_out<S: Borrow<Source>>(
    root: Option<&Root>,
    plan: &RegionPlan,
    goal: &mut [u8],
    mut source_of: impl FnMut(u32) -> Result<S, ReadError>,
) -> Result<(), ReadError> {
    // Reads are in the order of the files.
    let mut current: Option<(u32, S)> = None;
    plan.read_but_fetches(goal, |object, offset, buffer| {
        if let Some((number, source)) = &current
            && *number == object
        {
            return source.borrow().read_unchecked(offset, buffer);
        }
        let next = source_of(object)?;
        next.borrow().check()?;
        if let Some((_, last)) = &current {
            last.borrow().check()?;
        }
        let (_, source) = current.insert((object, next));
        (*source).borrow().read_unchecked(offset, buffer)
    })?;
    current.map_or(Ok(()), |(_, last)| last.borrow().check())?;
    for planned in plan.fetches() {
        let keyed = |path: &ObjectPath| keyed_below(root, path);
        fetch(plan.dtype(), planned, &mut source_of, keyed, |chunk, elements| match elements {
            Some(elements) => chunk.scatter(&elements, goal),
            None => plan.fill(chunk, goal),
        })?;
    }
    Ok(())
}

/// Reads the header of a file with the parser of its format, which asks for as much as it needs.
///
/// # Errors
/// [`ReadError::Header`] and the errors of [`Source::read_at`].
pub fn read_header<T>(
    source: &Source,
    parse: impl Fn(&[u8], u64) -> Result<Step<T>, HeaderError>,
) -> Result<T, ReadError> {
    let file_bytes = source.generation().bytes;
    let mut prefix = Vec::new();
    let mut wanted = FIRST_READ_BYTES.min(file_bytes);
    loop {
        let had = prefix.len();
        prefix.resize(wanted as usize, 0);
        source.read_at(had as u64, &mut prefix[had..])?;
        let header = |error| ReadError::Header { path: source.path().clone(), error };
        match parse(&prefix, file_bytes).map_err(header)? {
            Step::Done(header) => return Ok(header),
            Step::NeedsPrefix { bytes } => wanted = bytes,
        }
    }
}

/// Headers of climate models with dozens of variables take less.
const FIRST_READ_BYTES: u64 = 64 << 10;
