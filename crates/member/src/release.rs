//! The file `release` of a data directory (docs/format/release.md): up to which formats its files
//! go, looked at before any of them is read.
//!
//! Promises that a directory with files of a later release is refused as such, and nothing in it is
//! changed: to an earlier one such files look damaged.

use crate::error::MemberError;
use ferrite_base::GroupMap;
use ferrite_io::{Disk, DiskError, small_file};
use ferrite_notice::Notice;
use std::path::Path;
use std::sync::LazyLock;

pub const FILE: &str = "release";
/// Raised by each release that writes anything, on disk or to other nodes, that an earlier one does
/// not understand: a record, a field, a statement in a schema.
const FORMATS: u32 = 3;
/// Of a directory whose database has one group: the release before opens it.
const FORMATS_ONE_GROUP: u32 = 2;
const RELEASE: &str = env!("CARGO_PKG_VERSION");
const FILE_BYTES_MAX: usize = 4_096;

/// What the file says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Written {
    formats: u32,
    release: String,
}

impl Written {
    /// `groups`: of the directory's database.
    fn here(groups: &GroupMap) -> Written {
        let formats = if groups.is_single() { FORMATS_ONE_GROUP } else { FORMATS };
        Written { formats, release: RELEASE.to_owned() }
    }

    fn encode(&self) -> Vec<u8> {
        format!("formats {}\nrelease {}\n", self.formats, self.release).into_bytes()
    }

    /// None: it is not such a file. Lines and words that a later release adds are ignored; of
    /// several numbers the largest counts, and one that is too large counts as the largest.
    fn decode(bytes: &[u8]) -> Option<Written> {
        let text = String::from_utf8_lossy(bytes);
        let values = |name: &'static str| {
            text.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(' ')?.split_whitespace().next())
        };
        let numbers = values("formats").filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        let formats = numbers.map(|digits| digits.parse().unwrap_or(u32::MAX)).max()?;
        let is_plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_graphic());
        let release = values("release").find(is_plain).unwrap_or("unknown").to_owned();
        Some(Written { formats, release })
    }
}

/// This release as `ferrite --version` shows it: what two releases must share to run in one
/// cluster, and what a directory may have to be opened.
pub fn versions() -> &'static str {
    static VERSIONS: LazyLock<String> =
        LazyLock::new(|| format!("{RELEASE} (formats {FORMATS}, cluster protocol {})", ferrite_peer::VERSION));
    &VERSIONS
}

fn failed(error: DiskError) -> MemberError {
    MemberError::Cluster(error.to_string())
}

/// None: an earlier release has written all that is there, or there is nothing, or nothing that can
/// be read. (A directory that cannot be read is reported when it is locked.)
fn read(disk: &dyn Disk, dir: &Path) -> Option<Written> {
    let bytes = small_file::read(disk, dir, FILE, FILE_BYTES_MAX).ok().flatten()?;
    Written::decode(&bytes)
}

/// Refuses a directory that a later release has written in.
pub fn check(disk: &dyn Disk, dir: &Path) -> Result<(), MemberError> {
    match read(disk, dir) {
        Some(written) if written.formats > FORMATS => Err(MemberError::LaterRelease {
            dir: dir.to_path_buf(),
            written: (written.release, written.formats),
            here: (RELEASE, FORMATS),
        }),
        _ => Ok(()),
    }
}

/// Notes in the directory, whose lock is held, that this release writes it from now on. Where
/// something else has the file's place, the database opens without the note: it is a warning for
/// others, not a part of the data. `groups`: of the directory's database.
pub fn note(disk: &dyn Disk, dir: &Path, groups: &GroupMap) -> Result<(), MemberError> {
    check(disk, dir)?;
    let here = Written::here(groups);
    if read(disk, dir).is_some_and(|written| written.formats == here.formats) {
        return Ok(());
    }
    match small_file::replace(disk, dir, FILE, &format!("{FILE}.new"), &here.encode()) {
        Err(error) if error.source.kind() == std::io::ErrorKind::IsADirectory => {
            ferrite_io::notify(Notice::ReleaseNotRecorded { reason: error.to_string() });
            Ok(())
        }
        outcome => outcome.map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::GroupId;
    use ferrite_io::RealDisk;

    #[test]
    fn a_directory_of_a_later_release_is_refused_by_name_and_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (disk, path) = (RealDisk, dir.path().join(FILE));
        let one = GroupMap::single(3);
        check(&disk, &dir.path().join("none")).expect("there is nothing");
        check(&disk, dir.path()).expect("an earlier release");
        note(&disk, dir.path(), &one).expect("it can be written");
        assert_eq!(read(&disk, dir.path()), Some(Written::here(&one)));
        let later = format!("formats {}\nrelease 9.8.7\nmore to come\n", FORMATS + 1);
        std::fs::write(&path, &later).expect("it can be written");
        for refused in [check(&disk, dir.path()), note(&disk, dir.path(), &one)] {
            let said = refused.expect_err("a later one").to_string();
            let both = [format!("9.8.7 (formats {})", FORMATS + 1), format!("{RELEASE} (formats {FORMATS})")];
            assert!(both.iter().all(|release| said.contains(release)), "{said}");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), later);
        let larger =
            ["formats 4294967297\nrelease 9\n", "formats 999", "formats 999\nformats 1\n", "formats 999 beta\n"];
        for later in larger {
            std::fs::write(&path, later).expect("it can be written");
            let refused = check(&disk, dir.path()).expect_err(later).to_string();
            note(&disk, dir.path(), &one).expect_err(later);
            assert!(!refused.contains(char::is_control), "{refused:?}");
        }
        std::fs::write(&path, b"formats 999\nrelease \x1b[31m\xff\n").expect("it can be written");
        let refused = check(&disk, dir.path()).expect_err("a later one").to_string();
        assert!(refused.contains("unknown (formats 999)"), "{refused:?}");
        // One that cannot be read says nothing, and is written again.
        for damaged in ["formats x\nrelease y\n", "", "formats 0\nrelease 0.0.1\n"] {
            std::fs::write(&path, damaged).expect("it can be written");
            note(&disk, dir.path(), &one).expect("it can be written");
            assert_eq!(read(&disk, dir.path()), Some(Written::here(&one)));
        }
        // Nor does what cannot be read at all keep a database shut.
        std::fs::remove_file(&path).expect("it is there");
        std::fs::create_dir(&path).expect("the place is free");
        check(&disk, dir.path()).expect("it says nothing");
        note(&disk, dir.path(), &one).expect("the database opens all the same");
    }
    #[test]
    fn a_database_of_one_group_is_open_to_the_release_before_and_one_of_several_is_not() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = RealDisk;
        let formats = || read(&disk, dir.path()).expect("it was written").formats;
        note(&disk, dir.path(), &GroupMap::single(3)).expect("it can be written");
        assert_eq!(formats(), FORMATS_ONE_GROUP);
        let several = GroupMap::new(vec![GroupId(0), GroupId(1)]).expect("two groups");
        note(&disk, dir.path(), &several).expect("it can be written");
        assert_eq!(formats(), FORMATS);
    }
}
