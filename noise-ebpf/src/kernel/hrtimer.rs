//! High-resolution timers.

use aya_ebpf::helpers::bpf_probe_read_kernel;

use super::{Access, HRTIMER_FUNCTION, Pointer, present};

#[derive(Clone, Copy)]
pub struct Hrtimer<A> {
    access: A,
    at: Pointer,
}

impl<A: Access> Hrtimer<A> {
    /// The timer that is the first argument.
    #[inline(always)]
    pub fn argument(access: A) -> Self {
        Self { access, at: access.pointer(0) }
    }

    /// Address: to keep, but not to calculate with.
    #[inline(always)]
    pub fn pointer(self) -> u64 {
        self.at as u64
    }

    /// The same as a number.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.access.address(0)
    }

    /// Address of its function; 0 where this kernel does not say.
    #[inline(always)]
    pub fn function(self) -> u64 {
        let field = HRTIMER_FUNCTION.load();
        if present(field) { self.access.load(self.at, field) } else { 0 }
    }
}

/// The time that the `index`th argument is (Linux 7.3) or points to (6.18 and before): an address of the kernel
/// has its highest bit set, a time has not. 0 where it cannot be read.
#[inline(always)]
pub fn time<A: Access>(access: A, index: usize) -> u64 {
    // The verifiers of older kernels know no pointers to numbers, and refuse to load one.
    let argument = access.address(index);
    if argument >> 63 == 0 {
        return argument;
    }
    // SAFETY: the helper accepts any address and fails where it cannot be read.
    unsafe { bpf_probe_read_kernel(argument as *const u64) }.unwrap_or_default()
}
