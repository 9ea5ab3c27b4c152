//! The cluster as a node knows it, for its operator (`ferrite admin status`).

use crate::cluster::figures::AllFigures;
use crate::cluster::giving_way::Room;
use crate::cluster::health::{COUNTS, Health, Healths};
use crate::cluster::links::Links;
use crate::cluster::loss;
use crate::cluster::node_status::{NodeStatus, StatusSnapshot};
use crate::cluster::orders::Order;
use crate::cluster::status_tables;
use ferrite_base::NodeId;
use ferrite_cluster::FailoverPhase;
use ferrite_group::FIRST_GROUP;
use ferrite_meta::{Group, Kind, Node, Phase, Presence, State, has_lost_its_vote};
use ferrite_partition::waker::WakingSender;
use ferrite_peer::Lane;
use ferrite_replica::group::{GroupConfiguration, Member, Timing};
use ferrite_system::result::{SystemTable, cells};
use ferrite_value::SqlType;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What calls about the cluster use of it.
pub struct Handle {
    pub orders: WakingSender<Order>,
    pub node_status: Arc<NodeStatus>,
    pub links: Links,
    pub healths: Arc<Healths>,
    pub figures: Arc<AllFigures>,
    /// When this process began to hear the others, and what it previously knew of the cluster.
    pub begun: Instant,
    pub before: Arc<State>,
}

/// A node's condition, as this one knows it.
#[derive(Clone, Copy, Default)]
struct Found {
    /// Since something last came from it. None: nothing has.
    silent: Option<Duration>,
    /// It is connected, and is not silent for longer than a leader waits.
    reached: bool,
    /// What it reported of itself lately.
    health: Option<Health>,
    /// Its log cannot be written, as the known process reported last.
    failed: bool,
}

/// All nodes.
pub struct Reachability(BTreeMap<NodeId, Found>);

impl Reachability {
    /// `here`: this node.
    pub fn look(state: &State, here: NodeId, links: &Links, healths: &Healths) -> Reachability {
        let found = |(node, known): (&NodeId, &Node)| {
            let process = Member { node: *node, incarnation: known.incarnation };
            (*node, found(process, here, links, healths))
        };
        Reachability(state.nodes().iter().map(found).collect())
    }

    pub fn is_reached(&self, node: NodeId) -> bool {
        self.0.get(&node).is_some_and(|found| found.reached)
    }

    /// Whether the node has reported that its copy may lack what it has acknowledged.
    fn may_lack(&self, node: NodeId) -> bool {
        self.0.get(&node).and_then(|found| found.health).is_some_and(|health| health.incomplete)
    }

    /// Why a voter's vote is not there.
    fn missing(&self, state: &State, voter: NodeId) -> Option<String> {
        let found = self.0.get(&voter).copied().unwrap_or_default();
        if has_lost_its_vote(state, voter) {
            Some(format!("node {voter} has lost its vote"))
        } else if !found.reached {
            Some(match found.silent {
                Some(silent) => {
                    format!("node {voter} is not reached (nothing came from it for {} s)", silent.as_secs())
                }
                None => format!("node {voter} is not reached (nothing came from it since this node started)"),
            })
        } else {
            match found.health {
                Some(health) if health.votes => None,
                Some(_) => Some(format!(
                    "node {voter} cannot vote at the moment: its terminal says why, or it has not heard yet that it votes"
                )),
                // Each says it every second.
                None => Some(format!("node {voter} has not said yet whether it can vote")),
            }
        }
    }

    /// Why nothing can be decided, as far as this node hears; None: a majority of the voters is
    /// there.
    pub fn no_majority(&self, state: &State) -> Option<String> {
        let missing = self.all_missing(state);
        (state.voters().len() - missing.len() < majority(state)).then(|| missing.join(", "))
    }

    fn all_missing(&self, state: &State) -> Vec<String> {
        state.voters().iter().filter_map(|voter| self.missing(state, *voter)).collect()
    }

