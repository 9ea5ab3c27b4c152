//! What nodes say to each other before there is a cluster, as bytes; and the file in which a node
//! keeps it.

use super::declaration::Declaration;
use crate::NODES_MAX;
use crate::bytes::{Malformed, Reader, put_list};
use ferrite_base::checksum::crc32c;

const FORMAT: u8 = 1;
const DECLARES: u8 = 1;
const FOUNDED: u8 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// This node has declared, durably.
    Declares(Declaration),
    /// It has founded a cluster, from these.
    Founded(Vec<Declaration>),
}

impl Message {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        match self {
            Message::Declares(declaration) => {
                out.push(DECLARES);
                declaration.put(&mut out);
            }
            Message::Founded(declarations) => {
                out.push(FOUNDED);
                put_list(&mut out, declarations, |out, declaration| declaration.put(out));
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut rest = Reader(bytes);
        if rest.u8()? != FORMAT {
            return Err(Malformed("a declaration is of a format that this release does not know"));
        }
        let message = match rest.u8()? {
            DECLARES => Message::Declares(Declaration::take(&mut rest)?),
            FOUNDED => Message::Founded(all(rest.list(NODES_MAX, Declaration::take)?)?),
            _ => return Err(Malformed("a message before founding is of an unknown kind")),
        };
        rest.end()?;
        Ok(message)
    }
}

/// One of the same plan for each place, in order.
fn all(declarations: Vec<Declaration>) -> Result<Vec<Declaration>, Malformed> {
    let Some(first) = declarations.first() else { return Err(Malformed("a cluster has no nodes")) };
    let complete = declarations.len() == first.plan.hosts.len()
        && declarations.iter().zip(1..).all(|(one, place)| one.place == place && one.plan == first.plan);
    if complete { Ok(declarations) } else { Err(Malformed("a cluster's declarations are not complete")) }
}

/// What a node has written down: its own declaration, and all of them once it has founded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenDown {
    pub own: Declaration,
    pub founded: Option<Vec<Declaration>>,
}

impl WrittenDown {
    /// The contents of the file `founding`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        self.own.put(&mut out);
        put_list(&mut out, self.founded.as_deref().unwrap_or_default(), |out, declaration| declaration.put(out));
        let checksum = crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<WrittenDown, Malformed> {
        let (contents, checksum) = bytes.split_last_chunk::<4>().ok_or(Malformed("they end early"))?;
        if crc32c(contents) != u32::from_le_bytes(*checksum) {
            return Err(Malformed("the checksum differs"));
        }
        let mut rest = Reader(contents);
        if rest.u8()? != FORMAT {
            return Err(Malformed("a declaration is of a format that this release does not know"));
        }
        let own = Declaration::take(&mut rest)?;
        let founded = rest.list(NODES_MAX, Declaration::take)?;
        rest.end()?;
        let founded = if founded.is_empty() { None } else { Some(all(founded)?) };
        Ok(WrittenDown { own, founded })
    }
}
