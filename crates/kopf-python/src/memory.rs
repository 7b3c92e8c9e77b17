//! Memory that is free, but that the allocator has not returned to the system.

/// Returns it, where the C library can do that.
///
/// The module uses the allocator of the process, which is safe wherever the module is loaded, but which keeps the peak
/// of a burst for the next one. The engine's thread calls this when an operator becomes idle after much work.
pub(crate) fn give_back() {
    // SAFETY: any thread may call it at any time, and it takes no pointers.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}