    /// All voters have reported whether they can vote, or cannot.
    fn have_voters_said(&self, state: &State) -> bool {
        state.voters().iter().all(|voter| self.0.get(voter).is_some_and(|found| found.health.is_some()))
    }

    /// What a node has no room for, or soon will have none for, and what it therefore cannot do.
    fn lacks(&self, node: NodeId) -> String {
        let Some(health) = self.0.get(&node).and_then(|found| found.health) else { return String::new() };
        let disk = match health.room {
            Room::Enough => None,
            Room::Little => Some("disk: little left"),
            Room::None => Some("disk: below its reserve"),
        };
        let memory = health.lacks_memory.then_some("memory: none left");
        let log = health.log_failed.then_some("log: cannot be written, start the node again when the disk can");
        let java = health.lacks_java.then_some("java: procedures cannot run, the node's terminal says why");
        log.into_iter().chain(disk).chain(memory).chain(java).collect::<Vec<_>>().join(", ")
    }
}

impl Handle {
    /// The nodes, the group of the partitions, the voters; the nodes' figures, and the cluster.
    pub fn status(&self) -> Vec<SystemTable> {
        let mut seen = StatusSnapshot::clone(&self.node_status.seen());
        if seen.state.settings().is_none() {
            seen.state = Arc::clone(&self.before);
        }
        let reachability = Reachability::look(&seen.state, self.node_status.here(), &self.links, &self.healths);
        // A process that has just begun has not heard yet from those that are there.
        let heard = reachability.have_voters_said(&seen.state) || self.begun.elapsed() >= COUNTS;
        let in_step = self.in_step(&seen).filter(|_| heard && seen.registered);
        let group = group(&seen, in_step, &reachability, self.node_status.applies());
        let figures = status_tables::figures(&seen.state, seen.leader(), &self.figures);
        let cluster = status_tables::cluster(&seen.state, has_all_copies(&seen, in_step, &reachability));
        vec![nodes(&seen, in_step, &reachability), group, voters(&seen.state, &reachability, heard), figures, cluster]
    }

    /// Whether each group is led, and has K + 1 copies, of which each has what is committed and is
    /// reached.
    pub fn has_all_copies(&self) -> bool {
        let seen = self.node_status.seen();
        let reachability = Reachability::look(&seen.state, self.node_status.here(), &self.links, &self.healths);
        has_all_copies(&seen, self.in_step(&seen).filter(|_| seen.registered), &reachability)
    }

    /// Whether all members of the group have what is committed; None: this node does not know. The
    /// members know.
    fn in_step(&self, seen: &StatusSnapshot) -> Option<bool> {
        let Some(group) = seen.state.groups().get(&FIRST_GROUP) else { return Some(false) };
        let configuration = &group.configuration;
        let members = configuration.members().iter().map(|member| member.node);
        let known = seen.in_step || self.healths.know_in_step(members, configuration.epoch, Instant::now());
        let here = self.node_status.here();
        let is_here = |own: &Node| configuration.has(Member { node: here, incarnation: own.incarnation });
        let can_tell = group.phase != Phase::Active || seen.state.nodes().get(&here).is_some_and(is_here);
        (known || can_tell).then_some(known)
    }

    /// The nodes that could never lead.
    pub fn keeps_no_data(&self, node: NodeId) -> Option<String> {
        let state = &self.node_status.seen().state;
        let known = state.nodes().get(&node).filter(|known| known.presence != Presence::Retired);
        match known.map(|known| known.kind) {
            Some(Kind::Data) => None,
            Some(Kind::Witness) => Some(format!("node {node} is a witness, and keeps no data")),
            None => Some(format!("there is no node {node}: `ferrite admin status` shows those that there are")),
        }
    }
}

