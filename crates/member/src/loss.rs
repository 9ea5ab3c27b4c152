//! `ferrite admin recover` for a group that no node can lead any more without a loss
//! (docs/replication.md, section 10): asks the voters until they know, and reports which nodes the
//! group waits for.

use ferrite_base::{Epoch, GroupId, NodeId, Position};
use ferrite_group::FIRST_GROUP;
use ferrite_meta::{Ask, Group, Kind, Phase, Presence, State};
use ferrite_notice::Notice;
use ferrite_replica::group::Member;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long the voters are asked, and waited for: they give members that have everything ten
/// seconds to come back.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Between two questions.
const AGAIN: Duration = Duration::from_millis(200);
/// After this, and then each time, the operator hears which nodes a group waits for.
const SAY_AFTER: Duration = Duration::from_secs(5);
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// Machines that lost their power take some time to start. Until this is over, a loss is not
/// mentioned.
const LOSS_AFTER: Duration = Duration::from_secs(60);

/// `node 1 or node 2`
fn any_of(nodes: impl IntoIterator<Item = NodeId>) -> String {
    let names: Vec<String> = nodes.into_iter().map(|node| format!("node {node}")).collect();
    names.join(" or ")
}

/// The nodes that could lead a group without a leader, and without a loss: the members of its last
/// configuration, except for those that are there and lack something.
pub fn waits_for(group: &Group, lacks: impl Fn(NodeId) -> bool) -> Option<String> {
    (group.phase == Phase::Sealing).then(|| {
        let members = group.configuration.members().iter().map(|member| member.node);
        let awaited: Vec<NodeId> = members.clone().filter(|node| !lacks(*node)).collect();
        let nodes = if awaited.is_empty() { any_of(members) } else { any_of(awaited) };
        format!("{nodes}, members of its last configuration (epoch {})", group.configuration.epoch)
    })
}

/// What this node sees of those that could lead.
#[derive(Default)]
pub struct Seen {
    /// Members of the last configuration that are heard, this node included, each with whether its
    /// copy has everything that was acknowledged.
    pub there: Vec<(NodeId, bool)>,
    /// Where the copies of the nodes that are heard end, members or not.
    pub ends: Vec<(NodeId, (Epoch, Position))>,
    /// Why nothing can be decided, if that is so.
    pub no_majority: Option<String>,
    /// This node was chosen to lead, and its lease has ended: another may lead.
    pub doubtful: bool,
}

impl Seen {
    /// Of the nodes that are heard, the one whose copy ends last.
    fn latest(&self) -> Option<(NodeId, (Epoch, Position))> {
        self.ends.iter().copied().max_by_key(|(node, end)| (*end, std::cmp::Reverse(*node)))
    }

    /// Why less should not be lost: another node that is heard has more than `node`.
    fn check_is_latest(&self, node: NodeId) -> Result<(), String> {
        let Some((latest, (epoch, position))) = self.latest() else { return Ok(()) };
        match self.ends.iter().find(|(other, _)| *other == node) {
            Some((_, (own_epoch, own))) if (*own_epoch, *own) < (epoch, position) => Err(format!(
                "node {latest} has a later copy than node {node}: it ends at entry {position} of epoch {epoch}, that of node {node} \
                 at entry {own} of epoch {own_epoch}. Name node {latest}; stop it first where it cannot be used"
            )),
            _ => Ok(()),
        }
    }

    /// A node that leads without a loss. A member that was added last may lack something.
    fn complete(&self, group: &Group) -> Option<NodeId> {
        let has_all = |(node, whole): &&(NodeId, bool)| *whole && !group.configuration.added().contains(node);
        self.there.iter().find(has_all).map(|(node, _)| *node)
    }
}

/// The call that accepts a loss, which hears the outcome.
pub struct AcceptLoss {
    pub node: NodeId,
    pub told: Box<dyn FnOnce(Result<String, String>) + Send>,
}

/// What is known of the groups of one call.
#[derive(Default)]
struct Outcomes {
    accepted: Vec<String>,
    refused: Vec<String>,
}

impl Outcomes {
    fn all(self) -> Result<String, String> {
        let Outcomes { accepted, refused } = self;
        match (refused.is_empty(), accepted.is_empty()) {
            (true, _) => Ok(accepted.join("; ")),
            (false, true) => Err(refused.join("; ")),
            (false, false) => {
                Err(format!("{}. The loss was accepted elsewhere: {}", refused.join("; "), accepted.join("; ")))
            }
        }
    }
}

