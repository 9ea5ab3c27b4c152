//! How this node's process becomes one of a cluster: asks the others until all have declared
//! (docs/decisions/0056-founding.md), or until an existing cluster has taken it in
//! (docs/decisions/0065-joining.md); answers the nodes that ask.
//!
//! The steps are `ferrite_meta::founding`; this brings them disk, network and time.

use crate::directory;
use crate::error::MemberError;
use crate::notices::Notices;
use crate::place;
use crate::rounds::Rounds;
use crossbeam_channel::{Receiver, Sender, bounded};
use ferrite_base::NodeId;
use ferrite_io::Disk;
use ferrite_meta::founding::{
    Acquainted, Awaits, Declaration, Effect, Founding, Joins, Looks, Manner, Shown, WrittenDown,
};
use ferrite_meta::{Node, Presence, State, why_retired};
use ferrite_notice::Notice;
use ferrite_peer::inquire;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Between two checks whether the process is to end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A node that does not answer in this time is asked again in the next round.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// After this the operator hears what a node that joins waits for.
const SAY_AFTER: Duration = Duration::from_secs(4);

/// The cluster that a node belongs to.
pub struct Formed {
    pub own: Declaration,
    /// The list from which it was founded.
    pub all: Vec<Declaration>,
    /// The cluster as it was founded.
    pub state: Box<State>,
    /// What this node knew of it last.
    pub known: Option<Acquainted>,
}

/// The outcome of the declarations.
enum Came {
    Founded(Box<Formed>),
    /// The others have founded a cluster, with another directory in this node's place.
    Without(Vec<Declaration>),
}

/// The way into an existing cluster.
struct Joining {
    /// None: any cluster that the named nodes belong to.
    cluster: Option<[u8; 16]>,
    hosts: BTreeSet<String>,
    /// The latest state that it was shown.
    shown: Option<Shown>,
    since: Instant,
}

/// The node's side of founding, for the thread that asks and those that answer.
pub struct Founders {
    founding: Mutex<Founding>,
    news: (Sender<()>, Receiver<()>),
    notices: Notices,
    /// The nodes that it asks to take it in, and what it waits for, where it joins.
    joining: Mutex<Option<(BTreeSet<String>, String)>>,
}

