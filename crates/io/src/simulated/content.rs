//! Bytes of a file, in pages that copies share until one of them is written. A page of zeros takes
//! no memory.

use std::sync::Arc;

const PAGE_BYTES: usize = 4_096;

type Page = [u8; PAGE_BYTES];

#[derive(Clone, Default)]
pub(super) struct Content {
    /// None: zeros. Bytes beyond the length are zeros too.
    pages: Vec<Option<Arc<Page>>>,
    length: usize,
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Shorter by cutting, longer by zeros.
    pub(super) fn resize(&mut self, length: usize) {
        self.pages.resize(length.div_ceil(PAGE_BYTES), None);
        if length < self.length
            && let Some(Some(page)) = self.pages.get_mut(length / PAGE_BYTES)
        {
            Arc::make_mut(page)[length % PAGE_BYTES..].fill(0);
        }
        self.length = length;
    }

    /// Reads until the buffer is full or the content ends; how many bytes.
    pub(super) fn read(&self, buffer: &mut [u8], offset: usize) -> usize {
        let end = self.length.min(offset.saturating_add(buffer.len()));
        let mut position = offset;
        while position < end {
            let within = position % PAGE_BYTES;
            let count = (PAGE_BYTES - within).min(end - position);
            let target = &mut buffer[position - offset..][..count];
            match &self.pages[position / PAGE_BYTES] {
                Some(page) => target.copy_from_slice(&page[within..within + count]),
                None => target.fill(0),
            }
            position += count;
        }
        position - offset
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if end > self.length && !bytes.is_empty() {
            self.resize(end);
        }
        let mut position = offset;
        while position < end {
            let within = position % PAGE_BYTES;
            let count = (PAGE_BYTES - within).min(end - position);
            let source = &bytes[position - offset..][..count];
            let page = &mut self.pages[position / PAGE_BYTES];
            let zeros = source.iter().all(|byte| *byte == 0);
            if zeros && count == PAGE_BYTES {
                *page = None;
            } else if !zeros || page.is_some() {
                let page = page.get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
                Arc::make_mut(page)[within..within + count].copy_from_slice(source);
            }
            position += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedRandom;

    #[test]
    fn content_is_like_a_vector() {
        let mut random = SimulatedRandom::new(1);
        let (mut content, mut model) = (Content::default(), Vec::new());
        for round in 0..500u32 {
            let (offset, count) = (random.below(20_000) as usize, random.below(9_000) as usize);
            if random.percent(15) {
                content.resize(offset);
                model.resize(offset, 0);
            } else {
                let byte = if random.percent(40) { 0 } else { round as u8 };
                content.write(&vec![byte; count], offset);
                if count > 0 {
                    model.resize(model.len().max(offset + count), 0);
                    model[offset..offset + count].fill(byte);
                }
            }
            let mut read = vec![9; 30_000];
            let count = content.read(&mut read, 0);
            assert_eq!((count, content.len()), (model.len(), model.len()));
            assert!(read[..count] == model[..]);
            assert_eq!(content.read(&mut [0; 5], offset), model.len().saturating_sub(offset).min(5));
        }
    }
}
