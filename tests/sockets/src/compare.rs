//! Where two runs of the cases differ.

use crate::row::{Carried, End, Row, Step};
use std::{collections::BTreeMap, fmt};

/// Something that came out differently over another path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The case's name.
    pub case: String,
    /// The end that saw it.
    pub end: End,
    /// The step's call, `sent`, `received`, or `rows` for their number.
    pub subject: String,
    /// What came of it over the first path.
    pub plain: String,
    /// What came of it over the other one.
    pub other: String,
}

/// Says it in one line.
impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, end, subject, plain, other } = self;
        write!(formatter, "{case}, {end}: {subject}: {plain} over plain TCP, {other} here")
    }
}

/// Finds where a run differs from one over plain TCP, in the order of the cases' names. Figures
/// that two runs need not share are left out. Rows of one case and end are taken in any order.
pub fn compare(plain: &[Row], other: &[Row]) -> Vec<Difference> {
    let (plain, other) = (grouped(plain), grouped(other));
    let keys: BTreeMap<_, ()> = plain.keys().chain(other.keys()).map(|key| (*key, ())).collect();
    let mut differences = Vec::new();
    for (case, end) in keys.into_keys() {
        let none = Vec::new();
        let (plain, other) = (plain.get(&(case, end)).unwrap_or(&none), other.get(&(case, end)).unwrap_or(&none));
        let differs = |subject: &str, plain: String, other: String| Difference {
            case: case.to_owned(),
            end,
            subject: subject.to_owned(),
            plain,
            other,
        };
        if plain.len() != other.len() {
            differences.push(differs("rows", plain.len().to_string(), other.len().to_string()));
        }
        for (plain, other) in plain.iter().zip(other) {
            if let Some((subject, plain, other)) = steps(&plain.steps, &other.steps) {
                differences.push(differs(&subject, plain, other));
            }
            for (subject, plain, other) in
                [("sent", &plain.sent, &other.sent), ("received", &plain.received, &other.received)]
            {
                if plain != other {
                    differences.push(differs(subject, carried(plain.as_ref()), carried(other.as_ref())));
                }
            }
        }
    }
    differences
}

/// The first step that differs: all that follow may differ because of it.
fn steps(plain: &[Step], other: &[Step]) -> Option<(String, String, String)> {
    let shown = |step: Option<&Step>, like: &str| match step {
        Some(step) if step.call == like => step.outcome.clone(),
        Some(step) => format!("{}: {}", step.call, step.outcome),
        None => "nothing more".to_owned(),
    };
    (0..plain.len().max(other.len())).find(|index| plain.get(*index) != other.get(*index)).map(|index| {
        let (plain, other) = (plain.get(index), other.get(index));
        let call = plain.or(other).map_or_else(String::new, |step| step.call.clone());
        (call.clone(), shown(plain, &call), shown(other, &call))
    })
}

fn carried(carried: Option<&Carried>) -> String {
    carried.map_or_else(|| "by chance".to_owned(), |carried| format!("{} bytes {:.8}", carried.bytes, carried.blake3))
}

fn grouped(rows: &[Row]) -> BTreeMap<(&str, End), Vec<&Row>> {
    let mut groups: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry((row.case.as_str(), row.end)).or_default().push(row);
    }
    for rows in groups.values_mut() {
        rows.sort_by_key(|row| (format!("{:?}", row.steps), format!("{:?}{:?}", row.sent, row.received)));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcomes: &[&str], bytes: u64) -> Row {
        let steps = outcomes.iter().map(|outcome| Step { call: "read".into(), outcome: (*outcome).into() }).collect();
        let sent = Some(Carried { bytes, blake3: "0123456789".into() });
        Row { case: "a".into(), end: End::Client, steps, sent, received: None, measured: vec![] }
    }

    #[test]
    fn equal_runs_in_any_order_have_no_difference() {
        let measured = vec![Step { call: "held".into(), outcome: "7".into() }];
        let (one, two) = (row(&["ok"], 1), row(&["EPIPE"], 1));
        let other = [two.clone(), Row { measured, ..one.clone() }];
        assert_eq!(compare(&[one, two], &other), []);
    }

    #[test]
    fn the_first_step_that_differs_counts() {
        let found = compare(&[row(&["ok", "eof", "EPIPE"], 5)], &[row(&["ok", "ECONNRESET"], 5)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "a, client: read: eof over plain TCP, ECONNRESET here");
    }

    #[test]
    fn missing_rows_steps_and_bytes_are_differences() {
        assert_eq!(compare(&[row(&[], 5)], &[])[0].subject, "rows");
        assert_eq!(compare(&[row(&["ok"], 5)], &[row(&[], 5)])[0].other, "nothing more");
        let found = compare(&[row(&[], 5)], &[row(&[], 4)]);
        assert_eq!(found[0].to_string(), "a, client: sent: 5 bytes 01234567 over plain TCP, 4 bytes 01234567 here");
    }
}
