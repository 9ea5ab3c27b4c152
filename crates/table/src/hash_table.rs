//! The hash index's table: segmented extendible hashing, so that no insertion ever pauses for a
//! rehash of all.
//!
//! After Fagin, Nievergelt, Pippenger, Strong: "Extendible hashing" (1979). A directory, indexed by
//! the top bits of an entry's *tag*, leads to segments of up to 256 buckets; a bucket is one cache
//! line of eight tags and eight row ids. The tag is 32 bits of the key's hash and all that the
//! table knows of a key: its top bits choose the segment, its low bits the bucket in it, so a
//! segment that is split never looks at rows. Callers tell apart keys with equal tags.
//!
//! Many entries of one tag (one key a thousand times in an index that is not unique, or chosen
//! keys) cannot be split apart; they go to an ordered set beside the segments.
//!
//! **Splits are spread over time.** Were tags spread evenly, all segments would be full at nearly
//! the same number of entries, and the work of a whole doubling would be done within a twentieth of
//! it. So tags are spread unevenly, on purpose ([`tag_of`]): twice as densely at the first as at
//! the last, after Martin: "Spiral storage" (1979). With *n* entries a segment at place *q* (its
//! share of the way from the first tag to the last) that *d* bits lead to holds *n* · *f(q)* /
//! 2^*d*, where *f(q)* = 1.5 / √(1 + 3*q*), and is full when *n* is a constant times 2^*d* · √(1 +
//! 3*q*). That moves from the first segment to the last while *n* doubles, and there the first, of
//! one bit more, are full again since *f(0)* = 2 *f(1)*. The invariant, whatever *n*: in each
//! doubling each segment splits once, at its own moment; in each stretch of it there are between
//! 2/3 and 4/3 as many splits as in the mean; and segments hold, in the mean of all, between 0.67
//! and 0.71 of what they hold when they are full.

use ferrite_base::RowId;
use ferrite_base::limits::PAGE_BYTES;
use ferrite_base::memory::{self, Block};
use std::collections::{BTreeSet, btree_set};
use std::ptr::NonNull;

const ENTRIES: usize = 8;
/// Buckets of a grown segment: one page.
const BUCKETS_MAX: usize = PAGE_BYTES / size_of::<Bucket>();
const EMPTY: u32 = 0;
const TOMBSTONE: u32 = 1;
/// What is no tag: the one of a key that is not known.
pub(crate) const NO_TAG: u32 = EMPTY;
/// Entries of one tag in a segment; more go to the overflow set.
const SAME_TAG_MAX: u32 = 16;
const DEPTH_MAX: u32 = 24;
/// Two segments become one when that will be filled to at most one part in this many.
const MERGED_PART: usize = 2;

const _: () = assert!(BUCKETS_MAX == 256 && DEPTH_MAX + BUCKETS_MAX.trailing_zeros() <= 32);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u32; ENTRIES],
    rows: [u32; ENTRIES],
}

const EMPTY_BUCKET: Bucket = Bucket { tags: [EMPTY; ENTRIES], rows: [0; ENTRIES] };

impl Bucket {
    /// One bit per entry whose tag is `tag`.
    #[inline(always)]
    fn matches(&self, tag: u32) -> u32 {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::*;
            // SAFETY: SSE2 is part of x86-64; both loads are 16-byte aligned and within the 32
            // bytes of tags.
            unsafe {
                let wanted = _mm_set1_epi32(tag as i32);
                let pointer: *const __m128i = self.tags.as_ptr().cast();
                let low = _mm_cmpeq_epi32(_mm_load_si128(pointer), wanted);
                let high = _mm_cmpeq_epi32(_mm_load_si128(pointer.add(1)), wanted);
                let low = _mm_movemask_ps(_mm_castsi128_ps(low)) as u32;
                let high = _mm_movemask_ps(_mm_castsi128_ps(high)) as u32;
                low | high << 4
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self.tags.iter().enumerate().fold(0, |bits, (i, other)| bits | u32::from(*other == tag) << i)
        }
    }
}

/// Sixteen bytes, as each look-up meets one of thousands.
struct Segment {
    /// Owned: a page where there are as many as a page has, else a boxed slice.
    buckets: NonNull<Bucket>,
    /// Number of buckets, a power of two, less one.
    mask: u16,
    live: u16,
    tombstones: u16,
    /// How many top bits all tags in here share.
    depth: u8,
}

