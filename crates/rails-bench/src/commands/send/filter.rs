//! The options `--exclude` and `--include`, whose order among each other counts.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind::ValueValidation};
use rails_transfer::{Filter, FilterError};

/// The filter that the options give, in their order on the command line.
#[derive(Debug, Clone)]
pub(crate) struct FilterArgs(pub(crate) Filter);

impl Args for FilterArgs {
    fn augment_args(command: Command) -> Command {
        let pattern = |name: &'static str, help: &'static str| {
            Arg::new(name).long(name).value_name("PATTERN").action(ArgAction::Append).help(help)
        };
        command
            .arg(pattern(
                "exclude",
                "Leave out entries that match, folders with all below them. The first --exclude or --include that \
                 matches decides",
            ))
            .arg(pattern("include", "Send entries that match, though a later --exclude matches them too"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FilterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        type Add = fn(Filter, &str) -> Result<Filter, FilterError>;
        let given = |name: &str, add: Add| {
            let indices = matches.indices_of(name).into_iter().flatten();
            let patterns = matches.get_many::<String>(name).into_iter().flatten();
            indices.zip(patterns).map(|(index, pattern)| (index, add, pattern.clone())).collect::<Vec<_>>()
        };
        let mut rules = [given("exclude", Filter::exclude), given("include", Filter::include)].concat();
        rules.sort_unstable_by_key(|(index, ..)| *index);
        let filter = rules.iter().try_fold(Filter::new(), |filter, (_, add, pattern)| add(filter, pattern));
        filter.map(Self).map_err(|error| Error::raw(ValueValidation, format!("{error}\n")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        filter: FilterArgs,
    }

    fn parsed(arguments: &[&str]) -> Result<Filter, Error> {
        let arguments = ["x"].iter().chain(arguments);
        <Parsed as clap::Parser>::try_parse_from(arguments).map(|parsed| parsed.filter.0)
    }

    #[test]
    fn patterns_keep_the_order_of_the_command_line() {
        let given = parsed(&["--include", "a.o", "--exclude=*.o", "--include", "b.o"]).unwrap();
        let expected = Filter::new().include("a.o").unwrap().exclude("*.o").unwrap().include("b.o").unwrap();
        assert_eq!(format!("{given:?}"), format!("{expected:?}"));
    }

    #[test]
    fn a_wrong_pattern_is_a_wrong_command_line() {
        let error = parsed(&["--exclude", "[a"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("the pattern `[a` is wrong"), "{error}");
    }
}
