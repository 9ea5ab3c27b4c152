//! The metadata, as one process that never fails: the real state, and for now in place of its
//! voters what docs/replication.md says that their leader does.

use crate::cluster::network::{METADATA, Packet};
use crate::cluster::plan::{DEAD_NANOS, GRACE_NANOS, SEAL_AGAIN_NANOS};
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_meta::{Ask, Change, Command, Group, Kind, Node, Phase, Presence, Settings, State};
use ferrite_replica::group::{GroupConfiguration, Mark, Member, Proposal, Sealed, decide};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Metadata {
    state: Arc<State>,
    index: u64,
    /// When each node was last heard of.
    heard: BTreeMap<NodeId, u64>,
    seals: BTreeMap<GroupId, Seal>,
    /// What it wants to say.
    out: Vec<Packet>,
    /// Every configuration of each group, in order.
    pub configurations: Vec<(GroupId, GroupConfiguration)>,
    pub seals_begun: u64,
    pub refused: u64,
}

struct Seal {
    epoch: Epoch,
    began: u64,
    answers: BTreeMap<NodeId, Sealed>,
    /// When one sufficed.
    sufficed: Option<u64>,
}

/// What a node says of itself. No directory is copied: its incarnation tells its starts apart.
pub fn registration(id: NodeId, incarnation: Incarnation) -> Node {
    Node {
        incarnation,
        start: u128::from(incarnation.0).to_le_bytes(),
        kind: Kind::Data,
        presence: Presence::Running,
        release: "simulated".to_owned(),
        addresses: vec![format!("node{id}:1")],
    }
}