fn found(process: Member, here: NodeId, links: &Links, healths: &Healths) -> Found {
    let node = process.node;
    let peers = links.peers();
    let now = Instant::now();
    let health = healths.of(node, now);
    let failed = healths.has_failed(process);
    if node == here {
        return Found { silent: Some(Duration::ZERO), reached: true, health, failed };
    }
    let silent = peers.heard(node).map(|heard| now.saturating_duration_since(heard));
    // A machine without power closes no connection.
    let speaks = silent.is_some_and(|silent| silent < Duration::from_nanos(Timing::DEFAULT.failure));
    Found { silent, reached: speaks && peers.waiting(node, Lane::Control).is_some(), health, failed }
}

fn word(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// `lost`: it was given a vote, and its last process had another one, or none; `missing`: the vote
/// is not there at the moment; `unknown`: it has not reported yet whether it is.
fn vote(state: &State, reachability: &Reachability, node: NodeId) -> &'static str {
    let found = reachability.0.get(&node).copied().unwrap_or_default();
    match state.voters().contains(&node) {
        false => "no",
        true if has_lost_its_vote(state, node) => "lost",
        true if found.reached && found.health.is_none() => "unknown",
        true if reachability.missing(state, node).is_some() => "missing",
        true => "yes",
    }
}

/// The metadata knows only what a node has reported itself: a killed node still counts as running.
/// A process that is heard knows better: it may not take part yet, or no longer.
fn presence(presence: Presence, found: Found) -> &'static str {
    let says = |is: fn(&Health) -> bool| found.health.as_ref().is_some_and(is);
    match presence {
        Presence::Retired => "retired",
        _ if found.reached && says(|health| health.log_failed) => "failed",
        _ if found.reached && says(|health| health.starting) => "starting",
        Presence::Running if found.reached => "running",
        Presence::Running => "silent",
        // It is connected, and has reported nothing yet.
        Presence::Stopped if found.reached && found.health.is_none() => "starting",
        // It has reported it itself previously, and may still run.
        Presence::Stopped if found.failed => "failed",
        Presence::Stopped => "stopped",
    }
}

fn nodes_table() -> SystemTable {
    SystemTable::new(&[
        ("NODE", SqlType::Integer),
        ("KIND", SqlType::Varchar),
        ("PRESENCE", SqlType::Varchar),
        ("REACHED", SqlType::Varchar),
        ("ROLE", SqlType::Varchar),
        ("VOTES", SqlType::Varchar),
        ("ADDRESS", SqlType::Varchar),
        ("CLIENTS", SqlType::Varchar),
        ("SILENT_MS", SqlType::Bigint),
        ("LACKS", SqlType::Varchar),
    ])
}

/// `in_step`: as for [`group`].
fn nodes(seen: &StatusSnapshot, in_step: Option<bool>, reachability: &Reachability) -> SystemTable {
    let state = &seen.state;
    let leader = seen.leader();
    let mut table = nodes_table();
    let group = state.groups().get(&FIRST_GROUP);
    for (id, node) in state.nodes() {
        let kind = if node.kind == Kind::Data { "data" } else { "witness" };
        let role = match group {
            _ if leader == Some(*id) => "leader",
            Some(group) if complete(&group.configuration, in_step.unwrap_or(false)).any(|member| member == *id) => {
                "member"
            }
            _ => "",
        };
        let address = |place: usize| node.addresses.get(place).cloned().unwrap_or_default();
        table.row(cells![
            i64::from(id.0),
            kind,
            presence(node.presence, reachability.0.get(id).copied().unwrap_or_default()),
            word(reachability.is_reached(*id)),
            role,
            vote(state, reachability, *id),
            address(0),
            address(1),
            reachability.0.get(id).and_then(|found| found.silent).map(|silent| silent.as_millis() as i64),
            reachability.lacks(*id)
        ]);
    }
    table
}