impl Founders {
    pub fn new(written: Option<WrittenDown>, wanted: Declaration, joins: bool, manner: Option<Manner>) -> Founders {
        let founding = Mutex::new(Founding::new(written, wanted, joins).started_with(manner));
        Founders { founding, news: bounded(1), notices: Notices::default(), joining: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Founding> {
        self.founding.lock().expect("a panic with the founding ends the process")
    }

    pub fn own(&self) -> Declaration {
        self.lock().own().clone()
    }

    /// Its operator says that a cluster exists.
    fn joins_by_word(&self) -> bool {
        self.lock().joins_by_word()
    }

    /// What it waits for where it founds.
    pub fn awaits(&self) -> Awaits {
        self.lock().awaits()
    }

    /// The nodes that are asked to take this one in, and what it waits for; None: it does not join.
    pub fn asks_to_join(&self) -> Option<(BTreeSet<String>, String)> {
        self.joining.lock().expect("no panic with whom it asks").clone()
    }

    /// What this node's cluster was founded from.
    pub fn founded(&self) -> Option<Vec<Declaration>> {
        self.lock().founded().map(<[Declaration]>::to_vec)
    }

    /// The answer to a node that asks, before or after this node belongs to the cluster.
    pub fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let mut founding = self.lock();
        if let Err(error) = founding.handle_message(None, question) {
            self.notices.say(Notice::QuestionUnreadable { reason: error.to_string() });
            return None;
        }
        let answer = founding.answer();
        let is_news = founding.has_effects();
        drop(founding);
        // Nodes that heard nothing new must not answer each other with questions for ever.
        if is_news {
            let _ = self.news.0.try_send(());
        }
        answer
    }

    /// What this node answers to one that joins: the cluster as it is known here.
    pub fn show(&self, index: u64, state: &State) -> Option<Vec<u8>> {
        let founded = self.founded()?;
        Some(Shown { founded, index, state: state.clone() }.encode())
    }

    /// The cluster has other nodes, or other voters: the next start looks for these.
    pub fn learn(&self, disk: &dyn Disk, dir: &Path, known: Acquainted) -> Result<(), MemberError> {
        let written = self.lock().learn(known);
        written.map_or(Ok(()), |written| directory::write_founding(disk, dir, &written))
    }

    /// Asks until a cluster exists, or until the process is to end. `newcomer`: what the node says
    /// of itself where it joins.
    pub fn form(&self, disk: &dyn Disk, dir: &Path, newcomer: &Node, ends: &AtomicBool) -> Result<Formed, MemberError> {
        let mut joining: Option<Joining> = None;
        let mut rounds = Rounds::new(Instant::now());
        loop {
            let is_due = rounds.begin(Instant::now());
            if is_due {
                self.lock().tick();
            }
            let mut asks = BTreeMap::new();
            let came = self.carry_out(disk, dir, &mut asks)?;
            if let Some(formed) = self.follow(came, &mut joining, &mut rounds)? {
                return Ok(formed);
            }
            self.ask(asks);
            if let Some(joining) = joining.as_mut().filter(|_| is_due) {
                let was_shown = joining.shown.is_some();
                if let Some(formed) = self.join(joining, disk, dir, newcomer)? {
                    return Ok(formed);
                }
                // The voters are being asked now, and answer soon if they can.
                if !was_shown && joining.shown.is_some() {
                    rounds.hurry(Instant::now());
                }
            }
            // Nodes that have just answered know what this one says: nothing is sent again.
            let came = self.carry_out(disk, dir, &mut BTreeMap::new())?;
            if let Some(formed) = self.follow(came, &mut joining, &mut rounds)? {
                return Ok(formed);
            }
            self.wait(rounds.next(), ends)?;
        }
    }

    /// The cluster, if the node already belongs to one; otherwise its way into one, if it has to
    /// join.
    fn follow(
        &self,
        came: Option<Came>,
        joining: &mut Option<Joining>,
        rounds: &mut Rounds,
    ) -> Result<Option<Formed>, MemberError> {
        *joining = match came {
            Some(Came::Founded(formed)) => return Ok(Some(*formed)),
            Some(Came::Without(all)) => Some(self.begin_to_join(Some(&all))?),
            None if joining.is_none() && self.lock().joins() => Some(self.begin_to_join(None)?),
            None => return Ok(None),
        };
        rounds.hurry(Instant::now());
        Ok(None)
    }

    /// Waits until the next round, or until another node has said something new.
    fn wait(&self, next: Instant, ends: &AtomicBool) -> Result<(), MemberError> {
        loop {
            if ends.load(Ordering::Acquire) {
                return Err(MemberError::Ended);
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() || self.news.1.recv_timeout(left.min(LOOK_EVERY)).is_ok() {
                return Ok(());
            }
        }
    }

    /// `asks`: for each place, the question to it.
    fn carry_out(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        asks: &mut BTreeMap<u32, Vec<u8>>,
    ) -> Result<Option<Came>, MemberError> {
        let mut effects = VecDeque::new();
        let mut written = directory::founding(disk, dir)?;
        loop {
            let mut new = Vec::new();
            self.lock().move_effects(&mut new);
            effects.extend(new);
            let Some(effect) = effects.pop_front() else { return Ok(None) };
            match effect {
                Effect::Send { to, message } => drop(asks.insert(to, message)),
                Effect::Write(down) => {
                    directory::write_founding(disk, dir, &down)?;
                    written = Some(*down);
                    self.lock().written();
                }
                Effect::Founded(state) => {
                    let WrittenDown { own, founded, known, .. } = written.take().expect("what was founded is written");
                    let all = founded.expect("what was founded is written down");
                    return Ok(Some(Came::Founded(Box::new(Formed { own, all, state, known }))));
                }
                Effect::FoundedWithout(all) => return Ok(Some(Came::Without(all))),
                Effect::Say(notice) => self.notices.say(notice),
            }
        }
    }

    /// Asks all at the same time: a node that does not answer holds up no other.
    fn ask(&self, asks: BTreeMap<u32, Vec<u8>>) {
        let hosts = self.own().plan.hosts;
        std::thread::scope(|scope| {
            for (to, message) in asks {
                let host = &hosts[to as usize - 1];
                scope.spawn(move || self.ask_one(to, host, &message));
            }
        });
    }

    fn ask_one(&self, to: u32, host: &str, message: &[u8]) {
        let Some(answer) = self.inquire(host, message) else { return };
        if let Err(error) = self.lock().handle_message(Some(to), &answer) {
            let host = format!("node {to} ({host})");
            self.notices.say(Notice::AnswerUnusable { host, reason: error.to_string() });
        }
    }

    fn inquire(&self, host: &str, message: &[u8]) -> Option<Vec<u8>> {
        self.inquire_of(host, message, &|notice| self.notices.say(notice))
    }

    fn inquire_of(&self, host: &str, message: &[u8], say: &dyn Fn(Notice)) -> Option<Vec<u8>> {
        let addresses = place::addresses(host);
        if addresses.is_empty() {
            say(Notice::NameUnknown { host: host.to_owned() });
        }
        for address in addresses {
            match inquire(address, message, ANSWER_TIME_MAX) {
                Ok(answer) => return Some(answer),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    say(Notice::NotOfThisCluster { host: host.to_owned(), reason: error.to_string() });
                }
                // It is not there yet.
                Err(_) => {}
            }
        }
        None
    }

    /// Asks all at the same time; returns those that answer.
    fn inquire_all(
        &self,
        hosts: &BTreeSet<String>,
        question: &[u8],
        say: &(dyn Fn(Notice) + Sync),
    ) -> Vec<(String, Vec<u8>)> {
        std::thread::scope(|scope| {
            let ask = |host: &String| {
                let host = host.clone();
                scope.spawn(move || self.inquire_of(&host, question, say).map(|answer| (host, answer)))
            };
            let asked: Vec<_> = hosts.iter().map(ask).collect();
            asked.into_iter().filter_map(|thread| thread.join().expect("asking does not panic")).collect()
        })
    }

    /// Whether this node may take part again. `state`: the cluster as it knew it last. Where no
    /// node answers, it may: all start at the same time, or it hears it from the voters.
    pub fn check(&self, node: NodeId, state: &State) -> Result<(), MemberError> {
        // Those that start at the same time do not answer yet.
        let retired = self.shown_by_others(node, state).iter().find_map(|shown| why_retired(&shown.state, node));
        retired.map_or(Ok(()), |reason| Err(MemberError::Cluster(reason)))
    }

    /// The metadata as the other nodes that answer know it. `state`: as this node knew it last.
    pub fn shown_by_others(&self, node: NodeId, state: &State) -> Vec<Shown> {
        self.others_that_run(node, state).into_iter().map(|(_, shown)| shown).collect()
    }

    /// The same, each with the address at which its node answers.
    pub fn others_that_run(&self, node: NodeId, state: &State) -> Vec<(String, Shown)> {
        let own = state.nodes().get(&node).and_then(Node::host);
        let others = state.latest().filter_map(|(_, known)| known.host()).filter(|host| Some(*host) != own);
        let hosts: BTreeSet<String> = others.map(str::to_owned).collect();
        let Some(settings) = state.settings() else { return Vec::new() };
        let question = Looks { cluster: settings.cluster }.encode();
        let answers = self.inquire_all(&hosts, &question, &|_| {});
        answers.into_iter().filter_map(|(host, answer)| Some((host, Shown::decode(&answer).ok()?))).collect()
    }

    /// `all`: the list from which the cluster was founded, as far as it is known.
    fn begin_to_join(&self, all: Option<&[Declaration]>) -> Result<Joining, MemberError> {
        let own = self.own();
        let joins = self.joins_by_word();
        let host = own.plan.hosts[own.place as usize - 1].clone();
        let mut hosts: BTreeSet<String> = own.plan.hosts.iter().cloned().collect();
        let cluster = all.map(|all| {
            hosts.extend(all.iter().flat_map(|one| one.plan.hosts.iter().cloned()));
            ferrite_meta::founding::cluster_id(all)
        });
        if let Some(refused) = all.and_then(|all| cannot_join(&own, joins, all)) {
            return Err(MemberError::Cluster(refused));
        }
        hosts.remove(&host);
        match all {
            Some(_) => self.notices.say(Notice::JoinsAsNew { host }),
            None => self.notices.say(Notice::AsksToJoin { hosts: listed(&hosts) }),
        }
        Ok(Joining { cluster, hosts, shown: None, since: Instant::now() })
    }

    /// Asks all known nodes to take this one in.
    fn join(
        &self,
        joining: &mut Joining,
        disk: &dyn Disk,
        dir: &Path,
        newcomer: &Node,
    ) -> Result<Option<Formed>, MemberError> {
        let own = self.own();
        let joins = self.joins_by_word();
        let question =
            Joins { cluster: joining.cluster, key: own.key, node: Node { start: own.key, ..newcomer.clone() } };
        for (host, answer) in self.inquire_all(&joining.hosts, &question.encode(), &|notice| self.notices.say(notice)) {
            match Shown::decode(&answer) {
                Ok(shown) => {
                    let cluster = ferrite_meta::founding::cluster_id(&shown.founded);
                    if *joining.cluster.get_or_insert(cluster) != cluster {
                        return Err(MemberError::Cluster(format!(
                            "{host} belongs to another cluster than the other nodes that were named: name nodes of one cluster"
                        )));
                    }
                    if joining.shown.as_ref().is_none_or(|before| before.index < shown.index) {
                        joining.shown = Some(shown);
                    }
                }
                Err(error) => self.notices.say(Notice::AnswerUnusable { host, reason: error.to_string() }),
            }
        }
        if let Some(shown) = &joining.shown {
            if let Some(refused) = cannot_join(&own, joins, &shown.founded) {
                return Err(MemberError::Cluster(refused));
            }
            let others = shown.state.nodes().values().filter(|node| node.presence != Presence::Retired);
            let host = newcomer.host();
            joining.hosts.extend(others.filter_map(Node::host).filter(|other| Some(*other) != host).map(str::to_owned));
            if let Some(node) = shown.state.joined_with(own.key) {
                return self.joined(disk, dir, node, shown).map(Some);
            }
            // The voters give it no id.
            if !shown.state.has_place_for(newcomer) {
                let host = newcomer.host().unwrap_or_default();
                return Err(MemberError::Cluster(place::nothing_for(host, &shown.state)));
            }
        }
        let reason = waits_for(joining, newcomer);
        if joining.since.elapsed() >= SAY_AFTER {
            self.notices.say(Notice::WaitsToJoin { reason: reason.clone() });
        }
        *self.joining.lock().expect("no panic with whom it asks") = Some((joining.hosts.clone(), reason));
        Ok(None)
    }

    /// The metadata has an id for this node: once that is written down, the node belongs to the
    /// cluster.
    fn joined(&self, disk: &dyn Disk, dir: &Path, node: NodeId, shown: &Shown) -> Result<Formed, MemberError> {
        let own = self.own();
        let joins = self.joins_by_word();
        let known = Acquainted { node, index: shown.index, state: shown.state.clone() };
        let all = shown.founded.clone();
        let state = ferrite_meta::founding::found(&all).map_err(|error| {
            MemberError::Cluster(format!("what the cluster was founded from cannot be used: {error}"))
        })?;
        let written = WrittenDown { own: own.clone(), joins, founded: Some(all.clone()), known: Some(known.clone()) };
        directory::write_founding(disk, dir, &written)?;
        self.lock().joined(written);
        Ok(Formed { own, all, state: Box::new(state), known: Some(known) })
    }
}

/// Why a node with this declaration must not join their cluster. `joins`: its operator says that a
/// cluster exists.
fn cannot_join(own: &Declaration, joins: bool, all: &[Declaration]) -> Option<String> {
    let theirs = &all.first().expect("a cluster has a node").plan;
    if !joins && own.plan != *theirs && own.plan.hosts == theirs.hosts {
        let differing = ferrite_meta::founding::plan_differences(theirs, &own.plan);
        let (of_theirs, of_own): (Vec<String>, Vec<String>) = differing.into_iter().unzip();
        return Some(format!(
            "the nodes of --cluster {} belong to a cluster already, which was founded with {}, and this node was started with \
             {}: start it with the options that the cluster was founded with",
            own.plan.hosts.join(","),
            of_theirs.join(" "),
            of_own.join(" ")
        ));
    }
    if !joins && own.plan != *theirs {
        return Some(format!(
            "the nodes of --cluster {} belong to a cluster already, which was founded with --cluster {} --kfactor {}. To add this \
             node to it, add --join",
            own.plan.hosts.join(","),
            theirs.hosts.join(","),
            theirs.kfactor
        ));
    }
    if own.database.is_some() {
        return Some(format!(
            "this directory has a database, and the cluster of {} has one too: a node that joins gets the cluster's. Start it \
             with an empty directory; what `ferrite dump` writes of this database can be loaded into the cluster. If a new \
             cluster is to begin with this database, stop the nodes of the other one and give them empty directories",
            theirs.hosts.join(",")
        ));
    }
    None
}

fn listed(hosts: &BTreeSet<String>) -> String {
    hosts.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn waits_for(joining: &Joining, newcomer: &Node) -> String {
    let Some(Shown { state, .. }) = &joining.shown else {
        return format!("a node of the cluster at {}: none has answered", listed(&joining.hosts));
    };
    let before =
        state.nodes().iter().find(|(_, node)| node.host() == newcomer.host() && node.presence == Presence::Running);
    let voters: Vec<String> = state.voters().iter().map(|voter| format!("node {voter}")).collect();
    let of = format!("a majority of the cluster's voters ({}) to take this node in", voters.join(", "));
    match (before, newcomer.host()) {
        (Some((id, _)), Some(host)) => {
            format!("{of}, once the process of node {id}, which was at {host}, must have ended")
        }
        _ => of,
    }
}
