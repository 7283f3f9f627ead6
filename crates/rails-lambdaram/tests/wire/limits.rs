//! The limits of frames, each on both of its sides.

use rails_array::{BlockIndex, Region, Shape};
use rails_lambdaram::{
    description::DatasetEntry,
    wire::{
        BudgetStatus, Denial, DenialReason, Encodings, Handle, Hello, MAX_APPLICATION_BYTES, MAX_BLOCKS, MAX_BUDGETS,
        MAX_DATASETS, MAX_FRAME_BYTES, MAX_LISTING_BYTES, MAX_NAME_BYTES, MAX_PATH, MAX_REGIONS, MAX_RUNS,
        MAX_TEXT_BYTES, NodeId, NodeStatus, ReaderFrame, RefusedReason, Run, ServerFrame, ServerMessage, VERSION,
        Welcome, WireError, WireFault, WireProblem,
    },
};

/// The problem of a message from the reader, if there is one.
fn of_reader(frame: ReaderFrame) -> Option<WireProblem> {
    problem(ReaderFrame::decode(&frame.encode()).map(|decoded| assert_eq!(decoded, frame)))
}

/// The problem of a message of the node that serves, if there is one.
fn of_server(frame: ServerFrame) -> Option<WireProblem> {
    problem(ServerMessage::decode(frame.encode()).map(|decoded| assert_eq!(decoded, ServerMessage::Frame(frame))))
}

fn problem(result: Result<(), WireError>) -> Option<WireProblem> {
    match result {
        Ok(()) => None,
        Err(WireError::Content { problem, .. }) => Some(problem),
        Err(error) => panic!("{error:?}"),
    }
}

fn hello() -> Hello {
    Hello {
        version: VERSION,
        path: vec![NodeId([7; 16])],
        application: "model".into(),
        max_block_bytes: 1,
        encodings: Encodings::NONE,
    }
}

fn run(first: u64, count: u32) -> Run {
    Run { first: BlockIndex(first), count }
}

fn status(budgets: Vec<BudgetStatus>) -> ServerFrame {
    ServerFrame::Status { question: 7, status: NodeStatus { level: 4, budgets, ..NodeStatus::default() } }
}

fn budget() -> BudgetStatus {
    BudgetStatus { application: "model".into(), ..BudgetStatus::default() }
}

#[test]
fn paths_have_one_to_sixteen_nodes() {
    let path = |nodes| of_reader(ReaderFrame::Hello(Hello { path: vec![NodeId([7; 16]); nodes], ..hello() }));
    assert_eq!((path(1), path(MAX_PATH)), (None, None));
    assert_eq!(path(0), Some(WireProblem::NoEntry { entries: "nodes" }));
    for nodes in [MAX_PATH + 1, MAX_PATH + 9] {
        assert_eq!(path(nodes), Some(WireProblem::List { entries: "nodes", max: MAX_PATH }));
    }
}

#[test]
fn applications_have_a_printable_name() {
    let name = |name: &str| of_reader(ReaderFrame::Hello(Hello { application: name.into(), ..hello() }));
    for wrong in ["", " ", "a\x1b[2J", "a\n", "\u{85}"] {
        assert_eq!(name(wrong), Some(WireProblem::Application), "{wrong:?}");
    }
    assert_eq!(name(&"a".repeat(MAX_APPLICATION_BYTES)), None);
    assert_eq!(name("wind, über 3 Tage"), None);
    let field = "name of the application";
    let long = WireProblem::Text { field, bytes: MAX_APPLICATION_BYTES + 1, max: MAX_APPLICATION_BYTES };
    assert_eq!(name(&"a".repeat(MAX_APPLICATION_BYTES + 1)), Some(long));
}

#[test]
fn some_numbers_are_not_zero() {
    let field = "size of the largest block";
    let none = of_reader(ReaderFrame::Hello(Hello { max_block_bytes: 0, ..hello() }));
    assert_eq!(none, Some(WireProblem::Zero { field }));
    let welcome = |max_block_bytes, max_asked| {
        let node = NodeId([7; 16]);
        of_server(ServerFrame::Welcome(Welcome { version: VERSION, node, max_block_bytes, max_asked }))
    };
    assert_eq!(welcome(1, 1), None);
    assert_eq!(welcome(0, 1), Some(WireProblem::Zero { field }));
    assert_eq!(welcome(1, 0), Some(WireProblem::Zero { field: "number of blocks that may be asked for" }));
}

