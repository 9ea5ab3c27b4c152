//! How a node joins a cluster that others have founded: it asks any of them, with the key of its
//! declaration, until the metadata's state in the answer has an id for that key. So it gets one id,
//! however often it asks and whichever node ends in between.

use super::Declaration;
use super::message::all;
use crate::bytes::{Malformed, Reader, put_list, put_u64};
use crate::parts::{put_node, take_node};
use crate::{NODES_MAX, Node, State};
use ferrite_base::NodeId;

const FORMAT: u8 = 1;
const JOINS: u8 = 3;
const SHOWN: u8 = 4;
const LOOKS: u8 = 5;

/// The question of a node that has no id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joins {
    /// None: whichever the asked node is of.
    pub cluster: Option<[u8; 16]>,
    pub key: [u8; 16],
    pub node: Node,
}

impl Joins {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, JOINS];
        out.extend_from_slice(&self.cluster.unwrap_or_default());
        out.extend_from_slice(&self.key);
        put_node(&mut out, NodeId(0), &self.node);
        out
    }

    /// None: it is another question.
    pub fn decode(bytes: &[u8]) -> Option<Result<Joins, Malformed>> {
        let rest = bytes.strip_prefix(&[FORMAT, JOINS])?;
        let decode = |mut rest: Reader<'_>| {
            let cluster: [u8; 16] = rest.array()?;
            let key = rest.array()?;
            let (_, node) = take_node(&mut rest)?;
            rest.end()?;
            Ok(Joins { cluster: (cluster != [0; 16]).then_some(cluster), key, node })
        };
        Some(decode(Reader::new(rest)))
    }
}

/// The question of a starting node whether it still belongs to the cluster. The answer is the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looks {
    pub cluster: [u8; 16],
}

impl Looks {
    pub fn encode(&self) -> Vec<u8> {
        [&[FORMAT, LOOKS][..], &self.cluster].concat()
    }

    /// None: it is another question.
    pub fn decode(bytes: &[u8]) -> Option<Looks> {
        let cluster = bytes.strip_prefix(&[FORMAT, LOOKS])?.try_into().ok()?;
        Some(Looks { cluster })
    }
}

/// The answer: the cluster as the asked node knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// From which it was founded.
    pub founded: Vec<Declaration>,
    /// The metadata after this many commands.
    pub index: u64,
    pub state: State,
}

impl Shown {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, SHOWN];
        put_list(&mut out, &self.founded, |out, declaration| declaration.put(out));
        put_u64(&mut out, self.index);
        out.extend_from_slice(&self.state.snapshot());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Shown, Malformed> {
        let mut rest = Reader::new(bytes);
        if (rest.u8()?, rest.u8()?) != (FORMAT, SHOWN) {
            return Err(Malformed("an answer to a node that joins is of a kind that this release does not know"));
        }
        let founded = all(rest.list(NODES_MAX, Declaration::decode)?)?;
        let index = rest.u64()?;
        let state = State::restore(rest.rest())?;
        if state.settings().is_none() {
            return Err(Malformed("a node that knows no cluster shows one"));
        }
        Ok(Shown { founded, index, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::founding::{Partitions, Plan, found};
    use ferrite_base::Incarnation;

    #[test]
    fn what_is_shown_is_a_cluster() {
        let founded = vec![Declaration {
            plan: Plan { hosts: vec!["here:1".to_owned()], kfactor: 0, partitions_per_node: None },
            place: 1,
            key: [2; 16],
            incarnation: Incarnation(1),
            kind: Kind::Data,
            database: None,
            partitions: Partitions::Said(1),
            release: "test".to_owned(),
            addresses: vec!["here:1".to_owned()],
            rack: None,
        }];
        let state = found(&founded).unwrap();
        let shown = Shown { founded, index: 1, state };
        assert_eq!(Shown::decode(&shown.encode()), Ok(shown.clone()));
        // A joining node asks it for its settings.
        let none = Shown { state: State::default(), ..shown };
        assert!(Shown::decode(&none.encode()).is_err());
    }
}
