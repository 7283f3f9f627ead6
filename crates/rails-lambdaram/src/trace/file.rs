//! Traces are read and checked.

use super::{
    LineProblem, MAX_ARRAYS, MAX_LINE_BYTES, MAX_READS, MAX_REGIONS, TRACE_VERSION, Told, Trace, TraceEnd, TraceError,
    TraceHeader, TracedArray, TracedRead,
    line::{ArrayLine, Line, PathLine, ReadLine, TellLine},
};
use rails_array::{BlockGrid, Region, Selection, SelectionText};
use rails_cache::pattern::Path;
use std::{
    collections::BTreeMap,
    io::{BufRead, Read},
    time::Duration,
};

impl Trace {
    /// Reads a file. Memory is bounded by the limits of this module.
    ///
    /// # Errors
    /// [`TraceError`], which names the line.
    pub fn read(mut input: impl BufRead) -> Result<Self, TraceError> {
        let (mut reading, mut line, mut number) = (Reading::default(), Vec::new(), 0);
        loop {
            number += 1;
            line.clear();
            let limited = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
            let length = limited.map_err(|error| TraceError::Read { line: number, error })?;
            if length == 0 {
                return reading.finish(false);
            }
            if line.last() != Some(&b'\n') {
                if length as u64 == MAX_LINE_BYTES {
                    return Err(TraceError::Line { line: number, problem: Box::new(LineProblem::Long) });
                }
                return reading.finish(true);
            }
            reading.take(&line).map_err(|problem| TraceError::Line { line: number, problem: Box::new(problem) })?;
        }
    }
}

/// The part of a file that was read.
#[derive(Default)]
struct Reading {
    header: Option<TraceHeader>,
    path: Option<Path>,
    arrays: Vec<TracedArray>,
    reads: Vec<TracedRead>,
    tells: Vec<Told>,
    regions: usize,
    /// The last `tell` goes on in this line.
    goes_on: bool,
    /// The array of each handle.
    handles: BTreeMap<u32, u32>,
    end: Option<TraceEnd>,
}

