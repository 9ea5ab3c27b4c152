//! Files that are damaged, gone, or of a later release: what is left, and which loss can be
//! accepted.

use super::*;

#[test]
fn a_damaged_snapshot_gives_way_to_the_older_one() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let base = home.path().join("base");
    let before = sample(&base, 2);
    let newest = files(&base, "0000000002-p0000.rows").pop().expect("it is there");
    let others = [files(&base, "0000000002.manifest").pop().expect("it is there"), newest];
    for path in &others {
        let bytes = fs::read(path).expect("it is there");
        for position in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            fs::write(path, &damaged).expect("it is ours");
            let node = open(&base, 2);
            assert_eq!(node.0.summary.snapshot.expect("the older one").snapshot, 1, "byte {position}");
            assert_eq!((node.0.summary.damaged.len(), node.contents() == before), (1, true), "byte {position}");
            node.close();
        }
        for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            fs::write(path, &bytes[..length]).expect("it is ours");
            assert_eq!(open(&base, 2).contents(), before, "cut to {length}");
        }
        fs::write(path, &bytes).expect("it is ours");
    }
    // The next snapshot takes the place of the damaged one, not of the one that was used.
    let mut bytes = fs::read(&others[1]).expect("it is there");
    bytes[5_000] ^= 1;
    fs::write(&others[1], &bytes).expect("it is ours");
    let mut node = open(&base, 2);
    assert_eq!(node.save().expect("a healthy disk").snapshot, 3);
    let kept: Vec<u64> = node.0.snapshots.kept().iter().map(|kept| kept.snapshot).collect();
    assert_eq!(kept, [1, 3]);
    node.close();
    // Both damaged, and the log does not reach back: nothing is made of it.
    for path in files(&base, "p0001.rows") {
        fs::write(path, b"nothing").expect("it is ours");
    }
    match Node::open(Arc::new(RealDisk), &base, 2) {
        Err(error @ StartError::Rot(_)) => assert!(error.to_string().contains("0001.log is missing"), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a database without its beginning was opened"),
    }
    let accepted = loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), &base, None, &|_| {});
    assert!(matches!(accepted, Err(StartError::NothingLeft(_))));
    assert!(files(&base, ".txt").is_empty(), "nothing was written down as lost");
}

#[test]
fn a_database_whose_log_is_gone_is_not_taken_for_a_new_one() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("base");
    let mut node = open(&dir, 2);
    node.ddl(SCHEMA);
    fill(&mut node, 0, 5);
    node.close();
    for path in files(&dir, ".log") {
        fs::remove_file(path).expect("it is ours");
    }
    // Also the second time: a refused start leaves no log behind.
    for _ in 0..2 {
        let error = Node::open(Arc::new(RealDisk), &dir, 2).err().expect("nothing is left of the database");
        assert!(matches!(&error, StartError::Rot(_)), "{error}");
        assert!(error.to_string().contains("0001.log is missing"), "{error}");
    }
    let accepted = loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), &dir, None, &|_| {});
    assert!(matches!(accepted, Err(StartError::NothingLeft(_))));
}