impl AcceptLoss {
    /// The same of each of several groups: the caller hears the outcome of all. If one has none, it
    /// is a failure, which says of which groups the loss is accepted nevertheless.
    pub fn of_groups(self, groups: &[GroupId]) -> Vec<(GroupId, AcceptLoss)> {
        let left = Arc::new(Mutex::new((groups.len(), Outcomes::default(), Some(self.told))));
        let of_group = |group: &GroupId| {
            let left = Arc::clone(&left);
            let told = Box::new(move |outcome: Result<String, String>| {
                let mut left = left.lock().expect("no panic with the outcomes");
                let (count, outcomes, told) = &mut *left;
                *count -= 1;
                match outcome {
                    Ok(outcome) => outcomes.accepted.push(outcome),
                    Err(reason) => outcomes.refused.push(reason),
                }
                if *count == 0 {
                    told.take().expect("the last outcome comes once")(std::mem::take(outcomes).all());
                }
            });
            (*group, AcceptLoss { node: self.node, told })
        };
        groups.iter().map(of_group).collect()
    }
}

/// The groups whose loss is to be accepted where that node is to lead: those that no node leads and
/// that it keeps.
pub fn lost_groups(state: &State, node: NodeId) -> Result<Vec<GroupId>, String> {
    if state.groups().len() <= 1 {
        return Ok(vec![FIRST_GROUP]);
    }
    let is_led = |id: &GroupId| state.groups()[id].phase == Phase::Active;
    let lost: Vec<GroupId> = state.kept_by(node).into_iter().filter(|id| !is_led(id)).collect();
    if !lost.is_empty() {
        return Ok(lost);
    }
    let names: Vec<String> = state.groups().keys().filter(|id| !is_led(id)).map(GroupId::to_string).collect();
    Err(match names.is_empty() {
        true => "there is nothing to recover: every group is led, or is about to be".to_owned(),
        false => format!("node {node} keeps none of the groups that no node leads: {}", names.join(", ")),
    })
}

struct UnderWay {
    group: GroupId,
    asks: AcceptLoss,
    member: Member,
    until: u64,
    next: u64,
}