#[test]
fn every_list_of_blocks_is_limited() {
    let handle = Handle(1);
    let frames: [fn(Handle, Vec<Run>) -> ReaderFrame; 5] = [
        |handle, blocks| ReaderFrame::Get { handle, blocks, urgency: rails_lambdaram::wire::Urgency::Ahead },
        |handle, blocks| ReaderFrame::Raise { handle, blocks },
        |handle, blocks| ReaderFrame::Cancel { handle, blocks },
        |handle, blocks| ReaderFrame::Warm { handle, blocks },
        |handle, blocks| ReaderFrame::Have { handle, blocks, holds: false },
    ];
    let fault = |blocks| {
        let (fault, text) = (WireFault::Corrupt, "t".repeat(MAX_TEXT_BYTES));
        of_server(ServerFrame::Fault { handle, blocks, fault, text })
    };
    let all = |runs: &[Run]| {
        let problem = fault(runs.to_vec());
        for frame in frames {
            assert_eq!(of_reader(frame(handle, runs.to_vec())), problem);
        }
        problem
    };
    let max = MAX_BLOCKS as u32;
    assert_eq!(all(&[]), None);
    assert_eq!(all(&[run(7, max)]), None);
    assert_eq!(all(&[run(7, max + 1)]), Some(WireProblem::Blocks { blocks: MAX_BLOCKS + 1 }));
    assert_eq!(all(&[run(7, max - 1), run(7, 2)]), Some(WireProblem::Blocks { blocks: MAX_BLOCKS + 1 }));
    assert_eq!(all(&[run(0, u32::MAX); 3]), Some(WireProblem::Blocks { blocks: 3 * u64::from(u32::MAX) }));
    assert_eq!(all(&vec![run(7, 1); MAX_RUNS]), None);
    for runs in [MAX_RUNS + 1, MAX_RUNS + 100] {
        assert_eq!(all(&vec![run(7, 1); runs]), Some(WireProblem::List { entries: "runs", max: MAX_RUNS }));
    }
    assert_eq!(all(&[run(7, 0)]), Some(WireProblem::Run { first: BlockIndex(7), count: 0 }));
    assert_eq!(all(&[run(u64::MAX - 3, 3)]), None);
    let first = BlockIndex(u64::MAX - 3);
    assert_eq!(all(&[run(1, 1), run(first.0, 4)]), Some(WireProblem::Run { first, count: 4 }));
}

#[test]
fn intended_regions_are_limited() {
    let intend = |count| {
        let regions = vec![Region::new([1], Shape::new([2]).unwrap()).unwrap(); count];
        of_reader(ReaderFrame::Intend { handle: Handle(1), regions })
    };
    assert_eq!(intend(MAX_REGIONS), None);
    assert_eq!(intend(MAX_REGIONS + 1), Some(WireProblem::List { entries: "regions", max: MAX_REGIONS }));
}

#[test]
fn names_and_texts_are_limited() {
    let describe = |bytes| of_reader(ReaderFrame::Describe { question: 1, dataset: "n".repeat(bytes) });
    assert_eq!(describe(MAX_NAME_BYTES), None);
    let (field, bytes) = ("name of the dataset", MAX_NAME_BYTES + 1);
    assert_eq!(describe(bytes), Some(WireProblem::Text { field, bytes, max: MAX_NAME_BYTES }));

    let (field, bytes) = ("reason", MAX_TEXT_BYTES + 1);
    let long = WireProblem::Text { field, bytes, max: MAX_TEXT_BYTES };
    let denial = |bytes| Err(Denial { reason: DenialReason::Grid, text: "t".repeat(bytes) });
    let frames: [&dyn Fn(usize) -> ServerFrame; 4] = [
        &|bytes| ServerFrame::Refused { reason: RefusedReason::Full, text: "t".repeat(bytes) },
        &|bytes| ServerFrame::Opened { handle: Handle(1), outcome: denial(bytes) },
        &|bytes| {
            let Err(denial) = denial(bytes) else { unreachable!("it is one") };
            ServerFrame::Described { question: 1, description: Err(denial) }
        },
        &|bytes| {
            let (handle, fault) = (Handle(1), WireFault::Missing);
            ServerFrame::Fault { handle, blocks: vec![], fault, text: "t".repeat(bytes) }
        },
    ];
    for frame in frames {
        assert_eq!(of_server(frame(MAX_TEXT_BYTES)), None);
        assert_eq!(of_server(frame(bytes)).as_ref(), Some(&long));
    }
}