fn group_table() -> SystemTable {
    SystemTable::new(&[
        ("GROUP_ID", SqlType::Integer),
        ("EPOCH", SqlType::Bigint),
        ("LEADER", SqlType::Integer),
        ("MEMBERS", SqlType::Integer),
        ("KFACTOR", SqlType::Integer),
        ("LOSSES_WITH_DATA_KEPT", SqlType::Integer),
        ("LOSSES_WITH_SERVICE", SqlType::Integer),
        ("WAITS_FOR", SqlType::Varchar),
        ("PHASE", SqlType::Varchar),
    ])
}

/// `in_step`: all members have what is committed. None: this node does not take part, or has not
/// heard yet from the others, and cannot know how many losses the cluster tolerates.
/// `applies`: what is left before this node leads.
fn group(
    seen: &StatusSnapshot,
    in_step: Option<bool>,
    reachability: &Reachability,
    applies: Option<String>,
) -> SystemTable {
    let state = &seen.state;
    let mut table = group_table();
    let kfactor = state.settings().map_or(0, |settings| settings.kfactor);
    for (id, group) in state.groups() {
        let leader = seen.leading_of(*id);
        let complete = complete(&group.configuration, in_step.unwrap_or(false));
        let keepers = leader.map(|_| keepers(&group.configuration, in_step.unwrap_or(false), reachability));
        let (data, service) = losses(state, keepers, reachability);
        let doubtful = || {
            seen.is_doubtful(*id)
                .then(|| format!("a word of the voters, whether node {} leads on", group.configuration.leader.node))
        };
        table.row(cells![
            i64::from(id.0),
            group.configuration.epoch.0 as i64,
            leader.map_or(0, |leader| i64::from(leader.node.0)),
            complete.count() as i64,
            i64::from(kfactor),
            in_step.map(|_| data as i64),
            in_step.map(|_| service as i64),
            waits_for(group, reachability).or_else(|| applies.clone()).or_else(doubtful).unwrap_or_default(),
            phase(group, seen, reachability).map(FailoverPhase::name)
        ]);
    }
    table
}

/// How far the group's failover has come, as far as this node knows. None: its leader, another
/// node, has not reported it yet.
fn phase(group: &Group, seen: &StatusSnapshot, reachability: &Reachability) -> Option<FailoverPhase> {
    if !seen.registered {
        return None;
    }
    if group.phase == Phase::Sealing {
        return Some(FailoverPhase::Promise);
    }
    let leader = group.configuration.leader.node;
    let of_epoch = |(epoch, phase)| (epoch == group.configuration.epoch).then_some(phase);
    let is_here = seen.lead.as_ref().is_some_and(|(here, _)| *here == leader);
    let found = reachability.0.get(&leader).copied().unwrap_or_default();
    match () {
        () if is_here => seen.phase.and_then(of_epoch),
        () if found.reached => found.health?.leads.and_then(of_epoch),
        () => Some(FailoverPhase::Detect),
    }
}

/// The nodes that a group without a leader waits for.
pub fn waits_for(group: &Group, reachability: &Reachability) -> Option<String> {
    let is_proven = |node| !group.configuration.added().contains(&node) && !reachability.may_lack(node);
    loss::waits_for(group, |node| reachability.is_reached(node) && !is_proven(node))
}

/// See [`Handle::has_all_copies`].
fn has_all_copies(seen: &StatusSnapshot, in_step: Option<bool>, reachability: &Reachability) -> bool {
    let Some(settings) = seen.state.settings() else { return false };
    in_step == Some(true)
        && seen.state.groups().iter().all(|(id, group)| {
            let there = keepers(&group.configuration, true, reachability);
            seen.leading_of(*id).is_some() && there > settings.kfactor as usize
        })
}

fn voters_table() -> SystemTable {
    SystemTable::new(&[
        ("VOTERS", SqlType::Integer),
        ("VOTERS_THERE", SqlType::Integer),
        ("MAJORITY", SqlType::Integer),
        ("LOSSES_WITH_DECISIONS", SqlType::Integer),
        ("MISSING", SqlType::Varchar),
    ])
}

