//! Lines that are written are read back; others are refused.

use super::{
    LineProblem, MAX_LINE_BYTES, MAX_REGIONS, ReadOutcome, TRACE_VERSION, Trace, TraceEnd, TraceError, TraceHeader,
    line::{ArrayLine, Line, PathLine, ReadLine, TellLine},
};
use proptest::{collection::vec, prelude::*};
use rails_array::{Region, Selection, Shape};
use rails_cache::Policy;
use std::{error::Error, time::Duration};

fn header() -> TraceHeader {
    TraceHeader {
        version: TRACE_VERSION,
        address: "lram://host:5726/merra".into(),
        process: 7,
        application: "a \"model\"".into(),
        memory_bytes: 256 << 20,
        slot_bytes: 64 << 10,
        max_block_bytes: 1 << 20,
        policy: Policy::Mru,
        prefetch: true,
        views: false,
        presend: false,
    }
}

fn path() -> PathLine {
    PathLine { round_trip_ns: 19_000_000, storage_latency_ns: 0, bytes_per_second: 62_500_000 }
}

fn array() -> ArrayLine {
    ArrayLine {
        number: 0,
        dataset: "merra".into(),
        name: "wind".into(),
        shape: Shape::new([64, 36, 361]).unwrap(),
        element_bytes: 4,
        block_shape: Shape::new([1, 3, 361]).unwrap(),
    }
}

fn read(at_ns: u64, selection: &str) -> ReadLine {
    ReadLine { at_ns, handle: 3, array: 0, selection: selection.into(), waited_ns: 5, outcome: ReadOutcome::Done }
}

fn text(lines: &[Line]) -> Vec<u8> {
    let mut text = Vec::new();
    lines.iter().for_each(|line| line.write_to(&mut text));
    text
}

fn begun(more: impl IntoIterator<Item = Line>) -> Vec<u8> {
    let first = [Line::Trace(header()), Line::Path(path()), Line::Array(array())];
    text(&first.into_iter().chain(more).collect::<Vec<_>>())
}

/// An error and its causes.
fn words(error: &TraceError) -> String {
    rails_multirail::error::with_causes(error as &dyn Error)
}

/// An axis of a selection: the first coordinate, the extent, the step, and whether it is dropped.
fn axis(length: u64) -> impl Strategy<Value = (u64, u64, u64, bool)> {
    (0..length).prop_flat_map(move |start| (Just(start), 1..=length - start, 1_u64..5, any::<bool>()))
}

fn selection() -> impl Strategy<Value = Selection> {
    (axis(64), axis(36), axis(361)).prop_map(|(one, two, three)| {
        let axes = [one, two, three];
        let shape = Shape::new(axes.iter().map(|axis| axis.1)).unwrap();
        let region = Region::new(axes.iter().map(|axis| axis.0), shape).unwrap();
        let selection = Selection::new(region, axes.iter().map(|axis| axis.2)).unwrap();
        axes.iter().enumerate().fold(selection, |selection, (number, axis)| {
            let is_one = selection.counts().extents()[number] == 1;
            if axis.3 && is_one { selection.without_axis(number).unwrap() } else { selection }
        })
    })
}

fn outcome() -> impl Strategy<Value = ReadOutcome> {
    prop_oneof![Just(ReadOutcome::Done), Just(ReadOutcome::Failed), Just(ReadOutcome::Cancelled)]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        reads in vec((0_u64..1 << 50, selection(), 0_u64..1 << 50, outcome()), 0..20),
        told in vec(selection(), 0..10),
        end in proptest::option::of((any::<u64>(), any::<u64>())),
        cut in 0_usize..40,
    ) {
        let lines = reads.iter().map(|(at_ns, selection, waited_ns, outcome)| {
            let selection = selection.to_string();
            Line::Read(ReadLine { at_ns: *at_ns, handle: 3, array: 0, selection, waited_ns: *waited_ns, outcome: *outcome })
        });
        let regions: Vec<Region> = told.iter().map(|selection| selection.bounds().clone()).collect();
        let tell = |regions: &[Region], goes_on| {
            let regions = regions.iter().map(ToString::to_string).collect();
            Line::Tell(TellLine { at_ns: 1, handle: 4, array: 0, regions, goes_on })
        };
        let (first, rest) = regions.split_at(regions.len() / 2);
        let end = end.map(|(reads, misses)| TraceEnd { reads, misses, ..TraceEnd::default() });
        let more = [tell(first, true), tell(rest, false)].into_iter().chain(lines).chain(end.map(Line::End));
        let mut text = begun(more);
        let last = br#"{"read":{"at_ns":1,"handle":3,"array":0,"selection":"[0]"#;
        text.extend(&last[..cut.min(last.len())]);
        let trace = Trace::read(&text[..]).unwrap();
        prop_assert_eq!(&trace.header, &header());
        prop_assert_eq!(trace.path, path().path());
        prop_assert_eq!(trace.arrays[0].name.as_str(), "wind");
        let mut expected = reads;
        expected.sort_by_key(|read| read.0);
        let found: Vec<_> = trace.reads.iter().map(|read| {
            (read.at.as_nanos() as u64, read.selection.clone(), read.waited.as_nanos() as u64, read.outcome)
        }).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(&trace.tells[0].regions, &regions);
        prop_assert_eq!((trace.end, trace.is_cut), (end, cut > 0));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200), at in 0_usize..400) {
        let _ = Trace::read(&bytes[..]);
        let mut text = begun([Line::Read(read(7, "[1, 2]"))]);
        let at = at.min(text.len());
        text.splice(at..at, bytes);
        let _ = Trace::read(&text[..]);
    }
}