#[test]
fn rot_in_the_log_is_refused_with_what_is_at_stake_and_can_be_accepted() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("base");
    let mut node = open(&dir, 2);
    node.ddl(SCHEMA);
    fill(&mut node, 0, 50);
    node.save().expect("a healthy disk");
    let (mut histories, mut sequences) = (vec![node.contents()], vec![node.0.sequences.clone()]);
    fill_watched(&mut node, 50, 90, &mut |node| {
        histories.push(node.contents());
        sequences.push(node.0.sequences.clone());
    });
    node.close();
    // A block in the middle of what stands behind the snapshot.
    let segment = files(&dir, ".log").into_iter().rev().nth(1).expect("there are several");
    let mut bytes = fs::read(&segment).expect("it is there");
    // No sector begins with padding but behind the last block.
    bytes[4 * 4_096 + 1] ^= 1;
    fs::write(&segment, &bytes).expect("it is ours");
    for _ in 0..2 {
        match Node::open(Arc::new(RealDisk), &dir, 2) {
            Err(StartError::Rot(damage)) => {
                let stake = &damage.stake;
                assert!(damage.path == segment && damage.position <= 4 * 4_096, "{}", damage.position);
                let last = sequences.last().expect("there are some");
                assert!(stake.iter().all(|stake| stake.last == last[stake.partition.index()]), "{stake:?}");
                assert!(!stake.is_empty());
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("rot was not seen"),
        }
    }
    let accept = || loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), &dir, None, &|_| {});
    let (note, text) = accept().unwrap_or_else(|error| panic!("{error}")).expect("something is lost");
    assert_eq!(fs::read_to_string(&note).expect("it is there"), text);
    assert!(text.contains(" of them, and any after them"), "{text}");
    let folder = note.with_extension("");
    assert!(text.contains(&format!("is kept in {}", folder.display())), "{text}");
    let kept = files_of(&folder);
    assert!(kept.len() > 1 && kept.iter().all(|name| text.contains(name)), "{kept:?} {text}");
    assert!(kept[0].contains("-from-byte-"), "{kept:?}");
    assert!(text.contains(" UTC.\n") && text.contains("What is left: snapshot "), "{text}");
    let contents = open(&dir, 2).contents();
    assert!(histories.contains(&contents), "what is left is what once was");
    assert!(accept().expect("it opens").is_none(), "nothing more is lost");
}

#[test]
fn a_loss_after_which_nothing_is_left_is_not_accepted() {
    for position in [10, 4_096 + 60] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path();
        let mut node = open(dir, 2);
        node.ddl(SCHEMA);
        fill(&mut node, 0, 30);
        node.close();
        let segment = files(dir, ".log").into_iter().next().expect("there is one");
        let mut bytes = fs::read(&segment).expect("it is there");
        bytes[position] ^= 1;
        fs::write(&segment, &bytes).expect("it is ours");
        match loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), dir, None, &|_| {}) {
            Err(error @ StartError::NothingLeft { .. }) => {
                assert!(error.to_string().contains("nothing was changed"), "{error}");
            }
            other => panic!("byte {position}: {:?}", other.map_err(|error| error.to_string())),
        }
        assert!(fs::read(&segment).expect("it is there") == bytes, "nothing was changed");
        assert!(files(dir, ".txt").is_empty(), "and nothing was written down as lost");
    }
}

#[test]
fn segments_that_are_gone_are_missed_and_can_be_given_up() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let base = home.path().join("base");
    let mut node = open(&base, 2);
    node.ddl(SCHEMA);
    fill(&mut node, 0, 90);
    let mut saved = None;
    let accept = |dir: &Path| loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), dir, None, &|_| {});
    // With a snapshot and without one, the last segment, and all that there are.
    for with_snapshot in [false, true] {
        if with_snapshot {
            node.save().expect("a healthy disk");
            saved = Some(node.contents());
            fill(&mut node, 90, 170);
        }
        for all in [false, true] {
            let dir = home.path().join(format!("{with_snapshot}-{all}"));
            copy(&base, &dir);
            let mut segments = files(&dir, ".log");
            // One may only be prepared.
            segments.retain(|path| fs::read(path).expect("it is there").iter().any(|byte| *byte != 0));
            let last = segments.last().expect("there are some").clone();
            let gone = if all { files(&dir, ".log") } else { files(&dir, ".log").split_off(segments.len() - 1) };
            gone.iter().for_each(|path| fs::remove_file(path).expect("it is there"));
            let error = match Node::open(Arc::new(RealDisk), &dir, 2) {
                Err(error @ StartError::Rot(_)) => error.to_string(),
                Err(error) => panic!("{error}"),
                Ok(_) => panic!("it was not missed"),
            };
            assert!(error.contains(" is missing: ") && error.ends_with("--accept-loss"), "{error}");
            if !all {
                assert!(error.contains(&last.display().to_string()), "{error}");
                assert!(error.contains("what can be read ends with transaction "), "{error}");
            }
            if all && !with_snapshot {
                assert!(matches!(accept(&dir), Err(StartError::NothingLeft(_))));
                continue;
            }
            let (note, text) = accept(&dir).unwrap_or_else(|error| panic!("{error}")).expect("something is lost");
            assert_eq!(fs::read_to_string(note).expect("it is there"), text);
            assert_eq!(text.contains("Kept: nothing"), all, "{text}");
            let mut again = open(&dir, 2);
            // That it is right in itself, `contents` looks.
            let contents = again.contents();
            assert!(contents != node.contents() && again.0.sequences <= node.0.sequences, "something is lost");
            assert!(!all || Some(&contents) == saved.as_ref(), "the snapshot is what is left");
            fill(&mut again, 1_000, 1_040);
            let contents = again.contents();
            again.close();
            assert_eq!(open(&dir, 2).contents(), contents);
        }
    }
}

