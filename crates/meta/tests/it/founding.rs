//! Nodes that become a cluster while their processes end, their directories are emptied and their
//! messages are lost with connections: one cluster, or none that could do anything.
//!
//! `FOUNDING_SEEDS=5000` runs more.

use ferrite_base::limits::CLUSTER_NODES_MAX;
use ferrite_base::{Epoch, Incarnation, NodeId, Position};
use ferrite_meta::founding::{Database, Declaration, Effect, Founding, Manner, Partitions, Plan, WrittenDown, found};
use ferrite_meta::{Kind, State};
use ferrite_replica::group::Mark;
use std::collections::VecDeque;

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn key(&mut self) -> [u8; 16] {
        let (one, other) = (self.next().to_le_bytes(), self.next().to_le_bytes());
        std::array::from_fn(|at| if at < 8 { one[at] } else { other[at - 8] })
    }
}

fn plan(nodes: u32, kfactor: u32) -> Plan {
    Plan { hosts: (1..=nodes).map(|place| format!("host{place}:3021")).collect(), kfactor, partitions_per_node: None }
}

fn declaration(plan: &Plan, place: u32, key: [u8; 16]) -> Declaration {
    Declaration {
        plan: plan.clone(),
        place,
        key,
        incarnation: Incarnation(1),
        kind: Kind::Data,
        database: None,
        partitions: Partitions::Suggested(place + 1),
        release: "0.1.0".to_string(),
        addresses: vec![format!("host{place}:21212")],
        rack: None,
    }
}

/// A node: what its process knows, and what its disk says.
#[derive(Default)]
struct Node {
    process: Option<Founding>,
    disk: Option<Vec<u8>>,
    founded: Option<State>,
    /// Clusters that any of its processes took part in.
    acted_in: Vec<State>,
    /// It knows that there is a cluster without it.
    without: bool,
    said: Vec<String>,
}

struct World {
    random: Random,
    /// Processes end before and after they have written.
    faults: bool,
    plan: Plan,
    nodes: Vec<Node>,
    /// From one place to another, in order; a process that ends loses what is on its way.
    lines: Vec<Vec<VecDeque<Vec<u8>>>>,
}

impl World {
    fn new(seed: u64, nodes: u32, kfactor: u32) -> World {
        let lines = (0..nodes).map(|_| (0..nodes).map(|_| VecDeque::new()).collect()).collect();
        let nodes_now = (0..nodes).map(|_| Node::default()).collect();
        World { random: Random(seed), faults: true, plan: plan(nodes, kfactor), nodes: nodes_now, lines }
    }

    fn start(&mut self, node: usize) {
        let written = self.nodes[node].disk.as_ref().map(|bytes| WrittenDown::decode(bytes).unwrap());
        let wanted = declaration(&self.plan, node as u32 + 1, self.random.key());
        let known = &mut self.nodes[node];
        (known.founded, known.without) = (None, false);
        known.process = Some(Founding::new(written, wanted, false));
        self.carry_out(node);
    }

    fn end(&mut self, node: usize) {
        let known = &mut self.nodes[node];
        (known.process, known.founded, known.without) = (None, None, false);
        for other in 0..self.nodes.len() {
            self.lines[node][other].clear();
            self.lines[other][node].clear();
        }
    }

    /// A process may end between any two effects.
    fn carry_out(&mut self, node: usize) {
        let mut effects = VecDeque::new();
        loop {
            let mut new = Vec::new();
            if let Some(process) = &mut self.nodes[node].process {
                process.move_effects(&mut new);
            }
            effects.extend(new);
            let Some(effect) = effects.pop_front() else { return };
            match effect {
                Effect::Send { to, message } => self.lines[node][to as usize - 1].push_back(message),
                Effect::Write(written) => {
                    if self.faults && self.random.below(12) == 0 {
                        return self.end(node);
                    }
                    self.nodes[node].disk = Some(written.encode());
                    if self.faults && self.random.below(12) == 0 {
                        return self.end(node);
                    }
                    self.nodes[node].process.as_mut().unwrap().written();
                }
                Effect::Founded(state) => {
                    self.nodes[node].acted_in.push(state.as_ref().clone());
                    self.nodes[node].founded = Some(*state);
                }
                Effect::FoundedWithout(_) => self.nodes[node].without = true,
                Effect::Say(notice) => self.nodes[node].said.push(notice.to_string()),
            }
        }
    }

