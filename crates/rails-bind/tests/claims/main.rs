//! Claims of several processes: races, kills, forks, other users, and files that are not what they
//! should be.

mod files;
mod fork;
mod processes;
mod users;
mod worker;
