//! The container that Java classes come in: a zip file's entries, taken as they are (compressed)
//! and put together again.
//!
//! Promises that a jar which is read can be written again with the same entries, and that no byte
//! of it makes reading panic or take more memory than the jar has. Knows nothing of what the
//! entries hold, and decompresses them only when a class is asked for.

use ferrite_base::limits::{
    CLASS_UNPACKED_BYTES_MAX, CLASSES_BYTES_MAX, CLASSES_ENTRIES_MAX, CLASSES_UNPACKED_BYTES_MAX,
};
use ferrite_base::{UserError, UserResult};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::sync::Arc;

/// One file of a jar.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// 0: stored, 8: deflated.
    method: u16,
    crc: u32,
    /// Decompressed.
    size: u32,
    data: Arc<[u8]>,
}

/// All classes and resources that were loaded, by their paths in the jars.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Classes {
    entries: Arc<BTreeMap<String, Entry>>,
}

/// With a digest in the place of the bytes, which may be millions.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.data);
        let bytes = self.data.len();
        let digest = hasher.finish();
        write!(
            f,
            "Entry {{ method {}, crc {:08x}, {} of {bytes} bytes, {digest:016x} }}",
            self.method, self.crc, self.size
        )
    }
}

const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const LOCAL_HEADER: u32 = 0x0403_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END_HEADER: u32 = 0x0605_4b50;
const END_BYTES: usize = 22;
/// 1980-01-01, the first day that a zip file can tell.
const NO_DATE: u16 = 0x21;
/// The name is UTF-8.
const UTF8_NAME: u16 = 0x800;

