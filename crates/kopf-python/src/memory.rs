//! The allocator of the module.

use mimalloc::MiMalloc;

/// What is kept for long is small and scattered over what is needed for a moment. This one keeps sizes apart, and
/// can give back what is free: with that of the C library, a listing or a burst of timers holds its peak for ever.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Gives back to the system what this thread and those that have ended do not use any more.
pub(crate) fn give_back() {
    // SAFETY: it has no preconditions; it is only in C.
    #[allow(unsafe_code)]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}
