//! The properties that a copy keeps on demand.

use rails_transfer::SendOptions;

/// The properties that a copy keeps beside those that it always does.
#[derive(Debug, clap::Args)]
pub(crate) struct KeepArgs {
    /// Keep hard links: the names of one file that are sent become names of one file there
    #[arg(short = 'H', long)]
    hard_links: bool,
    /// Keep the number of the user that entries belong to, and programs' set-user-ID bits; needs
    /// `recv --allow-owners`, and a receiver with CAP_CHOWN
    #[arg(short, long)]
    owner: bool,
    /// Keep the number of the group, and set-group-ID bits; needs `recv --allow-owners`, and a
    /// receiver with CAP_CHOWN or in the group
    #[arg(short, long)]
    group: bool,
    /// Keep extended attributes of user., and as root those of security. and trusted., which need
    /// `recv --allow-xattrs`
    #[arg(short = 'X', long)]
    xattrs: bool,
    /// Keep access lists (POSIX ACLs); needs `recv --allow-xattrs`
    #[arg(short = 'A', long)]
    acls: bool,
}

impl KeepArgs {
    /// These options, beside others.
    pub(super) fn add_to(&self, options: SendOptions) -> SendOptions {
        let options = options.hard_links(self.hard_links).owner(self.owner).group(self.group);
        options.xattrs(self.xattrs).acls(self.acls)
    }
}
