//! Selections and their texts against a plain look at every coordinate.

use super::{ResolveError, Selection, SelectionError, SelectionText, SelectionTextError};
use crate::{MAX_RANK, Region, Shape};
use proptest::{collection::vec, prelude::*};

fn shape<const N: usize>(extents: [u64; N]) -> Shape {
    Shape::new(extents).unwrap()
}

fn parse(text: &str) -> SelectionText {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// The selection that the text names in an array of 64x36x361x540.
fn resolve(text: &str) -> Result<Selection, ResolveError> {
    parse(text).resolve(&shape([64, 36, 361, 540]))
}

#[test]
fn numpys_syntax() {
    for (text, expected) in [
        ("ozone[0:64, 3, :, 100:250]", "[0:64, 3, 0:361, 100:250]"),
        ("[]", "[0:64, 0:36, 0:361, 0:540]"),
        ("[...]", "[0:64, 0:36, 0:361, 0:540]"),
        ("[..., -1]", "[0:64, 0:36, 0:361, 539]"),
        ("[5, ..., 7, ::200]", "[5, 0:36, 7, 0:401:200]"),
        ("[ -4 : , :-30, 360, 539 :540: ]", "[60:64, 0:6, 360, 539:540]"),
        ("[0, 1, 2, 3, ...]", "[0, 1, 2, 3]"),
        ("[7:7]", "[7:7, 0:36, 0:361, 0:540]"),
        ("[64:]", "[64:64, 0:36, 0:361, 0:540]"),
        ("[-64, -0]", "[0, 0, 0:361, 0:540]"),
        ("[1::18446744073709551615]", "[1:2, 0:36, 0:361, 0:540]"),
    ] {
        assert_eq!(resolve(text).unwrap().to_string(), expected, "{text}");
    }
}

#[test]
fn names() {
    assert_eq!(parse(" ozone [ 3 ] ").name(), Some("ozone"));
    assert_eq!(parse("/group/a[1] b[3]").name(), Some("/group/a[1] b"));
    assert_eq!(parse("  [3]").name(), None);
}

#[test]
fn a_scalar_has_no_entries() {
    let scalar = shape([]);
    assert_eq!(parse("[]").resolve(&scalar).unwrap().elements(), 1);
    assert_eq!(parse("[...]").resolve(&scalar).unwrap().shape(), scalar);
    assert!(parse("[0]").resolve(&scalar).is_err());
}

#[test]
fn texts_that_are_no_selection() {
    for (text, expected) in [
        ("", "`` does not end with `[...]`, as `ozone[0:64, 3, :]` does"),
        ("ozone", "`ozone` does not end with `[...]`, as `ozone[0:64, 3, :]` does"),
        ("[1]x", "`[1]x` does not end with `[...]`, as `ozone[0:64, 3, :]` does"),
        ("[1,]", "entry 1 of `[1,]` is empty"),
        ("[1:2:3:4]", "entry 0 of `[1:2:3:4]` has more than two colons"),
        ("[:, 1:x]", "entry 1 of `[:, 1:x]`: `x` is no whole number of 64 bits"),
        ("[--1]", "entry 0 of `[--1]`: `--1` is no whole number of 64 bits"),
        ("[+1]", "entry 0 of `[+1]`: `+1` is no whole number of 64 bits"),
        ("[-]", "entry 0 of `[-]`: `-` is no whole number of 64 bits"),
        ("[1.5]", "entry 0 of `[1.5]`: `1.5` is no whole number of 64 bits"),
        (
            "[18446744073709551616]",
            "entry 0 of `[18446744073709551616]`: `18446744073709551616` is no whole number of 64 bits",
        ),
        ("[::0]", "entry 0 of `[::0]`: the step `0` has to be 1 or more"),
        ("[::-1]", "entry 0 of `[::-1]`: the step `-1` has to be 1 or more"),
        ("[..., 1, ...]", "entry 2 of `[..., 1, ...]` is a second `...`"),
    ] {
        assert_eq!(text.parse::<SelectionText>().unwrap_err().to_string(), expected);
    }
}

#[test]
fn texts_that_do_not_fit_the_array() {
    for (text, expected) in [
        ("[0:65]", "`0:65` lies outside axis 0, which has 64 coordinates, in `[0:65]` (the array is 64x36x361x540)"),
        (
            "[..., -541:]",
            "`-541:` lies outside axis 3, which has 540 coordinates, in `[..., -541:]` (the array is 64x36x361x540)",
        ),
        ("[64]", "`64` lies outside axis 0, which has 64 coordinates, in `[64]` (the array is 64x36x361x540)"),
        ("[-65]", "`-65` lies outside axis 0, which has 64 coordinates, in `[-65]` (the array is 64x36x361x540)"),
        ("a[9:-60]", "`9:-60` on axis 0 begins at 9 and ends before, at 4, in `a[9:-60]` (the array is 64x36x361x540)"),
        ("[1,1,1,1,1]", "`[1, 1, 1, 1, 1]` has entries for 5 axes, and the array (64x36x361x540) has 4"),
    ] {
        assert_eq!(resolve(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn entries_are_limited() {
    let text = |entries: usize| format!("[..., {}]", vec!["0"; entries].join(","));
    let largest = Shape::new([1; MAX_RANK]).unwrap();
    assert_eq!(parse(&text(MAX_RANK)).resolve(&largest).unwrap().shape().rank(), 0);
    let error = text(MAX_RANK + 1).parse::<SelectionText>().unwrap_err();
    assert!(matches!(error, SelectionTextError::Entries { .. }), "{error}");
}

#[test]
fn steps_are_checked() {
    let region = Region::whole(&shape([4, 5]));
    let error = Selection::new(region.clone(), [1, 0]).unwrap_err();
    assert_eq!(error.to_string(), "the step of axis 1 of [0:4, 0:5] is 0: it has to be 1 or more");
    assert!(matches!(Selection::new(region.clone(), [1]), Err(SelectionError::Rank { steps: 1, rank: 2, .. })));
    assert!(Selection::new(region, std::iter::repeat(1)).is_err());
}

#[test]
fn one_element_has_no_step() {
    let one = Selection::new(Region::whole(&shape([5])), [5]).unwrap();
    assert_eq!((one.steps(), one.bounds().to_string().as_str()), (&[1][..], "[0:1]"));
    let two = Selection::new(Region::whole(&shape([6])), [5]).unwrap();
    assert_eq!((two.steps(), two.counts().extents()), (&[5][..], &[2][..]));
}

#[test]
fn only_single_elements_are_dropped() {
    let selection = Selection::from(Region::whole(&shape([1, 2])));
    assert_eq!(selection.clone().without_axis(0).unwrap().shape(), shape([2]));
    assert!(selection.clone().without_axis(1).is_err() && selection.without_axis(MAX_RANK).is_err());
}

#[test]
fn serde_checks() {
    let selection = resolve("[0:60:7, 3, :, 5:6]").unwrap();
    let text = serde_json::to_string(&selection).unwrap();
    let expected = r#"{"region":{"start":[0,3,0,5],"shape":[57,1,361,1]},"steps":[7,1,1,1],"dropped_axes":[1]}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Selection>(&text).unwrap(), selection);
    for (good, bad) in [("[7,1,1,1]", "[7,1,1]"), ("[7,", "[0,"), ("s\":[1]", "s\":[0]"), ("s\":[1]", "s\":[32]")] {
        assert!(serde_json::from_str::<Selection>(&text.replace(good, bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_selection_reaches_the_last_coordinate() {
    let region = Region::new([u64::MAX - 7], shape([7])).unwrap();
    let ends = Selection::new(region, [6]).unwrap();
    assert!(ends.contains_element(&[u64::MAX - 1]) && !ends.contains_element(&[u64::MAX - 2]));
    let last = Region::new([u64::MAX - 1], shape([1])).unwrap();
    assert_eq!(ends.within(&last).unwrap().bounds(), &last);
}

/// An entry as numbers: an index, or a slice.
type Wanted = Result<i64, (Option<i64>, Option<i64>, Option<i64>)>;

fn wanted() -> impl Strategy<Value = Wanted> {
    let bound = || proptest::option::of(-9_i64..9);
    prop_oneof![
        1 => (-8_i64..8).prop_map(Ok),
        3 => (bound(), bound(), proptest::option::of(-1_i64..5)).prop_map(Err),
    ]
}

fn text_of(wanted: &Wanted) -> String {
    let written = |number: &Option<i64>| number.map_or(String::new(), |number| number.to_string());
    match wanted {
        Ok(index) => format!(" {index}"),
        Err((start, end, None)) => format!("{} :{}", written(start), written(end)),
        Err((start, end, step)) => format!("{}:{}: {}", written(start), written(end), written(step)),
    }
}

/// The coordinates that numpy selects, if that is all that is asked for.
fn coordinates_of(wanted: &Wanted, extent: i64) -> Option<Vec<i64>> {
    let from_end = |number: i64| if number < 0 { number + extent } else { number };
    match *wanted {
        Ok(index) => Some(vec![from_end(index)]).filter(|at| (0..extent).contains(&at[0])),
        Err((start, end, step)) => {
            let (start, end) = (from_end(start.unwrap_or(0)), end.map_or(extent, from_end));
            let step = step.unwrap_or(1);
            let inside = 0 <= start && start <= end && end <= extent && step > 0;
            inside.then(|| (start..end).filter(|at| (at - start) % step == 0).collect())
        }
    }
}

proptest! {
    #[test]
    fn a_resolved_text_selects_what_it_says(
        axes in vec((0_i64..7, wanted()), 0..4), more in vec(1_u64..3, 0..2), dots in any::<bool>(),
    ) {
        let extents = axes.iter().map(|(extent, _)| *extent as u64).chain(more.iter().copied());
        let array = Shape::new(extents).unwrap();
        let mut entries: Vec<String> = axes.iter().map(|(_, wanted)| text_of(wanted)).collect();
        if dots {
            entries.push("...".into());
        }
        let text = format!("[{}]", entries.join(","));
        let selected = text.parse::<SelectionText>().ok().and_then(|text| text.resolve(&array).ok());
        let per_axis: Option<Vec<_>> = axes.iter().map(|(extent, wanted)| coordinates_of(wanted, *extent)).collect();
        prop_assert_eq!(selected.is_some(), per_axis.is_some(), "{} of {}", text, array);
        let (Some(selection), Some(per_axis)) = (selected, per_axis) else { return Ok(()) };
        let kept = per_axis.iter().zip(&axes).filter(|(_, (_, wanted))| wanted.is_err());
        let kept = kept.map(|(coordinates, _)| coordinates.len() as u64);
        let shape: Vec<u64> = kept.chain(more.iter().copied()).collect();
        prop_assert_eq!(selection.shape(), Shape::new(shape.iter().copied()).unwrap());
        let places = (0..array.elements()).map(|number| array.coordinates_of(number));
        for place in places {
            let expected = per_axis.iter().zip(&place).all(|(coordinates, at)| coordinates.contains(&(*at as i64)));
            prop_assert_eq!(selection.contains_element(&place), expected, "{:?} of {}", place, text);
        }
        prop_assert_eq!(selection.elements(), shape.iter().product::<u64>());
        prop_assert_eq!(parse(&selection.to_string()).resolve(&array), Ok(selection.clone()));
        let json = serde_json::to_string(&selection).unwrap();
        prop_assert_eq!(serde_json::from_str::<Selection>(&json).unwrap(), selection);
    }

    #[test]
    fn a_text_is_read_back(entries in vec(wanted(), 0..4), name in "[a-z/\\[]{0,3}") {
        let entries: Vec<String> = entries.iter().map(text_of).collect();
        if let Ok(text) = format!("{name}[{}]", entries.join(",")).parse::<SelectionText>() {
            prop_assert_eq!(text.to_string().parse(), Ok(text));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a\\[\\]0-9:., -]{0,12}") {
        let _ = text.parse::<SelectionText>();
    }

    #[test]
    fn a_part_is_of_both(axes in vec((0_u64..4, 0_u64..9, 1_u64..5, 0_u64..4, 0_u64..9), 1..3)) {
        let extents = |number: fn(&(u64, u64, u64, u64, u64)) -> u64| Shape::new(axes.iter().map(number)).unwrap();
        let region = Region::new(axes.iter().map(|axis| axis.0), extents(|axis| axis.1)).unwrap();
        let selection = Selection::new(region, axes.iter().map(|axis| axis.2)).unwrap();
        let other = Region::new(axes.iter().map(|axis| axis.3), extents(|axis| axis.4)).unwrap();
        let part = selection.within(&other);
        let around = Shape::new(axes.iter().map(|_| 13)).unwrap();
        let mut count = 0;
        for place in (0..around.elements()).map(|number| around.coordinates_of(number)) {
            let expected = selection.contains_element(&place) && other.contains_element(&place);
            prop_assert_eq!(part.as_ref().is_some_and(|part| part.contains_element(&place)), expected);
            count += u64::from(expected);
        }
        prop_assert_eq!(part.map_or(0, |part| part.elements()), count);
    }
}