/// Of one node.
#[derive(Default)]
pub struct Losses {
    under_way: Vec<UnderWay>,
    /// Of each group that no node leads: since when, and when that was last reported.
    leaderless: BTreeMap<GroupId, (u64, Option<u64>)>,
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Whether there is anything to accept; else why not.
fn check(id: GroupId, state: &State, node: NodeId, seen: &Seen) -> Result<Member, String> {
    let group = state.groups().get(&id).ok_or("this node does not know its cluster yet")?;
    // The state's word on the others may be long outdated then.
    if let Some(missing) = &seen.no_majority {
        return Err(format!(
            "this node does not hear a majority of the cluster's voters, without which nothing is decided ({missing}). Start \
             those nodes, or ask a node that reaches them. If a majority of the voters is lost for good, stop what is left and \
             make a new cluster of it: ferrite admin recover --dir DATA --accept-loss --leave-cluster"
        ));
    }
    if group.phase == Phase::Active {
        let leader = group.configuration.leader.node;
        if seen.doubtful {
            return Err(format!(
                "the lease by which node {leader}, this one, led group {id} has ended, and it has not heard yet who leads: \
                 try again"
            ));
        }
        return Err(format!("there is nothing to recover: node {leader} leads group {id}, or is about to"));
    }
    let known = state.nodes().get(&node).ok_or_else(|| format!("there is no node {node}"))?;
    match (known.kind, known.presence) {
        (Kind::Witness, _) => Err(format!("node {node} is a witness: it has no data")),
        (_, Presence::Running) => Ok(Member { node, incarnation: known.incarnation }),
        _ => Err(format!("node {node} does not run: start it")),
    }
}

impl Losses {
    /// Whether anything is to be looked at soon.
    pub fn waits(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub fn accept(&mut self, group: GroupId, asks: AcceptLoss, state: &State, seen: &Seen, now: u64) {
        let checked = check(group, state, asks.node, seen);
        match checked.and_then(|member| seen.check_is_latest(asks.node).map(|()| member)) {
            Ok(member) => {
                let until = now + nanos(TIME_MAX);
                self.under_way.push(UnderWay { group, asks, member, until, next: now });
            }
            Err(reason) if state.groups().len() > 1 => (asks.told)(Err(format!("group {group}: {reason}"))),
            Err(reason) => (asks.told)(Err(reason)),
        }
    }

    /// Looks at what the voters know, and asks again. `here`: this process; `seen`: of the members
    /// of a group; None where it does not take part, and its knowledge is outdated.
    pub fn advance(
        &mut self,
        state: &State,
        here: Member,
        seen: Option<&dyn Fn(GroupId) -> Seen>,
        now: u64,
        ask: &mut dyn FnMut(Ask),
    ) {
        for id in state.groups().keys() {
            self.news(*id, state, seen, now).into_iter().for_each(ferrite_io::notify);
        }
        let mut left = Vec::new();
        for mut one in std::mem::take(&mut self.under_way) {
            let id = one.group;
            let Some(group) = state.groups().get(&id) else { continue };
            // It may have started again since, or may have become known only now.
            if let Ok(member) = check(id, state, one.member.node, &Seen::default()) {
                one.member = member;
            }
            let node = one.member.node;
            let leader = group.configuration.leader.node;
            let outcome = match group.phase {
                Phase::Active if leader == node => Ok(format!("node {node} leads group {id} with what it has")),
                Phase::Active => Err(format!("node {leader} is back with everything and leads: nothing is lost")),
                Phase::Sealing if now >= one.until && group.accepted == Some(one.member) => Err(format!(
                    "the loss is accepted, but node {node} has not answered yet: it has nothing of the group, or cannot \
                     be reached"
                )),
                Phase::Sealing if now >= one.until => {
                    Err("a majority of the cluster's voters cannot be reached, or a node can lead without a loss"
                        .to_owned())
                }
                Phase::Sealing => {
                    if now >= one.next && group.accepted != Some(one.member) {
                        one.next = now + nanos(AGAIN);
                        let expected = group.configuration.epoch;
                        ask(Ask::AcceptLoss { group: id, from: here, expected, member: one.member });
                    }
                    left.push(one);
                    continue;
                }
            };
            (one.asks.told)(outcome);
        }
        self.under_way = left;
    }

    /// What to report about a group without a leader, if it is time.
    fn news(&mut self, id: GroupId, state: &State, seen: Option<&dyn Fn(GroupId) -> Seen>, now: u64) -> Option<Notice> {
        let group = &state.groups()[&id];
        let (Phase::Sealing, Some(seen)) = (group.phase, seen) else {
            self.leaderless.remove(&id);
            return None;
        };
        let (since, said) = self.leaderless.entry(id).or_insert((now, None));
        let due = said.map_or(*since + nanos(SAY_AFTER), |said| said + nanos(SAY_AGAIN));
        if now < due {
            return None;
        }
        *said = Some(now);
        Some(awaited(id, group, state, &seen(id), now - *since >= nanos(LOSS_AFTER)))
    }
}

/// The nodes that could lead the group, and what an operator does. `long`: it has waited long
/// enough for the loss of those nodes to be mentioned.
fn awaited(id: GroupId, group: &Group, state: &State, seen: &Seen, long: bool) -> Notice {
    if let Some(node) = seen.complete(group) {
        return Notice::DecidesLeader { group: id, node };
    }
    let named = |member: &Member| match state.nodes().get(&member.node).and_then(ferrite_meta::Node::host) {
        Some(host) => format!("node {} ({host})", member.node),
        None => format!("node {}", member.node),
    };
    let is_there = |member: &&Member| seen.there.iter().any(|(node, _)| *node == member.node);
    let away = group.configuration.members().iter().filter(|member| !is_there(member));
    Notice::AwaitsMembers {
        group: id,
        epoch: group.configuration.epoch,
        away: away.map(named).collect(),
        incomplete: seen.there.iter().map(|(node, _)| *node).collect(),
        loss_offered: long,
        latest: seen.latest().map(|(node, _)| node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ferrite_base::Incarnation;
    use ferrite_meta::{Command, Node};
    use ferrite_replica::group::{GroupConfiguration, Mark};

    /// Node 1 is gone, and the group is sealed; node 2 runs.
    fn sealed() -> State {
        let mut state = testing::founded((1..=3).map(testing::node).collect(), &[1], &[1, 2, 3]);
        let seal = Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) };
        state.apply(&seal).expect("it follows");
        state
    }

    #[test]
    fn the_groups_are_meant_that_the_node_keeps_and_no_node_leads() {
        let nodes = || (1..=3).map(testing::node).collect();
        let mut state = testing::of_groups(nodes(), &[&[1, 2], &[2], &[3], &[2, 3]], &[1, 2, 3]);
        assert!(lost_groups(&state, NodeId(2)).expect_err("all are led").contains("nothing to recover"));
        for group in [GroupId(1), GroupId(2)] {
            state.apply(&Command::Seal { group, expected: Epoch(1), epoch: Epoch(2) }).expect("it is led");
        }
        assert_eq!(lost_groups(&state, NodeId(2)), Ok(vec![GroupId(1)]));
        assert!(lost_groups(&state, NodeId(1)).expect_err("it has others").contains("that no node leads: 1, 2"));
        assert_eq!(lost_groups(&testing::founded(nodes(), &[1], &[1, 2, 3]), NodeId(2)), Ok(vec![FIRST_GROUP]));
    }

    #[test]
    fn the_outcome_of_several_groups_is_heard_once() {
        let outcomes = |said: [Result<&str, &str>; 2]| {
            let heard = Arc::new(Mutex::new(Vec::new()));
            let hear = Arc::clone(&heard);
            let told = Box::new(move |outcome| hear.lock().expect("no panic").push(outcome));
            let asks = AcceptLoss { node: NodeId(2), told }.of_groups(&[GroupId(1), GroupId(2)]);
            for ((_, asks), said) in asks.into_iter().zip(said) {
                (asks.told)(said.map(str::to_owned).map_err(str::to_owned));
            }
            Arc::try_unwrap(heard).expect("all is over").into_inner().expect("no panic")
        };
        assert_eq!(outcomes([Ok("a"), Ok("b")]), [Ok("a; b".to_owned())]);
        assert_eq!(outcomes([Err("a"), Ok("b")]), [Err("a. The loss was accepted elsewhere: b".to_owned())]);
        assert_eq!(outcomes([Err("a"), Err("b")]), [Err("a; b".to_owned())]);
    }

    #[test]
    fn a_node_that_has_started_again_meanwhile_is_meant_as_it_is_now() {
        let (mut state, mut losses, told) = (sealed(), Losses::default(), Arc::new(Mutex::new(None)));
        let hear = Arc::clone(&told);
        let asks = AcceptLoss {
            node: NodeId(2),
            told: Box::new(move |outcome| *hear.lock().expect("nobody panics") = Some(outcome)),
        };
        losses.accept(FIRST_GROUP, asks, &state, &Seen::default(), 0);
        let node = Node { incarnation: Incarnation(2), start: [9; 16], ..state.nodes()[&NodeId(2)].clone() };
        state.apply(&Command::Register { id: NodeId(2), expected: Incarnation(1), node }).expect("it follows");
        let mut asked = Vec::new();
        losses.advance(&state, Member::new(3, 1), None, 1, &mut |ask| asked.push(ask));
        let [Ask::AcceptLoss { member, .. }] = asked[..] else { panic!("{asked:?}") };
        assert_eq!(member, Member::new(2, 2));
        let accept = Command::AcceptLoss { group: FIRST_GROUP, expected: Epoch(1), sealed: Epoch(2), member };
        state.apply(&accept).expect("it is the one that runs");
        let configuration = GroupConfiguration::alone(Epoch(2), member);
        let parent = Mark { epoch: Epoch(1), position: ferrite_base::Position(1), chain: 0 };
        state.apply(&Command::Activate { group: FIRST_GROUP, configuration, parent }).expect("it follows");
        losses.advance(&state, Member::new(3, 1), None, 2, &mut |_| {});
        assert!(matches!(&*told.lock().expect("nobody panics"), Some(Ok(said)) if said.contains("node 2 leads")));
    }
    #[test]
    fn a_loss_is_spoken_of_when_all_that_is_complete_is_gone_for_long() {
        let state = sealed();
        let mut losses = Losses::default();
        let mut line = |there: &[(u32, bool)], now: Duration| {
            let there: Vec<_> = there.iter().map(|(node, whole)| (NodeId(*node), *whole)).collect();
            let seen = |_| Seen { there: there.clone(), ..Seen::default() };
            losses.news(FIRST_GROUP, &state, Some(&seen), nanos(now)).map(|notice| notice.to_string())
        };
        assert_eq!(line(&[], Duration::ZERO), None);
        let first = line(&[], SAY_AFTER).expect("it is time");
        assert!(first.contains("group 0 waits for node 1 (") && first.contains("start one of them"), "{first}");
        assert!(!first.contains("accept-loss"), "{first}");
        assert_eq!(line(&[], SAY_AFTER + SAY_AGAIN / 2), None);
        let whole = line(&[(1, true)], SAY_AFTER + SAY_AGAIN).expect("it is time");
        assert!(whole.contains("node 1 has everything") && !whole.contains("accept-loss"), "{whole}");
        let lacks = line(&[(1, false)], SAY_AFTER + 2 * SAY_AGAIN).expect("it is time");
        assert!(lacks.contains("group 0 waits for a complete copy: all members"), "{lacks}");
        assert!(lacks.contains("The copy of node 1 may lack something") && lacks.contains("accept-loss"), "{lacks}");
        // What a node knew before it takes part is outdated.
        assert_eq!(losses.news(FIRST_GROUP, &state, None, nanos(SAY_AFTER + 3 * SAY_AGAIN)), None);
        assert!(losses.leaderless.is_empty());
    }

    #[test]
    fn a_group_that_is_led_says_nothing_of_one_that_is_not() {
        let mut state = testing::of_groups((1..=3).map(testing::node).collect(), &[&[2], &[1]], &[1, 2, 3]);
        let second = GroupId(1);
        let seal = Command::Seal { group: second, expected: Epoch(1), epoch: Epoch(2) };
        state.apply(&seal).expect("it follows");
        let (mut losses, seen) = (Losses::default(), |_| Seen::default());
        let mut line = |group, now| losses.news(group, &state, Some(&seen), now).map(|notice| notice.to_string());
        for now in [0, nanos(SAY_AFTER)] {
            assert_eq!(line(FIRST_GROUP, now), None);
            let said = line(second, now);
            assert_eq!(said.is_some_and(|said| said.contains("group 1 waits for node 1")), now > 0);
        }
    }

    /// Node 2 was started with a directory that it had used before another.
    #[test]
    fn who_is_there_and_lacks_something_is_not_to_be_started() {
        let mut state = testing::founded((1..=3).map(testing::node).collect(), &[1, 2], &[1, 2, 3]);
        let seal = Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) };
        state.apply(&seal).expect("it follows");
        let group = &state.groups()[&FIRST_GROUP];
        let line = |there: &[(u32, bool)]| {
            let there = there.iter().map(|(node, whole)| (NodeId(*node), *whole)).collect();
            awaited(FIRST_GROUP, group, &state, &Seen { there, ..Seen::default() }, false).to_string()
        };
        let said = line(&[(2, false)]);
        assert!(said.starts_with("group 0 waits for node 1 (host1:3021), of the members"), "{said}");
        assert!(said.contains("The copy of node 2 may lack") && !said.contains("node 2 ("), "{said}");
        let neither = line(&[]);
        assert!(
            neither.contains("node 1 (host1:3021) or node 2 (host2:3021)") && !neither.contains("lack"),
            "{neither}"
        );
    }

