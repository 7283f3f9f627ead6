//! What came of a case at one end.

use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The end that connects.
    Client,
    /// The end that accepts.
    Server,
}

/// Shows `client` or `server`.
impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// What came of a case at one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// The end that this is about.
    pub end: End,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The bytes that this end sent; `None` where their number is up to chance.
    pub sent: Option<Carried>,
    /// The bytes that this end received; `None` where their number is up to chance.
    pub received: Option<Carried>,
    /// Figures that two runs need not share, such as the number of bytes that the path held.
    pub measured: Vec<Step>,
}

/// A step of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The call, or the question.
    pub call: String,
    /// `ok`, an `errno` by its name, or the answer.
    pub outcome: String,
}

/// Bytes in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The number of bytes.
    pub bytes: u64,
    /// The BLAKE3 digest of the bytes, in hexadecimal.
    pub blake3: String,
}

/// Reads the rows from what one end printed.
///
/// # Errors
///
/// A line that is no row.
pub fn rows(printed: &str) -> io::Result<Vec<Row>> {
    let row = |line: &str| {
        serde_json::from_str(line)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("a line is no row ({error}): {line}")))
    };
    printed.lines().filter(|line| !line.trim().is_empty()).map(row).collect()
}