impl Classes {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names of the classes as Java writes them, sorted.
    pub fn class_names(&self) -> impl Iterator<Item = String> + '_ {
        self.entries.keys().filter_map(|path| class_name(path))
    }

    pub fn has_class(&self, name: &str) -> bool {
        self.entries.contains_key(&format!("{}.class", name.replace('.', "/")))
    }

    /// A class file, decompressed.
    pub fn class_bytes(&self, name: &str) -> UserResult<Vec<u8>> {
        let path = format!("{}.class", name.replace('.', "/"));
        let entry = self.entries.get(&path).ok_or_else(|| UserError::not_found(format!("class {name}")))?;
        if entry.method == STORED {
            return Ok(entry.data.to_vec());
        }
        let damaged = || broken(&format!("{path} cannot be decompressed"));
        if entry.size as usize > CLASSES_BYTES_MAX {
            return Err(damaged());
        }
        let mut bytes = Vec::new();
        let mut reader = flate2::read::DeflateDecoder::new(&*entry.data).take(u64::from(entry.size));
        reader.read_to_end(&mut bytes).map_err(|_| damaged())?;
        if bytes.len() == entry.size as usize { Ok(bytes) } else { Err(damaged()) }
    }

    /// Whether one of the names stands in a class file, in whatever place.
    pub fn mention(&self, names: &[&str]) -> bool {
        let has = |bytes: &[u8], name: &str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
        self.class_names()
            .filter_map(|class| self.class_bytes(&class).ok())
            .any(|bytes| names.iter().any(|name| has(&bytes, name)))
    }

    /// With the entries of `jar` added, in the place of those that have their names.
    pub fn with_jar(&self, jar: &[u8]) -> UserResult<Classes> {
        let mut entries = BTreeMap::clone(&self.entries);
        entries.extend(read(jar)?);
        let bytes: usize = entries.iter().map(|(name, entry)| name.len() + entry.data.len()).sum();
        if bytes > CLASSES_BYTES_MAX || entries.len() > CLASSES_ENTRIES_MAX {
            return Err(UserError::limit(format!(
                "the loaded classes would have {bytes} bytes in {} files; the most is {CLASSES_BYTES_MAX} bytes in \
                 {CLASSES_ENTRIES_MAX} files",
                entries.len()
            ))
            .with_hint("remove classes that are no longer needed, or leave out of the jar what no procedure uses"));
        }
        Ok(Classes { entries: Arc::new(entries) })
    }

    /// Refuses entries that `before` does not have and that take more room unpacked than they may,
    /// by themselves or with all others: a megabyte of a jar can stand for a gigabyte. Not asked at
    /// replay: what was taken once is taken again.
    pub fn check_unpacked(&self, before: &Classes) -> UserResult<()> {
        let new = || self.entries.iter().filter(|(path, entry)| before.entries.get(*path) != Some(entry));
        // What the jar says of itself goes first: no more than that is unpacked below.
        if let Some((path, entry)) = new().find(|(_, entry)| entry.size as usize > CLASS_UNPACKED_BYTES_MAX) {
            let bytes = entry.size;
            return Err(UserError::limit(format!(
                "{path} has {bytes} bytes unpacked; the most is {CLASS_UNPACKED_BYTES_MAX}"
            ))
            .with_hint("leave out of the jar what no procedure uses"));
        }
        let all: u64 = self.entries.values().map(|entry| u64::from(entry.size)).sum();
        if all > CLASSES_UNPACKED_BYTES_MAX as u64 && new().next().is_some() {
            return Err(UserError::limit(format!(
                "the loaded classes would have {all} bytes unpacked; the most is {CLASSES_UNPACKED_BYTES_MAX}"
            ))
            .with_hint("remove classes that are no longer needed, or leave out of the jar what no procedure uses"));
        }
        for (path, entry) in new().filter(|(_, entry)| entry.method == DEFLATED) {
            // One byte more shows that what it says is not true.
            let mut reader = flate2::read::DeflateDecoder::new(&*entry.data).take(u64::from(entry.size) + 1);
            let unpacked = std::io::copy(&mut reader, &mut std::io::sink())
                .map_err(|_| broken(&format!("{path} cannot be decompressed")))?;
            if unpacked != u64::from(entry.size) {
                return Err(broken(&format!("{path} is not as long as it says")));
            }
        }
        Ok(())
    }

    /// Without the classes that the pattern names: `*` stands for anything within a name part, `**`
    /// across parts. The classes nested in one go with it.
    pub fn without(&self, pattern: &str) -> Classes {
        let kept = |path: &str| class_name(path).is_none_or(|name| !matches_class(pattern, &name));
        let entries = self.entries.iter().filter(|(path, _)| kept(path));
        Classes { entries: Arc::new(entries.map(|(path, entry)| (path.clone(), entry.clone())).collect()) }
    }

    /// One jar with all of it: the same bytes for the same classes.
    pub fn jar(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut directory = Vec::new();
        for (path, entry) in self.entries.iter() {
            let at = out.len() as u32;
            let mut fixed = Vec::with_capacity(26);
            for half in [20, UTF8_NAME, entry.method, 0, NO_DATE] {
                fixed.extend_from_slice(&half.to_le_bytes());
            }
            for word in [entry.crc, entry.data.len() as u32, entry.size] {
                fixed.extend_from_slice(&word.to_le_bytes());
            }
            fixed.extend_from_slice(&(path.len() as u16).to_le_bytes());
            fixed.extend_from_slice(&0u16.to_le_bytes());
            out.extend_from_slice(&LOCAL_HEADER.to_le_bytes());
            out.extend_from_slice(&fixed);
            out.extend_from_slice(path.as_bytes());
            out.extend_from_slice(&entry.data);
            directory.extend_from_slice(&CENTRAL_HEADER.to_le_bytes());
            directory.extend_from_slice(&20u16.to_le_bytes());
            directory.extend_from_slice(&fixed);
            // Comment, disk, attributes: none.
            directory.extend_from_slice(&[0; 10]);
            directory.extend_from_slice(&at.to_le_bytes());
            directory.extend_from_slice(path.as_bytes());
        }
        let directory_at = out.len() as u32;
        let count = self.entries.len() as u16;
        out.extend_from_slice(&directory);
        out.extend_from_slice(&END_HEADER.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&(directory.len() as u32).to_le_bytes());
        out.extend_from_slice(&directory_at.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out
    }
}

fn class_name(path: &str) -> Option<String> {
    if path.starts_with("META-INF/") {
        return None;
    }
    let name = path.strip_suffix(".class")?;
    (name != "module-info").then(|| name.replace('/', "."))
}

/// Whether a pattern of class names means this class.
pub fn matches_class(pattern: &str, name: &str) -> bool {
    // Each position of the name against each of the pattern would be exponential by recursion; so
    // it is a table of one row.
    let pattern = pattern.trim().as_bytes();
    let name_bytes = name.as_bytes();
    let mut tokens = Vec::new();
    let mut position = 0;
    while position < pattern.len() {
        if pattern[position..].starts_with(b"**") {
            tokens.push(None);
            position += 2;
        } else {
            tokens.push(Some(pattern[position]));
            position += 1;
        }
    }
    let mut reached = vec![false; name_bytes.len() + 1];
    reached[0] = true;
    for token in &tokens {
        let mut next = vec![false; name_bytes.len() + 1];
        let mut open = false;
        for at in 0..=name_bytes.len() {
            match token {
                None | Some(b'*') => {
                    let crosses = at > 0 && name_bytes[at - 1] == b'.' && token.is_some();
                    open = (open && !crosses) || reached[at];
                    next[at] = open;
                }
                Some(byte) => next[at] = at > 0 && reached[at - 1] && name_bytes[at - 1] == *byte,
            }
        }
        reached = next;
    }
    // The whole name, or that of a class around it.
    (0..=name_bytes.len()).any(|at| reached[at] && (at == name_bytes.len() || (at > 0 && name_bytes[at] == b'$')))
}

