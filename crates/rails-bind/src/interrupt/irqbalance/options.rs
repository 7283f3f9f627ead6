//! What the command line of irqbalance says, read as its `getopt_long` reads it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Those options of irqbalance that bear on which interrupts it moves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerOptions {
    /// `--banirq`: interrupts that it was started to leave alone. [`Balancer::banned`](super::Balancer::banned) says
    /// which it leaves alone now.
    pub banned: BTreeSet<u32>,
    /// `--banmod`: drivers whose interrupts it leaves alone.
    pub banned_modules: Vec<String>,
    /// `--hintpolicy`: what it makes of the drivers' `affinity_hint`. Version 1.9.2 does not have it
    /// and ignores hints; where an older one is not told, what it does depends on the version.
    pub hint_policy: Option<HintPolicy>,
    /// `--policyscript`: a program that it asks about each interrupt, which may ban some.
    pub policy_script: Option<String>,
    /// `--oneshot`: it places all interrupts once and ends.
    pub one_shot: bool,
}

/// What irqbalance makes of the drivers' hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HintPolicy {
    /// An interrupt goes where the hint says.
    Exact,
    /// An interrupt is placed somewhere within the hint.
    Subset,
    /// Hints are ignored.
    Ignore,
}

impl BalancerOptions {
    /// From `/proc/PID/cmdline`: words that each end in a zero byte, the program's name first. What it does not know is
    /// passed over, as newer versions have options that it need not know.
    pub(super) fn parse(line: &[u8]) -> Self {
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let mut words = words.into_iter().skip(1);
        let mut options = Self::default();
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let Some((letter, takes)) = long_option(name) else { continue };
                let value = value.map(str::to_owned).or_else(|| if takes { words.next() } else { None });
                options.set(letter, &value.unwrap_or_default());
            } else if let Some(cluster) = word.strip_prefix('-') {
                options.cluster(cluster, &mut words);
            }
        }
        options
    }

    /// `-fi24`, or `-i` and the next word.
    fn cluster(&mut self, cluster: &str, words: &mut impl Iterator<Item = String>) {
        for (place, letter) in cluster.char_indices() {
            if !OPTIONS.iter().any(|(_, known, takes)| *known == letter && *takes) {
                self.set(letter, "");
                continue;
            }
            let rest = &cluster[place + letter.len_utf8()..];
            let value = if rest.is_empty() { words.next().unwrap_or_default() } else { rest.to_owned() };
            return self.set(letter, &value);
        }
    }

    fn set(&mut self, letter: char, value: &str) {
        match letter {
            'i' => self.banned.extend(value.trim().parse::<u32>()),
            'm' => self.banned_modules.push(value.to_owned()),
            'h' => self.hint_policy = hint_policy(value).or(self.hint_policy),
            'l' => self.policy_script = Some(value.to_owned()),
            'o' => self.one_shot = true,
            _ => {}
        }
    }
}

/// It takes any beginning of the three words.
fn hint_policy(value: &str) -> Option<HintPolicy> {
    let words = [("exact", HintPolicy::Exact), ("subset", HintPolicy::Subset), ("ignore", HintPolicy::Ignore)];
    words.into_iter().find(|(word, _)| !value.is_empty() && word.starts_with(value)).map(|(_, policy)| policy)
}

/// By its whole name, or by a beginning that no other has.
fn long_option(name: &str) -> Option<(char, bool)> {
    let mut beginning = OPTIONS.iter().filter(|(long, ..)| long.starts_with(name));
    let exact = OPTIONS.iter().find(|(long, ..)| *long == name);
    let (_, letter, takes) = match (exact, beginning.next(), beginning.next()) {
        (Some(exact), ..) => exact,
        (None, Some(only), None) => only,
        _ => return None,
    };
    Some((*letter, *takes))
}

/// The options of all versions, and whether a value follows.
const OPTIONS: [(&str, char, bool); 15] = [
    ("oneshot", 'o', false),
    ("debug", 'd', false),
    ("foreground", 'f', false),
    ("journal", 'j', false),
    ("version", 'V', false),
    ("hintpolicy", 'h', true),
    ("powerthresh", 'p', true),
    ("banirq", 'i', true),
    ("banscript", 'b', true),
    ("banmod", 'm', true),
    ("deepestcache", 'c', true),
    ("policyscript", 'l', true),
    ("pid", 's', true),
    ("interval", 't', true),
    ("migrateval", 'e', true),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> BalancerOptions {
        let line: String = line.split(' ').map(|word| format!("{word}\0")).collect();
        BalancerOptions::parse(line.as_bytes())
    }

    #[test]
    fn options_are_read_however_they_are_written() {
        for line in [
            "/usr/sbin/irqbalance --foreground --banirq=24 --banirq=25 --hintpolicy=exact",
            "irqbalance -f --banirq 24 --banirq 25 --hintpolicy exact",
            "irqbalance -fi24 -i 25 -h exact",
            "irqbalance -fhe --bani=24 --bani 25",
        ] {
            let options = parse(line);
            assert_eq!(options.banned, BTreeSet::from([24, 25]), "{line}");
            assert_eq!(options.hint_policy, Some(HintPolicy::Exact), "{line}");
        }
        let options = parse("irqbalance -o --banmod=mlx5_core --policyscript=/etc/p");
        assert!(options.one_shot && options.banned.is_empty() && options.hint_policy.is_none());
        assert_eq!(options.banned_modules, ["mlx5_core"]);
        assert_eq!(options.policy_script.as_deref(), Some("/etc/p"));
    }

    #[test]
    fn the_value_of_another_option_is_no_option() {
        assert_eq!(parse("irqbalance --pid --banirq=24 -t -i25 --new -i9 -- -i10").banned, BTreeSet::from([9]));
        assert_eq!(parse("-i24"), BalancerOptions::default());
        assert_eq!(parse("irqbalance --banirq=many --ban=3 -i"), BalancerOptions::default());
    }

    proptest! {
        #[test]
        fn no_command_line_panics(words in prop::collection::vec("-{0,2}[a-zä=0-9]{0,8}", 0..6), bytes: Vec<u8>) {
            let _ = parse(&words.join(" "));
            let _ = BalancerOptions::parse(&bytes);
        }

        #[test]
        fn every_banned_interrupt_is_found(numbers in prop::collection::btree_set(0_u32..9999, 0..20)) {
            let words: Vec<String> = numbers.iter().map(|number| format!(" --banirq={number}")).collect();
            prop_assert_eq!(parse(&format!("irqbalance{}", words.concat())).banned, numbers);
        }
    }
}