#[test]
fn where_the_checkpoint_itself_cannot_be_read_the_snapshot_is_what_is_left() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path();
    let mut node = open(dir, 2);
    node.ddl(SCHEMA);
    fill(&mut node, 0, 30);
    let before = node.contents();
    node.save().expect("a healthy disk");
    fill(&mut node, 30, 33);
    node.close();
    let name = ferrite_snapshot::own_name(1);
    let files = ferrite_snapshot::Files::new(Arc::new(RealDisk), &dir.join("snapshots"));
    let place = files.manifest(&name).expect("it is whole").log;
    let segment = dir.join(format!("redo-{:010}.log", place.segment));
    let mut bytes = fs::read(&segment).expect("it is there");
    bytes[place.position as usize + 60] ^= 1;
    // What lies before it does not matter any more.
    bytes[4_096 + 100] ^= 1;
    fs::write(&segment, &bytes).expect("it is ours");
    assert!(matches!(Node::open(Arc::new(RealDisk), dir, 2), Err(StartError::Rot { .. })));
    let accepted = loss::accept_loss(Arc::new(RealDisk), Arc::new(SystemClock), dir, None, &|_| {});
    assert!(accepted.unwrap_or_else(|error| panic!("{error}")).is_some());
    continues_with(dir, &before);
}

/// Its checksums are right: a release has written it that knows more.
#[test]
fn a_snapshot_whose_schema_is_unknown_is_refused_as_a_later_releases_and_stays() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path();
    let mut node = open(dir, 2);
    node.ddl(SCHEMA);
    fill(&mut node, 0, 30);
    node.save().expect("a healthy disk");
    fill(&mut node, 30, 33);
    node.save().expect("a healthy disk");
    let contents = node.contents();
    node.close();
    let name = ferrite_snapshot::own_name(2);
    let snapshots = ferrite_snapshot::Files::new(Arc::new(RealDisk), &dir.join("snapshots"));
    let (path, mut manifest) = (snapshots.manifest_path(&name), snapshots.manifest(&name).expect("it is whole"));
    let before = fs::read(&path).expect("it is there");
    match (&mut manifest.base, manifest.changes.first_mut()) {
        (Some(base), _) => base.text.insert_str(0, "SET FUNCTION_VALUES 99;\n"),
        (None, first) => first.expect("there is a schema").text.insert_str(0, "SET FUNCTION_VALUES 99;\n"),
    }
    fs::write(&path, manifest.encode()).expect("it is ours");
    let names = || (files_of(dir), files_of(&dir.join("snapshots")));
    let there = names();
    let refused = |error: StartError| {
        let said = error.to_string();
        assert!(matches!(error, StartError::Snapshot(SnapshotError::Schema { .. })), "{said}");
        assert!(said.contains("is intact") && said.contains("use the release that wrote it, or a later one"), "{said}");
    };
    refused(Node::open(Arc::new(RealDisk), dir, 2).map(drop).expect_err("it is another release's"));
    assert_eq!(names(), there);
    fs::write(&path, before).expect("it is ours");
    assert_eq!(open(dir, 2).contents(), contents);
}
