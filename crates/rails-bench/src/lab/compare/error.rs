//! The reason why a contest has no outcome.

use rails_bind::BindError;
use rails_lab::LabError;
use std::io;

/// The reason why a contest has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ContestError {
    /// The links could not be made or changed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The processes could not be given their CPUs.
    #[error("the processes could not be given their CPUs")]
    Bind(#[from] BindError),
    /// A process could not be run.
    #[error("`{command}` could not be run")]
    Run {
        /// The command.
        command: String,
        /// The cause.
        source: io::Error,
    },
    /// A transfer between threads of this process failed.
    #[error("a transfer failed")]
    Transfer {
        /// The cause.
        source: io::Error,
    },
    /// A process failed.
    #[error("`{command}` failed ({status}): {said}")]
    Failed {
        /// The command.
        command: String,
        /// The process's exit status, or its fault in words.
        status: String,
        /// The process's message.
        said: String,
    },
    /// The processes of both ends failed.
    #[error("both ends failed: {receiver}; {sender}")]
    Both {
        /// The failure of the end that receives.
        receiver: Box<ContestError>,
        /// The failure of the end that sends.
        sender: Box<ContestError>,
    },
    /// A process printed a line that cannot be read as a measurement.
    #[error("the measurement cannot be read")]
    Report(#[from] serde_json::Error),
    /// The output of a foreign program has no figure.
    #[error("no figure in the output of {program}: {output}")]
    Figure {
        /// The program.
        program: &'static str,
        /// The program's output.
        output: String,
    },
    /// The keys of encrypted streams could not be made.
    #[error("the keys of encrypted streams could not be made")]
    Keys {
        /// The cause.
        source: io::Error,
    },
    /// The kernel did not give the CPU time of the machine.
    #[error("/proc/stat cannot be read")]
    Busy {
        /// The cause.
        source: procfs::ProcError,
    },
    /// The kernel did not give the CPU time of the processes.
    #[error("getrusage failed")]
    Usage {
        /// The cause.
        source: io::Error,
    },
}
