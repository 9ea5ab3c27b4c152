//! The messages between nodes before there is a cluster, as bytes; and the file in which a node
//! keeps them.

use super::declaration::Declaration;
use super::manner::Manner;
use crate::bytes::{Malformed, Reader, put_list, put_u32, put_u64};
use crate::{NODES_MAX, State};
use ferrite_base::NodeId;
use ferrite_base::checksum::crc32c;

const FORMAT: u8 = 1;
/// For a declaration that is followed by the node's manner.
const WITH_MANNER: u8 = 2;
const DECLARES: u8 = 1;
const FOUNDED: u8 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// This node has declared, durably; and the other options that it was started with.
    Declares(Box<Declaration>, Option<Manner>),
    /// It has founded a cluster, from these.
    Founded(Vec<Declaration>),
}

impl Message {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        match self {
            Message::Declares(declaration, manner) => {
                out.push(DECLARES);
                declaration.put(&mut out);
                if let Some(manner) = manner {
                    out[0] = WITH_MANNER;
                    manner.put(&mut out);
                }
            }
            Message::Founded(declarations) => {
                out.push(FOUNDED);
                put_list(&mut out, declarations, |out, declaration| declaration.put(out));
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut rest = Reader::new(bytes);
        let format = rest.u8()?;
        if ![FORMAT, WITH_MANNER].contains(&format) {
            return Err(Malformed("a declaration is of a format that this release does not know"));
        }
        let message = match rest.u8()? {
            DECLARES => {
                let declaration = Box::new(Declaration::decode(&mut rest)?);
                let manner = if format == WITH_MANNER { Some(Manner::decode(&mut rest)?) } else { None };
                Message::Declares(declaration, manner)
            }
            FOUNDED if format == FORMAT => Message::Founded(all(rest.list(NODES_MAX, Declaration::decode)?)?),
            _ => return Err(Malformed("a message before founding is of an unknown kind")),
        };
        rest.end()?;
        Ok(message)
    }
}

/// One of the same plan for each place, in order.
pub(super) fn all(declarations: Vec<Declaration>) -> Result<Vec<Declaration>, Malformed> {
    let Some(first) = declarations.first() else { return Err(Malformed("a cluster has no nodes")) };
    let complete = declarations.len() == first.plan.hosts.len()
        && declarations.iter().zip(1..).all(|(one, place)| one.place == place && one.plan == first.plan);
    if complete { Ok(declarations) } else { Err(Malformed("a cluster's declarations are not complete")) }
}

/// What a node has written down: its own declaration, those that its cluster was founded with, and
/// what it knew of the cluster last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenDown {
    pub own: Declaration,
    /// It founds nothing: the nodes that it names already belong to a cluster.
    pub joins: bool,
    /// All of them once there is a cluster. The node's own is not among them if it joined later.
    pub founded: Option<Vec<Declaration>>,
    /// Always there for a node that joined later.
    pub known: Option<Acquainted>,
}

/// What a node knew of its cluster: where to find the others at the next start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acquainted {
    /// Its id.
    pub node: NodeId,
    /// The metadata after this many commands.
    pub index: u64,
    pub state: State,
}

fn put_known(out: &mut Vec<u8>, known: Option<&Acquainted>) {
    out.push(u8::from(known.is_some()));
    if let Some(Acquainted { node, index, state }) = known {
        put_u32(out, node.0);
        put_u64(out, *index);
        let state = state.snapshot();
        put_u32(out, u32::try_from(state.len()).expect("the state has kilobytes"));
        out.extend_from_slice(&state);
    }
}

fn take_known(rest: &mut Reader<'_>) -> Result<Option<Acquainted>, Malformed> {
    match rest.u8()? {
        0 => Ok(None),
        1 => {
            let node = NodeId(rest.u32()?);
            let index = rest.u64()?;
            let length = rest.u32()?;
            let state = State::restore(rest.bytes(length as usize)?)?;
            Ok(Some(Acquainted { node, index, state }))
        }
        _ => Err(Malformed("it is not said whether the cluster is known")),
    }
}

impl WrittenDown {
    /// The contents of the file `founding`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        self.own.put(&mut out);
        out.push(u8::from(self.joins));
        put_list(&mut out, self.founded.as_deref().unwrap_or_default(), |out, declaration| declaration.put(out));
        put_known(&mut out, self.known.as_ref());
        let checksum = crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<WrittenDown, Malformed> {
        let (contents, checksum) = bytes.split_last_chunk::<4>().ok_or(Malformed("they end early"))?;
        if crc32c(contents) != u32::from_le_bytes(*checksum) {
            return Err(Malformed("the checksum differs"));
        }
        let mut rest = Reader::new(contents);
        if rest.u8()? != FORMAT {
            return Err(Malformed("a declaration is of a format that this release does not know"));
        }
        let own = Declaration::decode(&mut rest)?;
        let joins = rest.flag()?;
        let founded = rest.list(NODES_MAX, Declaration::decode)?;
        let known = take_known(&mut rest)?;
        rest.end()?;
        let founded = if founded.is_empty() { None } else { Some(all(founded)?) };
        Ok(WrittenDown { own, joins, founded, known })
    }
}
