//! Messages between nodes of the array cache, and encoded blocks.

use bytes::Bytes;
use rails_array::{BlockIndex, Region, Selection, Shape};
use rails_formats::{
    data_type::DataType,
    manifest::{ArrayDescription, AttributeValue},
};
use rails_lambdaram::{
    description::{ArraySummary, DatasetDescription, DatasetEntry},
    encoding::{SUPPORTED, decode, encode},
    replay::{Setting, replay},
    trace::{Trace, TracedRead},
    wire::{
        BlockHeader, BudgetStatus, Denial, DenialReason, Encoding, GridOf, Handle, Hello, MAX_BLOCKS, NodeId,
        NodeStatus, ReaderFrame, RefusedReason, Run, ServerFrame, ServerMessage, Urgency, VERSION, Welcome, WireFault,
        check_description, count, runs_of, split_runs,
    },
};
use std::time::Instant;

/// A message of a node that reads; one that is decoded is encoded to one that is equal.
pub(crate) fn reader(data: &[u8]) {
    let Ok(frame) = ReaderFrame::decode(data) else { return };
    assert_eq!(ReaderFrame::decode(&frame.encode()).as_ref(), Ok(&frame));
    if let ReaderFrame::Get { blocks, .. } | ReaderFrame::Have { blocks, .. } = frame {
        assert!(count(&blocks) <= MAX_BLOCKS);
        let named = || blocks.iter().flat_map(|run| run.blocks());
        let parts: Vec<_> = split_runs(&runs_of(named())).flatten().collect();
        assert!(parts.iter().flat_map(|run| run.blocks()).eq(named()));
    }
}

/// A message of a node that serves; a description that is decoded is one that may be sent.
pub(crate) fn server(data: &[u8]) {
    match ServerMessage::decode(Bytes::copy_from_slice(data)) {
        Ok(ServerMessage::Frame(frame)) => {
            if let ServerFrame::Described { description: Ok(description), .. } = &frame {
                assert_eq!(check_description(description), Ok(()));
            }
            assert_eq!(ServerMessage::decode(frame.encode()), Ok(ServerMessage::Frame(frame)));
        }
        Ok(ServerMessage::Block(header, payload)) => {
            let mut message = Vec::new();
            header.encode_into(&mut message);
            message.extend_from_slice(&payload);
            assert_eq!(message, data);
        }
        Err(_) => {}
    }
}

/// A payload behind its encoding, the type of its elements, and the size of the block in 256 bytes.
pub(crate) fn payload(data: &[u8]) {
    let [encoding, dtype, size, payload @ ..] = data else { return };
    let encoding = Encoding::ALL[usize::from(*encoding) % Encoding::ALL.len()];
    let dtype = DataType::ALL[usize::from(*dtype) % DataType::ALL.len()];
    let block_bytes = usize::from(*size) * 256;
    let Ok(block) = decode(payload, dtype, encoding, block_bytes) else { return };
    assert_eq!(block.len(), block_bytes);
    let mut again = Vec::new();
    let used = encode(&block, dtype, encoding, &mut again);
    assert_eq!(decode(&again, dtype, used, block_bytes), Ok(block));
}

/// A file of recorded reads. One that is read can be replayed, or is refused.
pub(crate) fn trace(data: &[u8]) {
    let Ok(trace) = Trace::read(data) else { return };
    // Small blocks of a large array are many.
    let blocks = |read: &TracedRead| {
        let array = &trace.arrays[read.array as usize];
        read.selection
            .bounds()
            .shape()
            .extents()
            .iter()
            .zip(array.block_shape.extents())
            .fold(1, |blocks: u64, axis| blocks.saturating_mul(axis.0 / axis.1 + 2))
    };
    let slots = trace.header.memory_bytes / u64::from(trace.header.slot_bytes);
    if trace.reads.iter().map(blocks).fold(0, u64::saturating_add) < 10_000
        && slots < 10_000
        && let Ok(outcome) = replay(&trace, &Setting::recorded(&trace), Instant::now())
    {
        assert!(outcome.waits.len() <= trace.reads.len());
    }
}

