//! Sites over real files and real links, with the array itself as oracle.

mod budgets;
mod data;
mod far;
mod local;
mod protected;
mod replaced;
mod traced;
