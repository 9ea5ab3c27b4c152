//! What an operator does with a directory that no process runs: gives up what cannot be read in it,
//! or takes it out of its cluster.
//!
//! Promises that a node of a cluster which lacks something afterwards does not count as a complete
//! copy: it leads only where an operator confirms that again.

use crate::directory::{self, Said};
use crate::discard_copy::damage;
use crate::error::MemberError;
use crate::founding::Founders;
use crate::join;
use crate::release;
use ferrite_base::GroupId;
use ferrite_group::{FIRST_GROUP, Identity};
use ferrite_io::{Clock, Disk};
use ferrite_meta::Kind;
use ferrite_meta::founding::{Shown, WrittenDown};
use ferrite_partition::ProgressListener;
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::loss;
use ferrite_partition::recovery::StartError;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// [`loss::accept_loss`], for any directory: what the operator is to know.
pub fn accept_loss(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    report: &ProgressListener,
) -> Result<String, MemberError> {
    release::check(&*disk, dir)?;
    let identity = directory::identity(&*disk, dir)?.filter(|identity| identity.cluster != [0; 16]);
    let is_incomplete = || directory::is_incomplete(&*disk, dir);
    let of_cluster: Option<&dyn Fn() -> _> = if identity.is_some() { Some(&is_incomplete) } else { None };
    let outcome = loss::accept_loss(Arc::clone(&disk), clock, dir, of_cluster, report);
    let outcome = outcome.map_err(|error| match identity {
        Some(_) => of_a_node(error, NO_USE),
        None => MemberError::Start(error),
    })?;
    Ok(match (outcome, identity) {
        (None, None) => "nothing is lost: the database opens as it is".to_owned(),
        (None, Some(identity)) => readable(&identity, dir),
        (Some((note, text)), None) => format!("{text}Written to {}.", note.display()),
        (Some((note, text)), Some(_)) => format!("{text}{OF_CLUSTER}Written to {}.", note.display()),
    })
}

/// What a copy that can be read says of its cluster: nothing.
fn readable(identity: &Identity, dir: &Path) -> String {
    let leave = match refuse_several_groups(identity) {
        Ok(()) => format!(
            " Where a majority of the voters is lost for good, its data become a single-node database: ferrite admin recover \
             --dir {} --accept-loss --leave-cluster.",
            dir.display()
        ),
        Err(_) => String::new(),
    };
    format!(
        "everything in this directory can be read, and nothing was changed. It is the copy of node {} of a cluster: whether \
         others have more, and which node leads, only the cluster knows. Start the node, and as many others as make a majority \
         of the voters: without one it waits.{leave} Where all complete copies are lost for good, continue with an older one: \
         ferrite admin recover --accept-loss --node N, through a node that runs",
        identity.node
    )
}

