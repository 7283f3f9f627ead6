//! A small assembler of BPF programs: one method for each kind of instruction, with labels to jump
//! to.
//!
//! # References
//!
//! Documentation/bpf/standardization/instruction-set.rst of the kernel

use crate::sys::bpf::{Instruction, Map};
use std::os::fd::{AsFd, AsRawFd};

/// A register of a BPF program. A call overwrites [`RESULT`] and the arguments; the saved ones
/// outlive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Register(u8);

/// The answer of a call, and of the program.
pub(super) const RESULT: Register = Register(0);
/// The first argument of a call, and the context at a program's begin.
pub(super) const ARGUMENT_1: Register = Register(1);
pub(super) const ARGUMENT_2: Register = Register(2);
pub(super) const ARGUMENT_3: Register = Register(3);
pub(super) const ARGUMENT_4: Register = Register(4);
pub(super) const SAVED_1: Register = Register(6);
pub(super) const SAVED_2: Register = Register(7);
pub(super) const SAVED_3: Register = Register(8);
pub(super) const SAVED_4: Register = Register(9);
/// The end of the program's 512 bytes of stack, which lie at negative offsets from it.
pub(super) const FRAME: Register = Register(10);

/// A place in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    base: Register,
    offset: i16,
}

/// The place `offset` bytes behind the address in `base`.
pub(super) fn at(base: Register, offset: i16) -> Place {
    Place { base, offset }
}

/// How much of a place is read or written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Width {
    /// 16 bits.
    Half = 0x08,
    /// 32 bits.
    Word = 0x00,
    /// 64 bits.
    Double = 0x18,
}

/// The second operand of an instruction: a register, or a number that is extended by its sign.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand {
    Register(Register),
    Number(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// A comparison of numbers without sign.
#[derive(Debug, Clone, Copy)]
pub(super) enum Is {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
    Less = 0xa0,
}

/// A function of the kernel that programs may call (`___BPF_FUNC_MAPPER` of
/// include/uapi/linux/bpf.h).
#[derive(Debug, Clone, Copy)]
pub(super) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    SetSocketEvents = 59,
    SocketStorage = 107,
    NamespaceCookie = 122,
}

/// A place in a program that jumps lead to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    /// The place of each label, once it is known.
    labels: Vec<Option<usize>>,
    /// The jumps, with the labels that they lead to.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label, whose place is given later by [`Assembler::place`].
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Makes the next instruction the label's place.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `to = from`, with 64 bits.
    pub(super) fn set(&mut self, to: Register, from: impl Into<Operand>) {
        self.arithmetic(MOVE, to, from.into());
    }

    /// `to += number`, with 64 bits.
    pub(super) fn add(&mut self, to: Register, number: i32) {
        self.arithmetic(ADD, to, number.into());
    }

    /// `to |= from`, with 64 bits.
    pub(super) fn or(&mut self, to: Register, from: impl Into<Operand>) {
        self.arithmetic(OR, to, from.into());
    }

    /// Swaps the two low bytes of a register where the machine's order of bytes is not the
    /// network's, and clears the others.
    pub(super) fn network_order_16(&mut self, register: Register) {
        self.push(END | TO_NETWORK | ALU, register, Register(0), 0, 16);
    }

    /// `to = number`, with all 64 bits.
    pub(super) fn set_wide(&mut self, to: Register, number: u64) {
        self.push_wide(to, Register(0), number);
    }

    /// `to = map`.
    pub(super) fn set_map<const K: usize, const V: usize>(&mut self, to: Register, map: &Map<K, V>) {
        self.push_wide(to, MAP_BY_DESCRIPTOR, map.as_fd().as_raw_fd() as u64);
    }

    /// `to = &place`.
    pub(super) fn set_address(&mut self, to: Register, place: Place) {
        self.set(to, place.base);
        self.add(to, place.offset.into());
    }

    /// `to = *place`, extended by zeros.
    pub(super) fn load(&mut self, width: Width, to: Register, place: Place) {
        self.push(LOAD | MEMORY | width as u8, to, place.base, place.offset, 0);
    }

    /// `*place = from`. A number cannot be stored to a program's context.
    pub(super) fn store(&mut self, width: Width, place: Place, from: impl Into<Operand>) {
        match from.into() {
            Operand::Register(from) => {
                self.push(STORE_REGISTER | MEMORY | width as u8, place.base, from, place.offset, 0);
            }
            Operand::Number(number) => {
                self.push(STORE_NUMBER | MEMORY | width as u8, place.base, Register(0), place.offset, number);
            }
        }
    }

    /// Calls a function of the kernel, whose answer is in [`RESULT`].
    pub(super) fn call(&mut self, helper: Helper) {
        self.push(JUMP | CALL, Register(0), Register(0), 0, helper as i32);
    }

    /// Jumps to a label.
    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP | ALWAYS, Register(0), Register(0), 0, 0);
    }

    /// Jumps to a label if a register compares so with the operand, with 64 bits.
    pub(super) fn jump_if(&mut self, register: Register, is: Is, operand: impl Into<Operand>, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.with_operand(JUMP | is as u8, register, operand.into());
    }

    /// Jumps to a label if the low 32 bits of a register compare so with the number. A loaded word
    /// has no sign, and a number has one: with 64 bits they would differ.
    pub(super) fn jump_if_word(&mut self, register: Register, is: Is, number: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.with_operand(JUMP_32 | is as u8, register, number.into());
    }

    /// Ends the program with a number.
    pub(super) fn answer(&mut self, number: i32) {
        self.set(RESULT, number);
        self.push(JUMP | EXIT, Register(0), Register(0), 0, 0);
    }

    /// The finished program.
    ///
    /// # Panics
    ///
    /// Panics if a label has no place, or is further away than a jump reaches.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (jump, Label(label)) in self.jumps {
            let place = self.labels[label].expect("each label that is jumped to has a place");
            // A jump counts from the instruction behind it.
            let distance = place as isize - jump as isize - 1;
            self.instructions[jump].offset = distance.try_into().expect("programs are shorter than 2^15 instructions");
        }
        self.instructions
    }

    fn arithmetic(&mut self, operation: u8, to: Register, operand: Operand) {
        self.with_operand(ALU_64 | operation, to, operand);
    }

    fn with_operand(&mut self, code: u8, register: Register, operand: Operand) {
        match operand {
            Operand::Register(source) => self.push(code | BY_REGISTER, register, source, 0, 0),
            Operand::Number(number) => self.push(code, register, Register(0), 0, number),
        }
    }

    /// The one instruction that takes two: a load of 64 bits.
    fn push_wide(&mut self, to: Register, kind: Register, number: u64) {
        self.push(LOAD_WIDE, to, kind, 0, number as u32 as i32);
        self.push(0, Register(0), Register(0), 0, (number >> 32) as u32 as i32);
    }

    fn push(&mut self, code: u8, destination: Register, source: Register, offset: i16, immediate: i32) {
        // They are bit fields of the kernel's structure, whose order is that of the bytes.
        let registers =
            if cfg!(target_endian = "little") { source.0 << 4 | destination.0 } else { destination.0 << 4 | source.0 };
        self.instructions.push(Instruction { code, registers, offset, immediate });
    }
}