const _: () = assert!(size_of::<Segment>() == 16 && BUCKETS_MAX * ENTRIES <= u16::MAX as usize);

// SAFETY: a segment owns the memory that it points to.
unsafe impl Send for Segment {}
// SAFETY: shared access to a segment is shared access to plain integers.
unsafe impl Sync for Segment {}

impl Segment {
    fn new(buckets: usize, depth: u32) -> Segment {
        let pointer: *mut Bucket = match buckets {
            BUCKETS_MAX => Block::zeroed(PAGE_BYTES).into_raw().0.as_ptr().cast(),
            _ => Box::into_raw(vec![EMPTY_BUCKET; buckets].into_boxed_slice()).cast(),
        };
        let buckets_start = NonNull::new(pointer).expect("memory has an address");
        Segment { buckets: buckets_start, mask: (buckets - 1) as u16, live: 0, tombstones: 0, depth: depth as u8 }
    }

    /// The bytes of a grown segment.
    fn page(&self) -> Option<&[u8]> {
        // SAFETY: buckets are plain numbers without padding, and `new` made this pointer from a
        // page of as many bytes.
        let bytes = || unsafe { std::slice::from_raw_parts(self.buckets.as_ptr().cast(), PAGE_BYTES) };
        (self.buckets().len() == BUCKETS_MAX).then(bytes)
    }

    #[inline(always)]
    fn buckets(&self) -> &[Bucket] {
        // SAFETY: the memory holds mask + 1 buckets: a block is 64-byte aligned and zeros are empty
        // buckets.
        unsafe { std::slice::from_raw_parts(self.buckets.as_ptr(), self.mask as usize + 1) }
    }

    #[inline(always)]
    fn bucket(&self, index: u32) -> &Bucket {
        // SAFETY: the mask keeps the index below the number of buckets.
        unsafe { self.buckets.add((index & self.mask as u32) as usize).as_ref() }
    }

    #[inline(always)]
    fn bucket_mut(&mut self, index: u32) -> &mut Bucket {
        // SAFETY: the mask keeps the index below the number of buckets; `&mut self` is the only
        // access.
        unsafe { self.buckets.add((index & self.mask as u32) as usize).as_mut() }
    }

    fn capacity(&self) -> u32 {
        (self.mask as u32 + 1) * ENTRIES as u32
    }

    /// Room for another entry below four fifths?
    #[inline]
    fn has_room(&self) -> bool {
        (self.live as u32 + self.tombstones as u32 + 1) * 5 <= self.capacity() * 4
    }

    fn bytes(&self) -> usize {
        size_of_val(self.buckets())
    }

    /// Puts an entry that is known to fit.
    fn place(&mut self, tag: u32, row: u32) {
        let mut index = tag;
        loop {
            let bucket = self.bucket_mut(index);
            let free = bucket.matches(EMPTY);
            if free != 0 {
                let entry = free.trailing_zeros() as usize;
                bucket.tags[entry] = tag;
                bucket.rows[entry] = row;
                self.live += 1;
                return;
            }
            index = index.wrapping_add(1);
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u32, u32)> {
        let pairs = self.buckets().iter().flat_map(|bucket| bucket.tags.into_iter().zip(bucket.rows));
        pairs.filter(|(tag, _)| *tag > TOMBSTONE)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.mask as usize + 1 == BUCKETS_MAX {
            // SAFETY: `new` or `move_place` took a page apart for this pointer, which nobody else
            // has.
            drop(unsafe { Block::from_raw(self.buckets.cast(), PAGE_BYTES) });
            return;
        }
        let buckets = std::ptr::slice_from_raw_parts_mut(self.buckets.as_ptr(), self.mask as usize + 1);
        // SAFETY: fewer buckets than a page has are from a box of this length, as `new` made it.
        drop(unsafe { Box::from_raw(buckets) });
    }
}

/// Row ids by tag.
pub(crate) struct HashTable {
    /// Segment numbers by the top `depth` bits of the tag.
    directory: Vec<u32>,
    depth: u32,
    segments: Vec<Segment>,
    /// Numbers of segments that have been merged into others.
    unused: Vec<u32>,
    overflow: BTreeSet<(u32, u32)>,
}

/// The tag of a hash, never one of the two marks. A hash at place *u* of all hashes has the tag at
/// place *q* = *u* - (*u* - *u*²) / 3 of all tags, so tags are 1.5 times as dense as in the mean at
/// the first, 0.75 times at the last. That is reckoned with all 64 bits, so that the tags' low
/// bits, which choose the bucket, stay even.
#[inline]
pub(crate) fn tag_of(hash: u64) -> u32 {
    const THIRD: u64 = u64::MAX / 3;
    let product = |x: u64, y: u64| ((x as u128 * y as u128) >> 64) as u64;
    let place = hash - product(hash - product(hash, hash), THIRD);
    let tag = (place >> 32) as u32;
    if tag > TOMBSTONE { tag } else { tag + 2 }
}

impl HashTable {
    pub(crate) fn new() -> HashTable {
        HashTable {
            directory: vec![0],
            depth: 0,
            segments: vec![Segment::new(1, 0)],
            unused: Vec::new(),
            overflow: BTreeSet::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.live as usize).sum::<usize>() + self.overflow.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(Segment::bytes).sum::<usize>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.directory.capacity() * 4
            + self.overflow.len() * 12
    }