    fn has_founded(&self, node: usize) -> bool {
        let disk = self.nodes[node].disk.as_ref();
        disk.is_some_and(|bytes| WrittenDown::decode(bytes).unwrap().founded.is_some())
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let Some(message) = self.lines[from][to].pop_front() else { return };
        let Some(process) = &mut self.nodes[to].process else { return };
        process.handle_message(Some(from as u32 + 1), &message).unwrap();
        self.carry_out(to);
    }

    fn tick(&mut self, node: usize) {
        if let Some(process) = &mut self.nodes[node].process {
            process.tick();
            self.carry_out(node);
        }
    }

    fn one(&mut self, wipes: bool) {
        let count = self.nodes.len() as u64;
        let (node, other) = (self.random.below(count) as usize, self.random.below(count) as usize);
        match self.random.below(40) {
            0 => self.end(node),
            // What a voter has promised is not lost.
            1 if wipes && !self.has_founded(node) => {
                self.end(node);
                self.nodes[node].disk = None;
            }
            2..6 => self.tick(node),
            6..14 if self.nodes[node].process.is_none() => self.start(node),
            _ => self.deliver(node, other),
        }
    }

    /// Without faults.
    fn settle(&mut self) {
        self.faults = false;
        let count = self.nodes.len();
        for _ in 0..4 {
            for node in 0..count {
                if self.nodes[node].process.is_none() {
                    self.start(node);
                }
                self.tick(node);
            }
            for pair in 0..count * count {
                while !self.lines[pair / count][pair % count].is_empty() {
                    self.deliver(pair / count, pair % count);
                }
            }
        }
    }
}

fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=std::env::var("FOUNDING_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

#[test]
fn all_nodes_found_the_same_cluster_whatever_ends_between() {
    for seed in seeds() {
        let nodes = 1 + (seed % 5) as u32;
        let mut world = World::new(seed, nodes, u32::from(nodes > 2));
        for _ in 0..seed % 300 {
            world.one(false);
        }
        world.settle();
        let first = world.nodes[0].founded.clone().unwrap_or_else(|| panic!("seed {seed}: no cluster"));
        for node in &world.nodes {
            assert_eq!(node.founded.as_ref(), Some(&first), "seed {seed}");
        }
        assert_eq!(first.nodes().len(), nodes as usize);
    }
}

#[test]
fn of_two_clusters_one_has_no_majority() {
    let mut split = 0;
    for seed in seeds() {
        let nodes = 1 + (seed % 5) as u32;
        let mut world = World::new(seed, nodes, u32::from(nodes > 2));
        for _ in 0..seed % 300 {
            world.one(true);
        }
        world.settle();
        let mut clusters: Vec<(&State, usize)> = Vec::new();
        for (node, known) in world.nodes.iter().enumerate() {
            assert!(known.founded.is_some() || known.without, "seed {seed}: node {} waits for ever", node + 1);
            for (at, state) in known.acted_in.iter().enumerate() {
                if known.acted_in[..at].contains(state) {
                    continue;
                }
                let votes = usize::from(state.voters().contains(&NodeId(node as u32 + 1)));
                match clusters.iter_mut().find(|(other, _)| *other == state) {
                    Some((_, count)) => *count += votes,
                    None => clusters.push((state, votes)),
                }
            }
        }
        split += usize::from(clusters.len() > 1);
        let able = clusters.iter().filter(|(state, votes)| votes * 2 > state.voters().len()).count();
        assert!(able <= 1, "seed {seed}: {able} clusters could have acted");
    }
    println!("{split} split");
}

#[test]
fn a_wiped_node_learns_that_there_is_a_cluster_without_it() {
    let mut world = World::new(7, 3, 1);
    world.settle();
    world.end(1);
    world.nodes[1].disk = None;
    world.settle();
    assert!(world.nodes[1].without && world.nodes[1].founded.is_none());
    assert_eq!(world.nodes[0].founded, world.nodes[2].founded);
}

#[test]
fn a_node_says_whom_it_waits_for_once_for_each_change() {
    let mut world = World::new(1, 3, 1);
    world.faults = false;
    world.start(0);
    for _ in 0..5 {
        world.tick(0);
    }
    assert_eq!(world.nodes[0].said, ["waiting for node 2 (host2:3021), node 3 (host3:3021)"]);
    world.start(1);
    for _ in 0..3 {
        world.tick(1);
        world.deliver(1, 0);
    }
    assert_eq!(world.nodes[0].said[1..], ["waiting for node 3 (host3:3021)"]);
}

#[test]
fn hearing_again_what_is_known_is_no_news() {
    let all = plan(3, 1);
    let new = |place| {
        let mut node = Founding::new(None, declaration(&all, place, [place as u8; 16]), false);
        node.written();
        node
    };
    let (mut one, two, three) = (new(1), new(2), new(3));
    let mut effects = Vec::new();
    let hear = |node: &mut Founding, other: &Founding| {
        node.handle_message(None, &other.answer().unwrap()).unwrap();
        let is_news = node.has_effects();
        node.move_effects(&mut Vec::new());
        is_news
    };
    one.move_effects(&mut effects);
    assert_eq!([hear(&mut one, &two), hear(&mut one, &two)], [true, false]);
    let mut other = Founding::new(None, declaration(&plan(3, 2), 3, [9; 16]), false);
    other.written();
    assert_eq!([hear(&mut one, &other), hear(&mut one, &other)], [true, false], "a disagreement neither");
    one.handle_message(None, &three.answer().unwrap()).unwrap();
    one.move_effects(&mut effects);
    one.written();
    one.move_effects(&mut effects);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Founded(_))));
    // From here on its answers say all, and nothing is kept for others to carry out.
    assert_eq!([&two, &three, &other].map(|asks| hear(&mut one, asks)), [false; 3]);
}

#[test]
fn plans_that_differ_are_said_by_name_and_can_be_mended() {
    let mut one = Founding::new(None, declaration(&plan(2, 0), 1, [1; 16]), false);
    one.written();
    let mut other = Founding::new(None, declaration(&plan(2, 1), 2, [2; 16]), false);
    other.written();
    let mut effects = Vec::new();
    other.move_effects(&mut effects);
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::Send { message, .. } => Some(message),
        _ => None,
    });
    sent.for_each(|message| one.handle_message(Some(2), message).unwrap());
    let mut effects = Vec::new();
    one.move_effects(&mut effects);
    let said = effects.iter().filter_map(|effect| match effect {
        Effect::Say(notice) => Some(notice.to_string()),
        _ => None,
    });
    let said: Vec<String> = said.collect();
    assert_eq!(
        said,
        [
            "waiting for node 2 (host2:3021)",
            "the node at host2:3021 was started with --kfactor 1, and this one with --kfactor 0: start one of them again with \
             the options of the other"
        ]
    );
    // With the plan of the other its declaration is another one; with the same it stays.
    let written = WrittenDown { own: one.own().clone(), joins: false, founded: None, known: None };
    let again = Founding::new(Some(written.clone()), declaration(&plan(2, 0), 1, [9; 16]), false);
    assert_eq!(again.own().key, [1; 16]);
    let mended = Founding::new(Some(written.clone()), declaration(&plan(2, 1), 1, [9; 16]), false);
    assert_eq!(mended.own().key, [9; 16]);
    // So with the number of partitions, if an operator says another.
    let said = |count| Declaration { partitions: Partitions::Said(count), ..declaration(&plan(2, 0), 1, [9; 16]) };
    let mended = Founding::new(Some(written), said(3), false);
    assert_eq!((mended.own().key, mended.own().partitions), ([9; 16], Partitions::Said(3)));
    let written = WrittenDown { own: said(3), joins: false, founded: None, known: None };
    let again = |count| Founding::new(Some(written.clone()), Declaration { key: [8; 16], ..said(count) }, false);
    assert_eq!([again(3).own().key, again(2).own().key], [[9; 16], [8; 16]]);
}