/// A cluster node's data becomes a single server's database, which may begin another cluster. For
/// where a majority of the voters is lost for good. If it was interrupted, it is done again.
pub fn leave_cluster(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    report: &ProgressListener,
) -> Result<String, MemberError> {
    release::check(&*disk, dir)?;
    let failed = |text: String| MemberError::Cluster(text);
    let Some(identity) = directory::identity(&*disk, dir)?.filter(|identity| identity.cluster != [0; 16]) else {
        let what = match directory::founding(&*disk, dir)? {
            Some(_) => "has taken part in no cluster yet: remove the file 'founding' there, and it never will",
            None if disk.list(dir).is_err() => "cannot be read as a directory: check the path",
            None => "is not the directory of a cluster's node: start it as it is",
        };
        return Err(failed(format!("{} {what}", dir.display())));
    };
    if directory::founding(&*disk, dir)?.is_some_and(|declared| declared.own.kind == Kind::Witness) {
        return Err(failed(format!(
            "{} is a witness's, and keeps no data: take another node's directory",
            dir.display()
        )));
    }
    let is_complete = match directory::said(&*disk, dir)? {
        Said::GivenUp => {
            return Err(failed(format!(
                "the copy in {} was given up, since it was not the same as the leader's: take another node's directory. If there \
                 is none, remove the file 'unsynced' here, and what is here is used as it is",
                dir.display()
            )));
        }
        Said::Incomplete => false,
        Said::Nothing => true,
    };
    refuse_beside_others(&identity, directory::founding(&*disk, dir)?)?;
    let lock = || DatabaseLog::lock(&*disk, dir).map_err(|error| failed(error.to_string()));
    // Without it the directory is not a node of the cluster at its start; it leaves the stream now.
    let declared = {
        let _lock = lock()?;
        let declared = directory::founding(&*disk, dir)?;
        directory::forget(&*disk, dir, directory::FOUNDING)?;
        declared
    };
    if let Err(error) = loss::leave_others(Arc::clone(&disk), clock, dir, report) {
        // What was written to the log, or may have been, stays.
        if let Some(declared) = declared.filter(|_| !matches!(error, StartError::LogFailed(_))) {
            directory::write_founding(&*disk, dir, &declared)?;
        }
        let advice = match &error {
            StartError::Rot(_) => format!(
                "Take another node's directory if one is left. If none is, cut what cannot be read here, and then give this \
                 command again: ferrite admin recover --dir {} --accept-loss",
                dir.display()
            ),
            _ => "Nothing here can be used: take another node's directory".to_owned(),
        };
        return Err(of_a_node(error, &advice));
    }
    let _lock = lock()?;
    directory::forget(&*disk, dir, directory::UNSYNCED)?;
    join::forget_vote(&*disk, dir).map_err(|error| failed(error.to_string()))?;
    // This takes it out of the cluster.
    let alone = Identity { cluster: [0; 16], promised: BTreeMap::new(), ..identity };
    alone.write(&*disk, dir).map_err(|error| failed(error.to_string()))?;
    let doubt = if is_complete { "" } else { INCOMPLETE };
    Ok(format!(
        "{doubt}The copy of node {0} in {1} is a single-node database now. Do not start the other nodes of its old cluster with their \
         old directories again.\nTo serve it: `ferrite server --dir {1}`. To start a new cluster from it, add --cluster, and give the \
         other nodes empty directories.",
        identity.node,
        dir.display()
    ))
}

/// Some of a cluster's groups are no database, and a single server's partitions are one group.
fn refuse_several_groups(identity: &Identity) -> Result<(), MemberError> {
    if identity.hosted.iter().eq([&FIRST_GROUP]) {
        return Ok(());
    }
    let kept: Vec<String> = identity.hosted.iter().map(GroupId::to_string).collect();
    Err(MemberError::Cluster(format!(
        "nothing was changed: the partitions of this cluster are in several groups, of which the directory has {}. It cannot \
         become a single server's database. Start enough nodes for a majority of the voters; where all complete copies of a \
         group are lost for good, continue with an older one: ferrite admin recover --accept-loss --node N",
        kept.join(", ")
    )))
}

/// A cluster whose nodes still run is not left: its data would continue in two databases.
fn refuse_beside_others(identity: &Identity, written: Option<WrittenDown>) -> Result<(), MemberError> {
    refuse_several_groups(identity)?;
    let Some(written) = written else { return Ok(()) };
    let founded = written.founded.as_deref().and_then(|all| ferrite_meta::founding::found(all).ok());
    let known = written.known.as_ref().map(|known| known.state.clone()).or(founded);
    let (own, Some(state)) = (written.own.clone(), known) else { return Ok(()) };
    let founders = Founders::new(Some(written), own, false, None);
    let is_of_it = |shown: &Shown| shown.state.settings().is_some_and(|settings| settings.cluster == identity.cluster);
    let others = founders.others_that_run(identity.node, &state);
    let running: Vec<&str> =
        others.iter().filter(|(_, shown)| is_of_it(shown)).map(|(host, _)| host.as_str()).collect();
    if running.is_empty() {
        return Ok(());
    }
    Err(MemberError::Cluster(format!(
        "nothing was changed: other nodes of this cluster run (at {}). Start this node again: it gets what it lacks from them. \
         Only where a majority of the voters is lost for good, stop those that run, and give this command again",
        running.join(", ")
    )))
}