/// A file with every kind of line.
pub(crate) fn traces() -> Vec<Vec<u8>> {
    let lines = [
        r#"{"trace":{"version":1,"address":"lram://host/a","process":7,"application":"default","memory_bytes":67108864,"slot_bytes":65536,"max_block_bytes":1048576,"policy":"lru","prefetch":true,"views":true,"presend":false}}"#,
        r#"{"path":{"round_trip_ns":19000000,"storage_latency_ns":0,"bytes_per_second":62500000}}"#,
        r#"{"array":{"number":0,"dataset":"a","name":"u","shape":[64,36,361],"element_bytes":4,"block_shape":[1,3,361]}}"#,
        r#"{"tell":{"at_ns":1,"handle":3,"array":0,"regions":["[0:1, 0:36, 0:361]"]}}"#,
        r#"{"read":{"at_ns":2,"handle":3,"array":0,"selection":"[0, 0:36:3, 0:361]","waited_ns":5}}"#,
        r#"{"read":{"at_ns":9,"handle":3,"array":0,"selection":"[1:2]","waited_ns":5,"outcome":"cancelled"}}"#,
        r#"{"end":{"reads":2,"dropped":0,"hits":0,"ahead_hits":0,"late_ahead":0,"misses":12,"ahead_fetched":0,"pushed":0,"used":0}}"#,
    ];
    vec![lines.map(|line| format!("{line}\n")).concat().into_bytes()]
}

/// Every message.
pub(crate) fn reader_frames() -> Vec<Vec<u8>> {
    let (handle, question) = (Handle(1), 7);
    let blocks = || vec![Run { first: BlockIndex(300), count: 40 }, Run { first: BlockIndex(2), count: 1 }];
    let hello = Hello {
        version: VERSION,
        path: vec![NodeId([7; 16]), NodeId([8; 16])],
        application: "model".into(),
        max_block_bytes: 1 << 20,
        encodings: SUPPORTED,
    };
    let grid = GridOf { region: Some(region()), block_shape: shape([1, 91, 135]) };
    let selection = Selection::new(region(), [1, 2, 3]).expect("the steps fit");
    [
        ReaderFrame::Hello(hello),
        ReaderFrame::List { question },
        ReaderFrame::Describe { question, dataset: "wind".into() },
        ReaderFrame::Open { handle, dataset: "wind".into(), array: 3, grid, generation: 9 },
        ReaderFrame::Close { handle },
        ReaderFrame::Get { handle, blocks: blocks(), urgency: Urgency::Demand },
        ReaderFrame::Raise { handle, blocks: blocks() },
        ReaderFrame::Cancel { handle, blocks: blocks() },
        ReaderFrame::Warm { handle, blocks: blocks() },
        ReaderFrame::Credit { handle, slots: 500 },
        ReaderFrame::Recall { handle },
        ReaderFrame::Reading { handle, selection: selection.without_axis(0).expect("one plane") },
        ReaderFrame::Intend { handle, regions: vec![region(); 3] },
        ReaderFrame::Have { handle, blocks: blocks(), holds: true },
        ReaderFrame::Fate { handle, used: 1, unused: 300 },
        ReaderFrame::Status { question },
    ]
    .map(|frame| frame.encode().to_vec())
    .into()
}

