//! Rules for the memory of applications.

use glob::Pattern;
use rails_cache::{Limits, Policy};
use rails_topo::DataSize;
use std::{fmt, str::FromStr, sync::Arc};

/// A rule for the memory that applications have on a node for datasets.
///
/// The limits hold for each application and dataset that the rule names: for all arrays of the
/// dataset, and all their divisions into blocks, together. The text of a rule is
/// `APPLICATION[:DATASET][,min=SIZE][,max=SIZE][,weight=N][,policy=lru|mru|hinted|schedule]`.
///
/// ```
/// use rails_lambdaram::BudgetRule;
///
/// let rule: BudgetRule = "model-*:merra,min=2GiB,weight=3".parse()?;
/// assert_eq!(rule.to_string(), "model-*:merra,min=2 GiB,weight=3");
/// # Ok::<(), rails_lambdaram::BudgetRuleError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct BudgetRule {
    application: Pattern,
    dataset: Pattern,
    min: DataSize,
    max: Option<DataSize>,
    weight: u32,
    policy: Policy,
}

/// Why a text is no rule for budgets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetRuleError {
    /// A name is empty, or no pattern.
    #[error("`{text}` is no name of an application or dataset, nor a pattern of names: {reason}")]
    Name {
        /// The name.
        text: String,
        /// The mistake.
        reason: String,
    },
    /// A part is none that a rule has.
    #[error("`{part}` is none of min=SIZE, max=SIZE, weight=N and policy=lru|mru|hinted|schedule")]
    Part {
        /// The part.
        part: String,
    },
    /// A value of a part cannot be read.
    #[error("`{part}`: {reason}")]
    Value {
        /// The part.
        part: String,
        /// The mistake.
        reason: String,
    },
    /// A part comes twice.
    #[error("`{name}` is stated twice")]
    Twice {
        /// The part's name.
        name: String,
    },
}

/// A rule that a memory cannot keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The weight is 0.
    #[error("the budget `{rule}` has the weight 0, and would get no memory beyond its min")]
    Weight {
        /// The rule.
        rule: String,
    },
    /// The limits are the wrong way round, or no block fits.
    #[error("the budget `{rule}` allows {max}, which is less than its min, or than the largest block, {block}")]
    Max {
        /// The rule.
        rule: String,
        /// The limit.
        max: DataSize,
        /// The size of the largest block.
        block: DataSize,
    },
    /// The guarantees are larger than the memory.
    #[error(
        "the budget `{rule}` guarantees {min}: of the memory of {memory}, {others} are guaranteed by rules before it, \
         and {reserve} have to be left to whoever asks"
    )]
    Overcommitted {
        /// The rule.
        rule: String,
        /// The guarantee.
        min: DataSize,
        /// The guarantees of the rules before it.
        others: DataSize,
        /// The memory that cannot be guaranteed.
        reserve: DataSize,
        /// The memory of the node.
        memory: DataSize,
    },
}

/// The rules of a node, in slots. The first that names an application and a dataset holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets(Arc<[(BudgetRule, Limits)]>);

impl BudgetRule {
    /// The rule for applications and datasets of these names. `*`, `?` and `[...]` stand for other
    /// characters, as in patterns of files: `*` alone is every name.
    ///
    /// # Errors
    /// [`BudgetRuleError::Name`].
    pub fn new(application: &str, dataset: &str) -> Result<Self, BudgetRuleError> {
        Ok(Self {
            application: pattern(application)?,
            dataset: pattern(dataset)?,
            min: DataSize::bytes(0),
            max: None,
            weight: Limits::default().weight,
            policy: Policy::Hinted,
        })
    }

    /// The memory that others do not take, rounded up to slots of 64 KiB. Default: none. While it
    /// is not used, it serves others, and the node takes it back from them when it is asked
    /// for.
    pub fn min(self, min: DataSize) -> Self {
        Self { min, ..self }
    }

    /// The largest memory, rounded down to slots of 64 KiB; at least 1 MiB, the largest block.
    /// Default: all of the node's.
    pub fn max(self, max: DataSize) -> Self {
        Self { max: Some(max), ..self }
    }

    /// The part of the memory beyond every `min`, in relation to the weights of others. Default: 1.
    pub fn weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The order in which blocks are given up. Default: [`Policy::Hinted`], which is that of
    /// [`Policy::Lru`] until a program [announces](crate::Array::tell) its reads.
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    fn names(&self, application: &str, dataset: &str) -> bool {
        let is = |pattern: &Pattern, name: &str| pattern.as_str() == name || pattern.matches(name);
        is(&self.application, application) && is(&self.dataset, dataset)
    }

