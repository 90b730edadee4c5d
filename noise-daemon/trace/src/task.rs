//! A thread, as events name it.

use std::fmt;

/// A task's name: up to 16 bytes, filled with zeroes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// The first 16 bytes of a name.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; 16];
        for (place, &byte) in bytes.iter_mut().zip(name.iter().take_while(|&&byte| byte != 0)) {
            *place = byte;
        }
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.bytes()))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.bytes()))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    pub comm: Comm,
    /// Its id; 0 is the idle task of the CPU.
    pub tid: i32,
    /// Its priority as the trace has it: LTTng subtracts 100 from the kernel's.
    pub prio: i32,
}