fn broken(what: &str) -> UserError {
    UserError::parameters(format!("the classes are not a jar file: {what}"))
}

fn u16_at(bytes: &[u8], at: usize) -> UserResult<usize> {
    let two = bytes.get(at..at.saturating_add(2)).ok_or_else(|| broken("it ends early"))?;
    Ok(usize::from(u16::from_le_bytes(two.try_into().expect("two bytes"))))
}

fn u32_at(bytes: &[u8], at: usize) -> UserResult<u32> {
    let four = bytes.get(at..at.saturating_add(4)).ok_or_else(|| broken("it ends early"))?;
    Ok(u32::from_le_bytes(four.try_into().expect("four bytes")))
}

/// The files of a jar; folders and signatures are left out.
fn read(jar: &[u8]) -> UserResult<BTreeMap<String, Entry>> {
    // The end record stands at the end, before a comment of at most 64 KB.
    let earliest = jar.len().saturating_sub(END_BYTES + usize::from(u16::MAX));
    let end = (earliest..(jar.len() + 1).saturating_sub(END_BYTES))
        .rev()
        .find(|at| jar[*at..].starts_with(&END_HEADER.to_le_bytes()))
        .ok_or_else(|| broken("it has no directory"))?;
    let count = u16_at(jar, end + 10)?;
    let mut at = u32_at(jar, end + 16)? as usize;
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        if u32_at(jar, at)? != CENTRAL_HEADER {
            return Err(broken("its directory is damaged"));
        }
        let flags = u16_at(jar, at + 8)?;
        let method = u16_at(jar, at + 10)? as u16;
        let crc = u32_at(jar, at + 16)?;
        let compressed = u32_at(jar, at + 20)? as usize;
        let size = u32_at(jar, at + 24)?;
        let name_bytes = u16_at(jar, at + 28)?;
        let extra = u16_at(jar, at + 30)?;
        let comment = u16_at(jar, at + 32)?;
        let local = u32_at(jar, at + 42)? as usize;
        let name = jar.get(at + 46..at + 46 + name_bytes).ok_or_else(|| broken("it ends early"))?;
        let name = std::str::from_utf8(name).map_err(|_| broken("a file's name is not UTF-8"))?;
        at += 46 + name_bytes + extra + comment;
        let signature = name.starts_with("META-INF/")
            && [".SF", ".RSA", ".DSA", ".EC", "MANIFEST.MF"].iter().any(|end| name.to_uppercase().ends_with(end));
        if name.ends_with('/') || signature {
            continue;
        }
        if flags & 1 != 0 || (method != STORED && method != DEFLATED) {
            return Err(broken(&format!("{name} is encrypted, or compressed in a way that jars do not use")));
        }
        if u32_at(jar, local)? != LOCAL_HEADER {
            return Err(broken(&format!("{name} is not where the directory says")));
        }
        let data_at = local + 30 + u16_at(jar, local + 26)? + u16_at(jar, local + 28)?;
        let data = data_at.checked_add(compressed).and_then(|end| jar.get(data_at..end));
        let data = data.ok_or_else(|| broken(&format!("{name} ends early")))?;
        if method == STORED && data.len() != size as usize {
            return Err(broken(&format!("{name} is not as long as it says")));
        }
        entries.insert(name.to_owned(), Entry { method, crc, size, data: data.into() });
    }
    Ok(entries)
}