    /// The limits in slots. A guarantee is no smaller than was asked for, and a limit no larger.
    fn limits(&self, slot_bytes: u32) -> Limits {
        let slots = |slots: u64| u32::try_from(slots).unwrap_or(u32::MAX);
        let slot = u64::from(slot_bytes);
        Limits {
            min: slots(self.min.as_bytes().div_ceil(slot)),
            max: self.max.map_or(u32::MAX, |max| slots(max.as_bytes() / slot)),
            weight: self.weight,
        }
    }
}

impl fmt::Display for BudgetRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.application.as_str(), self.dataset.as_str())?;
        if self.min.as_bytes() > 0 {
            write!(f, ",min={}", self.min)?;
        }
        if let Some(max) = self.max {
            write!(f, ",max={max}")?;
        }
        if self.weight != Limits::default().weight {
            write!(f, ",weight={}", self.weight)?;
        }
        if self.policy == Policy::Hinted {
            return Ok(());
        }
        let word = POLICIES.iter().find(|(_, policy)| *policy == self.policy).map_or("", |(word, _)| word);
        write!(f, ",policy={word}")
    }
}

impl FromStr for BudgetRule {
    type Err = BudgetRuleError;

    fn from_str(text: &str) -> Result<Self, BudgetRuleError> {
        let mut parts = text.split(',').map(str::trim);
        let names = parts.next().unwrap_or_default();
        let (application, dataset) = names.split_once(':').unwrap_or((names, "*"));
        let mut rule = Self::new(application, dataset)?;
        let mut stated = Vec::new();
        for part in parts {
            let unknown = || BudgetRuleError::Part { part: part.into() };
            let (name, value) = part.split_once('=').ok_or_else(unknown)?;
            let wrong = |reason: String| BudgetRuleError::Value { part: part.into(), reason };
            let size = || value.parse::<DataSize>().map_err(|error| wrong(error.to_string()));
            rule = match name {
                "min" => rule.min(size()?),
                "max" => rule.max(size()?),
                "weight" => rule.weight(weight(value).ok_or_else(|| wrong("a weight is a number from 1 on".into()))?),
                "policy" => {
                    let known = POLICIES.iter().find(|(word, _)| *word == value);
                    let words = || wrong("a policy is lru, mru, hinted or schedule".into());
                    rule.policy(known.ok_or_else(words)?.1)
                }
                _ => return Err(unknown()),
            };
            if stated.contains(&name) {
                return Err(BudgetRuleError::Twice { name: name.into() });
            }
            stated.push(name);
        }
        Ok(rule)
    }
}

impl Budgets {
    /// The rules of a node with so many slots, of which the largest block takes some.
    ///
    /// # Errors
    /// [`BudgetError`], if one application and dataset for each rule with a `min` are too many.
    pub(crate) fn new(rules: &[BudgetRule], slots: u32, slot_bytes: u32, block: u32) -> Result<Self, BudgetError> {
        let size = |slots: u64| DataSize::bytes(slots * u64::from(slot_bytes));
        let (mut others, mut guarantees) = (0, 0);
        let mut checked = Vec::new();
        for rule in rules {
            let limits = rule.limits(slot_bytes);
            let name = || rule.to_string();
            if limits.weight == 0 {
                return Err(BudgetError::Weight { rule: name() });
            }
            if limits.max < limits.min.max(block) {
                let (max, block) = (size(limits.max.into()), size(block.into()));
                return Err(BudgetError::Max { rule: name(), max, block });
            }
            if limits.min > 0 {
                guarantees += 1;
                let reserve = reserve(guarantees, block);
                if others + u64::from(limits.min) + reserve > u64::from(slots) {
                    return Err(BudgetError::Overcommitted {
                        rule: name(),
                        min: size(limits.min.into()),
                        others: size(others),
                        reserve: size(reserve),
                        memory: size(slots.into()),
                    });
                }
                others += u64::from(limits.min);
            }
            checked.push((rule.clone(), limits));
        }
        Ok(Self(checked.into()))
    }

    /// The limits and the policy of an application's memory for a dataset, and the rule that says
    /// so, if there is one.
    pub(crate) fn of(&self, application: &str, dataset: &str) -> (Limits, Policy, Option<&BudgetRule>) {
        match self.0.iter().find(|(rule, _)| rule.names(application, dataset)) {
            Some((rule, limits)) => (*limits, rule.policy, Some(rule)),
            None => (Limits::default(), Policy::Hinted, None),
        }
    }
}

