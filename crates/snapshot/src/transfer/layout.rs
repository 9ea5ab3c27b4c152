//! Where a snapshot's files begin and end.

use super::message::FileOffset;
use ferrite_base::limits::PARTITIONS_MAX;
use ferrite_io::SECTOR_BYTES;

/// The files of a snapshot one behind another, so that a place in them is one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Where each file ends.
    ends: Vec<u64>,
}

impl Layout {
    /// None: a snapshot has no files of these sizes.
    pub fn new(sizes: &[u64], manifest_bytes_max: u64) -> Option<Layout> {
        let (manifest, rows) = sizes.split_first()?;
        let sound = (1..=manifest_bytes_max).contains(manifest)
            && (1..=PARTITIONS_MAX).contains(&rows.len())
            && rows.iter().all(|size| *size > 0 && size.is_multiple_of(SECTOR_BYTES as u64));
        let mut total = 0u64;
        let mut ends = Vec::with_capacity(sizes.len());
        for size in sizes {
            total = total.checked_add(*size)?;
            ends.push(total);
        }
        sound.then_some(Layout { ends })
    }

    pub fn bytes(&self) -> u64 {
        *self.ends.last().expect("a snapshot has files")
    }

    pub fn files(&self) -> u32 {
        self.ends.len() as u32
    }

    pub fn start(&self, file: u32) -> u64 {
        if file == 0 { 0 } else { self.ends[file as usize - 1] }
    }

    pub fn end(&self, file: u32) -> u64 {
        self.ends[file as usize]
    }

    pub fn size(&self, file: u32) -> u64 {
        self.end(file) - self.start(file)
    }

    /// The file that has the byte at that place; behind the last byte, the last one.
    pub fn offset(&self, place: u64) -> FileOffset {
        let file = self.ends.partition_point(|end| *end <= place).min(self.ends.len() - 1) as u32;
        FileOffset { file, offset: place - self.start(file) }
    }

    /// None: no file goes that far.
    pub fn place(&self, at: FileOffset) -> Option<u64> {
        let size = (at.file < self.files()).then(|| self.size(at.file))?;
        (at.offset <= size).then(|| self.start(at.file) + at.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_offsets_agree() {
        let layout = Layout::new(&[300, 4_096, 8_192], 300).expect("sizes of a snapshot");
        assert_eq!((layout.bytes(), layout.files(), layout.size(2)), (12_588, 3, 8_192));
        for place in 0..=layout.bytes() {
            let at = layout.offset(place);
            assert_eq!(layout.place(at), Some(place));
            assert!(layout.start(at.file) <= place && place <= layout.end(at.file));
        }
        assert_eq!(layout.offset(300), FileOffset { file: 1, offset: 0 });
        assert_eq!(layout.place(FileOffset { file: 1, offset: 4_097 }), None);
        assert_eq!(layout.place(FileOffset { file: 3, offset: 0 }), None);
    }

    #[test]
    fn sizes_that_no_snapshot_has_are_refused() {
        for sizes in [&[][..], &[300], &[0, 4_096], &[301, 4_096], &[300, 0], &[300, 4_095], &[300, 1 << 63, 1 << 63]] {
            assert_eq!(Layout::new(sizes, 300), None, "{sizes:?}");
        }
        assert!(Layout::new(&vec![4_096; PARTITIONS_MAX + 1], 4_096).is_some());
        assert!(Layout::new(&vec![4_096; PARTITIONS_MAX + 2], 4_096).is_none());
    }
}