    #[inline(always)]
    fn segment_of(&self, tag: u32) -> usize {
        self.directory[(tag as u64 >> (32 - self.depth)) as usize] as usize
    }

    /// The first row of this tag that `matches`.
    #[inline]
    pub(crate) fn find(&self, tag: u32, mut matches: impl FnMut(RowId) -> bool) -> Option<RowId> {
        let segment = &self.segments[self.segment_of(tag)];
        let mut index = tag;
        for _ in 0..=segment.mask {
            let bucket = segment.bucket(index);
            let mut candidates = bucket.matches(tag);
            while candidates != 0 {
                let row = RowId(bucket.rows[candidates.trailing_zeros() as usize & (ENTRIES - 1)]);
                if matches(row) {
                    return Some(row);
                }
                candidates &= candidates - 1;
            }
            if bucket.matches(EMPTY) != 0 {
                break;
            }
            index = index.wrapping_add(1);
        }
        if self.overflow.is_empty() {
            return None;
        }
        self.overflow.range((tag, 0)..=(tag, u32::MAX)).map(|entry| RowId(entry.1)).find(|row| matches(*row))
    }

    /// All rows of this tag.
    #[inline]
    pub(crate) fn candidates(&self, tag: u32) -> Candidates<'_> {
        let segment = &self.segments[self.segment_of(tag)];
        let overflow =
            if self.overflow.is_empty() { None } else { Some(self.overflow.range((tag, 0)..=(tag, u32::MAX))) };
        Candidates { segment, tag, index: tag, buckets_left: segment.mask as u32 + 1, bits: 0, overflow }
    }

    /// Asks the processor to have the tag's bucket at hand soon.
    #[inline]
    pub(crate) fn prefetch(&self, tag: u32) {
        let segment = &self.segments[self.segment_of(tag)];
        crate::prefetch(std::ptr::from_ref(segment.bucket(tag)).cast());
    }

    pub(crate) fn insert(&mut self, tag: u32, row: RowId) {
        let mut number = self.segment_of(tag);
        while !self.segments[number].has_room() {
            if !self.make_room(number) {
                break;
            }
            number = self.segment_of(tag);
        }
        let segment = &mut self.segments[number];
        let mut index = tag;
        let mut same_tag = 0;
        let mut reusable = None;
        for _ in 0..=segment.mask {
            let bucket = segment.bucket(index);
            same_tag += bucket.matches(tag).count_ones();
            let empty = bucket.matches(EMPTY);
            if reusable.is_none() {
                let tombstones = if segment.tombstones == 0 { 0 } else { bucket.matches(TOMBSTONE) };
                if tombstones != 0 {
                    reusable = Some((index, tombstones.trailing_zeros() as usize));
                } else if empty != 0 {
                    reusable = Some((index, empty.trailing_zeros() as usize));
                }
            }
            if empty != 0 {
                break;
            }
            index = index.wrapping_add(1);
        }
        match reusable {
            Some((index, entry)) if same_tag < SAME_TAG_MAX => {
                let bucket = segment.bucket_mut(index);
                let was_tombstone = bucket.tags[entry] == TOMBSTONE;
                bucket.tags[entry] = tag;
                bucket.rows[entry] = row.0;
                segment.live += 1;
                segment.tombstones -= u16::from(was_tombstone);
            }
            _ => {
                self.overflow.insert((tag, row.0));
            }
        }
    }

