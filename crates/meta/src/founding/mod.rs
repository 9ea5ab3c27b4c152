//! How nodes become a cluster (docs/decisions/0056-founding.md): each declares itself, durably, and
//! computes the cluster from the declarations of all.
//!
//! Promises that nodes that found from the same declarations found the same cluster, and that a
//! node says nothing of itself that is not durable. Knows no sockets and no disks: messages and
//! what is to be written down are values.

mod declaration;
mod foreseen;
mod founded;
mod joining;
mod layout;
mod manner;
mod message;

pub use declaration::{Database, Declaration, Partitions, Plan};
pub use foreseen::{NeedsWitnesses, foresee};
pub use founded::{Unfounded, cluster_id, found};
pub use joining::{Joins, Looks, Shown};
pub use layout::{Impossible, KFACTOR_MAX, Layout};
pub use manner::Manner;
pub use message::{Acquainted, WrittenDown};

use crate::bytes::Malformed;
use crate::{NODES_MAX, State};
use ferrite_notice::Notice;
use founded::name;
use message::Message;
use std::collections::{BTreeMap, BTreeSet};

/// What is to be done, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// To the node at that place.
    Send { to: u32, message: Vec<u8> },
    /// To be made durable; then [`Founding::written`] is called.
    Write(Box<WrittenDown>),
    /// The cluster, whose node this is, with the id of its place.
    Founded(Box<State>),
    /// A cluster was founded with these, and this node's declaration is not among them: its
    /// directory was emptied since, or it was late. It may join as a new node.
    FoundedWithout(Vec<Declaration>),
    /// For the operator.
    Say(Notice),
}

/// A place of the list, as far as it is known before there is a cluster.
pub struct Place {
    pub host: String,
    pub declaration: Option<Declaration>,
}

/// What a founding node waits for.
pub struct Awaits {
    pub places: Vec<Place>,
    /// In words.
    pub reason: String,
}

enum Phase {
    /// Its declaration is being written.
    Declaring,
    /// Some places have not declared.
    Waiting,
    /// What it has founded is being written.
    Writing(Box<State>),
    /// Others have founded without it. One that has founded with it may still report that.
    Without,
    Done,
}

/// As its operator has said it.
pub fn partitions_per_node(plan: &Plan) -> String {
    match plan.partitions_per_node {
        Some(count) => format!("--partitions-per-node {count}"),
        None => "no --partitions-per-node".to_owned(),
    }
}

/// Each option of the plan in which two nodes differ, as the first has it and as the second has it.
pub fn plan_differences(first: &Plan, second: &Plan) -> Vec<(String, String)> {
    let mut options = Vec::new();
    if first.hosts != second.hosts {
        options.push((
            format!("--cluster {}", first.hosts.join(",")),
            format!("--cluster {} (the order counts)", second.hosts.join(",")),
        ));
    }
    if first.kfactor != second.kfactor {
        options.push((format!("--kfactor {}", first.kfactor), format!("--kfactor {}", second.kfactor)));
    }
    if first.partitions_per_node != second.partitions_per_node {
        options.push((partitions_per_node(first), partitions_per_node(second)));
    }
    options
}

/// One node, before there is a cluster and while others may still need to hear of it.
pub struct Founding {
    written: WrittenDown,
    phase: Phase,
    /// By place, of the same plan.
    declared: BTreeMap<u32, Declaration>,
    /// With what each was started, as far as they say.
    manners: BTreeMap<u32, Manner>,
    /// By place, the key of the node that answers there, if it says that it is at another.
    misplaced: BTreeMap<u32, [u8; 16]>,
    /// The places that it last reported waiting for.
    said: Option<BTreeSet<u32>>,
    /// Nodes whose plan differs, by host, and what was said of them.
    complained: BTreeMap<String, (Declaration, Notice)>,
    /// The same of manners.
    differed: Option<Notice>,
    effects: Vec<Effect>,
}

