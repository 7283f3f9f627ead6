//! Arbitrary messages.

use proptest::{
    array::uniform32,
    collection::{btree_map, vec},
    option,
    prelude::*,
    result,
};
use rails_array::{BlockIndex, Region, Selection, Shape};
use rails_formats::{
    data_type::DataType,
    manifest::{ArrayDescription, AttributeValue, Attributes},
};
use rails_lambdaram::{
    description::{ArraySummary, DatasetDescription, DatasetEntry},
    wire::{
        BudgetStatus, Denial, DenialReason, Encoding, Encodings, GridOf, Handle, Hello, NodeId, NodeStatus,
        ReaderFrame, RefusedReason, Run, ServerFrame, Urgency, VERSION, Welcome, WireFault,
    },
};

pub(crate) fn reader_frames() -> impl Strategy<Value = ReaderFrame> {
    let blocks_of = || (handle(), runs());
    prop_oneof![
        hello().prop_map(ReaderFrame::Hello),
        any::<u32>().prop_map(|question| ReaderFrame::List { question }),
        (any::<u32>(), name()).prop_map(|(question, dataset)| ReaderFrame::Describe { question, dataset }),
        (handle(), name(), any::<u32>(), grid(), any::<u64>()).prop_map(
            |(handle, dataset, array, grid, generation)| ReaderFrame::Open { handle, dataset, array, grid, generation }
        ),
        handle().prop_map(|handle| ReaderFrame::Close { handle }),
        (blocks_of(), urgency()).prop_map(|((handle, blocks), urgency)| ReaderFrame::Get { handle, blocks, urgency }),
        blocks_of().prop_map(|(handle, blocks)| ReaderFrame::Raise { handle, blocks }),
        blocks_of().prop_map(|(handle, blocks)| ReaderFrame::Cancel { handle, blocks }),
        blocks_of().prop_map(|(handle, blocks)| ReaderFrame::Warm { handle, blocks }),
        (handle(), any::<u32>()).prop_map(|(handle, slots)| ReaderFrame::Credit { handle, slots }),
        handle().prop_map(|handle| ReaderFrame::Recall { handle }),
        (handle(), selection()).prop_map(|(handle, selection)| ReaderFrame::Reading { handle, selection }),
        (handle(), vec(region(), 0..20)).prop_map(|(handle, regions)| ReaderFrame::Intend { handle, regions }),
        (blocks_of(), any::<bool>()).prop_map(|((handle, blocks), holds)| ReaderFrame::Have { handle, blocks, holds }),
        (handle(), any::<u32>(), any::<u32>()).prop_map(|(handle, used, unused)| ReaderFrame::Fate {
            handle,
            used,
            unused
        }),
        any::<u32>().prop_map(|question| ReaderFrame::Status { question }),
    ]
}

pub(crate) fn server_frames() -> impl Strategy<Value = ServerFrame> {
    let refused = prop::sample::select(vec![
        RefusedReason::Version,
        RefusedReason::Circle,
        RefusedReason::Protocol,
        RefusedReason::Full,
        RefusedReason::Ending,
    ]);
    let fault = prop::sample::select(vec![
        WireFault::Missing,
        WireFault::Corrupt,
        WireFault::Unreachable,
        WireFault::Denied,
        WireFault::Overrun,
    ]);
    prop_oneof![
        (any::<[u8; 16]>(), 1_u32.., 1_u32..).prop_map(|(node, max_block_bytes, max_asked)| {
            ServerFrame::Welcome(Welcome { version: VERSION, node: NodeId(node), max_block_bytes, max_asked })
        }),
        (refused, text()).prop_map(|(reason, text)| ServerFrame::Refused { reason, text }),
        (any::<u32>(), vec(dataset_entry(), 0..8))
            .prop_map(|(question, datasets)| ServerFrame::Listed { question, datasets }),
        (any::<u32>(), result::maybe_err(description(), denial()))
            .prop_map(|(question, description)| ServerFrame::Described { question, description }),
        (handle(), result::maybe_err(Just(()), denial()))
            .prop_map(|(handle, outcome)| ServerFrame::Opened { handle, outcome }),
        (handle(), runs(), fault, text()).prop_map(|(handle, blocks, fault, text)| ServerFrame::Fault {
            handle,
            blocks,
            fault,
            text
        }),
        (handle(), any::<u64>()).prop_map(|(handle, generation)| ServerFrame::Stale { handle, generation }),
        (handle(), any::<u32>()).prop_map(|(handle, slots)| ServerFrame::Returned { handle, slots }),
        (any::<u32>(), status()).prop_map(|(question, status)| ServerFrame::Status { question, status }),
    ]
}

pub(crate) fn description() -> impl Strategy<Value = DatasetDescription> {
    (name(), any::<u64>(), uniform32(any::<u8>()), attributes(), vec(array(), 0..5)).prop_map(
        |(name, generation, digest, attributes, mut arrays)| {
            for (number, array) in arrays.iter_mut().enumerate() {
                array.description.name = format!("{number}");
            }
            DatasetDescription { name, generation, digest, attributes, arrays }
        },
    )
}