// Classes of instructions, in the three low bits.
const LOAD: u8 = 0x01;
const STORE_NUMBER: u8 = 0x02;
const STORE_REGISTER: u8 = 0x03;
const ALU: u8 = 0x04;
const JUMP: u8 = 0x05;
const JUMP_32: u8 = 0x06;
const ALU_64: u8 = 0x07;

// Operations, in the four high bits.
const ADD: u8 = 0x00;
const OR: u8 = 0x40;
const MOVE: u8 = 0xb0;
const END: u8 = 0xd0;
const ALWAYS: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

/// The second operand is a register.
const BY_REGISTER: u8 = 0x08;
/// To the order of bytes of the network, big-endian.
const TO_NETWORK: u8 = 0x08;
/// The address is a register and an offset.
const MEMORY: u8 = 0x60;
/// 64 bits that lie in this instruction and the next.
const LOAD_WIDE: u8 = 0x18;
/// In place of a source register of [`LOAD_WIDE`]: the number is a map's file descriptor.
const MAP_BY_DESCRIPTOR: Register = Register(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(assembler: Assembler) -> Vec<(u8, i16, i32)> {
        assembler.finish().into_iter().map(|i| (i.code, i.offset, i.immediate)).collect()
    }

    /// The codes are those of `BPF_MOV64_IMM`, `BPF_LDX_MEM` and their kin in the kernel's
    /// include/linux/filter.h.
    #[test]
    fn instructions_have_the_kernels_codes() {
        let mut a = Assembler::default();
        a.set(SAVED_1, ARGUMENT_1);
        a.load(Width::Word, ARGUMENT_2, at(SAVED_1, 24));
        a.load(Width::Double, ARGUMENT_2, at(SAVED_1, 64));
        a.network_order_16(ARGUMENT_2);
        a.store(Width::Word, at(SAVED_1, 4), ARGUMENT_2);
        a.store(Width::Half, at(FRAME, -8), 7);
        a.set_wide(ARGUMENT_2, 0x1_0000_0002);
        a.call(Helper::MapLookup);
        a.answer(1);
        let expected = [
            (0xbf, 0, 0),
            (0x61, 24, 0),
            (0x79, 64, 0),
            (0xdc, 0, 16),
            (0x63, 4, 0),
            (0x6a, -8, 7),
            (0x18, 0, 2),
            (0x00, 0, 1),
            (0x85, 0, 1),
            (0xb7, 0, 1),
            (0x95, 0, 0),
        ];
        assert_eq!(bytes(a), expected);
    }

    #[test]
    fn jumps_lead_to_their_labels_in_both_directions() {
        let mut a = Assembler::default();
        let (back, ahead) = (a.label(), a.label());
        a.place(back);
        a.jump_if(RESULT, Is::Equal, 0, ahead);
        a.jump(back);
        a.place(ahead);
        a.answer(0);
        assert_eq!(bytes(a)[..2], [(0x15, 1, 0), (0x05, -2, 0)]);
    }

    #[test]
    #[should_panic(expected = "each label that is jumped to has a place")]
    fn label_without_a_place_is_a_broken_program() {
        let mut a = Assembler::default();
        let nowhere = a.label();
        a.jump(nowhere);
        let _ = a.finish();
    }
}