/// Every message, and blocks of every encoding.
pub(crate) fn server_messages() -> Vec<Vec<u8>> {
    let (handle, question, text) = (Handle(1), 7, String::from("a.nc: chunk 3"));
    let denial = Denial { reason: DenialReason::Grid, text: text.clone() };
    let budget = BudgetStatus {
        application: "model".into(),
        dataset: "wind".into(),
        slots: 9,
        min_slots: 7,
        max_slots: u32::MAX,
        weight: 3,
        hits: 1 << 40,
        ..BudgetStatus::default()
    };
    let frames = [
        ServerFrame::Welcome(Welcome {
            version: VERSION,
            node: NodeId([7; 16]),
            max_block_bytes: 1 << 20,
            max_asked: 4096,
        }),
        ServerFrame::Refused { reason: RefusedReason::Circle, text: text.clone() },
        ServerFrame::Listed {
            question,
            datasets: vec![DatasetEntry { name: "wind".into(), arrays: 2, bytes: 1 << 40 }],
        },
        ServerFrame::Described { question, description: Ok(description()) },
        ServerFrame::Described { question, description: Err(denial.clone()) },
        ServerFrame::Opened { handle, outcome: Ok(()) },
        ServerFrame::Opened { handle, outcome: Err(denial) },
        ServerFrame::Fault {
            handle,
            blocks: vec![Run { first: BlockIndex(1), count: 2 }],
            fault: WireFault::Corrupt,
            text,
        },
        ServerFrame::Stale { handle, generation: 10 },
        ServerFrame::Returned { handle, slots: 3 },
        ServerFrame::Status {
            question,
            status: NodeStatus { level: 2, budgets: vec![budget], ..NodeStatus::default() },
        },
    ];
    let blocks = Encoding::ALL.map(|encoding| {
        let (mut message, block) = (Vec::new(), block());
        let mut payload = Vec::new();
        let encoding = encode(&block, DataType::Float32, encoding, &mut payload);
        let block_bytes = block.len() as u32;
        let header = BlockHeader { handle, block: BlockIndex(5), is_push: true, encoding, block_bytes, crc: 0x1234 };
        header.encode_into(&mut message);
        message.extend_from_slice(&payload);
        message
    });
    frames.map(|frame| frame.encode().to_vec()).into_iter().chain(blocks).collect()
}

pub(crate) fn payloads() -> Vec<Vec<u8>> {
    let float32 = DataType::ALL.iter().position(|dtype| *dtype == DataType::Float32).expect("it is a type") as u8;
    let payload = |number: u8, encoding| {
        let mut payload = vec![number, float32, 4];
        encode(&block(), DataType::Float32, encoding, &mut payload);
        payload
    };
    (0..).zip(Encoding::ALL).map(|(number, encoding)| payload(number, encoding)).collect()
}

fn description() -> DatasetDescription {
    let attributes = [
        ("units".to_owned(), AttributeValue::Text("m s-1".into())),
        ("scale".to_owned(), AttributeValue::Numbers { dtype: DataType::Float32, bytes: vec![0, 0, 0x80, 0x3f] }),
        ("history".to_owned(), AttributeValue::Bytes(vec![0xe9])),
    ];
    let array = |name: &str, extents: &[u64], inline| ArraySummary {
        description: ArrayDescription {
            name: name.into(),
            dtype: DataType::Int16,
            shape: shape(extents.iter().copied()),
            dimension_names: (0..extents.len()).map(|axis| (axis > 0).then(|| format!("x{axis}"))).collect(),
            fill_value: Some(vec![0xff, 0x7f]),
            attributes: attributes.clone().into(),
        },
        block_shape: shape(extents.iter().map(|extent| extent.div_ceil(2))),
        views: vec![Region::whole(&shape(extents.iter().copied()))],
        inline,
    };
    DatasetDescription {
        name: "wind".into(),
        generation: 9,
        digest: [7; 32],
        attributes: attributes.clone().into(),
        arrays: vec![array("u", &[64, 361, 540], None), array("lev", &[3], Some(vec![1, 0, 2, 0, 3, 0]))],
    }
}

/// A kibibyte of numbers that grow.
fn block() -> Vec<u8> {
    (0..256_u32).flat_map(|number| ((number * number % 999) as f32 / 10.0).to_le_bytes()).collect()
}

fn region() -> Region {
    Region::new([5, 100, 200], shape([1, 100, 150])).expect("the region is small")
}

fn shape(extents: impl IntoIterator<Item = u64>) -> Shape {
    Shape::new(extents).expect("the shape is small")
}