impl Founding {
    /// `written`: what the directory says. `wanted`: what the operator wants now, with a new random
    /// key; `joins`: of a cluster that there is.
    pub fn new(written: Option<WrittenDown>, wanted: Declaration, joins: bool) -> Founding {
        let declare =
            |written: WrittenDown| (written.clone(), Phase::Declaring, vec![Effect::Write(Box::new(written))]);
        let (written, phase, effects) = match written {
            Some(written) if written.founded.is_some() => (written, Phase::Waiting, Vec::new()),
            // What was declared counts, as long as its operator says the same.
            Some(written) if written.own.says_as(&wanted) && written.joins == joins => {
                let phase = if joins { Phase::Without } else { Phase::Waiting };
                (written, phase, Vec::new())
            }
            Some(written) if written.own.says_as(&wanted) => declare(WrittenDown { joins, ..written }),
            _ => declare(WrittenDown { own: wanted, joins, founded: None, known: None }),
        };
        let declared = BTreeMap::from([(written.own.place, written.own.clone())]);
        let mut founding = Founding {
            written,
            phase,
            declared,
            manners: BTreeMap::new(),
            misplaced: BTreeMap::new(),
            said: None,
            complained: BTreeMap::new(),
            differed: None,
            effects,
        };
        if let Some(all) = founding.written.founded.clone() {
            // It was computed before it was written down.
            let state = found(&all).expect("what was founded once can be founded");
            founding.effects.push(Effect::Founded(Box::new(state)));
            founding.phase = Phase::Done;
        }
        founding.found_or_wait();
        founding
    }

    /// The other options that this node was started with. To be called before anything is carried
    /// out.
    #[must_use]
    pub fn started_with(mut self, manner: Option<Manner>) -> Founding {
        let place = self.written.own.place;
        self.manners.extend(manner.map(|manner| (place, manner)));
        self
    }

    pub fn move_effects(&mut self, to: &mut Vec<Effect>) {
        to.append(&mut self.effects);
    }

    /// What has been declared so far, and why there is no cluster yet.
    pub fn awaits(&self) -> Awaits {
        let hosts = &self.written.own.plan.hosts;
        let place = |(place, host): (u32, &String)| {
            let differs = self.complained.get(host).map(|(declaration, _)| declaration);
            Place { host: host.clone(), declaration: self.declared.get(&place).or(differs).cloned() }
        };
        let places: Vec<Place> = (1..).zip(hosts).map(place).collect();
        let missing = (1..).zip(hosts).filter(|(place, _)| !self.declared.contains_key(place));
        let missing: Vec<String> = missing.map(|(number, host)| format!("node {number} ({host})")).collect();
        let complaints = self.complained.values().map(|(_, notice)| notice.to_string());
        let reasons: Vec<String> = if missing.is_empty() {
            let all: Vec<Declaration> = self.declared.values().cloned().collect();
            let differs = self.differed.as_ref().map(Notice::to_string);
            let why = differs.or_else(|| found(&all).err().map(|unfounded| unfounded.to_string()));
            vec![why.map_or_else(|| "the others".to_owned(), |why| format!("nodes that agree: {why}"))]
        } else {
            std::iter::once(format!("{}, to found the cluster", missing.join(", "))).chain(complaints).collect()
        };
        Awaits { places, reason: reasons.join("; ") }
    }