    #[test]
    fn the_loss_of_more_than_need_be_is_not_accepted() {
        let (state, mut losses) = (sealed(), Losses::default());
        let end = |epoch, position| (Epoch(epoch), Position(position));
        let seen = Seen { ends: vec![(NodeId(2), end(1, 7)), (NodeId(3), end(2, 5))], ..Seen::default() };
        let mut accept = |node| {
            let told = Arc::new(Mutex::new(None));
            let hear = Arc::clone(&told);
            let tell = move |outcome| *hear.lock().expect("no panic") = Some(outcome);
            let asks = AcceptLoss { node: NodeId(node), told: Box::new(tell) };
            losses.accept(FIRST_GROUP, asks, &state, &seen, 0);
            told.lock().expect("no panic").take()
        };
        let said = accept(2).expect("at once").expect_err("node 3 has more");
        assert!(said.starts_with("node 3 has a later copy than node 2: it ends at entry 5 of epoch 2, that"), "{said}");
        assert_eq!(accept(3), None, "the voters are asked");
        let line = awaited(FIRST_GROUP, &state.groups()[&FIRST_GROUP], &state, &seen, true).to_string();
        assert!(line.ends_with("--accept-loss --node 3, which has the latest copy of the nodes that run"), "{line}");
    }

    #[test]
    fn without_a_majority_nothing_is_accepted_and_that_is_the_reason() {
        for state in [sealed(), testing::founded((1..=3).map(testing::node).collect(), &[1], &[1, 2, 3])] {
            let seen = Seen { no_majority: Some("node 1 is not reached".to_owned()), ..Seen::default() };
            let said = check(FIRST_GROUP, &state, NodeId(2), &seen).expect_err("nothing can be decided");
            assert!(said.contains("does not hear a majority") && said.contains("(node 1 is not reached)"), "{said}");
            assert!(said.contains("--leave-cluster"), "{said}");
        }
    }

    #[test]
    fn a_former_leader_does_not_say_that_it_leads() {
        let state = testing::founded((1..=3).map(testing::node).collect(), &[1], &[1, 2, 3]);
        let said = |doubtful| {
            check(FIRST_GROUP, &state, NodeId(2), &Seen { doubtful, ..Seen::default() }).expect_err("it is led")
        };
        assert!(said(false).contains("node 1 leads group 0"), "{}", said(false));
        assert!(said(true).contains("has not heard yet who leads"), "{}", said(true));
    }
}
