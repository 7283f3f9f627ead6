//! `rails-sockets server ADDRESS`, `rails-sockets client ADDRESS all`: see the library. `sink` and
//! `hold` are two ends of many idle connections.

use std::{env, error::Error, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["server", address] => rails_sockets::serve(address.parse()?)?,
        ["client", address, case] => rails_sockets::client(address.parse()?, case)?,
        // The client starts it for a case of its own.
        ["adopt", case] => rails_sockets::adopt(case)?,
        ["hold", address, count] => rails_sockets::hold(address.parse()?, count.parse()?)?,
        ["sink", address] => rails_sockets::sink(address.parse()?)?,
        ["cases"] => rails_sockets::cases().for_each(|case| println!("{case}")),
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

const USAGE: &str = "usage: rails-sockets server ADDRESS | client ADDRESS CASE | client ADDRESS all | cases | \
                     sink ADDRESS | hold ADDRESS COUNT";