#[test]
fn listings_are_limited() {
    let listed = |count, name: &str| {
        let entry = DatasetEntry { name: name.into(), arrays: u32::MAX, bytes: u64::MAX };
        ServerFrame::Listed { question: u32::MAX, datasets: vec![entry; count] }
    };
    assert_eq!(of_server(listed(MAX_DATASETS, &"n".repeat(230))), None);
    let problem = WireProblem::List { entries: "datasets", max: MAX_DATASETS };
    assert_eq!(of_server(listed(MAX_DATASETS + 1, "n")), Some(problem));
    let long = listed(MAX_DATASETS, &"n".repeat(MAX_NAME_BYTES)).encode();
    let error = WireError::TooLong { message: "Listed", bytes: long.len(), max: MAX_LISTING_BYTES };
    assert_eq!(ServerMessage::decode(long), Err(error));

    assert_eq!(of_server(status(vec![budget(); MAX_BUDGETS])), None);
    let problem = WireProblem::List { entries: "budgets", max: MAX_BUDGETS };
    assert_eq!(of_server(status(vec![budget(); MAX_BUDGETS + 1])), Some(problem));
    assert_eq!(of_server(status(vec![BudgetStatus::default()])), Some(WireProblem::Application));
    let level = NodeStatus { level: 5, ..NodeStatus::default() };
    let unknown = of_server(ServerFrame::Status { question: 1, status: level });
    assert_eq!(unknown, Some(WireProblem::Level { found: 5 }));
}

#[test]
fn the_largest_status_fits() {
    let budget = BudgetStatus {
        application: "a".repeat(MAX_APPLICATION_BYTES),
        dataset: "d".repeat(MAX_NAME_BYTES),
        array: "v".repeat(MAX_NAME_BYTES),
        slots: u32::MAX,
        min_slots: u32::MAX,
        max_slots: u32::MAX,
        weight: u32::MAX,
        hits: u64::MAX,
        ahead_hits: u64::MAX,
        late_ahead: u64::MAX,
        misses: u64::MAX,
        ahead_fetched: u64::MAX,
        pushed: u64::MAX,
        used: u64::MAX,
        unused: u64::MAX,
        reclaimed: u64::MAX,
        failed: u64::MAX,
    };
    assert_eq!(of_server(status(vec![budget; MAX_BUDGETS])), None);
}

#[test]
fn frames_have_a_length() {
    // A list of runs that is too long in entries is told so while the frame is short enough.
    let raise = |runs| ReaderFrame::Raise { handle: Handle(0), blocks: vec![run(0, 1); runs] }.encode();
    let (short, long) = (raise(8189), raise(8190));
    assert_eq!((short.len(), long.len()), (MAX_FRAME_BYTES - 1, MAX_FRAME_BYTES + 1));
    let problem = WireProblem::List { entries: "runs", max: MAX_RUNS };
    assert_eq!(ReaderFrame::decode(&short), Err(WireError::Content { message: "Raise", problem }));
    let error = WireError::TooLong { message: "Raise", bytes: long.len(), max: MAX_FRAME_BYTES };
    assert_eq!(ReaderFrame::decode(&long), Err(error));
}

#[test]
fn cut_frames_are_taken() {
    let entry = |bytes| DatasetEntry { name: "n".repeat(bytes), arrays: u32::MAX, bytes: u64::MAX };
    let listed = |datasets| ServerFrame::Listed { question: u32::MAX, datasets };
    let denial = || Denial { reason: DenialReason::Source, text: "é".repeat(MAX_TEXT_BYTES) };
    let text = || format!("n{}", "é".repeat(MAX_TEXT_BYTES));
    let (handle, question) = (Handle(1), 1);
    for frame in [
        listed(vec![entry(MAX_NAME_BYTES); MAX_DATASETS]),
        listed(vec![entry(1); MAX_DATASETS + 1]),
        listed(vec![entry(1), entry(MAX_NAME_BYTES + 1), entry(2)]),
        status(vec![budget(); MAX_BUDGETS + 1]),
        status(vec![BudgetStatus { dataset: "n".repeat(MAX_NAME_BYTES + 1), ..budget() }]),
        status(vec![BudgetStatus::default(), budget()]),
        ServerFrame::Refused { reason: RefusedReason::Full, text: text() },
        ServerFrame::Opened { handle, outcome: Err(denial()) },
        ServerFrame::Described { question, description: Err(denial()) },
        ServerFrame::Fault { handle, blocks: vec![run(1, 1)], fault: WireFault::Missing, text: text() },
    ] {
        assert!(ServerMessage::decode(frame.encode()).is_err());
        assert_eq!(of_server(frame.cut_to_limits()), None);
    }
    let ServerFrame::Refused { text, .. } =
        (ServerFrame::Refused { reason: RefusedReason::Full, text: text() }).cut_to_limits()
    else {
        panic!("another frame")
    };
    assert_eq!(text.len(), MAX_TEXT_BYTES - 1, "the last letter has two bytes");
    let ServerFrame::Listed { datasets, .. } = listed(vec![entry(1), entry(256), entry(2)]).cut_to_limits() else {
        panic!("another frame")
    };
    assert_eq!(datasets, [entry(1), entry(2)]);
}
