//! Descriptions of datasets.

use crate::strategies::description;
use allocation_counter::measure;
use bytes::Bytes;
use proptest::prelude::*;
use rails_array::{MAX_RANK, Shape};
use rails_formats::{
    data_type::DataType,
    manifest::{ArrayDescription, AttributeValue, Attributes},
};
use rails_lambdaram::{
    description::{ArraySummary, DatasetDescription},
    wire::{
        Denial, DenialReason, MAX_DESCRIPTION_BYTES, MAX_DESCRIPTION_MEMORY, MAX_INLINE_BYTES, MAX_INLINE_SUM,
        MAX_NAME_BYTES, ServerFrame, ServerMessage, WireError, WireProblem, check_description,
    },
};

fn array(name: impl Into<String>, bytes: usize) -> ArraySummary {
    ArraySummary {
        description: ArrayDescription {
            name: name.into(),
            dtype: DataType::Uint8,
            shape: Shape::new([bytes as u64]).unwrap(),
            dimension_names: vec![None],
            fill_value: None,
            attributes: Attributes::new(),
        },
        block_shape: Shape::new([16]).unwrap(),
        views: Vec::new(),
        inline: Some(vec![7; bytes]),
    }
}

fn dataset(arrays: Vec<ArraySummary>) -> DatasetDescription {
    DatasetDescription { name: "wind".into(), generation: 1, digest: [7; 32], attributes: Attributes::new(), arrays }
}

fn encode(description: &DatasetDescription) -> Bytes {
    ServerFrame::Described { question: u32::MAX, description: Ok(description.clone()) }.encode()
}

/// The error of a description, which both ends see alike.
fn error(description: &DatasetDescription) -> Option<WireError> {
    let sent = check_description(description).err();
    let received = ServerMessage::decode(encode(description)).err();
    match (&sent, &received) {
        // The frame around it counts at the end that receives.
        (Some(WireError::TooLong { .. }), Some(WireError::TooLong { .. })) => {}
        _ => assert_eq!(sent, received),
    }
    received
}

fn problem(description: &DatasetDescription) -> Option<WireProblem> {
    error(description).map(|error| match error {
        WireError::Content { message: "Described", problem } => problem,
        other => panic!("{other:?}"),
    })
}

#[test]
fn elements_are_limited() {
    assert_eq!(problem(&dataset(vec![array("x", MAX_INLINE_BYTES)])), None);
    let long = WireProblem::List { entries: "bytes of elements", max: MAX_INLINE_BYTES };
    assert_eq!(problem(&dataset(vec![array("x", MAX_INLINE_BYTES + 1)])), Some(long));
    let mut arrays: Vec<_> = (0..16).map(|number| array(format!("{number}"), MAX_INLINE_BYTES)).collect();
    assert_eq!(problem(&dataset(arrays.clone())), None);
    arrays.push(array("one", 1));
    assert_eq!(problem(&dataset(arrays)), Some(WireProblem::InlineSum { bytes: MAX_INLINE_SUM + 1 }));
}

#[test]
fn names_are_limited() {
    assert_eq!(problem(&dataset(vec![array("n".repeat(MAX_NAME_BYTES), 1)])), None);
    let (bytes, max) = (MAX_NAME_BYTES + 1, MAX_NAME_BYTES);
    let long = WireProblem::Text { field: "name of an array", bytes, max };
    assert_eq!(problem(&dataset(vec![array("n".repeat(bytes), 1)])), Some(long));
    let long = WireProblem::Text { field: "name of the dataset", bytes, max };
    assert_eq!(problem(&DatasetDescription { name: "n".repeat(bytes), ..dataset(vec![]) }), Some(long));
    let twice = WireProblem::DuplicateArray { name: "x".into() };
    assert_eq!(problem(&dataset(vec![array("x", 1), array("x", 2)])), Some(twice));
}

#[test]
fn facts_fit_each_other() {
    type Change = fn(&mut ArraySummary);
    let changes: [(&str, Change); 7] = [
        ("list of dimensions", |array| array.description.dimension_names.clear()),
        ("shape of blocks", |array| array.block_shape = Shape::new([1, 1]).unwrap()),
        ("shape of blocks", |array| array.block_shape = Shape::new([0]).unwrap()),
        ("fill value", |array| array.description.fill_value = Some(vec![1, 2])),
        ("list of elements", |array| array.inline = Some(vec![1])),
        ("list of elements", |array| array.description.dtype = DataType::Int16),
        ("list of elements", |array| {
            array.description.dtype = DataType::Float64;
            array.description.shape = Shape::new([u64::MAX]).unwrap();
        }),
    ];
    for (field, change) in changes {
        let mut wrong = array("x", 3);
        change(&mut wrong);
        assert_eq!(problem(&dataset(vec![wrong])), Some(WireProblem::Array { name: "x".into(), field }), "{field}");
    }
}

