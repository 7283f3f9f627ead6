//! The colours of rails.
//!
//! The colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with any
//! of the usual kinds of colour blindness distinguish, without black and without the yellow that is
//! lost on white. No fact depends on colour alone: all parts of a rail have its name, and lines of
//! the same colour differ in their dashes.

/// A rail's colour.
pub(super) fn colour(rail: usize) -> &'static str {
    COLOURS[rail % COLOURS.len()].0
}

/// A rail's colour, light enough to write on.
pub(super) fn tint(rail: usize) -> &'static str {
    COLOURS[rail % COLOURS.len()].1
}

/// The dashes of a rail's line; lines of the first colours have none.
pub(super) fn dashes(rail: usize) -> Option<&'static str> {
    match (rail / COLOURS.len()) % 4 {
        0 => None,
        1 => Some("7 3"),
        2 => Some("2 3"),
        _ => Some("9 3 2 3"),
    }
}

/// Blue, vermilion, bluish green, orange, reddish purple, sky blue; each with its tint.
const COLOURS: [(&str, &str); 6] = [
    ("#0072b2", "#cce3f0"),
    ("#d55e00", "#f7dfcc"),
    ("#009e73", "#ccece3"),
    ("#e69f00", "#faeccc"),
    ("#cc79a7", "#f5e4ed"),
    ("#56b4e9", "#ddf0fb"),
];