/// A jar of stored entries; the checksum is the reader's to verify, who unpacks.
#[cfg(test)]
pub(crate) fn stored(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entry = |data: &[u8]| Entry { method: STORED, crc: 7, size: data.len() as u32, data: data.into() };
    let entries = files.iter().map(|(name, data)| ((*name).to_owned(), entry(data))).collect();
    Classes { entries: Arc::new(entries) }.jar()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, data)| (*name, data.to_vec())).collect();
        stored(&files)
    }

    #[test]
    fn as_many_bytes_and_files_as_the_limits_and_not_one_more() {
        // The name counts.
        let large = vec![0; CLASSES_BYTES_MAX - 1];
        Classes::default().with_jar(&jar_of(&[("a", &large)])).expect("at the limit");
        let names: Vec<String> = (0..=CLASSES_ENTRIES_MAX).map(|number| number.to_string()).collect();
        let mut files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        let many = jar_of(&files);
        files.pop();
        let most = Classes::default().with_jar(&jar_of(&files)).expect("at the limit");
        let over = [
            Classes::default().with_jar(&jar_of(&[("ab", &large)])),
            Classes::default().with_jar(&many),
            most.with_jar(&jar_of(&[("one more", b"")])),
        ];
        for refused in over {
            let said = refused.expect_err("one past it").to_string();
            assert!(said.contains("the most is 33554432 bytes in 32767 files"), "{said}");
        }
    }

    /// Zeros, deflated; `size` is what the jar says of it.
    fn bomb(bytes: usize, size: usize) -> Entry {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::copy(&mut std::io::repeat(0).take(bytes as u64), &mut encoder).expect("memory can be written");
        let data = encoder.finish().expect("memory can be written").into();
        Entry { method: DEFLATED, crc: 0, size: size as u32, data }
    }

    #[test]
    fn as_many_unpacked_bytes_as_the_limits_and_not_one_more() {
        let of = |entries: Vec<(String, Entry)>| Classes { entries: Arc::new(entries.into_iter().collect()) };
        let one = |bytes, size| of(vec![("a".to_owned(), bomb(bytes, size))]);
        let nothing = Classes::default();
        const ONE: usize = CLASS_UNPACKED_BYTES_MAX;
        one(ONE, ONE).check_unpacked(&nothing).expect("at the limit");
        let said = |classes: &Classes| classes.check_unpacked(&nothing).expect_err("one past it").to_string();
        assert!(said(&one(ONE + 1, ONE + 1)).contains("33554433 bytes unpacked; the most is 33554432"));
        // What a jar says of itself is not believed.
        assert!(said(&one(ONE + 1, ONE)).contains("not as long as it says"));
        assert!(said(&one(100, 101)).contains("not as long as it says"));
        assert!(said(&one(100, 99)).contains("not as long as it says"));
        let largest = bomb(ONE, ONE);
        let many = |count: usize| {
            let all = (0..count).map(|number| (number.to_string(), largest.clone()));
            of(all
                .chain([("x".to_owned(), bomb(CLASSES_UNPACKED_BYTES_MAX % ONE, CLASSES_UNPACKED_BYTES_MAX % ONE))])
                .collect())
        };
        let most = many(CLASSES_UNPACKED_BYTES_MAX / ONE);
        most.check_unpacked(&nothing).expect("at the limit");
        let over = of(most
            .entries
            .iter()
            .map(|(path, entry)| (path.clone(), entry.clone()))
            .chain([("y".to_owned(), bomb(1, 1))])
            .collect());
        assert!(said(&over).contains("134217729 bytes unpacked; the most is 134217728"));
        // What is there already is not asked again, so that less can be left of it.
        over.check_unpacked(&over).expect("nothing is new");
        most.check_unpacked(&over).expect("less is left");
        // It can be loaded by itself: only who asks is told.
        nothing.with_jar(&one(ONE + 1, ONE).jar()).expect("as at replay");
    }

    #[test]
    fn what_is_written_reads_back() {
        let jar = jar_of(&[("a/B.class", b"one"), ("a/B$C.class", b"two"), ("c.txt", b""), ("META-INF/x.SF", b"no")]);
        let classes = Classes::default().with_jar(&jar).unwrap();
        assert_eq!(classes.class_names().collect::<Vec<_>>(), ["a.B$C", "a.B"]);
        assert_eq!(Classes::default().with_jar(&classes.jar()).unwrap(), classes);
        assert_eq!(classes.with_jar(&jar_of(&[("a/B.class", b"new")])).unwrap().class_names().count(), 2);
        assert!(classes.has_class("a.B") && !classes.has_class("a.X"));
        assert_eq!(classes.without("a.B").class_names().count(), 0, "nested classes go with the outer one");
        assert_eq!(classes.without("a.B$C").class_names().count(), 1);
        assert!(!classes.without("**").is_empty(), "resources are not classes");
    }

    #[test]
    fn patterns_know_name_parts() {
        let cases = [
            ("com.acme.Vote", "com.acme.Vote", true),
            ("com.acme.*", "com.acme.Vote", true),
            ("com.*", "com.acme.Vote", false),
            ("com.**", "com.acme.Vote", true),
            ("**.Vote", "com.acme.Vote", true),
            ("*", "Vote", true),
            ("*.Vote", "com.acme.Vote", false),
            ("com.acme.V*e", "com.acme.Vote", true),
            ("com.acme.Vot", "com.acme.Vote", false),
            ("com.acme.Vote", "com.acme.Vote$Row", true),
            ("com.acme.*", "com.acme.Vote$Row", true),
            ("", "Vote", false),
            ("****************************************x", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches_class(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn damaged_jars_are_refused() {
        let jar = jar_of(&[("a/B.class", b"some bytes"), ("c.txt", b"more bytes")]);
        for end in 0..jar.len() {
            assert!(Classes::default().with_jar(&jar[..end]).is_err(), "cut at {end}");
        }
        for position in 0..jar.len() {
            for bit in [1u8, 0x80] {
                let mut other = jar.clone();
                other[position] ^= bit;
                // Refused or taken, but never a panic.
                let _ = Classes::default().with_jar(&other);
            }
        }
        assert!(Classes::default().with_jar(b"PK").is_err());
    }
}
