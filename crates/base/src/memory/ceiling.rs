//! The memory ceiling (`--memory-limit`): how much the process may take, and who is refused when.
//!
//! Two marks. From the lower one on, what adds rows is refused; between the two is the reserve,
//! from which deletions, reads and rollbacks are served; at the upper one, whatever needs more than
//! a little is refused too. Nobody is stopped in the middle of a change: who would need memory asks
//! before, and a transaction that is refused is rolled back as a whole.
//!
//! Memory is the process's, and so is the ceiling that it is compared with. What one call,
//! statement or transaction may take is a server's own: [`crate::settings`].

use super::{BYTES_USED, LARGE_BYTES_USED, heap};
use crate::UserError;
use crate::error::ErrorKind;
use crate::limits::MEMORY_RESERVE_PART;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static ROWS_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Another node, which has to keep the same rows and has no room; 0: none.
static FULL_NODE: AtomicU32 = AtomicU32::new(0);

/// None: there is no ceiling.
pub(super) fn set_ceiling(bytes: Option<usize>) {
    LIMIT.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
    set_rows_limit();
}

/// Rows are refused as long as this node has no room for them, by its number.
pub fn refuse_rows_for(node: Option<u32>) {
    let node = node.unwrap_or(0);
    if FULL_NODE.swap(node, Ordering::Relaxed) != node {
        set_rows_limit();
    }
}

/// Who asks for room looks at one number.
fn set_rows_limit() {
    let bytes = if FULL_NODE.load(Ordering::Relaxed) == 0 { rows_limit() } else { 0 };
    ROWS_LIMIT.store(bytes, Ordering::Relaxed);
}

/// From this many bytes in use on this node has no room for rows; usize::MAX: without end.
#[inline]
pub(super) fn rows_limit() -> usize {
    limit().map_or(usize::MAX, |bytes| bytes - bytes / MEMORY_RESERVE_PART)
}

/// Whether it has, whatever others have.
pub fn has_room_for_rows() -> bool {
    used() < rows_limit()
}

pub fn limit() -> Option<usize> {
    Some(LIMIT.load(Ordering::Relaxed)).filter(|limit| *limit != usize::MAX)
}

/// Bytes in use: pages, and what the allocator has given out where the process counts it
/// ([`super::CountingAllocator`]).
#[inline]
pub fn used() -> usize {
    let blocks = BYTES_USED.load(Ordering::Relaxed);
    let large = LARGE_BYTES_USED.load(Ordering::Relaxed);
    // Large blocks come from the allocator, which counts them already.
    blocks.saturating_sub(large) + heap::bytes().max(large)
}

/// Whether rows may be added.
#[inline]
pub fn takes_rows() -> bool {
    used() < ROWS_LIMIT.load(Ordering::Relaxed)
}

/// Whether there is room for what is not a row: the memory of a query, of a result, of a
/// transaction's undo.
#[inline]
pub fn has_room() -> bool {
    used() < LIMIT.load(Ordering::Relaxed)
}

/// What whoever is refused is told.
#[cold]
pub fn refused(what: &str) -> UserError {
    let node = FULL_NODE.load(Ordering::Relaxed);
    if node != 0 && has_room() {
        let text = format!("no memory for {what}: node {node}, which keeps a copy, has reached its memory limit");
        return UserError::new(ErrorKind::Limit, "53200", text).with_hint(
            "delete rows that are not needed, in several steps where they are many, or truncate tables; or start that node \
             with a higher --memory-limit or more memory",
        );
    }
    let limit = limit().unwrap_or_default();
    UserError::new(ErrorKind::Limit, "53200", format!("no memory for {what}: the server's memory limit is reached"))
        .with_detail(format!("{} of {limit} bytes are in use, of which 1/{MEMORY_RESERVE_PART} is a reserve", used()))
        .with_hint(
            "delete rows that are not needed, in several steps where they are many, or truncate tables; or start the server \
             with a higher --memory-limit or more memory",
        )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::limits::PAGE_BYTES;
    use crate::memory::{Block, set_limit};
    use std::sync::Mutex;

    /// Held by tests that set limits of the process or look at them.
    pub static ALONE: Mutex<()> = Mutex::new(());

    /// The only test of this process that sets the limit; others that run beside it use little.
    #[test]
    fn rows_are_refused_before_everything_else() {
        let _alone = ALONE.lock().expect("no test fails with it");
        assert!(limit().is_none() && takes_rows() && has_room());
        let total = 64 << 20;
        set_limit(Some(used() + total));
        let (mut blocks, mut rows_refused_at) = (Vec::new(), None);
        while has_room() {
            if !takes_rows() && rows_refused_at.is_none() {
                rows_refused_at = Some(blocks.len());
                let error = refused("a row");
                assert_eq!((error.kind(), error.code()), (ErrorKind::Limit, "53200"));
                assert!(error.to_string().contains("--memory-limit"), "{error}");
            }
            blocks.push(Block::zeroed(PAGE_BYTES));
        }
        let refused_at = rows_refused_at.expect("rows are refused first");
        assert!(refused_at < blocks.len() && blocks.len() * PAGE_BYTES <= 2 * total);
        drop(blocks);
        assert!(takes_rows() && has_room(), "and it is as before when there is memory again");
        // Of a node that keeps a copy of each row, the least room counts.
        refuse_rows_for(Some(7));
        assert!(!takes_rows() && has_room());
        assert!(refused("a row").to_string().contains("node 7, which keeps a copy, has reached its memory limit"));
        set_limit(Some(used() + total));
        assert!(!takes_rows(), "whatever is set here");
        refuse_rows_for(None);
        assert!(takes_rows() && refused("a row").to_string().contains("the server's memory limit"));
        set_limit(None);
        assert!(limit().is_none());
    }
}
