//! What the leader of a group is told of the cluster's nodes: whose process is gone, and who may
//! become a member.

use crate::GroupHandle;
use ferrite_base::NodeId;
use ferrite_meta::{Group, Kind, Node, Presence, State};
use ferrite_replica::group::Member;

/// The members that a group has when nothing is wrong.
fn wanted(state: &State) -> usize {
    state.settings().map_or(1, |settings| settings.kfactor as usize + 1)
}

fn process(id: NodeId, node: &Node) -> Member {
    Member { node: id, incarnation: node.incarnation }
}

/// To be called for each word of the metadata; the group hears what it knows already without harm.
pub(crate) fn tell(leader: &GroupHandle, kept: &Group, state: &State) {
    let members = kept.configuration.members();
    // A restarted process, or one that has said that it stops, acknowledges nothing more.
    let is_gone = |member: &&Member| {
        let node = state.nodes().get(&member.node);
        node.is_none_or(|node| node.presence != Presence::Running || node.incarnation != member.incarnation)
    };
    members.iter().filter(is_gone).for_each(|member| leader.gone(*member));
    let lacking = wanted(state).saturating_sub(members.len() - members.iter().filter(is_gone).count());
    let may_join = |(id, node): (&NodeId, &Node)| {
        let joins = node.kind == Kind::Data && node.presence == Presence::Running;
        let process = process(*id, node);
        (joins && !members.contains(&process)).then_some(process)
    };
    state.nodes().iter().filter_map(may_join).take(lacking).for_each(|learner| leader.learner(learner));
}