/// `heard`: this process has had the time to hear the others.
fn voters(state: &State, reachability: &Reachability, heard: bool) -> SystemTable {
    let mut table = voters_table();
    let voters = state.voters().len();
    let missing = reachability.all_missing(state);
    table.row(cells![
        voters as i64,
        (voters - missing.len()) as i64,
        majority(state) as i64,
        heard.then_some(spare_voters(state, reachability) as i64),
        missing.join(", ")
    ]);
    table
}

/// The members that have what is committed: one that was just added has not (decision 0046).
fn complete(configuration: &GroupConfiguration, in_step: bool) -> impl Iterator<Item = NodeId> {
    let nodes = configuration.members().iter().map(|member| member.node);
    nodes.filter(move |node| in_step || !configuration.added().contains(node))
}

/// How many of the members that are there could each lead alone, with everything that was
/// acknowledged.
fn keepers(configuration: &GroupConfiguration, in_step: bool, reachability: &Reachability) -> usize {
    complete(configuration, in_step)
        .filter(|node| reachability.is_reached(*node) && !reachability.may_lack(*node))
        .count()
}

fn majority(state: &State) -> usize {
    state.voters().len() / 2 + 1
}

/// How many more voters may be lost with a majority left of all.
fn spare_voters(state: &State, reachability: &Reachability) -> usize {
    let counts = |voter: &&NodeId| reachability.missing(state, **voter).is_none();
    state.voters().iter().filter(counts).count().saturating_sub(majority(state))
}

/// How many more nodes may be lost, whichever these are, with what is committed kept and the
/// service continuing. `members`: of a group with a leader, those that have everything.
fn losses(state: &State, members: Option<usize>, reachability: &Reachability) -> (usize, usize) {
    let data = members.unwrap_or(1).saturating_sub(1);
    (data, if members.is_some() { data.min(spare_voters(state, reachability)) } else { 0 })
}

/// The same of a node that does not belong to a cluster yet. `known`: of the nodes that it asks,
/// each with its number where that is known; `waits_for`: in words.
pub fn before_there_is_a_cluster(known: &[Asked], kfactor: u32, waits_for: &str) -> Vec<SystemTable> {
    let mut nodes = nodes_table();
    let mut group = group_table();
    for asked in known {
        let kind = match asked.kind {
            Some(Kind::Data) => "data",
            Some(Kind::Witness) => "witness",
            None => "",
        };
        let presence = if asked.kind.is_some() { "starting" } else { "awaited" };
        nodes.row(cells![
            asked.number.map(i64::from),
            kind,
            presence,
            word(asked.kind.is_some()),
            "",
            "",
            asked.host.clone(),
            asked.clients.clone(),
            None::<i64>,
            ""
        ]);
    }
    let none = 0_i64;
    let unknown = None::<i64>;
    let no_phase = None::<&str>;
    group.row(cells![0_i64, none, none, none, i64::from(kfactor), unknown, unknown, waits_for.to_owned(), no_phase]);
    vec![nodes, group, voters_table()]
}

/// A node that is asked by one without a cluster.
#[derive(Default)]
pub struct Asked {
    pub number: Option<u32>,
    pub host: String,
    /// None: it has not answered.
    pub kind: Option<Kind>,
    /// Where clients reach it.
    pub clients: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{founded, node};
    use ferrite_base::{Epoch, Incarnation};
    use ferrite_cluster::Lease;
    use ferrite_io::Clock;
    use ferrite_io::simulated::SimulatedClock;
    use ferrite_meta::Command;
    use ferrite_value::OwnedValue;

    fn state() -> State {
        let nodes = vec![node(1), node(2), Node { vote: None, ..node(3) }, Node { kind: Kind::Witness, ..node(4) }];
        founded(nodes, &[1, 2], &[1, 2, 4])
    }