#[test]
fn the_length_is_limited() {
    let with_text = |bytes| {
        let attributes = [("t".to_owned(), AttributeValue::Text("t".repeat(bytes)))].into();
        DatasetDescription { attributes, ..dataset(vec![]) }
    };
    // The kind, the number, the question, and the mark before the description.
    let frame = 8;
    let empty = encode(&with_text(1 << 21)).len() - (1 << 21);
    let fits = with_text(MAX_DESCRIPTION_BYTES - empty);
    assert_eq!((encode(&fits).len(), empty > frame), (MAX_DESCRIPTION_BYTES, true));
    assert_eq!(error(&fits), None);
    let long = with_text(MAX_DESCRIPTION_BYTES - empty + 1);
    let max = MAX_DESCRIPTION_BYTES;
    assert_eq!(error(&long), Some(WireError::TooLong { message: "Described", bytes: max + 1, max }));
}

#[test]
fn short_attributes_are_limited_by_their_memory() {
    // Each takes nine bytes here, and in memory three places of a map and its name.
    let with = |count: u64| {
        let attributes = (0..count).map(|number| (format!("{number:06x}"), AttributeValue::Text(String::new())));
        DatasetDescription { attributes: attributes.collect(), ..dataset(vec![]) }
    };
    let memory = (3 * size_of::<(String, AttributeValue)>() + 16 + 6) as u64;
    let max = MAX_DESCRIPTION_MEMORY / memory;
    let (fits, too_large) = (with(max - 10), with(max + 10));
    assert!(check_description(&fits).is_ok() && check_description(&too_large).is_err());
    let (fits, too_large) = (encode(&fits), encode(&too_large));
    let used = measure(|| assert!(ServerMessage::decode(fits.clone()).is_ok()));
    assert!(used.bytes_max <= 3 * MAX_DESCRIPTION_MEMORY, "{used:?}");
    let used = measure(|| match ServerMessage::decode(too_large.clone()) {
        Err(WireError::Content { problem: WireProblem::Memory { bytes }, .. }) => {
            assert!(bytes > MAX_DESCRIPTION_MEMORY);
        }
        other => panic!("{:?}", other.map(drop)),
    });
    assert_eq!(used.bytes_max, 0, "{used:?}");
}

#[test]
fn a_refused_description_is_denied() {
    let frame = |description| ServerFrame::Described { question: 1, description: Ok(description) }.cut_to_limits();
    let fits = dataset(vec![array("x", 3)]);
    assert_eq!(frame(fits.clone()), ServerFrame::Described { question: 1, description: Ok(fits) });
    let ServerFrame::Described { description: Err(denial), .. } = frame(dataset(vec![array("x", 1), array("x", 2)]))
    else {
        panic!("a description")
    };
    let text = "`Described` is wrong: the array `x` is there twice";
    assert_eq!(denial, Denial { reason: DenialReason::Source, text: text.into() });
}

#[test]
fn axes_without_end_take_no_memory() {
    let mut bytes = encode(&dataset(vec![array("x", 3)])).to_vec();
    // The shape of blocks is one axis of 16, behind an empty map of attributes.
    let at = bytes.windows(3).rposition(|three| three == [0, 1, 16]).unwrap() + 1;
    let axes = |count: usize| [&[(count & 0x7f) as u8 | 0x80, (count >> 7) as u8][..], &vec![1; count]].concat();
    bytes.splice(at..at + 2, axes(MAX_RANK + 1));
    let used = measure(|| match ServerMessage::decode(bytes.clone().into()) {
        Err(WireError::Content { problem, .. }) => {
            assert_eq!(problem, WireProblem::List { entries: "axes", max: MAX_RANK });
        }
        other => panic!("{:?}", other.map(drop)),
    });
    assert!(used.bytes_max < 1024, "{used:?}");
}

proptest! {
    #[test]
    fn both_ends_agree(description in description()) {
        prop_assert_eq!(error(&description), None);
    }
}