/// What is wrong with a node's files, and what to do: never take a file from a copy, which may lack
/// what the node has acknowledged since.
fn of_a_node(error: StartError, advice: &str) -> MemberError {
    match damage(&error) {
        Some(damage) => MemberError::Cluster(format!("{damage}. Nothing was changed. {advice}")),
        None => MemberError::Start(error),
    }
}

const NO_USE: &str = "Nothing here can be used. Start the node: where others lead the group without it, it puts this copy aside and \
                      gets everything from the leader. Where all complete copies are lost for good, continue with another node's \
                      older copy: ferrite admin recover --accept-loss --node N";

const INCOMPLETE: &str =
    "This copy may lack what was acknowledged last: its node knew that its log was not complete.\n";

const OF_CLUSTER: &str = "This copy is not complete any more. When the node is started, it gets everything from the leader. \
                          Where nobody leads, since all complete copies are lost for good, it leads by the word of an \
                          operator: ferrite admin recover --accept-loss --node N.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::{Incarnation, NodeId};
    use ferrite_io::simulated::{SimulatedClock, SimulatedDisk};
    use ferrite_meta::founding::{Declaration, Partitions, Plan};
    use ferrite_partition::loss::LogDamage;

    #[test]
    fn no_node_is_to_take_a_file_from_a_copy() {
        let path = Path::new("/node/redo-0000000001.log").to_path_buf();
        let (stake, reached, detail) = (Vec::new(), Vec::new(), "a checksum differs".to_owned());
        let damage = Box::new(LogDamage { path, position: 0, missing: None, certain: true, detail, stake, reached });
        let alone = StartError::Rot(damage.clone()).to_string();
        assert!(alone.contains("Restore the file from a copy; or"), "{alone}");
        let said = of_a_node(StartError::NothingLeft(damage), NO_USE).to_string();
        assert!(
            said.contains("redo-0000000001.log is damaged at byte 0") && said.contains("puts this copy aside"),
            "{said}"
        );
        assert!(!said.contains("from a copy"), "{said}");
        let other = of_a_node(StartError::NoDatabase("/node".into()), NO_USE).to_string();
        assert!(!other.contains(NO_USE), "{other}");
    }

    #[test]
    fn a_witness_has_nothing_to_take_out_and_stays_as_it_is() {
        let (clock, dir) = (SimulatedClock::default(), Path::new("/witness"));
        let disk = SimulatedDisk::new(1, clock.clone());
        disk.create_dir(dir).expect("a healthy disk");
        let (node, incarnation) = (NodeId(3), Incarnation(4));
        let identity = Identity::new([1; 16], node, incarnation);
        identity.write(&disk, dir).expect("a healthy disk");
        let own = Declaration {
            plan: Plan { hosts: vec!["here:1".to_owned()], kfactor: 0, partitions_per_node: None },
            place: 1,
            key: [2; 16],
            incarnation,
            kind: Kind::Witness,
            database: None,
            partitions: Partitions::Suggested(1),
            release: "test".to_owned(),
            addresses: Vec::new(),
            rack: None,
        };
        let written = WrittenDown { own, joins: false, founded: None, known: None };
        directory::write_founding(&disk, dir, &written).expect("a healthy disk");
        let before = disk.list(dir).expect("a healthy disk");
        let refused = leave_cluster(Arc::new(disk.clone()), Arc::new(clock), dir, &|_| {}).expect_err("no data");
        assert!(refused.to_string().contains("keeps no data"), "{refused}");
        assert_eq!(disk.list(dir).expect("a healthy disk"), before);
    }
}
