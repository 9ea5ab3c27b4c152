//! The whole state as bytes, for a voter that has missed commands, and for comparison
//! (docs/format/metadata.md).

use super::State;
use crate::bytes::{Malformed, Reader, put_list, put_u32};
use crate::parts::{Settings, put_group, put_node, put_settings, take_group, take_node, take_settings, take_voters};
use crate::{GROUPS_MAX, NODES_MAX};
use ferrite_base::NodeId;
use ferrite_base::checksum::crc32c;

/// The format of a snapshot of a state that says no more than the first release's.
const FORMAT: u8 = 1;
/// The format for a paused database: a release that does not know it refuses to take part.
const FORMAT_PAUSED: u8 = 2;
/// The same two where a node has a rack, or a group a place.
const FORMAT_SEVERAL_GROUPS: u8 = 3;
const FORMAT_SEVERAL_GROUPS_PAUSED: u8 = 4;

impl State {
    /// The whole state as bytes, with a checksum.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        let checksum = crc32c(&bytes);
        put_u32(&mut bytes, checksum);
        bytes
    }

    fn format(&self) -> u8 {
        let has_racks = self.nodes.values().any(|node| node.rack.is_some());
        let has_places = self.groups.values().any(|group| group.assignment.is_some());
        match (has_racks || has_places, self.is_paused()) {
            (false, false) => FORMAT,
            (false, true) => FORMAT_PAUSED,
            (true, false) => FORMAT_SEVERAL_GROUPS,
            (true, true) => FORMAT_SEVERAL_GROUPS_PAUSED,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.format(), u8::from(self.settings.is_some())];
        let out = &mut bytes;
        if let Some(settings) = &self.settings {
            put_settings(out, settings);
        }
        let nodes: Vec<_> = self.nodes.iter().collect();
        put_list(out, &nodes, |out, (id, node)| put_node(out, **id, node));
        let groups: Vec<_> = self.groups.iter().collect();
        put_list(out, &groups, |out, (id, group)| put_group(out, **id, group));
        let voters: Vec<_> = self.voters.iter().collect();
        put_list(out, &voters, |out, node| put_u32(out, node.0));
        let votes: Vec<_> = self.votes.iter().collect();
        put_list(out, &votes, |out, (node, number)| {
            put_u32(out, node.0);
            put_u32(out, **number);
        });
        let joined: Vec<_> = self.joined.iter().collect();
        put_list(out, &joined, |out, (node, key)| {
            put_u32(out, node.0);
            out.extend_from_slice(*key);
        });
        bytes
    }

    /// What [`State::snapshot`] has written.
    pub fn restore(bytes: &[u8]) -> Result<State, Malformed> {
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or(Malformed("they end early"))?;
        let mut rest = Reader::new(body);
        let format = rest.u8()?;
        if !(FORMAT..=FORMAT_SEVERAL_GROUPS_PAUSED).contains(&format) {
            return Err(Malformed("a later release wrote them: start that one, or a later one"));
        }
        if crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(Malformed("the checksum differs"));
        }
        let settings = match rest.u8()? {
            0 => None,
            1 => {
                let paused = [FORMAT_PAUSED, FORMAT_SEVERAL_GROUPS_PAUSED].contains(&format);
                Some(Settings { paused, ..take_settings(&mut rest)? })
            }
            _ => return Err(Malformed("it is not said whether there is a cluster")),
        };
        let nodes = rest.list(NODES_MAX, take_node)?;
        let groups = rest.list(GROUPS_MAX, take_group)?;
        let voters = take_voters(&mut rest)?;
        let votes = rest.list(NODES_MAX, |rest| Ok((NodeId(rest.u32()?), rest.u32()?)))?;
        let joined = rest.list(NODES_MAX, |rest| Ok((NodeId(rest.u32()?), rest.array()?)))?;
        rest.end()?;
        let state = State {
            settings,
            nodes: nodes.into_iter().collect(),
            groups: groups.into_iter().collect(),
            voters: voters.into_iter().collect(),
            votes: votes.into_iter().collect(),
            joined: joined.into_iter().collect(),
        };
        if format != state.format() {
            return Err(Malformed("a state's format is not that of what it names"));
        }
        if let Some(settings) = &state.settings {
            let sound = super::assigned::check(settings, &state.nodes, &state.groups);
            sound.map_err(|_| Malformed("the groups do not have each partition once"))?;
        }
        Ok(state)
    }

    /// Equal on all voters that applied the same commands.
    pub fn hash(&self) -> u32 {
        // Without the checksum: that of bytes with their own is always the same.
        crc32c(&self.encode())
    }
}
