//! 7. The configurations of a group form one chain: epochs grow, and each has a member that stays.
//!
//! Those that begin with a loss that was accepted need not have one.

use ferrite_base::Epoch;
use ferrite_replica::group::GroupConfiguration;
use std::collections::BTreeSet;

pub fn check(chain: &[GroupConfiguration], losses: &BTreeSet<Epoch>) -> Result<(), String> {
    for pair in chain.windows(2) {
        let [before, after] = pair else { unreachable!("two of them") };
        let stays = |node| before.has_node(node) && !after.added().contains(&node);
        let meets = after.members().iter().any(|member| stays(member.node)) || losses.contains(&after.epoch);
        if after.epoch <= before.epoch || !meets {
            return Err(format!("{after:?} follows {before:?}"));
        }
    }
    Ok(())
}