impl Metadata {
    /// Founds a cluster: node 1 leads the group, and all are members.
    pub fn found(cluster: [u8; 16], nodes: u32, partitions: u32, group: GroupId, now: u64) -> Metadata {
        let members: Vec<Member> = (1..=nodes).map(|id| Member::new(id, 1)).collect();
        // Registered by their founder; each says so again when it starts.
        let registered = |member: &Member| (member.node, registration(member.node, member.incarnation));
        let configuration = GroupConfiguration::new(Epoch(1), members[0], members.clone(), Vec::new());
        let founded =
            Group { configuration: configuration.clone(), parent: Mark::ORIGIN, burnt: Epoch(1), phase: Phase::Active };
        let command = Command::Found {
            settings: Settings { cluster, revision: 1, kfactor: nodes - 1, partitions },
            nodes: members.iter().map(registered).collect(),
            groups: vec![(group, founded)],
            voters: vec![NodeId(1)],
        };
        let mut state = State::default();
        state.apply(&command).expect("a cluster can be founded");
        Metadata {
            state: Arc::new(state),
            index: 1,
            heard: members.iter().map(|member| (member.node, now)).collect(),
            seals: BTreeMap::new(),
            out: Vec::new(),
            configurations: vec![(group, configuration)],
            seals_begun: 0,
            refused: 0,
        }
    }

    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub fn take_out(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.out)
    }

    fn tell(&mut self, to: NodeId) {
        assert_ne!(to, METADATA);
        self.out.push(Packet::Metadata { to, index: self.index, state: Arc::clone(&self.state) });
    }

    /// Whether it was done now.
    fn apply(&mut self, command: &Command) -> bool {
        let mut state = (*self.state).clone();
        let done = match state.apply(command) {
            Ok(Change::Done) => true,
            Ok(Change::Repeated) => false,
            Err(_) => {
                self.refused += 1;
                false
            }
        };
        if done {
            self.state = Arc::new(state);
            self.index += 1;
            if let Command::Activate { group, configuration, .. } | Command::Configure { group, configuration, .. } =
                command
            {
                self.configurations.push((*group, configuration.clone()));
            }
            let all: Vec<NodeId> = self.state.nodes().keys().copied().collect();
            all.into_iter().for_each(|node| self.tell(node));
        }
        done
    }

    fn is_current(&self, member: Member) -> bool {
        self.state
            .nodes()
            .get(&member.node)
            .is_some_and(|node| node.incarnation == member.incarnation && node.presence == Presence::Running)
    }

    pub fn asked(&mut self, from: NodeId, ask: Ask, now: u64) {
        match ask {
            Ask::Register { id, node } => {
                let known = self.state.nodes().get(&id).map_or(Incarnation(0), |known| known.incarnation);
                if node.incarnation >= known {
                    self.heard.insert(id, now);
                }
                self.apply(&Command::Register { id, expected: known, node });
                self.tell(from);
            }
            Ask::Goodbye(Member { node, incarnation }) => {
                self.apply(&Command::Goodbye { node, incarnation });
            }
            Ask::Look { member, .. } => {
                if self.is_current(member) {
                    self.heard.insert(member.node, now);
                }
                self.tell(from);
            }
            Ask::Propose { group, from, proposal, parent } => self.proposed(group, from, proposal, parent),
            Ask::Sealed { group, sealed } => {
                if let Some(seal) = self.seals.get_mut(&group)
                    && seal.epoch == sealed.epoch
                {
                    seal.answers.insert(sealed.member.node, sealed);
                }
            }
        }
    }

    fn proposed(&mut self, id: GroupId, from: Member, proposal: Proposal, parent: Mark) {
        let Some(group) = self.state.groups().get(&id) else { return };
        if group.configuration.leader != from {
            return;
        }
        let Proposal { expected, members, added } = proposal;
        let configuration = GroupConfiguration::new(Epoch(group.burnt.0 + 1), from, members, added);
        self.apply(&Command::Configure { group: id, expected, configuration, parent });
    }

    pub fn tick(&mut self, now: u64) {
        let groups: Vec<(GroupId, Group)> =
            self.state.groups().iter().map(|(id, group)| (*id, group.clone())).collect();
        for (id, group) in groups {
            match group.phase {
                Phase::Active => {
                    let leader = group.configuration.leader;
                    let runs = self.is_current(leader);
                    let silent = now.saturating_sub(self.heard.get(&leader.node).copied().unwrap_or_default());
                    if !runs || silent > DEAD_NANOS {
                        self.seal(id, &group, now);
                    }
                }
                Phase::Sealing => self.decide(id, &group, now),
            }
        }
    }

    fn seal(&mut self, id: GroupId, group: &Group, now: u64) {
        let epoch = Epoch(group.burnt.0 + 1);
        let command = Command::Seal { group: id, expected: group.configuration.epoch, epoch };
        if self.apply(&command) {
            self.seals_begun += 1;
            self.seals.insert(id, Seal { epoch, began: now, answers: BTreeMap::new(), sufficed: None });
        }
    }

    fn decide(&mut self, id: GroupId, group: &Group, now: u64) {
        let seal = self.seals.get(&id).expect("a group that is sealed");
        let answers = seal.answers.values().filter(|answer| self.is_current(answer.member));
        let answers: Vec<Sealed> = answers.cloned().collect();
        let decided = decide(&group.configuration, seal.epoch, &answers);
        let all = answers.len() == group.configuration.members().len();
        let seal = self.seals.get_mut(&id).expect("seen just now");
        let Some(configuration) = decided else {
            if now.saturating_sub(seal.began) > SEAL_AGAIN_NANOS {
                self.seal(id, group, now);
            }
            return;
        };
        let since = *seal.sufficed.get_or_insert(now);
        if all || now.saturating_sub(since) >= GRACE_NANOS {
            let leads = |answer: &&Sealed| answer.member == configuration.leader;
            let parent = answers.iter().find(leads).expect("a leader has answered").end;
            self.heard.insert(configuration.leader.node, now);
            self.apply(&Command::Activate { group: id, configuration, parent });
            self.seals.remove(&id);
        }
    }
}
