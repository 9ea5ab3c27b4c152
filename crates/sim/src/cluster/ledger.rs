//! What all nodes together have said that can never be otherwise again.

use crate::invariants::Violation;
use ferrite_base::{Epoch, GroupId, NodeId, Position};
use ferrite_group::Identity;
use ferrite_meta::State;
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What was said of one group.
#[derive(Default)]
pub struct GroupBook {
    /// What any node has called committed.
    pub committed: BTreeMap<Position, Mark>,
    /// Where the stream goes on since a loss was accepted, and in which epoch.
    pub lost: Option<(Position, Epoch)>,
    /// All epochs that began so.
    pub losses: BTreeSet<Epoch>,
    /// The last time that a read has shown, where, and who could lead next then.
    pub time: Option<(i64, Member, GroupConfiguration)>,
    /// Who has opened in each epoch.
    pub opened: BTreeMap<Epoch, Member>,
    /// As voters have applied them.
    pub configurations: BTreeMap<Epoch, GroupConfiguration>,
}

#[derive(Default)]
pub struct Book {
    pub groups: BTreeMap<GroupId, GroupBook>,
    /// What each node has made durable of itself.
    pub identities: BTreeMap<NodeId, Identity>,
    /// The metadata as any voter has it, where it is furthest, after so many commands.
    pub known: (u64, Arc<State>),
    /// By command, the state's hash behind it.
    pub states: BTreeMap<u64, u32>,
    /// By voter, the last command that was looked at.
    pub last_noted: BTreeMap<NodeId, u64>,
    /// Leaderships of voters, votes that a disk has ended, leases that were told.
    pub terms: u64,
    pub votes_lost: u64,
    /// Starts that found no vote, or none that counted.
    pub votes_renewed: u64,
    pub leases: u64,
    pub violation: Option<Violation>,
}

/// Clones are the same.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

impl Ledger {
    pub fn with<T>(&self, body: impl FnOnce(&mut Book) -> T) -> T {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
