//! The words of the protocol: what is banned, and what to ban.

use std::collections::BTreeSet;

/// The interrupts in an answer to `setup`: `SLEEP <s>`, then `IRQ <n> LOAD <ns> DIFF <n> CLASS <n>` for each that is banned, then
/// `BANNED <mask of CPUs>`.
pub(super) fn banned(answer: &str) -> Option<BTreeSet<u32>> {
    let mut words = answer.split_ascii_whitespace();
    let mut banned = BTreeSet::new();
    (words.next()? == "SLEEP").then_some(())?;
    words.next()?.parse::<i64>().ok()?;
    loop {
        match words.next()? {
            "IRQ" => banned.insert(words.next()?.parse().ok()?),
            "BANNED" => return words.next().map(|_mask| banned),
            // Of each interrupt it is said how busy it is, and of what kind.
            _ => words.next()?.parse::<i64>().is_ok().then_some(true)?,
        };
    }
}

/// The request that has these interrupts banned and no others. Ascending, as it takes a zero for the end of the list
/// unless it comes first.
pub(super) fn request(banned: &BTreeSet<u32>) -> String {
    if banned.is_empty() {
        return "settings ban irqs NONE".to_owned();
    }
    let numbers: Vec<String> = banned.iter().map(u32::to_string).collect();
    format!("settings ban irqs {}", numbers.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_answer_of_version_1_9_2_is_understood() {
        let answer = "SLEEP 2 IRQ 26 LOAD 0 DIFF 0 CLASS 0 IRQ 27 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000,0000000f";
        assert_eq!(banned(answer), Some(BTreeSet::from([26, 27])));
        assert_eq!(banned("SLEEP 10 BANNED 00000000"), Some(BTreeSet::new()));
    }

    #[test]
    fn what_is_cut_short_or_something_else_is_not() {
        for answer in ["", "SLEEP", "SLEEP 10 ", "SLEEP 10 IRQ 26 LOAD 0", "SLEEP 10 IRQ x BANNED 0", "TYPE 3 BANNED 0"]
        {
            assert_eq!(banned(answer), None, "{answer}");
        }
    }

    proptest! {
        #[test]
        fn every_banned_interrupt_is_read(numbers in prop::collection::btree_set(0_u32..=u32::MAX, 0..50)) {
            let one = |number: &u32| format!("IRQ {number} LOAD 7 DIFF 1 CLASS 4 ");
            let answer = format!("SLEEP 10 {}BANNED ff", numbers.iter().map(one).collect::<String>());
            prop_assert_eq!(banned(&answer), Some(numbers));
        }

        #[test]
        fn no_answer_panics(text in "\\PC*", words in "SLEEP 10 ((IRQ|LOAD|BANNED|-?[0-9]{1,12}) ){0,9}") {
            let _ = (banned(&text), banned(&words));
        }
    }
}
