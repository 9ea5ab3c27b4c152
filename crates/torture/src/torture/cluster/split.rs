//! How the network between nodes is split, or bad, for a while.

use ferrite_bench::network::{End, Loss, Trouble};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// The victim reaches no other node, clients reach all.
    Alone,
    /// The victim reaches nobody, also no client.
    Gone,
    /// The victim and as many others as leave a majority without them: of five nodes, two.
    Minority,
    /// What is sent to the victim by other nodes is lost.
    In,
    /// What the victim sends to other nodes is lost.
    Out,
    /// The victim and one other do not reach each other, the rest reach both.
    Bridge,
    /// No node reaches another.
    Apart,
    /// Some of what the victim sends and is sent is lost.
    Lossy,
    /// The victim's link is slow.
    Slow,
}

pub const ALL: [Split; 9] = [
    Split::Alone,
    Split::Gone,
    Split::Minority,
    Split::In,
    Split::Out,
    Split::Bridge,
    Split::Apart,
    Split::Lossy,
    Split::Slow,
];

const LOST_PERCENT: u32 = 20;
const SLOW_KILOBITS: u32 = 4_000;

impl Split {
    /// Who is on the victim's side, and what is lost. `members` keep the data.
    pub fn trouble(self, victim: usize, nodes: usize, members: &[usize]) -> (Vec<usize>, Trouble) {
        let others = |side: &[usize]| (0..nodes).filter(|place| !side.contains(place)).collect::<Vec<usize>>();
        let ends = |places: &[usize]| places.iter().map(|place| End::Node(*place)).collect::<Vec<End>>();
        let apart = |side: Vec<usize>, more: &[End]| {
            let beyond: Vec<End> = ends(&others(&side)).into_iter().chain(more.iter().copied()).collect();
            let trouble = Trouble::between(&ends(&side), &beyond);
            (side, trouble)
        };
        match self {
            Split::Alone => apart(vec![victim], &[]),
            Split::Gone => apart(vec![victim], &[End::Clients]),
            Split::Minority => {
                // Members first: where all of them are in the minority, nobody serves.
                let mut side: Vec<usize> = members.iter().copied().chain(0..nodes).collect();
                side.retain(|place| *place != victim);
                side.dedup();
                side.insert(0, victim);
                side.truncate((nodes - 1) / 2);
                apart(side, &[])
            }
            Split::In | Split::Out | Split::Lossy => {
                let (_, mut trouble) = apart(vec![victim], &[]);
                let victim = End::Node(victim);
                match self {
                    Split::In => trouble.losses.retain(|loss| loss.to == victim),
                    Split::Out => trouble.losses.retain(|loss| loss.from == victim),
                    _ => trouble.losses.iter_mut().for_each(|loss| loss.percent = LOST_PERCENT),
                }
                (vec![victim_of(victim)], trouble)
            }
            Split::Bridge => {
                let other = members.iter().copied().find(|member| *member != victim);
                let other = other.unwrap_or((victim + 1) % nodes);
                (vec![victim], Trouble::between(&[End::Node(victim)], &[End::Node(other)]))
            }
            Split::Apart => {
                let way = |from: usize| (0..nodes).filter(move |to| *to != from).map(move |to| (from, to));
                let loss = |(from, to)| Loss { from: End::Node(from), to: End::Node(to), percent: 100 };
                let losses = (0..nodes).flat_map(way).map(loss).collect();
                ((0..nodes).collect(), Trouble { losses, slow: None })
            }
            Split::Slow => (vec![victim], Trouble { losses: Vec::new(), slow: Some((victim, SLOW_KILOBITS)) }),
        }
    }

    /// Whether calls are to be acknowledged while it lasts, once the others have noticed.
    pub fn is_served(self, side: &[usize], members: &[usize]) -> bool {
        match self {
            Split::Apart | Split::Lossy | Split::Slow => false,
            Split::Bridge => true,
            _ => members.iter().any(|member| !side.contains(member)),
        }
    }

    /// Whether another leads when it has lasted for long, if the victim has led.
    pub fn deposes(self, side: &[usize], members: &[usize]) -> bool {
        self != Split::Bridge && self.is_served(side, members)
    }
}

fn victim_of(end: End) -> usize {
    match end {
        End::Node(place) => place,
        End::Clients => unreachable!("clients are not split from one another"),
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Split::Alone => "cut off from the others",
            Split::Gone => "cut off from the others and from clients",
            Split::Minority => "in a minority",
            Split::In => "not reached by what others send",
            Split::Out => "not heard by the others",
            Split::Bridge => "cut off from one other",
            Split::Apart => "as all, cut off from all others",
            Split::Lossy => "on a link that loses packets",
            Split::Slow => "on a slow link",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(trouble: &Trouble) -> Vec<(End, End)> {
        trouble.losses.iter().map(|loss| (loss.from, loss.to)).collect()
    }

    #[test]
    fn each_split_loses_what_it_says() {
        let node = End::Node;
        for (split, side, lost) in [
            (
                Split::Alone,
                vec![1],
                vec![(node(1), node(0)), (node(0), node(1)), (node(1), node(2)), (node(2), node(1))],
            ),
            (Split::In, vec![1], vec![(node(0), node(1)), (node(2), node(1))]),
            (Split::Out, vec![1], vec![(node(1), node(0)), (node(1), node(2))]),
            (Split::Bridge, vec![1], vec![(node(1), node(2)), (node(2), node(1))]),
        ] {
            let (found, trouble) = split.trouble(1, 3, &[1, 2]);
            assert_eq!((found, ways(&trouble)), (side, lost), "{split:?}");
        }
        assert_eq!(Split::Apart.trouble(1, 3, &[1, 2]).1.losses.len(), 6);
        assert_eq!(Split::Gone.trouble(1, 3, &[1, 2]).1.losses.len(), 6);
        let (_, lossy) = Split::Lossy.trouble(1, 3, &[1, 2]);
        assert!(lossy.losses.len() == 4 && lossy.losses.iter().all(|loss| loss.percent < 100));
        assert_eq!(Split::Slow.trouble(1, 3, &[1, 2]).1.slow.map(|(place, _)| place), Some(1));
    }

    #[test]
    fn a_minority_has_members_of_the_data_first() {
        let (side, trouble) = Split::Minority.trouble(3, 5, &[3, 4]);
        assert_eq!((side.as_slice(), trouble.losses.len()), (&[3, 4][..], 12));
        assert!(!Split::Minority.is_served(&side, &[3, 4]));
        assert!(Split::Minority.is_served(&side, &[2, 3, 4]));
        assert_eq!(Split::Minority.trouble(2, 3, &[0, 2]).0, [2]);
    }
}