#[test]
fn what_nodes_are_started_with_besides_is_compared_before_there_is_a_cluster() {
    let all = plan(3, 1);
    let manner = |durability: &str, schema, classes| {
        let durability = durability.to_owned();
        Manner { durability, schema, classes, decimal_scale: None }
    };
    let new = |place: u32, manner| {
        let mut node = Founding::new(None, declaration(&all, place, [place as u8; 16]), false).started_with(manner);
        node.written();
        node
    };
    let sync = || Some(manner("sync", None, None));
    for (other, said) in [
        (
            manner("none", None, None),
            "node 1 (host1:3021) was started with --durability sync, and node 3 (host3:3021) with --durability none: start one \
             of them again with the options of the other",
        ),
        (
            manner("sync", Some(7), None),
            "node 1 (host1:3021) was started with no --schema, and node 3 (host3:3021) with --schema: start",
        ),
        (
            manner("sync", None, Some(7)),
            "node 1 (host1:3021) was started with no --classes, and node 3 (host3:3021) with --classes: start",
        ),
        (
            manner("none", Some(7), None),
            "node 1 (host1:3021) was started with --durability sync no --schema, and node 3 (host3:3021) with --durability \
             none --schema: start",
        ),
        (
            Manner { decimal_scale: Some(7), ..manner("sync", None, None) },
            "node 1 (host1:3021) was started with no --decimal-scale, and node 3 (host3:3021) with --decimal-scale: start",
        ),
    ] {
        let (mut one, two) = (new(1, sync()), new(2, None));
        one.handle_message(None, &two.answer().unwrap()).unwrap();
        let mut effects = Vec::new();
        let mut hear = |node: &Founding| {
            one.handle_message(Some(3), &node.answer().unwrap()).unwrap();
            effects.clear();
            one.move_effects(&mut effects);
            let founds = effects.iter().any(|effect| matches!(effect, Effect::Write(down) if down.founded.is_some()));
            let lines = effects
                .iter()
                .filter(|effect| matches!(effect, Effect::Say(notice) if notice.to_string().starts_with(said)));
            (founds, lines.count())
        };
        let differs = new(3, Some(other));
        assert_eq!([hear(&differs), hear(&differs)], [(false, 1), (false, 0)], "{said}");
        // The same directory, started with what the others have.
        assert_eq!(hear(&new(3, sync())), (true, 0));
    }
    let different = [new(1, Some(manner("sync", Some(1), None))), new(3, Some(manner("sync", Some(2), None)))];
    let [mut one, other] = different;
    one.handle_message(None, &new(2, None).answer().unwrap()).unwrap();
    one.handle_message(None, &other.answer().unwrap()).unwrap();
    let mut effects = Vec::new();
    one.move_effects(&mut effects);
    assert!(
        effects.iter().any(
            |effect| matches!(effect, Effect::Say(notice) if notice.to_string().contains("with another --schema"))
        )
    );
    // Where others have founded with this node, it is one of them.
    let all: Vec<Declaration> = (1..=3).map(|place| new(place, None).own().clone()).collect();
    let written = WrittenDown { own: all[1].clone(), joins: false, founded: Some(all), known: None };
    let founded = Founding::new(Some(written), declaration(&plan(3, 1), 2, [2; 16]), false);
    one.handle_message(Some(2), &founded.answer().unwrap()).unwrap();
    one.move_effects(&mut effects);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Write(down) if down.founded.is_some())));
}

