//! An assembler for BPF instructions (`Documentation/bpf/standardization/instruction-set.rst`).

/// One of the ten registers; `R10` is the read-only frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(u8);

pub const R0: Register = Register(0);
pub const R1: Register = Register(1);
pub const R2: Register = Register(2);
pub const R3: Register = Register(3);
pub const R4: Register = Register(4);
pub const R5: Register = Register(5);
pub const R6: Register = Register(6);
pub const R7: Register = Register(7);
pub const R8: Register = Register(8);
pub const R9: Register = Register(9);
pub const FRAME: Register = Register(10);

/// Functions of the kernel that a program may call (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCall {
    MapLookup = 1,
    KtimeNs = 5,
    ProcessorId = 8,
    GetStack = 67,
    ProbeReadKernel = 113,
    CurrentTypedTask = 158,
}

/// Width of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Byte,
    Half,
    Word,
    Double,
}

impl Width {
    const fn bits(self) -> u8 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
            Self::Double => 0x18,
        }
    }
}

/// The target of a jump; [`Assembler::bind`] fills in its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JumpTarget(usize);

/// The fields of an instruction.
#[derive(Clone, Copy, Debug)]
struct Instruction {
    operation: u8,
    to: Register,
    from: Register,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    const ZERO: Self = Self { operation: 0, to: R0, from: R0, offset: 0, immediate: 0 };
}

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, JumpTarget)>,
    places: Vec<Option<usize>>,
}

impl Assembler {
    fn emit(&mut self, instruction: Instruction) {
        let Instruction { operation, to, from, offset, immediate } = instruction;
        let registers =
            if cfg!(target_endian = "little") { from.0 << 4 | to.0 } else { to.0 << 4 | from.0 };
        let mut bytes = [operation, registers, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..8].copy_from_slice(&immediate.to_ne_bytes());
        self.code.push(u64::from_ne_bytes(bytes));
    }

    pub fn set(&mut self, to: Register, immediate: i32) {
        self.emit(Instruction { operation: 0xb7, to, immediate, ..Instruction::ZERO });
    }

    /// Sets all 64 bits (two instructions).
    pub fn set_double(&mut self, to: Register, immediate: u64) {
        self.emit(Instruction {
            operation: 0x18,
            to,
            immediate: immediate as i32,
            ..Instruction::ZERO
        });
        self.emit(Instruction {
            operation: 0,
            immediate: (immediate >> 32) as i32,
            ..Instruction::ZERO
        });
    }

    pub fn copy(&mut self, to: Register, from: Register) {
        self.emit(Instruction { operation: 0xbf, to, from, ..Instruction::ZERO });
    }

    pub fn add(&mut self, to: Register, immediate: i32) {
        self.emit(Instruction { operation: 0x07, to, immediate, ..Instruction::ZERO });
    }

    pub fn and(&mut self, to: Register, immediate: i32) {
        self.emit(Instruction { operation: 0x57, to, immediate, ..Instruction::ZERO });
    }

    pub(super) fn or(&mut self, to: Register, from: Register) {
        self.emit(Instruction { operation: 0x4f, to, from, ..Instruction::ZERO });
    }

    pub fn subtract(&mut self, from: Register, what: Register) {
        self.emit(Instruction { operation: 0x1f, to: from, from: what, ..Instruction::ZERO });
    }

    /// Converts the low 16 bits between the network's byte order and this machine's, and clears the
    /// others.
    pub fn read_network_order(&mut self, register: Register) {
        self.emit(Instruction {
            operation: 0xdc,
            to: register,
            immediate: 16,
            ..Instruction::ZERO
        });
    }

    pub(super) fn shift_left(&mut self, to: Register, immediate: i32) {
        self.emit(Instruction { operation: 0x67, to, immediate, ..Instruction::ZERO });
    }

