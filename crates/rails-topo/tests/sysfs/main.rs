//! The reader of the kernel's files, on trees that the tests write.

mod cpus;
mod interrupts;
mod layers;
mod nics;
mod roots;
mod tree;
