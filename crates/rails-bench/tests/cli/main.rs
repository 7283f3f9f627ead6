//! The program as its users run it: processes, their output and their exit codes.

mod captured;
mod celeritas;
mod claims;
mod conversations;
mod demo;
mod directions;
mod disk;
mod doctor;
mod doors;
mod facts;
mod gate;
mod hidden;
mod interrupted;
mod keep;
mod killed;
mod lab;
mod limits;
mod machine;
mod measure;
mod package_files;
mod pairing;
mod peers;

mod refusals;
mod retried;
mod run;
mod sandboxed;
mod services;
mod soak;
mod still;
mod tls;
mod transfers;
mod util;
mod watch;
mod widths;
