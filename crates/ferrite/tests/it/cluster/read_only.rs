//! A file system that makes itself read-only under a node, as one does that has found an error. Two
//! things are needed, or the test says so and ends: the right to mount, and ext4.

use super::{Cluster, TABLE};
use crate::common::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An ext4 of its own, in a file beside the directory.
struct Ext4(PathBuf);

impl Ext4 {
    fn at(path: &Path) -> Option<Ext4> {
        std::fs::create_dir_all(path).expect("a directory");
        let image = path.with_extension("image");
        let file = std::fs::File::create(&image).expect("a file");
        file.set_len(900 << 20).expect("it takes no room before it is written");
        let run = |program: &str, arguments: &[&str]| -> Result<Output, String> {
            let output =
                Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            if output.status.success() { Ok(output) } else { Err(format!("{program}: {text}")) }
        };
        let (image, dir) = (image.to_str().expect("a plain name"), path.to_str().expect("a plain name"));
        let made = run("mkfs.ext4", &["-q", "-F", image]);
        match made.and_then(|_| run("mount", &["-o", "loop,errors=remount-ro", image, dir])) {
            Ok(_) => Some(Ext4(path.to_path_buf())),
            Err(why) => {
                println!("skipped: an ext4 cannot be mounted: {why}");
                None
            }
        }
    }

    /// The file system finds an error, and makes itself read-only.
    fn finds_an_error(&self) {
        let source = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.0).output().expect("it is mounted");
        let source = String::from_utf8(source.stdout).expect("a device");
        let device = source.trim().strip_prefix("/dev/").expect("a device");
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").expect("ext4 takes it");
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // Lazily: a server that was just killed may hold it for another moment.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_node_whose_file_system_becomes_read_only_leaves_and_the_others_go_on() {
    let mut cluster = Cluster::new(3);
    // Of the node that leads first.
    let Some(disk) = Ext4::at(&cluster.dir(0)) else { return };
    // What ext4 keeps for itself there is no file of ours.
    std::fs::remove_dir(cluster.dir(0).join("lost+found")).expect("a new file system has it");
    cluster.found(1, &[]);
    cluster.statement(TABLE);
    cluster.write(20);
    let said = cluster.nodes[0].as_ref().expect("it runs").lines.clone();
    said.wait("is kept by 2 nodes");
    assert_eq!(cluster.leader(), 0);
    disk.finds_an_error();
    cluster.write(20);
    assert_ne!(cluster.leader(), 0, "who cannot write does not lead");
    said.wait("Read-only file system");
    said.wait("this node does not take part in group 0 until it is started again");
    assert_eq!(said.count("redo log: "), 1, "why the log failed, and what helps, is said once");
    said.wait("this node cannot vote");
    let words = ["1     data  failed", "node 1 cannot vote at the moment", "2 of 2 copies"];
    cluster.await_words(1, &words);
    // It ends when it is told, and says why it does not start.
    let node = cluster.nodes[0].take().expect("it runs");
    node.server.signal("TERM");
    said.wait("the server has stopped, but could not close the redo log");
    let refused = Server::try_start(&cluster.dir(0), &[]).err().expect("nothing can be written there");
    assert!(refused.contains("Read-only file system") && refused.contains("mount it for writing"), "{refused}");
    cluster.write(5);
    cluster.check();
}
