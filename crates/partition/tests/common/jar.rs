//! Jars for tests whose classes are written in Rust.

/// A jar of stored files without contents.
pub fn jar(files: &[&str]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for name in files {
        let at = out.len() as u32;
        let mut fixed = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        fixed.extend_from_slice(&[0; 12]);
        fixed.extend_from_slice(&(name.len() as u16).to_le_bytes());
        fixed.extend_from_slice(&[0; 2]);
        out.extend_from_slice(b"PK\x03\x04");
        out.extend_from_slice(&fixed);
        out.extend_from_slice(name.as_bytes());
        directory.extend_from_slice(b"PK\x01\x02\x14\x00");
        directory.extend_from_slice(&fixed);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let at = out.len() as u32;
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&(files.len() as u16).to_le_bytes());
    out.extend_from_slice(&(files.len() as u16).to_le_bytes());
    out.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    out.extend_from_slice(&at.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out
}