    /// Atomically adds `register` to the double word at `at`; `register` receives the previous
    /// value.
    pub fn fetch_add(&mut self, at: Register, register: Register) {
        self.emit(Instruction {
            operation: 0xdb,
            to: at,
            from: register,
            immediate: 0x01,
            ..Instruction::ZERO
        });
    }

    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(Instruction {
            operation: 0x61 | width.bits(),
            to,
            from,
            offset,
            ..Instruction::ZERO
        });
    }

    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.emit(Instruction {
            operation: 0x63 | width.bits(),
            to,
            from,
            offset,
            ..Instruction::ZERO
        });
    }

    pub fn store_zero(&mut self, width: Width, to: Register, offset: i16) {
        self.store_number(width, to, offset, 0);
    }

    pub fn store_number(&mut self, width: Width, to: Register, offset: i16, number: i32) {
        self.emit(Instruction {
            operation: 0x62 | width.bits(),
            to,
            offset,
            immediate: number,
            ..Instruction::ZERO
        });
    }

    pub fn call(&mut self, helper: KernelCall) {
        self.emit(Instruction { operation: 0x85, immediate: helper as i32, ..Instruction::ZERO });
    }

    /// Loads the address of a map by its descriptor (two instructions).
    pub fn map(&mut self, to: Register, descriptor: i32) {
        self.emit(Instruction {
            operation: 0x18,
            to,
            from: Register(1),
            immediate: descriptor,
            ..Instruction::ZERO
        });
        self.emit(Instruction { operation: 0, ..Instruction::ZERO });
    }

    pub fn new_target(&mut self) -> JumpTarget {
        self.places.push(None);
        JumpTarget(self.places.len() - 1)
    }

    pub fn bind(&mut self, place: JumpTarget) {
        self.places[place.0] = Some(self.code.len());
    }

    pub fn jump_if_zero(&mut self, register: Register, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction { operation: 0x15, to: register, ..Instruction::ZERO });
    }

    pub fn jump_if_not(&mut self, register: Register, immediate: i32, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction { operation: 0x55, to: register, immediate, ..Instruction::ZERO });
    }

    /// Compares all 64 bits as unsigned numbers.
    pub fn jump_if_less(&mut self, a: Register, b: Register, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction { operation: 0xad, to: a, from: b, ..Instruction::ZERO });
    }

    /// Compares all 64 bits as unsigned numbers.
    pub fn jump_if_at_most(&mut self, register: Register, immediate: i32, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction { operation: 0xb5, to: register, immediate, ..Instruction::ZERO });
    }

    /// Compares the low 32 bits.
    pub fn jump_if_word(&mut self, register: Register, word: u32, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction {
            operation: 0x16,
            to: register,
            immediate: word.cast_signed(),
            ..Instruction::ZERO
        });
    }

    /// Compares the low 32 bits.
    pub fn jump_if_word_not(&mut self, register: Register, word: u32, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction {
            operation: 0x56,
            to: register,
            immediate: word.cast_signed(),
            ..Instruction::ZERO
        });
    }

    /// Compares all 64 bits.
    pub fn jump_if_different(&mut self, a: Register, b: Register, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction { operation: 0x5d, to: a, from: b, ..Instruction::ZERO });
    }

    /// Compares the low 32 bits.
    pub fn jump_if_equal(&mut self, a: Register, b: Register, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction { operation: 0x1e, to: a, from: b, ..Instruction::ZERO });
    }

    pub fn jump(&mut self, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(Instruction { operation: 0x05, ..Instruction::ZERO });
    }

    pub fn exit(&mut self) {
        self.exit_with(0);
    }

    pub fn exit_with(&mut self, answer: i32) {
        self.set(R0, answer);
        self.emit(Instruction { operation: 0x95, ..Instruction::ZERO });
    }

    /// Returns the instructions with all jumps resolved. A jump to an unbound target falls through
    /// to the next instruction.
    pub fn finish(mut self) -> Vec<u64> {
        for (at, place) in &self.jumps {
            let target = self.places.get(place.0).copied().flatten().unwrap_or(at + 1);
            let distance = i16::try_from(target as i64 - *at as i64 - 1).unwrap_or(0);
            let mut bytes = self.code[*at].to_ne_bytes();
            bytes[2..4].copy_from_slice(&distance.to_ne_bytes());
            self.code[*at] = u64::from_ne_bytes(bytes);
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_documented_form() {
        let mut assembler = Assembler::default();
        let end = assembler.new_target();
        assembler.load(Width::Double, R7, R1, 8);
        assembler.jump_if_zero(R7, end);
        assembler.store(Width::Word, FRAME, -4, R7);
        assembler.bind(end);
        assembler.exit();
        assembler.fetch_add(R0, R1);
        assembler.jump_if_at_most(R1, 9, end);
        let code: Vec<[u8; 8]> = assembler.finish().iter().map(|word| word.to_ne_bytes()).collect();

        if cfg!(target_endian = "little") {
            assert_eq!(code[0], [0x79, 0x17, 8, 0, 0, 0, 0, 0], "r7 = *(u64 *)(r1 + 8)");
            assert_eq!(code[1], [0x15, 0x07, 1, 0, 0, 0, 0, 0], "if r7 == 0 goto +1");
            assert_eq!(code[2], [0x63, 0x7a, 0xfc, 0xff, 0, 0, 0, 0], "*(u32 *)(r10 - 4) = r7");
            assert_eq!(code[4], [0x95, 0, 0, 0, 0, 0, 0, 0], "exit");
            assert_eq!(
                code[5],
                [0xdb, 0x10, 0, 0, 1, 0, 0, 0],
                "r1 = atomic_fetch_add((u64 *)(r0 + 0), r1)"
            );
            assert_eq!(code[6], [0xb5, 0x01, 0xfc, 0xff, 9, 0, 0, 0], "if r1 <= 9 goto -4");
        }

        assert_eq!(code.len(), 7);
    }
}
