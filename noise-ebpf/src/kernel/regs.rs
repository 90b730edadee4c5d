//! The registers with which a system call was made: they are the same at its end.

use super::{
    Access, Pointer, REGS_FIFTH, REGS_FIRST, REGS_FOURTH, REGS_NUMBER, REGS_SECOND, REGS_THIRD,
};

#[derive(Clone, Copy)]
pub struct Regs<A> {
    access: A,
    at: Pointer,
}

impl<A: Access> Regs<A> {
    /// The registers that are the first argument.
    #[inline(always)]
    pub fn argument(access: A) -> Self {
        Self { access, at: access.pointer(0) }
    }

    /// Number of the call.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.access.load(self.at, REGS_NUMBER.load())
    }

    /// An argument of the call, of the first five; 0 where there is none of that index.
    #[inline(always)]
    pub fn get(self, index: u32) -> u64 {
        let (access, at) = (self.access, self.at);
        match index {
            0 => access.load(at, REGS_FIRST.load()),
            1 => access.load(at, REGS_SECOND.load()),
            2 => access.load(at, REGS_THIRD.load()),
            3 => access.load(at, REGS_FOURTH.load()),
            4 => access.load(at, REGS_FIFTH.load()),
            _ => 0,
        }
    }
}
