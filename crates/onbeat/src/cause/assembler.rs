//! An assembler for BPF instructions (`Documentation/bpf/standardization/instruction-set.rst`).

/// One of the ten registers; `R10` is the read-only frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register(u8);

pub(crate) const R0: Register = Register(0);
pub(crate) const R1: Register = Register(1);
pub(crate) const R2: Register = Register(2);
pub(crate) const R3: Register = Register(3);
pub(crate) const R4: Register = Register(4);
pub(crate) const R5: Register = Register(5);
pub(crate) const R6: Register = Register(6);
pub(crate) const R7: Register = Register(7);
pub(crate) const R8: Register = Register(8);
pub(crate) const R9: Register = Register(9);
pub(crate) const FRAME: Register = Register(10);

/// Functions of the kernel that a program may call (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelCall {
    MapLookup = 1,
    KtimeNs = 5,
    ProcessorId = 8,
    GetStack = 67,
    ProbeReadKernel = 113,
    CurrentTypedTask = 158,
}

/// Width of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
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
pub(crate) struct JumpTarget(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, JumpTarget)>,
    places: Vec<Option<usize>>,
}

impl Assembler {
    fn emit(
        &mut self,
        operation: u8,
        (to, from): (Register, Register),
        offset: i16,
        immediate: i32,
    ) {
        let registers =
            if cfg!(target_endian = "little") { from.0 << 4 | to.0 } else { to.0 << 4 | from.0 };
        let mut bytes = [operation, registers, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..8].copy_from_slice(&immediate.to_ne_bytes());
        self.code.push(u64::from_ne_bytes(bytes));
    }

    pub(crate) fn set(&mut self, to: Register, immediate: i32) {
        self.emit(0xb7, (to, R0), 0, immediate);
    }

    /// Sets all 64 bits (two instructions).
    pub(crate) fn set_double(&mut self, to: Register, immediate: u64) {
        self.emit(0x18, (to, R0), 0, immediate as i32);
        self.emit(0, (R0, R0), 0, (immediate >> 32) as i32);
    }

    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.emit(0xbf, (to, from), 0, 0);
    }

    pub(crate) fn add(&mut self, to: Register, immediate: i32) {
        self.emit(0x07, (to, R0), 0, immediate);
    }

    pub(crate) fn and(&mut self, to: Register, immediate: i32) {
        self.emit(0x57, (to, R0), 0, immediate);
    }

    pub(super) fn or(&mut self, to: Register, from: Register) {
        self.emit(0x4f, (to, from), 0, 0);
    }

    pub(crate) fn subtract(&mut self, from: Register, what: Register) {
        self.emit(0x1f, (from, what), 0, 0);
    }

    /// Converts the low 16 bits between the network's byte order and this machine's, and clears the
    /// others.
    pub(crate) fn read_network_order(&mut self, register: Register) {
        self.emit(0xdc, (register, R0), 0, 16);
    }

    pub(super) fn shift_left(&mut self, to: Register, immediate: i32) {
        self.emit(0x67, (to, R0), 0, immediate);
    }

    /// Atomically adds `register` to the double word at `at`; `register` receives the previous
    /// value.
    pub(crate) fn fetch_add(&mut self, at: Register, register: Register) {
        self.emit(0xdb, (at, register), 0, 0x01);
    }

    pub(crate) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(0x61 | width.bits(), (to, from), offset, 0);
    }

    pub(crate) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.emit(0x63 | width.bits(), (to, from), offset, 0);
    }

    pub(crate) fn store_zero(&mut self, width: Width, to: Register, offset: i16) {
        self.store_number(width, to, offset, 0);
    }

    pub(crate) fn store_number(&mut self, width: Width, to: Register, offset: i16, number: i32) {
        self.emit(0x62 | width.bits(), (to, R0), offset, number);
    }

    pub(crate) fn call(&mut self, helper: KernelCall) {
        self.emit(0x85, (R0, R0), 0, helper as i32);
    }

    /// Loads the address of a map by its descriptor (two instructions).
    pub(crate) fn map(&mut self, to: Register, descriptor: i32) {
        self.emit(0x18, (to, Register(1)), 0, descriptor);
        self.emit(0, (R0, R0), 0, 0);
    }

    pub(crate) fn new_target(&mut self) -> JumpTarget {
        self.places.push(None);
        JumpTarget(self.places.len() - 1)
    }

    pub(crate) fn bind(&mut self, place: JumpTarget) {
        self.places[place.0] = Some(self.code.len());
    }

    pub(crate) fn jump_if_zero(&mut self, register: Register, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(0x15, (register, R0), 0, 0);
    }

    pub(crate) fn jump_if_not(&mut self, register: Register, immediate: i32, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(0x55, (register, R0), 0, immediate);
    }

    /// Compares all 64 bits as unsigned numbers.
    pub(crate) fn jump_if_less(&mut self, a: Register, b: Register, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(0xad, (a, b), 0, 0);
    }

    /// Compares all 64 bits as unsigned numbers.
    pub(crate) fn jump_if_at_most(
        &mut self,
        register: Register,
        immediate: i32,
        place: JumpTarget,
    ) {
        self.jumps.push((self.code.len(), place));
        self.emit(0xb5, (register, R0), 0, immediate);
    }

    /// Compares the low 32 bits.
    pub(crate) fn jump_if_word(&mut self, register: Register, word: u32, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(0x16, (register, R0), 0, word.cast_signed());
    }

    /// Compares the low 32 bits.
    pub(crate) fn jump_if_word_not(&mut self, register: Register, word: u32, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(0x56, (register, R0), 0, word.cast_signed());
    }

    /// Compares all 64 bits.
    pub(crate) fn jump_if_different(&mut self, a: Register, b: Register, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(0x5d, (a, b), 0, 0);
    }

    /// Compares the low 32 bits.
    pub(crate) fn jump_if_equal(&mut self, a: Register, b: Register, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(0x1e, (a, b), 0, 0);
    }

    pub(crate) fn jump(&mut self, place: JumpTarget) {
        self.jumps.push((self.code.len(), place));
        self.emit(0x05, (R0, R0), 0, 0);
    }

    pub(crate) fn exit(&mut self) {
        self.exit_with(0);
    }

    pub(crate) fn exit_with(&mut self, answer: i32) {
        self.set(R0, answer);
        self.emit(0x95, (R0, R0), 0, 0);
    }

    /// Returns the instructions with all jumps resolved. A jump to an unbound target falls through
    /// to the next instruction.
    pub(crate) fn finish(mut self) -> Vec<u64> {
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
