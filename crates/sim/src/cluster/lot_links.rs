//! Connections for lots between the processes: each keeps the order of what it carries, and loses
//! nothing but all at its end. Its end is heard on both sides, at different times, and a new one
//! begins when both have heard it.

use ferrite_base::NodeId;
use ferrite_io::simulated::SimulatedRandom;
use ferrite_replica::group::Member;
use std::collections::BTreeMap;

/// A side hears of the end within that, and a new connection begins within that behind it.
const HEARD_MILLIS: u64 = 60;
const AGAIN_MILLIS: u64 = 80;
const MILLI: u64 = 1_000_000;
const MICROS: u64 = 1_500;
/// Of a hundred messages, so many take up to that long where something goes wrong: what comes
/// behind them on their connection waits.
const SLOW: u64 = 2;
const SLOW_MICROS: u64 = 100_000;
/// Where connections stall, so many of a hundred take up to that long: longer than a group in doubt
/// waits before it asks the others.
const STALLED: u64 = 4;
const STALLED_MICROS: u64 = 6_000_000;

pub(super) struct OpenLink {
    pub number: u64,
    pub sides: [Member; 2],
}

pub(super) struct LotPacket {
    number: u64,
    pub from: NodeId,
    pub to: NodeId,
    pub bytes: Vec<u8>,
    pub due: u64,
}

/// One side is to hear that its connection has ended.
pub(super) struct Ending {
    pub side: Member,
    pub other: NodeId,
    pub due: u64,
}

pub struct LotLinks {
    pub random: SimulatedRandom,
    /// Some messages take seconds.
    stall: bool,
    /// So many have.
    pub stalls: u64,
    pub(super) open: BTreeMap<[NodeId; 2], OpenLink>,
    pub last: u64,
    pub again: BTreeMap<[NodeId; 2], u64>,
    /// Of each way, in its order.
    pub(super) flying: Vec<LotPacket>,
    pub(super) endings: Vec<Ending>,
}

pub fn pair(one: NodeId, other: NodeId) -> [NodeId; 2] {
    [one.min(other), one.max(other)]
}

impl LotLinks {
    pub fn new(random: SimulatedRandom, stall: bool) -> LotLinks {
        LotLinks {
            random,
            stall,
            stalls: 0,
            open: BTreeMap::new(),
            last: 0,
            again: BTreeMap::new(),
            flying: Vec::new(),
            endings: Vec::new(),
        }
    }

    /// What is not connected is lost: its sender has heard that, or is about to.
    pub fn send(&mut self, from: Member, to: NodeId, bytes: Vec<u8>, now: u64, calm: bool) {
        let open = self.open.get(&pair(from.node, to)).filter(|open| open.sides.contains(&from));
        let Some(number) = open.map(|open| open.number) else { return };
        let same = self.flying.iter().filter(|packet| packet.number == number && packet.to == to);
        let last = same.map(|packet| packet.due).max().unwrap_or_default();
        let most = match () {
            () if !calm && self.stall && self.random.percent(STALLED) => {
                self.stalls += 1;
                STALLED_MICROS
            }
            () if !calm && self.random.percent(SLOW) => SLOW_MICROS,
            () => MICROS,
        };
        let due = last.max(now + 1_000 * (20 + self.random.below(most)));
        self.flying.push(LotPacket { number, from: from.node, to, bytes, due });
    }

    /// The connection ends, and both sides will hear it.
    pub fn end(&mut self, between: [NodeId; 2], now: u64) {
        let Some(ended) = self.open.remove(&between) else { return };
        self.flying.retain(|packet| packet.number != ended.number);
        let mut last = now;
        for (side, other) in [(0, 1), (1, 0)] {
            let due = now + self.random.below(HEARD_MILLIS) * MILLI;
            last = last.max(due);
            self.endings.push(Ending { side: ended.sides[side], other: ended.sides[other].node, due });
        }
        self.again.insert(between, last + self.random.below(AGAIN_MILLIS) * MILLI);
    }

    /// A process has ended, and with it all its connections.
    pub fn ended(&mut self, node: NodeId, now: u64) {
        let all: Vec<[NodeId; 2]> = self.open.keys().copied().filter(|between| between.contains(&node)).collect();
        all.into_iter().for_each(|between| self.end(between, now));
        self.endings.retain(|ending| ending.side.node != node);
    }

    pub fn is_ending(&self, between: [NodeId; 2]) -> bool {
        self.endings.iter().any(|ending| pair(ending.side.node, ending.other) == between)
    }

    pub fn is_idle(&self) -> bool {
        self.flying.is_empty() && self.endings.is_empty()
    }
}