    const WELL: Found = Found {
        silent: Some(Duration::ZERO),
        reached: true,
        health: Some(Health {
            lacks_memory: false,
            lacks_java: false,
            room: Room::Enough,
            votes: true,
            incomplete: false,
            starting: false,
            log_failed: false,
            ends: false,
            durability: None,
            in_step: None,
            leads: None,
        }),
        failed: false,
    };

    /// Of nodes 1 to 4, one is so.
    fn with(node: u32, found: Found) -> Reachability {
        let of = |id| (NodeId(id), if id == node { found } else { WELL });
        Reachability((1..=4).map(of).collect())
    }

    #[test]
    fn losses_that_it_stands_follow_from_members_and_voters() {
        let (state, all) = (state(), with(0, WELL));
        let losses_without = |gone| losses(&state, Some(2), &with(gone, Found::default()));
        assert_eq!(losses_without(0), (1, 1));
        assert_eq!(losses_without(3), (1, 1), "it does not vote");
        assert_eq!(losses_without(4), (1, 0));
        let mut lost = state.clone();
        let node =
            Node { incarnation: Incarnation(2), vote: None, start: [2; 16], ..state.nodes()[&NodeId(2)].clone() };
        let again = Command::Register { id: NodeId(2), expected: Incarnation(1), node };
        lost.apply(&again).expect("a later process");
        assert_eq!(losses(&lost, Some(2), &all), (1, 0), "a vote that is lost is not there");
        assert_eq!([1, 2, 3, 4].map(|id| vote(&lost, &all, NodeId(id))), ["yes", "lost", "no", "yes"]);
        assert_eq!(losses(&state, Some(1), &all), (0, 0));
        assert_eq!((losses(&state, Some(0), &all), losses(&state, None, &all)), ((0, 0), (0, 0)));
        let sealed = |state: &State| waits_for(&state.groups()[&FIRST_GROUP], &with(0, WELL));
        assert_eq!(sealed(&state), None);
        let mut state = state;
        state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        assert_eq!(sealed(&state).as_deref(), Some("node 1 or node 2, members of its last configuration (epoch 1)"));
    }

    #[test]
    fn all_copies_are_there_where_k_and_one_are_led_complete_and_reached() {
        let seen = |members: &[u32]| {
            let state = founded((1..=4).map(node).collect(), members, &[1, 2, 4]);
            StatusSnapshot { state: Arc::new(state), ..StatusSnapshot::default() }
        };
        let (both, all) = (seen(&[1, 2]), with(0, WELL));
        assert!(has_all_copies(&both, Some(true), &all));
        for in_step in [None, Some(false)] {
            assert!(!has_all_copies(&both, in_step, &all), "one of them may lack something");
        }
        assert!(!has_all_copies(&both, Some(true), &with(2, Found::default())), "one is not reached");
        assert!(has_all_copies(&both, Some(true), &with(3, Found::default())), "it has no copy");
        assert!(!has_all_copies(&seen(&[1]), Some(true), &all), "one of two");
        assert!(!has_all_copies(&StatusSnapshot::default(), Some(true), &all), "nothing is founded");
        let mut sealed = (*both.state).clone();
        sealed.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        assert!(!has_all_copies(&StatusSnapshot { state: Arc::new(sealed), ..both }, Some(true), &all), "nobody leads");
    }

    /// The view of a process that led and stood still: it has heard nothing of its successor.
    #[test]
    fn a_leader_without_a_lease_is_shown_as_one_that_waits_for_the_voters() {
        let (clock, all) = (SimulatedClock::default(), with(0, WELL));
        let lease = Lease::new(Arc::new(clock.clone()));
        lease.extend(clock.boottime_nanos() + 1);
        let lead = Some((NodeId(1), lease.clone()));
        let seen =
            StatusSnapshot { state: Arc::new(state()), serves: Some(Epoch(1)), lead, ..StatusSnapshot::default() };
        let shown = |seen: &StatusSnapshot| {
            let (nodes, group) = (nodes(seen, Some(true), &all), group(seen, Some(true), &all, None));
            [nodes.rows()[0][4].clone(), group.rows()[0][2].clone(), group.rows()[0][7].clone()]
        };
        let (number, text) = (OwnedValue::Integer, |text: &str| OwnedValue::Text(text.into()));
        assert_eq!(shown(&seen), [text("leader"), number(1), text("")]);
        clock.advance(Duration::from_nanos(1));
        let waits_for = "a word of the voters, whether node 1 leads on";
        assert_eq!(shown(&seen), [text("member"), number(0), text(waits_for)]);
        assert!(!has_all_copies(&seen, Some(true), &all), "CLUSTERSAFETY");
    }

