//! The heap: giving back what is free.

/// Gives memory that is free at the moment back to the system: after work that took much once. The
/// allocator of musl does so by itself.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}