#[test]
fn all_that_differs_is_said_at_once_and_the_node_is_shown_as_heard() {
    let manner = |durability: &str, schema| {
        Some(Manner { durability: durability.to_owned(), schema, classes: None, decimal_scale: None })
    };
    let own = plan(3, 1);
    // Node 3 takes itself for node 1, since its list is turned.
    let turned = Plan { hosts: own.hosts.iter().rev().cloned().collect(), kfactor: 2, partitions_per_node: None };
    let mut one = Founding::new(None, declaration(&own, 1, [1; 16]), false).started_with(manner("sync", None));
    let mut other = Founding::new(None, declaration(&turned, 1, [3; 16]), false).started_with(manner("none", Some(7)));
    one.written();
    other.written();
    let mut effects = Vec::new();
    for _ in 0..2 {
        one.handle_message(None, &other.answer().unwrap()).unwrap();
        one.move_effects(&mut effects);
    }
    let is_said = |effect: &&Effect| {
        let said = "the node at host3:3021 was started with --cluster host3:3021,host2:3021,host1:3021 --kfactor 2 \
                    --durability none --schema, and this one with --cluster host1:3021,host2:3021,host3:3021 (the order \
                    counts) --kfactor 1 --durability sync no --schema: start one of them again with the options of the other";
        matches!(effect, Effect::Say(notice) if notice.to_string() == said)
    };
    assert_eq!(effects.iter().filter(is_said).count(), 1, "{effects:?}");
    let awaits = one.awaits();
    let heard: Vec<bool> = awaits.places.iter().map(|place| place.declaration.is_some()).collect();
    assert_eq!(heard, [true, false, true]);
    assert!(awaits.reason.starts_with("node 2 (host2:3021), node 3 (host3:3021), to found"), "{}", awaits.reason);
    // Strangers that are of no place fill nothing.
    for number in 0..CLUSTER_NODES_MAX + 9 {
        let hosts = vec![format!("stranger{number}:1"), "host1:3021".to_owned()];
        let mut stranger =
            Founding::new(None, declaration(&Plan { hosts, kfactor: 0, partitions_per_node: None }, 1, [9; 16]), false);
        stranger.written();
        one.handle_message(None, &stranger.answer().unwrap()).unwrap();
    }
    assert!(one.awaits().reason.matches("was started with").count() <= CLUSTER_NODES_MAX);
}

#[test]
fn no_cluster_has_a_node_that_was_started_as_another() {
    let all = plan(3, 1);
    let new = |place, key: u8| {
        let mut node = Founding::new(None, declaration(&all, place, [key; 16]), false);
        node.written();
        node
    };
    let (mut third, wrong) = (new(3, 3), new(1, 9));
    let told = wrong.answer().unwrap();
    third.handle_message(None, &told).unwrap();
    third.handle_message(Some(2), &told).unwrap();
    third.handle_message(None, &told).unwrap();
    // Its directory is emptied, and it is started as what it is.
    third.handle_message(Some(2), &new(2, 2).answer().unwrap()).unwrap();
    let mut effects = Vec::new();
    third.move_effects(&mut effects);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Write(down) if down.founded.is_some())));
    let is_said = |effect: &Effect| matches!(effect, Effect::Say(notice) if notice.to_string().contains("at host2:3021 says that it is node 1 (host1:3021)"));
    assert!(effects.iter().any(is_said));
    // Where the first is, even with that directory, it is heard.
    third.handle_message(Some(1), &told).unwrap();
    third.move_effects(&mut effects);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Write(down) if down.founded.is_some())));
}

#[test]
fn a_list_in_another_order_is_said_as_such_to_both() {
    let turned = Plan { hosts: plan(2, 0).hosts.into_iter().rev().collect(), kfactor: 0, partitions_per_node: None };
    let mut one = Founding::new(None, declaration(&plan(2, 0), 1, [1; 16]), false);
    one.written();
    let mut other = Founding::new(None, declaration(&turned, 1, [2; 16]), false);
    other.written();
    // Either takes the other for node 2.
    let answers = (one.answer().unwrap(), other.answer().unwrap());
    one.handle_message(Some(2), &answers.1).unwrap();
    other.handle_message(Some(2), &answers.0).unwrap();
    for mut node in [one, other] {
        let mut effects = Vec::new();
        node.move_effects(&mut effects);
        let is_said = |effect: &Effect| matches!(effect, Effect::Say(notice) if notice.to_string().contains("was started with --cluster"));
        assert!(effects.iter().any(is_said));
    }
}