    #[test]
    fn a_member_that_was_just_added_or_is_not_there_keeps_nothing_alone() {
        let pair = vec![Member::new(1, 1), Member::new(2, 1)];
        let added = GroupConfiguration::new(Epoch(2), pair[0], pair, vec![NodeId(2)]);
        let keepers = |in_step, reachability: &Reachability| keepers(&added, in_step, reachability);
        assert_eq!([true, false].map(|in_step| keepers(in_step, &with(0, WELL))), [2, 1]);
        assert_eq!([true, false].map(|in_step| keepers(in_step, &with(2, Found::default()))), [1, 1]);
        assert_eq!([true, false].map(|in_step| keepers(in_step, &with(1, Found::default()))), [1, 0]);
    }

    #[test]
    fn a_status_counts_a_just_added_member_as_a_copy_when_it_is_complete() {
        let mut state = founded((1..=3).map(node).collect(), &[1], &[1, 2, 3]);
        let members = vec![Member::new(1, 1), Member::new(2, 1)];
        let configuration = GroupConfiguration::new(Epoch(2), members[0], members, vec![NodeId(2)]);
        let (expected, parent) = (Epoch(1), ferrite_replica::group::Mark::ORIGIN);
        state.apply(&Command::Configure { group: FIRST_GROUP, expected, configuration, parent }).expect("it follows");
        let seen = StatusSnapshot { state: Arc::new(state), registered: true, ..StatusSnapshot::default() };
        let shown = |in_step, reachability: &Reachability| {
            let (nodes, group) = (nodes(&seen, in_step, reachability), group(&seen, in_step, reachability, None));
            [nodes.rows()[1][4].clone(), group.rows()[0][3].clone(), group.rows()[0][5].clone()]
        };
        let (number, text) = (OwnedValue::Integer, |text: &str| OwnedValue::Text(text.into()));
        let all = with(0, WELL);
        assert_eq!(shown(Some(false), &all), [text(""), number(1), number(0)]);
        assert_eq!(shown(None, &all), [text(""), number(1), OwnedValue::Null]);
        assert_eq!(shown(Some(true), &all), [text("member"), number(2), number(1)]);
        // Its machine lost power, and what it had acknowledged was not synced.
        let lacks = Found { health: Some(Health { incomplete: true, ..Health::default() }), ..WELL };
        assert_eq!(shown(Some(true), &with(2, lacks)), [text("member"), number(2), number(0)]);
        assert!(!has_all_copies(&seen, Some(true), &with(2, lacks)));
    }

    #[test]
    fn a_node_whose_log_failed_is_no_stopped_one_where_it_is_heard_no_more() {
        let failed = Found { health: Some(Health { log_failed: true, ..Health::default() }), failed: true, ..WELL };
        let unheard = Found { reached: false, health: None, ..failed };
        for (known, found, shown) in [
            (Presence::Running, failed, "failed"),
            (Presence::Stopped, failed, "failed"),
            (Presence::Stopped, unheard, "failed"),
            (Presence::Stopped, Found::default(), "stopped"),
            (Presence::Running, unheard, "silent"),
            (Presence::Retired, unheard, "retired"),
        ] {
            assert_eq!(presence(known, found), shown);
        }
    }

