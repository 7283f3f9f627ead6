//! Why a program cannot be started with a filter.

use std::{io, path::PathBuf};

/// A program cannot be started so that its connections are told. It does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// The program's file gives privileges to whoever starts it, and the kernel gives none to a
    /// task with a filter.
    #[error(
        "`{}` gains privileges by {by}, which a filter of system calls takes away; start it without one, or start \
         the program that it runs",
        program.display()
    )]
    GainsPrivileges {
        /// The file: the program, or the interpreter of a script.
        program: PathBuf,
        /// The source of the privileges.
        by: Privilege,
    },

    /// This thread has a filter that notifies, for instance since this process was started by
    /// [`spawn`](super::spawn()) itself. The kernel permits one for each task.
    #[error(
        "this process is watched by a filter that notifies, and a task can have only one; start it outside of the \
         other one"
    )]
    HasNotifier,

    /// The kernel does not notify.
    #[error(
        "the kernel cannot tell of system calls; Linux 5.9 or later with CONFIG_SECCOMP_FILTER can, on x86-64 and AArch64"
    )]
    Unsupported {
        /// The kernel's answer.
        source: io::Error,
    },

    /// A sandbox around this process refuses one of the calls.
    #[error(
        "a sandbox around this process refuses {call}; allow it there (a container's seccomp profile, or `SystemCallFilter=`)"
    )]
    Sandboxed {
        /// The call.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },

    /// The machine lets no process take another one's descriptors.
    #[error(
        "kernel.yama.ptrace_scope is {scope}, so no socket can be taken from another process; 0 or 1 permit it{}",
        if *scope == 2 { ", and so does CAP_SYS_PTRACE" } else { ", after a restart of the machine" }
    )]
    PtraceScope {
        /// The setting, 2 or 3.
        scope: u8,
    },

    /// No connection over 127.0.0.1 can be made, so none can be diverted.
    #[error("no connection can be made over 127.0.0.1; set the loopback device up, and let a firewall pass it")]
    NoLoopback {
        /// The kernel's answer.
        source: io::Error,
    },

    /// The process that takes over if this one is killed does not start. It has to call
    /// [`keeper::run`](super::keeper::run).
    #[error("the keeper `{}` does not start", program.display())]
    Keeper {
        /// The keeper's program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The program does not start.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program as it was given.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// Another call failed.
    #[error("{call} failed")]
    Call {
        /// The call.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// A source of privileges in a program's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Privilege {
    /// The set-user-ID bit, and another owner.
    SetUser,
    /// The set-group-ID bit, and another group.
    SetGroup,
    /// Capabilities of the file.
    Capabilities,
}

impl std::fmt::Display for Privilege {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::SetUser => "its set-user-ID bit",
            Self::SetGroup => "its set-group-ID bit",
            Self::Capabilities => "its file capabilities",
        })
    }
}
