//! Big-endian primitives appended to a `Vec<u8>`, and lengths that are patched in afterwards.

/// Appends the primitive layouts of wire-protocol 0.3.
pub trait Put {
    fn put_i8(&mut self, x: i8);
    fn put_i16(&mut self, x: i16);
    fn put_i32(&mut self, x: i32);
    fn put_i64(&mut self, x: i64);
    fn put_i128(&mut self, x: i128);
    fn put_f64(&mut self, x: f64);
    /// `i32` length, then the bytes.
    fn put_bytes(&mut self, x: &[u8]);
    /// `i32` length, then the UTF-8 bytes.
    fn put_string(&mut self, x: &str);
    /// Overwrites four bytes written earlier with the number of bytes that stand after them now.
    fn patch_length(&mut self, at: usize);
    /// Overwrites four bytes written earlier.
    fn patch_i32(&mut self, at: usize, x: i32);
    /// Overwrites two bytes written earlier.
    fn patch_i16(&mut self, at: usize, x: i16);
}

impl Put for Vec<u8> {
    #[inline]
    fn put_i8(&mut self, x: i8) {
        self.push(x as u8);
    }

    #[inline]
    fn put_i16(&mut self, x: i16) {
        self.extend_from_slice(&x.to_be_bytes());
    }

    #[inline]
    fn put_i32(&mut self, x: i32) {
        self.extend_from_slice(&x.to_be_bytes());
    }

    #[inline]
    fn put_i64(&mut self, x: i64) {
        self.extend_from_slice(&x.to_be_bytes());
    }

    #[inline]
    fn put_i128(&mut self, x: i128) {
        self.extend_from_slice(&x.to_be_bytes());
    }

    #[inline]
    fn put_f64(&mut self, x: f64) {
        self.extend_from_slice(&x.to_be_bytes());
    }

    #[inline]
    fn put_bytes(&mut self, x: &[u8]) {
        debug_assert!(x.len() <= i32::MAX as usize);
        self.reserve(4 + x.len());
        self.put_i32(x.len() as i32);
        self.extend_from_slice(x);
    }

    #[inline]
    fn put_string(&mut self, x: &str) {
        self.put_bytes(x.as_bytes());
    }

    #[inline]
    fn patch_length(&mut self, at: usize) {
        let length = self.len() - at - 4;
        debug_assert!(length <= i32::MAX as usize);
        self.patch_i32(at, length as i32);
    }

    #[inline]
    fn patch_i32(&mut self, at: usize, x: i32) {
        self[at..at + 4].copy_from_slice(&x.to_be_bytes());
    }

    #[inline]
    fn patch_i16(&mut self, at: usize, x: i16) {
        self[at..at + 2].copy_from_slice(&x.to_be_bytes());
    }
}