    #[test]
    fn a_group_does_not_wait_for_a_member_that_is_there_and_lacks_something() {
        let mut state = state();
        state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        let group = &state.groups()[&FIRST_GROUP];
        let lacks = Found { health: Some(Health { incomplete: true, ..Health::default() }), ..WELL };
        let waits = |reachability: Reachability| waits_for(group, &reachability).expect("no node leads");
        assert_eq!(waits(with(2, lacks)), "node 1, members of its last configuration (epoch 1)");
        assert!(waits(with(2, Found { reached: false, ..lacks })).starts_with("node 1 or node 2, "));
        assert!(waits(Reachability((1..=4).map(|id| (NodeId(id), lacks)).collect())).starts_with("node 1 or node 2, "));
    }

    /// A node whose full disk takes nothing more runs, is reached, and its vote is gone.
    #[test]
    fn a_vote_that_cannot_be_given_is_not_there() {
        let state = state();
        let silent = Found { silent: Some(Duration::from_secs(14)), reached: false, ..WELL };
        let without_vote = Found { health: Some(Health::default()), ..WELL };
        for (found, shown, why) in [
            (
                without_vote,
                "missing",
                "node 4 cannot vote at the moment: its terminal says why, or it has not heard yet that it votes",
            ),
            (Found { health: None, ..WELL }, "unknown", "node 4 has not said yet whether it can vote"),
            (silent, "missing", "node 4 is not reached (nothing came from it for 14 s)"),
            (Found::default(), "missing", "node 4 is not reached (nothing came from it since this node started)"),
        ] {
            let reachability = with(4, found);
            assert_eq!(reachability.missing(&state, NodeId(4)).as_deref(), Some(why));
            assert_eq!(vote(&state, &reachability, NodeId(4)), shown);
            assert_eq!(
                (spare_voters(&state, &reachability), losses(&state, Some(2), &reachability)),
                (0, (1, 0)),
                "{why}"
            );
        }
        let all = with(4, WELL);
        assert_eq!((all.missing(&state, NodeId(4)), all.no_majority(&state)), (None, None));
        assert_eq!(with(4, silent).no_majority(&state), None, "two of three are there");
        let alone = Reachability((1..=4).map(|id| (NodeId(id), if id == 1 { WELL } else { silent })).collect());
        let why = alone.no_majority(&state).expect("one of three");
        assert!(why.starts_with("node 2 is not reached (nothing came from it for 14 s), node 4"), "{why}");
    }

    #[test]
    fn a_group_has_the_phase_of_its_failover() {
        let mut seen = StatusSnapshot { state: Arc::new(state()), registered: true, ..StatusSnapshot::default() };
        let group = seen.state.groups()[&FIRST_GROUP].clone();
        let (leader, epoch) = (group.configuration.leader.node, group.configuration.epoch);
        let of = |found: Found| Reachability(BTreeMap::from([(leader, found)]));
        let leading = |leads| Found { health: Some(Health { leads, ..Health::default() }), ..WELL };
        for (found, expected) in [
            (Found { reached: false, ..WELL }, Some(FailoverPhase::Detect)),
            (leading(Some((epoch, FailoverPhase::Open))), Some(FailoverPhase::Open)),
            (leading(Some((Epoch(epoch.0 + 1), FailoverPhase::Serve))), None),
            (leading(None), None),
        ] {
            assert_eq!(phase(&group, &seen, &of(found)), expected);
        }
        let sealed = Group { phase: Phase::Sealing, ..group.clone() };
        assert_eq!(phase(&sealed, &seen, &of(WELL)), Some(FailoverPhase::Promise));
        let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::default());
        seen.lead = Some((leader, Lease::new(clock)));
        seen.phase = Some((epoch, FailoverPhase::Apply));
        assert_eq!(phase(&group, &seen, &of(WELL)), Some(FailoverPhase::Apply), "this node's own");
        seen.registered = false;
        assert_eq!(phase(&group, &seen, &of(WELL)), None, "what it knew last");
    }
}