#[test]
fn a_file_is_refused_by_its_line() {
    let long = vec![b' '; MAX_LINE_BYTES as usize];
    let of = |more: Line| begun([more]);
    let header_with = |change: fn(&mut TraceHeader)| {
        let mut header = header();
        change(&mut header);
        text(&[Line::Trace(header)])
    };
    let array_with = |change: fn(&mut ArrayLine)| {
        let mut array = ArrayLine { number: 1, ..array() };
        change(&mut array);
        of(Line::Array(array))
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "ends without a line `trace`"),
        (text(&[Line::Trace(header())]), "ends without a line `path`"),
        (b"CDF\x01\n".to_vec(), "line 1: it is no line of a trace"),
        (b"{\"trace\":{\"version\":1}}\n".to_vec(), "line 1: it is no line of a trace: missing field"),
        (text(&[Line::Path(path())]), "line 1: a trace begins with a line `trace`"),
        (header_with(|header| header.version = 2), "line 1: it is of version 2"),
        (header_with(|header| header.slot_bytes = 0), "`slot_bytes` is 0"),
        (header_with(|header| header.memory_bytes = 0), "`memory_bytes` is 0"),
        (begun([Line::Trace(header())]), "line 4: a line `trace` does not belong here"),
        (begun([Line::End(TraceEnd::default()), Line::Path(path())]), "line 5: a line `path` does not belong"),
        (of(Line::Path(PathLine { bytes_per_second: 0, ..path() })), "`bytes_per_second` is 0"),
        (of(Line::Path(PathLine { round_trip_ns: u64::MAX, ..path() })), "`round_trip_ns` is"),
        (array_with(|array| array.number = 5), "the next array has the number 1"),
        (array_with(|array| array.element_bytes = 0), "`element_bytes` is 0"),
        (array_with(|array| array.block_shape = Shape::new([1, 1]).unwrap()), "the blocks do not divide the array"),
        (of(Line::Read(ReadLine { array: 1, ..read(1, "[0]") })), "there is no array of the number 1"),
        (of(Line::Read(ReadLine { at_ns: u64::MAX, ..read(1, "[0]") })), "`at_ns` is"),
        (of(Line::Read(read(1, "[64]"))), "line 4: `64` lies outside axis 0"),
        (of(Line::Read(read(1, "[0"))), "does not end with"),
        (of(Line::Read(read(1, "wind[0]"))), "`wind[0]` has a name"),
        (of(Line::Read(read(1, "[3:3]"))), "`[3:3]` selects no element"),
        ([begun([]), long].concat(), "line 4: it has more than"),
    ];
    for (text, expected) in cases {
        let error = Trace::read(&text[..]).unwrap_err();
        assert!(words(&error).contains(expected), "{} for {expected}", words(&error));
    }
}

#[test]
fn announcements_go_on_in_the_next_line_alone() {
    let tell = |handle, goes_on| {
        Line::Tell(TellLine { at_ns: 1, handle, array: 0, regions: vec!["[0:1, 0:1, 0:1]".into()], goes_on })
    };
    assert_eq!(Trace::read(&begun([tell(1, true), tell(1, false)])[..]).unwrap().tells[0].regions.len(), 2);
    for second in [tell(2, false), Line::Read(read(1, "[0]"))] {
        let error = Trace::read(&begun([tell(1, true), second])[..]).unwrap_err();
        let TraceError::Line { line: 5, problem } = error else { panic!("{error:?}") };
        assert!(matches!(*problem, LineProblem::Place { .. }), "{problem:?}");
    }
    let stepped =
        Line::Tell(TellLine { at_ns: 1, handle: 1, array: 0, regions: vec!["[0:64:2]".into()], goes_on: false });
    assert!(words(&Trace::read(&begun([stepped])[..]).unwrap_err()).contains("has steps"));
}

#[test]
fn empty_announcements_are_as_few_as_regions() {
    let mut text = begun([]);
    let tell = TellLine { at_ns: 1, handle: 1, array: 0, regions: Vec::new(), goes_on: false };
    let mut line = Vec::new();
    Line::Tell(tell).write_to(&mut line);
    text.extend(line.repeat(MAX_REGIONS + 1));
    let error = Trace::read(&text[..]).unwrap_err();
    assert!(words(&error).contains("announced regions"), "{}", words(&error));
}

#[test]
fn reads_are_in_the_order_of_their_beginnings() {
    let trace = Trace::read(&begun([9, 3, 5].map(|at| Line::Read(read(at, "[0]"))))[..]).unwrap();
    let times: Vec<Duration> = trace.reads.iter().map(|read| read.at).collect();
    assert_eq!(times, [3, 5, 9].map(Duration::from_nanos));
}
