//! Shows, plans, moves files and measures over rails.

fn main() {}
