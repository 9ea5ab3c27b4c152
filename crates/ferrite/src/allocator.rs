//! The process's allocator, and how soon it gives freed memory back to the system.
//!
//! It keeps what is freed for a second, unless told otherwise, and gives it back only when somebody
//! allocates again: after a burst of large answers the process would keep their memory for good.

use ferrite_base::memory::{self, CountingAllocator};
use std::ffi::{c_int, c_long};
use std::thread;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: CountingAllocator<mimalloc::MiMalloc> = CountingAllocator(mimalloc::MiMalloc);

/// Freed memory goes back after so long, if it was not used again. Buffers of batches come and go
/// at 10 ms and more under load: with that time as the delay a tenth of the work of large answers
/// was to take their memory anew.
const PURGE_DELAY_MS: c_long = 100;
/// `mi_option_purge_delay` in mimalloc.h.
const PURGE_DELAY_OPTION: c_int = 15;

/// How often to look whether much was freed, and how much that is: one part in this many of the
/// memory limit.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const MUCH_PART: usize = 64;
const MUCH_BYTES_MIN: usize = 32 << 20;

// Of the library that the crate `mimalloc` links.
unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// Sees to it, from now on, that what was freed goes back.
pub fn give_back() -> std::io::Result<()> {
    // SAFETY: sets a number that the library reads whenever it frees, and has it forget when it was
    // going to look by the old one; any thread may.
    unsafe {
        mi_option_set(PURGE_DELAY_OPTION, PURGE_DELAY_MS);
        mi_collect(true);
    }
    thread::Builder::new().name("allocator".to_owned()).spawn(watch).map(drop)
}

/// Ends with the process.
fn watch() {
    let mut most = 0;
    loop {
        thread::sleep(LOOK_EVERY);
        let used = memory::used();
        most = most.max(used);
        if most - used >= MUCH_BYTES_MIN.max(memory::limit().unwrap_or_default() / MUCH_PART) {
            // SAFETY: any thread may; it frees nothing that is in use.
            unsafe { mi_collect(true) };
            most = used;
        }
    }
}
