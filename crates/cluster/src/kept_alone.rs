//! What only this node has, of the copies that lie in one directory.

use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_meta::State;

/// A group of which no other node has everything, if there is one among those that this node is a
/// member of, and this one: the directory has them all, and must not be put aside for one.
/// `has_begun`: the first entry of that epoch is committed, so the members that were added for it
/// have everything, too.
pub fn kept_here_alone(
    state: &State,
    here: NodeId,
    broken: GroupId,
    has_begun: impl Fn(GroupId, Epoch) -> bool,
) -> Option<GroupId> {
    let others_have_all = |id: GroupId| {
        state.groups().get(&id).is_some_and(|known| {
            let configuration = &known.configuration;
            let counts = |node: NodeId| !configuration.added().contains(&node) || has_begun(id, configuration.epoch);
            configuration.members().iter().any(|member| member.node != here && counts(member.node))
        })
    };
    let is_member = |id: &GroupId| state.groups()[id].configuration.has_node(here);
    let mut needed = state.groups().keys().copied().filter(is_member);
    [broken].into_iter().find(|id| !others_have_all(*id)).or_else(|| needed.find(|id| !others_have_all(*id)))
}
