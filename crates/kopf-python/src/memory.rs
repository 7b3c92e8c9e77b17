//! Memory that is free, but still the process's.

/// Gives it back to the system, where the C library can do that.
///
/// The allocator is that of the process: it is safe wherever the module is loaded, but it keeps the peak of a burst for the next
/// one to come. Called in a thread of the engine, when an operator comes to rest after much work.
pub(crate) fn give_back() {
    // SAFETY: it may be called at any time by any thread, and takes no pointers.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}