fn three() -> Vec<Declaration> {
    (1..=3).map(|place| declaration(&plan(3, 1), place, [place as u8; 16])).collect()
}

#[test]
fn a_cluster_follows_from_its_declarations() {
    let state = found(&three()).unwrap();
    let settings = state.settings().unwrap();
    assert_eq!((settings.partitions, settings.kfactor, settings.cluster), (2, 1, [1 ^ 2 ^ 3; 16]));
    assert_eq!(state.voters().len(), 3);
    let group = state.groups().values().next().unwrap();
    assert_eq!((group.configuration.leader.node, group.configuration.epoch), (NodeId(1), Epoch(2)));

    let mut with_data = three();
    let end = Mark { epoch: Epoch(6), position: Position(90), chain: 5 };
    (with_data[1].database, with_data[1].partitions) = (Some(Database { id: [4; 16], end }), Partitions::Said(7));
    let state = found(&with_data).unwrap();
    let group = state.groups().values().next().unwrap();
    assert_eq!((group.configuration.leader.node, group.configuration.epoch, group.parent), (NodeId(2), Epoch(7), end));
    assert_eq!(state.settings().unwrap().partitions, 7);

    let mut witness = three();
    witness[0].kind = Kind::Witness;
    let state = found(&witness).unwrap();
    assert_eq!(state.groups().values().next().unwrap().configuration.leader.node, NodeId(2));
    assert_eq!(state.settings().unwrap().partitions, 3, "a witness has no partitions");
}

#[test]
fn what_makes_no_cluster_is_said_by_name() {
    let end = Mark { epoch: Epoch(6), position: Position(90), chain: 5 };
    let mut two = three();
    two[0].database = Some(Database { id: [4; 16], end });
    two[2].database = Some(Database { id: [5; 16], end });
    let mut counts = three();
    counts[0].partitions = Partitions::Said(4);
    counts[1].partitions = Partitions::Said(5);
    let mut witnesses = three();
    witnesses[0].kind = Kind::Witness;
    witnesses[1].kind = Kind::Witness;
    for (declarations, said) in [
        (
            two,
            "node 1 (host1:3021) and node 3 (host3:3021) have a database each, and a cluster begins with one at most: start the \
             others with empty directories",
        ),
        (
            counts,
            "node 1 (host1:3021) has 4 partitions and node 2 (host2:3021) was to have 5: give --partitions only once, or equally",
        ),
        (
            witnesses,
            "1 node with data, 2 witnesses, K = 1: K + 1 copies of everything need K + 1 nodes with data. Possible are 1 node \
             with data, 2 witnesses, K = 0; 2 nodes with data, 2 witnesses, K = 1; or 3 nodes with data, 2 witnesses, K = 1",
        ),
    ] {
        assert_eq!(found(&declarations).unwrap_err().to_string(), said);
    }
}

#[test]
fn what_is_written_down_reads_back_and_damage_is_found() {
    let written = WrittenDown { own: three().remove(0), joins: false, founded: Some(three()), known: None };
    let bytes = written.encode();
    assert_eq!(WrittenDown::decode(&bytes), Ok(written));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(WrittenDown::decode(&damaged).is_err(), "byte {at}");
        assert!(WrittenDown::decode(&bytes[..at]).is_err(), "{at} bytes");
    }
}

#[test]
fn hostile_bytes_do_not_panic() {
    bolero::check!().with_iterations(20_000).with_type::<(u32, Vec<u8>)>().for_each(|(from, bytes)| {
        let mut founding = Founding::new(None, declaration(&plan(3, 1), 1, [1; 16]), false);
        founding.written();
        let _ = founding.handle_message(Some(*from), bytes);
        let _ = founding.handle_message(None, &[&[1, 1], &bytes[..]].concat());
        let _ = founding.handle_message(None, &[&[1, 2], &bytes[..]].concat());
        let _ = founding.handle_message(None, &[&[2, 1], &bytes[..]].concat());
        let _ = WrittenDown::decode(bytes);
    });
}