    /// Something new came, or was done, that is to be carried out.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    pub fn own(&self) -> &Declaration {
        &self.written.own
    }

    /// Its operator has said that there is a cluster.
    pub fn joins_by_word(&self) -> bool {
        self.written.joins
    }

    /// It has no cluster, and asks an existing one.
    pub fn joins(&self) -> bool {
        matches!(self.phase, Phase::Without)
    }

    /// What was to be written is durable.
    pub fn written(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Declaring if self.written.joins => self.phase = Phase::Without,
            Phase::Declaring => {
                self.say_to_all();
                self.found_or_wait();
            }
            Phase::Writing(state) => {
                self.effects.push(Effect::Founded(state));
                self.phase = Phase::Done;
                self.say_to_all();
            }
            Phase::Waiting | Phase::Without | Phase::Done => panic!("nothing was to be written"),
        }
    }

    /// Repeats what others may have missed: to be called for a place to which a connection was
    /// made.
    pub fn say(&mut self, to: u32) {
        let Some(message) = self.message() else { return };
        if to != self.written.own.place {
            self.effects.push(Effect::Send { to, message: message.encode() });
        }
    }

    /// The same to all, while some are missing: to be called once a second.
    pub fn tick(&mut self) {
        if matches!(self.phase, Phase::Waiting | Phase::Without) && !self.written.joins {
            self.say_to_all();
        }
    }

    fn say_to_all(&mut self) {
        for place in 1..=self.written.own.plan.hosts.len() as u32 {
            self.say(place);
        }
    }

    /// What this node's cluster was founded from, if there is one.
    pub fn founded(&self) -> Option<&[Declaration]> {
        self.written.founded.as_deref().filter(|_| matches!(self.phase, Phase::Done))
    }

    /// The node has joined the cluster of these, and has written that down.
    pub fn joined(&mut self, written: WrittenDown) {
        assert!(written.founded.is_some() && written.known.is_some(), "a node that joined knows its cluster");
        (self.written, self.phase) = (written, Phase::Done);
    }

    /// What is to be written down, if a later start would look for other nodes than before.
    pub fn learn(&mut self, known: Acquainted) -> Option<WrittenDown> {
        let state = &known.state;
        let same = |before: &Acquainted| {
            let whom = |state: &State| {
                let there = state.latest().map(|(id, node)| (*id, node.host().map(str::to_owned)));
                (there.collect::<Vec<_>>(), state.voters().clone(), state.vote(known.node))
            };
            before.index >= known.index || whom(&before.state) == whom(state)
        };
        if !matches!(self.phase, Phase::Done) || self.written.known.as_ref().is_some_and(same) {
            return None;
        }
        self.written.known = Some(known);
        Some(self.written.clone())
    }

    /// None: nothing of this node is durable yet.
    fn message(&self) -> Option<Message> {
        match (&self.phase, &self.written.founded) {
            (Phase::Declaring, _) => None,
            (Phase::Done, Some(all)) => Some(Message::Founded(all.clone())),
            _ => {
                let own = &self.written.own;
                Some(Message::Declares(Box::new(own.clone()), self.manners.get(&own.place).cloned()))
            }
        }
    }

    /// This node's answer to a node that has just sent something; None: nothing of it is durable
    /// yet.
    pub fn answer(&self) -> Option<Vec<u8>> {
        self.message().map(|message| message.encode())
    }

    /// What the node at that place says or answers; None: the asking node is unknown.
    pub fn handle_message(&mut self, from: Option<u32>, bytes: &[u8]) -> Result<(), Malformed> {
        match Message::decode(bytes)? {
            // In another list, the places are different.
            Message::Declares(declaration, manner) => match from {
                Some(from) if from != declaration.place && declaration.plan == self.written.own.plan => {
                    self.answers_as_another(from, &declaration);
                }
                None if self.misplaced.values().any(|key| *key == declaration.key) => {}
                // The answer says everything, and effects are no longer carried out.
                None if matches!(self.phase, Phase::Done) => {}
                _ => {
                    from.map(|from| self.misplaced.remove(&from));
                    self.declared(*declaration, manner);
                }
            },
            Message::Founded(all) => self.founded_elsewhere(all),
        }
        Ok(())
    }

    /// The node at that place takes itself for another. Its declaration is given up, or a cluster
    /// would be founded with a node that is never there.
    fn answers_as_another(&mut self, from: u32, declaration: &Declaration) {
        self.misplaced.insert(from, declaration.key);
        let place = declaration.place;
        let is_that = self.declared.get(&place).is_some_and(|declared| declared.key == declaration.key);
        if is_that && place != self.written.own.place && matches!(self.phase, Phase::Waiting) {
            self.declared.remove(&place);
        }
        let host = self.written.own.plan.hosts[from as usize - 1].clone();
        self.effects.push(Effect::Say(Notice::NodeMisplaced { host, claims: name(declaration), expected: from }));
        self.found_or_wait();
    }

    fn declared(&mut self, declaration: Declaration, manner: Option<Manner>) {
        let place = declaration.place;
        if declaration.plan != self.written.own.plan {
            return self.complain(&declaration, manner.as_ref());
        }
        self.complained.remove(&self.written.own.plan.hosts[place as usize - 1]);
        match self.phase {
            // It has not heard yet that there is a cluster.
            Phase::Done => self.say(place),
            Phase::Declaring | Phase::Waiting => {
                // The last declaration counts: an earlier one is of a directory that was emptied
                // since.
                let before = self.declared.insert(place, declaration.clone());
                let manner_before = match &manner {
                    Some(manner) => self.manners.insert(place, manner.clone()),
                    None => self.manners.remove(&place),
                };
                if before.as_ref() != Some(&declaration) || manner_before != manner {
                    self.say(place);
                    self.found_or_wait();
                }
            }
            Phase::Writing(_) | Phase::Without => {}
        }
    }

    /// Another node has founded.
    fn founded_elsewhere(&mut self, all: Vec<Declaration>) {
        if !matches!(self.phase, Phase::Waiting | Phase::Without) {
            return;
        }
        let own = &self.written.own;
        if all.iter().any(|one| one == own) {
            self.phase = Phase::Waiting;
            // There is a cluster, whatever this node was started with.
            self.manners.clear();
            self.declared = all.into_iter().map(|declaration| (declaration.place, declaration)).collect();
            self.found_or_wait();
        } else if matches!(self.phase, Phase::Waiting) {
            self.phase = Phase::Without;
            self.effects.push(Effect::FoundedWithout(all));
        }
    }

    fn complain(&mut self, other: &Declaration, manner: Option<&Manner>) {
        let own = &self.written.own;
        let theirs = &other.plan;
        let mut settings = plan_differences(theirs, &own.plan);
        if let (Some(own_manner), Some(manner)) = (self.manners.get(&own.place), manner) {
            let begins_empty = own.database.is_none() && other.database.is_none();
            settings.extend(manner::differences(manner, own_manner, begins_empty));
        }
        let (their_settings, own_settings): (Vec<String>, Vec<String>) = settings.into_iter().unzip();
        // In its own list it may have another number than in this one.
        let host = &theirs.hosts[other.place as usize - 1];
        let notice = Notice::OptionsDiffer {
            first: format!("the node at {host}"),
            of_first: their_settings.join(" "),
            second: "this one".to_owned(),
            of_second: own_settings.join(" "),
        };
        let before = self.complained.get(host).map(|(_, said)| said);
        if before == Some(&notice) || before.is_none() && self.complained.len() >= NODES_MAX {
            return;
        }
        self.complained.insert(host.clone(), (other.clone(), notice.clone()));
        self.effects.push(Effect::Say(notice));
    }

    /// Founds, or reports the nodes that it waits for.
    fn found_or_wait(&mut self) {
        if !matches!(self.phase, Phase::Waiting) {
            return;
        }
        let hosts = &self.written.own.plan.hosts;
        let missing: BTreeSet<u32> =
            (1..=hosts.len() as u32).filter(|place| !self.declared.contains_key(place)).collect();
        if !missing.is_empty() {
            if self.said.as_ref() != Some(&missing) {
                let nodes =
                    missing.iter().map(|place| format!("node {place} ({})", hosts[*place as usize - 1])).collect();
                self.effects.push(Effect::Say(Notice::WaitsForNodes { nodes }));
                self.said = Some(missing);
            }
            return;
        }
        let differs = manner::differing(&self.declared, &self.manners).or_else(|| manner::racks_differ(&self.declared));
        if let Some(notice) = &differs {
            if self.differed != differs {
                self.effects.push(Effect::Say(notice.clone()));
            }
            self.differed = differs;
            return;
        }
        self.differed = None;
        let all: Vec<Declaration> = self.declared.values().cloned().collect();
        match found(&all) {
            Ok(state) => {
                self.written.founded = Some(all);
                self.effects.push(Effect::Write(Box::new(self.written.clone())));
                self.phase = Phase::Writing(Box::new(state));
            }
            // Said once for each set of declarations.
            Err(unfounded) => self.effects.push(Effect::Say(Notice::NoCluster { reason: unfounded.to_string() })),
        }
    }
}
