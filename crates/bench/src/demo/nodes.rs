//! What happens to the servers of a demo on several nodes: the leader is killed under load, and
//! comes back.

use super::Shown;
use crate::cluster::{Cluster, Membership};
use crate::error::BenchResult;
use crate::options::DemoOptions;
use crate::session::Session;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Of a demo without an end.
const FIRST_KILL: Duration = Duration::from_secs(10);
/// Longer than anybody watches.
const EVER: Duration = Duration::from_secs(365 * 86_400);

/// Who does what, in words.
pub fn described(nodes: &Cluster) -> String {
    let kept = nodes.keepers().as_ref().map_or_else(String::new, kept);
    format!("{} processes on this machine; {kept}", nodes.count())
}

/// Kills the leader at half time and for each of `kills`, until no more can come, and says what
/// comes of it.
pub fn lose_leaders(
    nodes: &mut Cluster,
    session: &Session,
    options: &DemoOptions,
    kills: &Receiver<()>,
    shown: &Shown,
) -> BenchResult<()> {
    let mut first = Some(if options.duration.is_zero() { FIRST_KILL } else { options.duration / 2 });
    let began = Instant::now();
    loop {
        let wait = first.map_or(EVER, |first| first.saturating_sub(began.elapsed()));
        match kills.recv_timeout(wait) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => first = None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        lose_leader(nodes, session, shown)?;
        // Whoever pressed the key more than once meant this one.
        while kills.try_recv().is_ok() {}
    }
}

fn lose_leader(nodes: &mut Cluster, session: &Session, shown: &Shown) -> BenchResult<()> {
    let before = nodes.await_copies(0)?;
    let killed = Instant::now();
    let name = before.leader + 1;
    nodes.kill(before.leader)?;
    shown.add_event(format!("node {name}, the leader, is killed"));
    session.read("Results", ())?;
    let silence = killed.elapsed();
    let after = nodes.await_keepers("another node leads", |keepers| keepers.leader != before.leader)?;
    shown.add_event(format!("node {} leads and answers, {:.1} s after that", after.leader + 1, silence.as_secs_f64()));
    shown.describe(described(nodes));
    nodes.start_again(before.leader)?;
    let again = nodes.await_copies(before.epoch)?;
    shown.describe(described(nodes));
    shown.add_event(format!("node {name} is back; {}", kept(&again)));
    Ok(())
}

fn kept(keepers: &Membership) -> String {
    let copies = keepers.members.iter().filter(|member| **member != keepers.leader);
    match copies.map(|member| format!("node {}", member + 1)).reduce(|all, copy| format!("{all} and {copy}")) {
        Some(copies) => format!("node {} leads, {copies} has a copy", keepers.leader + 1),
        None => format!("node {} leads, and no other has a copy yet", keepers.leader + 1),
    }
}
