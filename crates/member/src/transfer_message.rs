//! Of which group a message of a transfer is (docs/format/peer.md, messages of a transfer).
//!
//! Those of the first group are as they were before there were others. Those of another begin with
//! a byte that no such message begins with, and the group.

use ferrite_base::GroupId;
use ferrite_group::FIRST_GROUP;

/// No kind of message of a transfer.
const OF_ANOTHER_GROUP: u8 = 0xff;

/// The message as it goes to another node.
pub fn tag(group: GroupId, message: Vec<u8>) -> Vec<u8> {
    if group == FIRST_GROUP {
        return message;
    }
    let mut tagged = Vec::with_capacity(5 + message.len());
    tagged.push(OF_ANOTHER_GROUP);
    tagged.extend_from_slice(&group.0.to_le_bytes());
    tagged.extend(message);
    tagged
}

/// The group, and the message as its threads know it.
pub fn untag(bytes: &[u8]) -> Result<(GroupId, &[u8]), String> {
    let Some((&OF_ANOTHER_GROUP, rest)) = bytes.split_first() else { return Ok((FIRST_GROUP, bytes)) };
    match rest.split_first_chunk() {
        Some((group, message)) if GroupId(u32::from_le_bytes(*group)) != FIRST_GROUP => {
            Ok((GroupId(u32::from_le_bytes(*group)), message))
        }
        _ => Err("a message of a transfer does not say of which group it is".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_first_group_are_as_they_were_and_others_name_theirs() {
        let message = vec![1, 2, 3];
        assert_eq!(tag(FIRST_GROUP, message.clone()), message);
        let other = tag(GroupId(7), message.clone());
        assert_eq!((other.len(), untag(&other)), (8, Ok((GroupId(7), &message[..]))));
        assert_eq!(untag(&message), Ok((FIRST_GROUP, &message[..])));
        assert!((1..5).all(|length| untag(&other[..length]).is_err()) && untag(&[0xff, 0, 0, 0, 0, 1]).is_err());
        assert_eq!(untag(&[]), Ok((FIRST_GROUP, &[][..])));
    }
}
