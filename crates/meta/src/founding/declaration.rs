//! What a node says of itself before there is a cluster.

use crate::ask::take_mark;
use crate::bytes::{Malformed, Reader, put_list, put_text, put_u32, put_u64};
use crate::{ADDRESSES_MAX, Kind, NODES_MAX};
use ferrite_base::Incarnation;
use ferrite_replica::group::Mark;

/// What must be the same on all nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Where the nodes hear each other, in the order of their places.
    pub hosts: Vec<String>,
    pub kfactor: u32,
    /// Partitions that each node with data keeps, in groups that spread over the nodes. None: all
    /// partitions are one group.
    pub partitions_per_node: Option<u32>,
}

/// Partitions that a node would have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partitions {
    /// Of its database, or said by its operator.
    Said(u32),
    /// As its cores suggest.
    Suggested(u32),
}

/// What a node has that becomes the cluster's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Database {
    /// Of its log, and of the logs of all nodes then.
    pub id: [u8; 16],
    /// Of its stream.
    pub end: Mark,
}

/// Never changes once it is durable, unless its operator says something else before there is a
/// cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declaration {
    pub plan: Plan,
    /// From 1: the node's id.
    pub place: u32,
    /// Random.
    pub key: [u8; 16],
    /// Of the process that declares. Those that register have higher ones.
    pub incarnation: Incarnation,
    pub kind: Kind,
    pub database: Option<Database>,
    pub partitions: Partitions,
    pub release: String,
    pub addresses: Vec<String>,
    /// What fails together with other nodes of the same name. None: the node alone.
    pub rack: Option<String>,
}

/// Added to a kind of node that is followed by what only clusters of several groups have: others
/// are written as before there were any.
const WITH_MORE: u8 = 2;

impl Declaration {
    /// Whether the operator has said the same for both: that counts in them, and not what is random
    /// or follows from the machine.
    pub(super) fn says_as(&self, other: &Declaration) -> bool {
        let said = |declaration: &Declaration| match declaration.partitions {
            Partitions::Said(count) => Some(count),
            Partitions::Suggested(_) => None,
        };
        let here = |declaration: &Declaration| (declaration.place, declaration.kind, declaration.rack.clone());
        self.plan == other.plan && here(self) == here(other) && said(self) == said(other)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_list(out, &self.plan.hosts, |out, host| put_text(out, host));
        put_u32(out, self.plan.kfactor);
        put_u32(out, self.place);
        out.extend_from_slice(&self.key);
        put_u64(out, self.incarnation.0);
        let kind = match self.kind {
            Kind::Data => 0,
            Kind::Witness => 1,
        };
        let has_more = self.plan.partitions_per_node.is_some() || self.rack.is_some();
        out.push(if has_more { kind | WITH_MORE } else { kind });
        out.push(u8::from(self.database.is_some()));
        if let Some(Database { id, end }) = &self.database {
            out.extend_from_slice(id);
            put_u64(out, end.epoch.0);
            put_u64(out, end.position.0);
            put_u32(out, end.chain);
        }
        let (said, count) = match self.partitions {
            Partitions::Said(count) => (1, count),
            Partitions::Suggested(count) => (0, count),
        };
        out.push(said);
        put_u32(out, count);
        put_text(out, &self.release);
        put_list(out, &self.addresses, |out, address| put_text(out, address));
        if has_more {
            put_u32(out, self.plan.partitions_per_node.unwrap_or(0));
            put_text(out, self.rack.as_deref().unwrap_or_default());
        }
    }

    pub(super) fn decode(rest: &mut Reader<'_>) -> Result<Declaration, Malformed> {
        let hosts = rest.list(NODES_MAX, |rest| rest.short_text().map(str::to_string))?;
        let mut plan = Plan { hosts, kfactor: rest.u32()?, partitions_per_node: None };
        let place = rest.u32()?;
        if place == 0 || place as usize > plan.hosts.len() {
            return Err(Malformed("a place is not in the list"));
        }
        let key = rest.array()?;
        let incarnation = Incarnation(rest.u64()?);
        let more = rest.u8()?;
        let kind = match more & !WITH_MORE {
            0 => Kind::Data,
            1 => Kind::Witness,
            _ => return Err(Malformed("a kind of node is unknown")),
        };
        let database = if rest.flag()? { Some(Database { id: rest.array()?, end: take_mark(rest)? }) } else { None };
        let said = rest.flag()?;
        let count = rest.u32()?;
        let partitions = if said { Partitions::Said(count) } else { Partitions::Suggested(count) };
        let release = rest.short_text()?.to_string();
        let addresses = rest.list(ADDRESSES_MAX, |rest| rest.short_text().map(str::to_string))?;
        let mut rack = None;
        if more & WITH_MORE != 0 {
            plan.partitions_per_node = Some(rest.u32()?).filter(|count| *count != 0);
            rack = Some(rest.short_text()?.to_string()).filter(|rack| !rack.is_empty());
        }
        Ok(Declaration { plan, place, key, incarnation, kind, database, partitions, release, addresses, rack })
    }
}