fn pattern(text: &str) -> Result<Pattern, BudgetRuleError> {
    let wrong = |reason: String| BudgetRuleError::Name { text: text.into(), reason };
    if text.is_empty() {
        return Err(wrong("it is empty; `*` is every name".into()));
    }
    Pattern::new(text).map_err(|error| wrong(error.to_string()))
}

fn weight(text: &str) -> Option<u32> {
    text.parse().ok().filter(|weight| *weight > 0)
}

/// The slots that a node with so many budgets guarantees to none of them, so that every block finds
/// room.
fn reserve(budgets: u64, block: u32) -> u64 {
    budgets * (u64::from(block) - 1) + u64::from(block)
}

const POLICIES: [(&str, Policy); 4] =
    [("lru", Policy::Lru), ("mru", Policy::Mru), ("hinted", Policy::Hinted), ("schedule", Policy::Schedule)];

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> BudgetRule {
        text.parse().unwrap()
    }

    #[test]
    fn texts_are_rules() {
        let whole = rule("model-*:merra,min=2GiB,max=8GiB,weight=3,policy=mru");
        assert_eq!(whole.to_string(), "model-*:merra,min=2 GiB,max=8 GiB,weight=3,policy=mru");
        assert_eq!(whole.limits(65_536), Limits { min: 32_768, max: 131_072, weight: 3 });
        assert_eq!(rule("viewer"), BudgetRule::new("viewer", "*").unwrap());
        for (text, expected) in [
            (":merra", "`` is no name"),
            ("a:", "`` is no name"),
            ("a:[", "`[` is no name"),
            ("a,2GiB", "`2GiB` is none of min=SIZE"),
            ("a,least=2GiB", "`least=2GiB` is none of"),
            ("a,min=lots", "`min=lots`: "),
            ("a,weight=0", "`weight=0`: a weight is"),
            ("a,policy=fifo", "`policy=fifo`: a policy is lru"),
            ("a,min=1MiB,min=2MiB", "`min` is stated twice"),
        ] {
            let error = text.parse::<BudgetRule>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_first_rule_that_names_both_holds() {
        let rules = [rule("model-1:*,weight=7"), rule("model-*:merra,weight=5"), rule("*,max=1MiB")];
        let budgets = Budgets::new(&rules, 1000, 65_536, 16).unwrap();
        let weight = |application, dataset| budgets.of(application, dataset).0.weight;
        assert_eq!([weight("model-1", "merra"), weight("model-2", "merra"), weight("model-2", "era")], [7, 5, 1]);
        assert_eq!(budgets.of("other", "era").0.max, 16);
        assert_eq!(Budgets::default().of("any", "one").0, Limits::default());
    }

    #[test]
    fn limits_are_rounded_to_the_safe_side() {
        let limits = rule("a,min=1000001B,max=2000001B").limits(65_536);
        assert_eq!((limits.min, limits.max), (16, 30));
    }

    #[test]
    fn rules_that_cannot_be_kept_are_refused() {
        let new = |rules: &[&str]| {
            let rules: Vec<BudgetRule> = rules.iter().map(|text| rule(text)).collect();
            Budgets::new(&rules, 100, 65_536, 16).map_err(|error| error.to_string())
        };
        // 100 slots; one budget leaves 31 of them to any other, and two leave 46.
        assert!(new(&["a,min=4416KiB"]).is_ok());
        let error = new(&["a,min=4417KiB"]).unwrap_err();
        assert!(
            error.starts_with("the budget `a:*,min=4.3 MiB` guarantees 4.4 MiB: of the memory of 6.2 MiB, 0 B are"),
            "{error}"
        );
        assert!(new(&["a,min=3MiB", "b,min=384KiB"]).is_ok());
        let error = new(&["a,min=3MiB", "b,min=448KiB"]).unwrap_err();
        assert!(error.contains("`b:*,min=448 KiB`") && error.contains(", 3 MiB are guaranteed"), "{error}");
        assert!(new(&["a,max=1MiB"]).is_ok() && new(&["a,max=1023KiB"]).is_err());
        assert!(new(&["a,min=2MiB,max=1MiB"]).unwrap_err().contains("less than its min"));
        let no_weight = BudgetRule::new("a", "*").unwrap().weight(0);
        assert!(Budgets::new(&[no_weight], 100, 65_536, 16).is_err());
    }
}
