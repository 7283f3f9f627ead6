//! The values of messages, compared with their limits.

use super::{
    error::WireProblem,
    frame::{BudgetStatus, Denial, Hello, NodeStatus, ReaderFrame, ServerFrame, Welcome},
    limits::{
        MAX_APPLICATION_BYTES, MAX_BLOCKS, MAX_BUDGETS, MAX_DATASETS, MAX_NAME_BYTES, MAX_PATH, MAX_REGIONS, MAX_RUNS,
        MAX_TEXT_BYTES, MAX_VIEWS,
    },
    run::{Run, count},
};
use crate::description::{ArraySummary, DatasetDescription, DatasetEntry};
use rails_array::Region;
use std::collections::HashSet;

/// Checks a message of the reader.
pub(super) fn reader(frame: &ReaderFrame) -> Result<(), WireProblem> {
    match frame {
        ReaderFrame::Hello(hello) => self::hello(hello),
        ReaderFrame::Describe { dataset, .. } | ReaderFrame::Open { dataset, .. } => dataset_name(dataset),
        ReaderFrame::Get { blocks, .. }
        | ReaderFrame::Raise { blocks, .. }
        | ReaderFrame::Cancel { blocks, .. }
        | ReaderFrame::Warm { blocks, .. }
        | ReaderFrame::Have { blocks, .. } => self::blocks(blocks),
        ReaderFrame::Intend { regions, .. } => list("regions", regions, MAX_REGIONS),
        ReaderFrame::List { .. }
        | ReaderFrame::Close { .. }
        | ReaderFrame::Credit { .. }
        | ReaderFrame::Recall { .. }
        | ReaderFrame::Reading { .. }
        | ReaderFrame::Fate { .. }
        | ReaderFrame::Status { .. } => Ok(()),
    }
}

/// Checks a message of the node that serves. The sizes within a description are checked before it
/// is decoded.
pub(super) fn server(frame: &ServerFrame) -> Result<(), WireProblem> {
    match frame {
        ServerFrame::Welcome(welcome) => self::welcome(welcome),
        ServerFrame::Refused { text, .. } => reason(text),
        ServerFrame::Listed { datasets, .. } => {
            list("datasets", datasets, MAX_DATASETS)?;
            datasets.iter().try_for_each(|DatasetEntry { name, .. }| dataset_name(name))
        }
        ServerFrame::Described { description: Ok(description), .. } => self::description(description),
        ServerFrame::Described { description: Err(denial), .. } | ServerFrame::Opened { outcome: Err(denial), .. } => {
            self::denial(denial)
        }
        ServerFrame::Fault { blocks, text, .. } => {
            self::blocks(blocks)?;
            reason(text)
        }
        ServerFrame::Status { status, .. } => self::status(status),
        ServerFrame::Opened { outcome: Ok(()), .. } | ServerFrame::Stale { .. } | ServerFrame::Returned { .. } => {
            Ok(())
        }
    }
}

/// Checks the facts of a description.
pub(super) fn description(description: &DatasetDescription) -> Result<(), WireProblem> {
    dataset_name(&description.name)?;
    let mut names = HashSet::new();
    for array in &description.arrays {
        let name = &array.description.name;
        text("name of an array", name, MAX_NAME_BYTES)?;
        if !names.insert(name) {
            return Err(WireProblem::DuplicateArray { name: name.clone() });
        }
        if let Some(field) = wrong_field(array) {
            return Err(WireProblem::Array { name: name.clone(), field });
        }
    }
    Ok(())
}

/// Whether a name of an application can be printed, and is not empty.
pub(super) fn is_application(name: &str) -> bool {
    !name.trim().is_empty() && !name.contains(char::is_control)
}

/// The fact about an array that does not fit its type or shape, if there is one.
fn wrong_field(ArraySummary { description, block_shape, views, inline }: &ArraySummary) -> Option<&'static str> {
    let (rank, element_bytes) = (description.shape.rank(), description.dtype.bytes());
    if description.dimension_names.len() != rank {
        return Some("list of dimensions");
    }
    if block_shape.rank() != rank || block_shape.is_empty() {
        return Some("shape of blocks");
    }
    let fits = |view: &Region| view.is_within(&description.shape) && !view.is_empty();
    if views.len() > MAX_VIEWS || !views.iter().all(fits) {
        return Some("list of views");
    }
    if description.fill_value.as_ref().is_some_and(|fill_value| fill_value.len() as u64 != element_bytes) {
        return Some("fill value");
    }
    let bytes = description.shape.elements().checked_mul(element_bytes);
    inline.as_ref().is_some_and(|elements| Some(elements.len() as u64) != bytes).then_some("list of elements")
}

fn hello(hello: &Hello) -> Result<(), WireProblem> {
    list("nodes", &hello.path, MAX_PATH)?;
    if hello.path.is_empty() {
        return Err(WireProblem::NoEntry { entries: "nodes" });
    }
    application(&hello.application)?;
    not_zero("size of the largest block", hello.max_block_bytes)
}

fn welcome(welcome: &Welcome) -> Result<(), WireProblem> {
    not_zero("size of the largest block", welcome.max_block_bytes)?;
    not_zero("number of blocks that may be asked for", welcome.max_asked)
}

fn denial(denial: &Denial) -> Result<(), WireProblem> {
    reason(&denial.text)
}

fn status(status: &NodeStatus) -> Result<(), WireProblem> {
    if status.level > MAX_LEVEL {
        return Err(WireProblem::Level { found: status.level });
    }
    list("budgets", &status.budgets, MAX_BUDGETS)?;
    status.budgets.iter().try_for_each(|BudgetStatus { application, dataset, array, .. }| {
        self::application(application)?;
        dataset_name(dataset)?;
        text("name of an array", array, MAX_NAME_BYTES)
    })
}

fn blocks(runs: &[Run]) -> Result<(), WireProblem> {
    list("runs", runs, MAX_RUNS)?;
    if let Some(Run { first, count }) = runs.iter().find(|run| run.count == 0 || !run.has_end()) {
        return Err(WireProblem::Run { first: *first, count: *count });
    }
    let blocks = count(runs);
    if blocks > MAX_BLOCKS { Err(WireProblem::Blocks { blocks }) } else { Ok(()) }
}

fn application(name: &str) -> Result<(), WireProblem> {
    text("name of the application", name, MAX_APPLICATION_BYTES)?;
    if is_application(name) { Ok(()) } else { Err(WireProblem::Application) }
}

fn dataset_name(name: &str) -> Result<(), WireProblem> {
    text("name of the dataset", name, MAX_NAME_BYTES)
}

fn reason(text: &str) -> Result<(), WireProblem> {
    self::text("reason", text, MAX_TEXT_BYTES)
}

fn text(field: &'static str, text: &str, max: usize) -> Result<(), WireProblem> {
    if text.len() > max { Err(WireProblem::Text { field, bytes: text.len(), max }) } else { Ok(()) }
}

fn list<T>(entries: &'static str, list: &[T], max: usize) -> Result<(), WireProblem> {
    if list.len() > max { Err(WireProblem::List { entries, max }) } else { Ok(()) }
}

fn not_zero(field: &'static str, number: u32) -> Result<(), WireProblem> {
    if number == 0 { Err(WireProblem::Zero { field }) } else { Ok(()) }
}

/// The highest level of a node's memory.
const MAX_LEVEL: u8 = 4;
