//! 7. The configurations of a group form one chain: epochs grow, and each has a member that stays.

use ferrite_replica::group::GroupConfiguration;

pub fn check(chain: &[GroupConfiguration]) -> Result<(), String> {
    for pair in chain.windows(2) {
        let [before, after] = pair else { unreachable!("two of them") };
        let stays = |node| before.has_node(node) && !after.added().contains(&node);
        let meets = after.members().iter().any(|member| stays(member.node));
        if after.epoch <= before.epoch || !meets {
            return Err(format!("{after:?} follows {before:?}"));
        }
    }
    Ok(())
}