pub(crate) fn array() -> impl Strategy<Value = ArraySummary> {
    let axis = || (0_u64..4, 1_u64..9, option::of(name()));
    let dtype = prop::sample::select(DataType::ALL.to_vec());
    (dtype, vec(axis(), 0..4), any::<bool>(), any::<bool>(), attributes()).prop_map(
        |(dtype, axes, is_filled, is_inline, attributes)| {
            let shape = Shape::new(axes.iter().map(|axis| axis.0)).unwrap();
            let elements = (shape.elements() * dtype.bytes()) as usize;
            ArraySummary {
                block_shape: Shape::new(axes.iter().map(|axis| axis.1)).unwrap(),
                views: if shape.is_empty() { Vec::new() } else { vec![Region::whole(&shape)] },
                inline: is_inline.then(|| vec![7; elements]),
                description: ArrayDescription {
                    name: "v".into(),
                    dtype,
                    shape,
                    dimension_names: axes.into_iter().map(|axis| axis.2).collect(),
                    fill_value: is_filled.then(|| vec![1; dtype.bytes() as usize]),
                    attributes,
                },
            }
        },
    )
}

pub(crate) fn attributes() -> impl Strategy<Value = Attributes> {
    let numbers = (prop::sample::select(DataType::ALL.to_vec()), vec(any::<u8>(), 0..9));
    let value = prop_oneof![
        text().prop_map(AttributeValue::Text),
        vec(any::<u8>(), 0..9).prop_map(AttributeValue::Bytes),
        numbers.prop_map(|(dtype, bytes)| AttributeValue::Numbers { dtype, bytes }),
    ];
    btree_map(name(), value, 0..15)
}

pub(crate) fn runs() -> impl Strategy<Value = Vec<Run>> {
    let first = prop_oneof![0..1000_u64, any::<u64>().prop_map(|first| first.min(u64::MAX - 1000))];
    let run = (first, 1_u32..1000).prop_map(|(first, count)| Run { first: BlockIndex(first), count });
    vec(run, 0..30)
}

fn hello() -> impl Strategy<Value = Hello> {
    let path = vec(any::<[u8; 16]>().prop_map(NodeId), 1..5);
    (path, "[a-zé ]{0,20}x", 1_u32.., encodings()).prop_map(|(path, application, max_block_bytes, encodings)| Hello {
        version: VERSION,
        path,
        application,
        max_block_bytes,
        encodings,
    })
}

fn encodings() -> impl Strategy<Value = Encodings> {
    vec(prop::sample::select(Encoding::ALL.to_vec()), 0..3)
        .prop_map(|list| list.into_iter().fold(Encodings::NONE, Encodings::with))
}

fn status() -> impl Strategy<Value = NodeStatus> {
    let counts = any::<[u32; 7]>();
    (counts, 0_u8..5, vec(budget(), 0..4)).prop_map(|(counts, level, budgets)| {
        let [slots, slot_bytes, free, in_transit, cached, credited, links] = counts;
        NodeStatus { slots, slot_bytes, free, in_transit, cached, credited, level, links, budgets }
    })
}

fn budget() -> impl Strategy<Value = BudgetStatus> {
    (name(), name(), any::<[u32; 4]>(), any::<[u64; 10]>()).prop_map(|(dataset, array, memory, counts)| {
        let [slots, min_slots, max_slots, weight] = memory;
        let [hits, ahead_hits, late_ahead, misses, ahead_fetched, pushed, used, unused, reclaimed, failed] = counts;
        BudgetStatus {
            application: "model".into(),
            dataset,
            array,
            slots,
            min_slots,
            max_slots,
            weight,
            hits,
            ahead_hits,
            late_ahead,
            misses,
            ahead_fetched,
            pushed,
            used,
            unused,
            reclaimed,
            failed,
        }
    })
}

fn dataset_entry() -> impl Strategy<Value = DatasetEntry> {
    (name(), any::<u32>(), any::<u64>()).prop_map(|(name, arrays, bytes)| DatasetEntry { name, arrays, bytes })
}

fn denial() -> impl Strategy<Value = Denial> {
    let reasons = vec![
        DenialReason::Unknown,
        DenialReason::Changed,
        DenialReason::Grid,
        DenialReason::Full,
        DenialReason::Source,
    ];
    (prop::sample::select(reasons), text()).prop_map(|(reason, text)| Denial { reason, text })
}

fn grid() -> impl Strategy<Value = GridOf> {
    (option::of(region()), vec(1_u64..1000, 0..5))
        .prop_map(|(region, block)| GridOf { region, block_shape: Shape::new(block).unwrap() })
}

fn selection() -> impl Strategy<Value = Selection> {
    (region(), 1_u64..9).prop_map(|(region, step)| {
        let rank = region.rank();
        let selection = Selection::new(region, vec![step; rank]).unwrap();
        selection.clone().without_axis(0).unwrap_or(selection)
    })
}

pub(crate) fn region() -> impl Strategy<Value = Region> {
    vec((any::<u32>(), 0_u64..9, 0_u32..32), 0..6).prop_map(|axes| {
        let shape = Shape::new(axes.iter().map(|axis| axis.1)).unwrap();
        Region::new(axes.iter().map(|axis| u64::from(axis.0) << axis.2), shape).unwrap()
    })
}

fn handle() -> impl Strategy<Value = Handle> {
    any::<u32>().prop_map(Handle)
}

fn urgency() -> impl Strategy<Value = Urgency> {
    prop::sample::select(vec![Urgency::Demand, Urgency::Ahead])
}

fn name() -> impl Strategy<Value = String> {
    "[a-z/é]{0,12}"
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,40}"
}