impl Reading {
    fn take(&mut self, line: &[u8]) -> Result<(), LineProblem> {
        let line: Line = serde_json::from_slice(line)?;
        match (&self.header, &line) {
            (None, Line::Trace(_)) => {}
            (None, _) => return Err(LineProblem::NoHeader),
            (Some(_), Line::Trace(_)) => return Err(LineProblem::Place { kind: "trace" }),
            (Some(_), _) => {}
        }
        let kind = line.kind();
        if self.end.is_some() || self.goes_on && kind != "tell" {
            return Err(LineProblem::Place { kind });
        }
        match line {
            Line::Trace(header) => {
                check_header(&header)?;
                self.header = Some(header);
            }
            Line::Path(path) => self.path = Some(checked_path(&path)?),
            Line::Array(array) => self.array(array)?,
            Line::Tell(tell) => self.tell(tell)?,
            Line::Read(read) => self.read(read)?,
            Line::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    fn array(&mut self, line: ArrayLine) -> Result<(), LineProblem> {
        let ArrayLine { number, dataset, name, shape, element_bytes, block_shape } = line;
        let expected = self.arrays.len();
        if number as usize != expected {
            return Err(LineProblem::ArrayNumber { expected, found: number });
        }
        if expected == MAX_ARRAYS {
            return Err(LineProblem::TooMany { what: "arrays", max: MAX_ARRAYS });
        }
        check_range("element_bytes", element_bytes.into(), 1, 16)?;
        BlockGrid::new(Region::whole(&shape), block_shape.clone())?;
        self.arrays.push(TracedArray { dataset, name, shape, element_bytes, block_shape });
        Ok(())
    }

    fn tell(&mut self, line: TellLine) -> Result<(), LineProblem> {
        let TellLine { at_ns, handle, array, regions, goes_on } = line;
        let at = time("at_ns", at_ns)?;
        self.check_handle(handle, array)?;
        self.regions += regions.len().max(1);
        if self.regions > MAX_REGIONS {
            return Err(LineProblem::TooMany { what: "announced regions", max: MAX_REGIONS });
        }
        let region = |text: &String| {
            let selection = self.selection(array, text)?;
            if selection.steps().iter().any(|step| *step != 1) {
                return Err(LineProblem::Selection { selection: text.clone(), fault: "is announced, and has steps" });
            }
            Ok(selection.bounds().clone())
        };
        let regions = regions.iter().map(region).collect::<Result<Vec<Region>, _>>()?;
        match self.tells.last_mut().filter(|_| self.goes_on) {
            Some(last) if (last.handle, last.at) == (handle, at) => last.regions.extend(regions),
            Some(_) => return Err(LineProblem::Place { kind: "tell" }),
            None => self.tells.push(Told { at, handle, array, regions }),
        }
        self.goes_on = goes_on;
        Ok(())
    }

    fn read(&mut self, line: ReadLine) -> Result<(), LineProblem> {
        let ReadLine { at_ns, handle, array, selection, waited_ns, outcome } = line;
        let (at, waited) = (time("at_ns", at_ns)?, time("waited_ns", waited_ns)?);
        self.check_handle(handle, array)?;
        if self.reads.len() == MAX_READS {
            return Err(LineProblem::TooMany { what: "reads", max: MAX_READS });
        }
        let selection = self.selection(array, &selection)?;
        self.reads.push(TracedRead { at, handle, array, selection, waited, outcome });
        Ok(())
    }

    fn check_handle(&mut self, handle: u32, array: u32) -> Result<(), LineProblem> {
        if array as usize >= self.arrays.len() {
            return Err(LineProblem::NoArray { array });
        }
        let known = *self.handles.entry(handle).or_insert(array);
        if known == array { Ok(()) } else { Err(LineProblem::Handle { handle, known, array }) }
    }

    fn selection(&self, array: u32, text: &str) -> Result<Selection, LineProblem> {
        let wrong = |fault| Err(LineProblem::Selection { selection: text.to_owned(), fault });
        let parsed: SelectionText = text.parse()?;
        if parsed.name().is_some() {
            return wrong("has a name");
        }
        let selection = parsed.resolve(&self.arrays[array as usize].shape)?;
        if selection.is_empty() { wrong("selects no element") } else { Ok(selection) }
    }

    fn finish(mut self, is_cut: bool) -> Result<Trace, TraceError> {
        let header = self.header.ok_or(TraceError::Short { missing: "trace" })?;
        let path = self.path.ok_or(TraceError::Short { missing: "path" })?;
        // Stable, so that reads of one moment stay in the order of the file.
        self.reads.sort_by_key(|read| read.at);
        self.tells.sort_by_key(|tell| tell.at);
        let Self { arrays, reads, tells, end, .. } = self;
        Ok(Trace { header, path, arrays, reads, tells, end, is_cut })
    }
}

impl Line {
    fn kind(&self) -> &'static str {
        match self {
            Self::Trace(_) => "trace",
            Self::Path(_) => "path",
            Self::Array(_) => "array",
            Self::Tell(_) => "tell",
            Self::Read(_) => "read",
            Self::End(_) => "end",
        }
    }
}

fn check_header(header: &TraceHeader) -> Result<(), LineProblem> {
    if header.version != TRACE_VERSION {
        return Err(LineProblem::Version { version: header.version });
    }
    check_range("slot_bytes", header.slot_bytes.into(), 1, MAX_SLOT_BYTES)?;
    check_range("max_block_bytes", header.max_block_bytes, header.slot_bytes.into(), MAX_BLOCK_BYTES)?;
    check_range("memory_bytes", header.memory_bytes, header.max_block_bytes, MAX_MEMORY_BYTES)
}

fn checked_path(line: &PathLine) -> Result<Path, LineProblem> {
    check_range("round_trip_ns", line.round_trip_ns, 0, MAX_LATENCY.as_nanos() as u64)?;
    check_range("storage_latency_ns", line.storage_latency_ns, 0, MAX_LATENCY.as_nanos() as u64)?;
    check_range("bytes_per_second", line.bytes_per_second, 1, u64::MAX)?;
    Ok(line.path())
}

fn time(name: &'static str, nanoseconds: u64) -> Result<Duration, LineProblem> {
    check_range(name, nanoseconds, 0, MAX_TIME.as_nanos() as u64)?;
    Ok(Duration::from_nanos(nanoseconds))
}

fn check_range(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), LineProblem> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(LineProblem::Range { name, value, min, max }) }
}

/// Ten years.
const MAX_TIME: Duration = Duration::from_secs(10 * 366 * 86_400);
/// An hour: to the planets and back.
const MAX_LATENCY: Duration = Duration::from_secs(3600);
const MAX_SLOT_BYTES: u64 = 1 << 26;
const MAX_BLOCK_BYTES: u64 = 1 << 30;
/// As many as addresses of 48 bits reach.
const MAX_MEMORY_BYTES: u64 = 1 << 48;
