//! What clients hear unasked, besides new catalogs and leaders. Clients of a node without a copy
//! hear of the procedures: the node asks the leader for them, since it has no catalog of its own.
//! Clients of a leader hear that it leads, where its lease had ended and no other led meanwhile.
//!
//! Nothing waits for an answer: a question is repeated while the leader may know more, and is
//! answered only where it does.

use crate::clients::Clients;
use crate::links::Links;
use crate::node_status::StatusSnapshot;
use crate::topology::Topology;
use ferrite_base::NodeId;
use ferrite_cluster::MessageKind;
use ferrite_group::FIRST_GROUP;
use ferrite_peer::Lane;
use ferrite_system::system_catalog;
use ferrite_wire::handles;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub struct Procedures {
    clients: Arc<dyn Clients>,
    topology: Arc<Topology>,
    /// Nodes that have asked, each with the version of the catalog that it knows of.
    asked: Mutex<BTreeMap<NodeId, Option<u64>>>,
}

impl Procedures {
    pub fn new(clients: Arc<dyn Clients>, topology: Arc<Topology>) -> Arc<Procedures> {
        Arc::new(Procedures { clients, topology, asked: Mutex::default() })
    }

    /// To be called now and then: a node without a copy asks the leader.
    pub fn ask(&self, seen: &StatusSnapshot, here: NodeId, links: &Links) {
        let Some(group) = seen.state.groups().get(&FIRST_GROUP) else { return };
        if seen.is_member(here) {
            return;
        }
        let known = self.topology.procedures().map(|told| told.version.to_le_bytes());
        let question = known.map_or_else(Vec::new, |version| version.to_vec());
        links.send_on(group.configuration.leader.node, Lane::Control, MessageKind::ProceduresAsked, question);
    }

    /// To be called again and again: clients that heard of no leader hear of this one.
    pub fn tell_of_the_lead(&self) {
        if self.topology.leads_again() {
            self.clients.topology_changed();
        }
    }

    /// A node asks. [`Procedures::answer`] answers it; returns whether that has yet to be asked
    /// for.
    pub fn asked(&self, node: NodeId, question: &[u8]) -> bool {
        let known = question.try_into().ok().map(u64::from_le_bytes);
        let mut asked = self.asked.lock().expect("no panic with who asks");
        asked.insert(node, known);
        asked.len() == 1
    }

    /// Answers all nodes that have asked. `leads`: no other node knows better than this one.
    pub fn answer(&self, serves: bool, links: &Links) {
        let mut asked = std::mem::take(&mut *self.asked.lock().expect("no panic with who asks"));
        let compiled = self.clients.compiled();
        let version = compiled.catalog.version.0;
        asked.retain(|_, known| *known != Some(version));
        if !serves || asked.is_empty() {
            return;
        }
        let mut answer = version.to_le_bytes().to_vec();
        system_catalog::write_procedures_push(&mut answer, handles::PROCEDURES_PUSH, &compiled);
        for node in asked.into_keys() {
            links.send_on(node, Lane::Calls, MessageKind::Procedures, answer.clone());
        }
    }

    /// The leader's answer: the subscribers here hear it.
    pub fn learn(&self, answer: &[u8]) {
        let Some((version, push)) = answer.split_first_chunk() else { return };
        if self.topology.learn_procedures(u64::from_le_bytes(*version), push) {
            self.clients.procedures_changed();
        }
    }
}