    /// Takes an entry out; whether it was there.
    pub(crate) fn remove(&mut self, tag: u32, row: RowId) -> bool {
        let number = self.segment_of(tag);
        let segment = &mut self.segments[number];
        let mut index = tag;
        for _ in 0..=segment.mask {
            let bucket = segment.bucket_mut(index);
            let empty = bucket.matches(EMPTY);
            let mut candidates = bucket.matches(tag);
            while candidates != 0 {
                let entry = candidates.trailing_zeros() as usize;
                if bucket.rows[entry] == row.0 {
                    // Where the bucket is full, entries may have gone past it: the search must go
                    // on there.
                    bucket.tags[entry] = if empty != 0 { EMPTY } else { TOMBSTONE };
                    bucket.rows[entry] = 0;
                    segment.live -= 1;
                    segment.tombstones += u16::from(empty == 0);
                    return true;
                }
                candidates &= candidates - 1;
            }
            if empty != 0 {
                break;
            }
            index = index.wrapping_add(1);
        }
        self.overflow.remove(&(tag, row.0))
    }

    /// Makes room in a segment; false where that cannot be.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, number: usize) -> bool {
        let segment = &self.segments[number];
        if segment.tombstones as u32 * 4 > segment.live as u32 {
            self.rebuild(number, segment.buckets().len());
        } else if segment.buckets().len() < BUCKETS_MAX {
            self.rebuild(number, segment.buckets().len() * 2);
        } else {
            return self.split(number);
        }
        true
    }

    /// Puts a segment's entries into `buckets` fresh buckets, without the tombstones.
    fn rebuild(&mut self, number: usize, buckets: usize) {
        let mut fresh = Segment::new(buckets, self.segments[number].depth as u32);
        self.segments[number].entries().for_each(|(tag, row)| fresh.place(tag, row));
        self.segments[number] = fresh;
    }

    /// Divides a segment's entries by the next bit of their tags.
    fn split(&mut self, number: usize) -> bool {
        let depth = self.segments[number].depth as u32;
        if depth == DEPTH_MAX || (depth == self.depth && !self.double_directory()) {
            return false;
        }
        let mut other = Segment::new(BUCKETS_MAX, depth + 1);
        let segment = &mut self.segments[number];
        segment.depth = depth as u8 + 1;
        let mut some_tag = 0;
        let mut live = 0;
        // Entries of the lower half stay where they are, but for those that are not in the bucket
        // of their tag: with holes before them they would not be found any more.
        let mut displaced = Vec::new();
        for index in 0..BUCKETS_MAX as u32 {
            let bucket = segment.bucket_mut(index);
            for entry in 0..ENTRIES {
                let tag = bucket.tags[entry];
                let row = bucket.rows[entry];
                if tag == EMPTY {
                    continue;
                }
                if tag == TOMBSTONE {
                    bucket.tags[entry] = EMPTY;
                    continue;
                }
                some_tag = tag;
                if tag >> (31 - depth) & 1 != 0 {
                    bucket.tags[entry] = EMPTY;
                    other.place(tag, row);
                } else if tag % BUCKETS_MAX as u32 != index {
                    bucket.tags[entry] = EMPTY;
                    displaced.push((tag, row));
                } else {
                    live += 1;
                }
            }
        }
        segment.live = live;
        segment.tombstones = 0;
        displaced.into_iter().for_each(|(tag, row)| segment.place(tag, row));
        let number_of_other = match self.unused.pop() {
            Some(number) => {
                self.segments[number as usize] = other;
                number
            }
            None => {
                self.segments.push(other);
                self.segments.len() as u32 - 1
            }
        };
        // All directory places with the segment's prefix and a set next bit lead to the new one.
        let span = 1usize << (self.depth - depth);
        let start = (some_tag as u64 >> (32 - depth)) as usize * span;
        self.directory[start + span / 2..start + span].fill(number_of_other);
        true
    }

    /// Makes one segment of the one at this place of the directory and its sibling, where both are
    /// sparse, and goes to the next place. False at the end.
    pub(crate) fn merge_next(&mut self, place: &mut usize) -> bool {
        let Some(number) = self.directory.get(*place).map(|number| *number as usize) else {
            self.halve_directory();
            return false;
        };
        let depth = self.segments[number].depth as u32;
        let span = 1usize << (self.depth - depth);
        *place = *place / span * span;
        // The sibling differs in the last bit that the tags share. Looked at from the first of the
        // two.
        if depth > 0 && *place & span == 0 {
            let other = self.directory[*place + span] as usize;
            let one = &self.segments[number];
            let two = &self.segments[other];
            let sparse = (one.live as usize + two.live as usize) * MERGED_PART <= BUCKETS_MAX * ENTRIES;
            if two.depth as u32 == depth
                && sparse
                && one.buckets().len() == BUCKETS_MAX
                && two.buckets().len() == BUCKETS_MAX
            {
                let mut merged = Segment::new(BUCKETS_MAX, depth - 1);
                one.entries().chain(two.entries()).for_each(|(tag, row)| merged.place(tag, row));
                self.segments[number] = merged;
                self.segments[other] = Segment::new(1, 0);
                self.unused.push(other as u32);
                self.directory[*place..*place + 2 * span].fill(number as u32);
                // Once more from where this one's own sibling may be.
                *place &= !(2 * span);
                return true;
            }
        }
        *place += span;
        true
    }

    /// As long as no two neighbouring places lead to different segments.
    fn halve_directory(&mut self) {
        while self.depth > 0 && self.directory.chunks_exact(2).all(|pair| pair[0] == pair[1]) {
            self.directory = self.directory.iter().step_by(2).copied().collect();
            self.depth -= 1;
        }
    }

    /// Moves a segment to a better place in memory, if it lies badly; whether it did. None: there
    /// are not this many.
    pub(crate) fn move_place(&mut self, number: usize) -> Option<bool> {
        let segment = self.segments.get_mut(number)?;
        let Some(page) = segment.page().filter(|page| memory::lies_sparsely(page)) else { return Some(false) };
        let copy = Block::copy_of(page);
        let old = std::mem::replace(&mut segment.buckets, copy.into_raw().0.cast());
        // SAFETY: the segment had this page from `new` or from here, and does not know it any more.
        drop(unsafe { Block::from_raw(old.cast(), PAGE_BYTES) });
        Some(true)
    }

    /// Bounded by the number of segments, so that tags chosen to share their top bits cannot make
    /// it huge.
    fn double_directory(&mut self) -> bool {
        if self.directory.len() >= 64 * (self.segments.len() + 1) {
            return false;
        }
        self.directory = self.directory.iter().flat_map(|number| [*number, *number]).collect();
        self.depth += 1;
        true
    }
}

/// The rows of one tag, for the caller to compare keys.
#[derive(Clone)]
pub(crate) struct Candidates<'s> {
    segment: &'s Segment,
    tag: u32,
    /// The next bucket to look at.
    index: u32,
    buckets_left: u32,
    /// Matches left in the bucket before `index`.
    bits: u32,
    overflow: Option<btree_set::Range<'s, (u32, u32)>>,
}

impl Iterator for Candidates<'_> {
    type Item = RowId;

    #[inline]
    fn next(&mut self) -> Option<RowId> {
        loop {
            if self.bits != 0 {
                let entry = self.bits.trailing_zeros() as usize;
                self.bits &= self.bits - 1;
                return Some(RowId(self.segment.bucket(self.index.wrapping_sub(1)).rows[entry & (ENTRIES - 1)]));
            }
            if self.buckets_left == 0 {
                return self.overflow.as_mut()?.next().map(|entry| RowId(entry.1));
            }
            let bucket = self.segment.bucket(self.index);
            self.bits = bucket.matches(self.tag);
            self.buckets_left = if bucket.matches(EMPTY) != 0 { 0 } else { self.buckets_left - 1 };
            self.index = self.index.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests;
