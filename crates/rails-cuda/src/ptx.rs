//! The kernel's text, run by an interpreter of the instructions in it: a test of the kernel without
//! a GPU.
//!
//! The interpreter follows the PTX ISA, and accepts only the instructions that the kernel uses. The
//! driver's assembler may refuse a text that this one accepts.

use proptest::prelude::*;
use rails_multirail::pipeline::device::swap_red_and_blue;
use std::collections::HashMap;

/// A kernel: its instructions, each with its words, and the places of its labels.
pub(crate) struct Program {
    instructions: Vec<Vec<String>>,
    labels: HashMap<String, usize>,
    /// The number of registers of each kind, by the letters before the number.
    declared: HashMap<String, usize>,
}

impl Program {
    pub(crate) fn parse(text: &str) -> Self {
        let (mut instructions, mut labels, mut declared) = (Vec::new(), HashMap::new(), HashMap::new());
        let (head, body) = text.split_once('{').expect("the kernel has a body");
        assert!(head.contains(".visible .entry swap_red_and_blue("), "{head}");
        let body = body.trim_end().strip_suffix('}').expect("the body ends");
        for line in body.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
            if let Some(label) = line.strip_suffix(':') {
                labels.insert(label.to_owned(), instructions.len());
            } else if !line.is_empty() {
                let statement = line.strip_suffix(';').unwrap_or_else(|| panic!("{line} ends with a semicolon"));
                let words = statement.split([' ', '\t', ',']).filter(|word| !word.is_empty());
                let words: Vec<String> = words.map(str::to_owned).collect();
                if words[0] == ".reg" {
                    let (kind, count) = words[2].trim_end_matches('>').split_once('<').expect("registers are counted");
                    declared.insert(kind.to_owned(), count.parse().expect("a number of registers"));
                } else {
                    instructions.push(words);
                }
            }
        }
        Self { instructions, labels, declared }
    }

    /// Runs all threads of a grid, one after the other. The memory begins at `base`.
    pub(crate) fn run_grid(&self, memory: &mut [u8], base: u64, count: u64, blocks: u64, threads: u64) {
        for block in 0..blocks {
            for thread in 0..threads {
                let special = [("%ctaid.x", block), ("%nctaid.x", blocks), ("%tid.x", thread), ("%ntid.x", threads)];
                self.run(memory, base, count, &HashMap::from(special));
            }
        }
    }

    fn run(&self, memory: &mut [u8], base: u64, count: u64, special: &HashMap<&str, u64>) {
        let mut registers: HashMap<String, u64> = HashMap::new();
        let mut at = 0;
        loop {
            let words: Vec<&str> = self.instructions[at].iter().map(String::as_str).collect();
            at += 1;
            let value = |name: &str| self.value(&registers, name);
            let place = |name: &str| (value(name.trim_matches(['[', ']'])) - base) as usize;
            let (to, result) = match words[..] {
                ["ret"] => return,
                ["bra", label] => {
                    at = self.labels[label];
                    continue;
                }
                [predicate, "bra", label] => {
                    if value(predicate.strip_prefix('@').expect("a predicate")) == 1 {
                        at = self.labels[label];
                    }
                    continue;
                }
                ["st.global.u32", to, from] => {
                    memory[place(to)..][..4].copy_from_slice(&(value(from) as u32).to_le_bytes());
                    continue;
                }
                ["ld.param.u64", to, "[swap_red_and_blue_pixels]"] => (to, base),
                ["ld.param.u64", to, "[swap_red_and_blue_count]"] => (to, count),
                ["cvta.to.global.u64", to, from] => (to, value(from)),
                ["cvt.u64.u32", to, from] => (to, value(from) & u64::from(u32::MAX)),
                ["mov.u32", to, from] => (to, special[from]),
                ["mul.wide.u32", to, a, b] => (to, u64::from(value(a) as u32) * u64::from(value(b) as u32)),
                ["add.s64", to, a, b] => (to, value(a).wrapping_add(value(b))),
                ["shl.b64", to, a, bits] => (to, value(a) << value(bits)),
                ["setp.ge.u64", to, a, b] => (to, u64::from(value(a) >= value(b))),
                ["ld.global.u32", to, from] => {
                    (to, u64::from(u32::from_le_bytes(memory[place(from)..][..4].try_into().unwrap())))
                }
                ["prmt.b32", to, a, b, selector] => {
                    let bytes = (value(b) << 32 | value(a)).to_le_bytes();
                    let selector = value(selector);
                    let byte = |at: u32| bytes[(selector >> (4 * at) & 7) as usize];
                    (to, u64::from(u32::from_le_bytes([0, 1, 2, 3].map(byte))))
                }
                _ => panic!("an instruction that the interpreter does not have: {words:?}"),
            };
            self.check_declared(to);
            registers.insert(to.to_owned(), result);
        }
    }

    /// The value of a register, or a number.
    fn value(&self, registers: &HashMap<String, u64>, name: &str) -> u64 {
        if let Some(digits) = name.strip_prefix("0x") {
            return u64::from_str_radix(digits, 16).expect("a number");
        }
        name.parse().unwrap_or_else(|_| *registers.get(name).unwrap_or_else(|| panic!("{name} was written before")))
    }

    fn check_declared(&self, register: &str) {
        let digits = register.find(|letter: char| letter.is_ascii_digit()).expect("registers are numbered");
        let (kind, number) = register.split_at(digits);
        let declared = self.declared.get(kind).copied().unwrap_or(0);
        assert!(number.parse::<usize>().is_ok_and(|number| number < declared), "{register} is not declared");
    }
}

proptest! {
    #[test]
    fn the_kernel_swaps_red_and_blue_on_any_grid(
        mut pixels in prop::collection::vec(any::<u8>(), 0..200),
        blocks in 1_u64..4,
        threads in 1_u64..9,
    ) {
        let program = Program::parse(include_str!("swap_red_and_blue.ptx"));
        let mut expected = pixels.clone();
        swap_red_and_blue(&mut expected);
        let count = pixels.len() as u64 / 4;
        program.run_grid(&mut pixels, 0x7f00_0000_0000, count, blocks, threads);
        // Each word was swapped once: twice would be as it was.
        prop_assert_eq!(pixels, expected);
    }
}
