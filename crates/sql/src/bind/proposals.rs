//! What the contexts of a parameter say about its type, and the type that follows from them.
//!
//! A trial pass gathers what each context proposes and which other types it takes. Types are chosen
//! when the pass has ended, so the order of the contexts does not matter: in `CAST(c AS VARCHAR)`
//! beside `MOD(c, 10)`, where `c` is a parameter, MOD decides, because CAST takes numbers too.

use super::types::{self, widest};
use ferrite_expr::{Aggregate, AggregateKind};
use ferrite_plan::Adoption;
use ferrite_value::{ColumnType, SqlType};
use std::collections::BTreeMap;

/// A set of types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types(u32);

/// How much a proposal counts: later ones are asked only where there are no earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// The context is for values of this type: a comparison, an argument.
    Stated,
    /// The context turns values of other types into this one: CAST, `||`.
    Converted,
    /// Something must be assumed: `? + ?`, SUM(?).
    Assumed,
}

/// What one context says about the type of a parameter.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Proposal {
    pub column_type: ColumnType,
    pub adoption: Adoption,
    takes: Types,
    weight: Weight,
}

/// What a pass has gathered.
#[derive(Default)]
pub(super) struct Proposals {
    of: BTreeMap<u16, Vec<Proposal>>,
    /// Parameters that have one type, whichever it is.
    alike: Vec<Vec<u16>>,
    /// Those among them that are compared with each other.
    compared: Vec<u16>,
}

impl Types {
    pub const ALL: Types = Types(u32::MAX);

    pub fn that(is_taken: impl Fn(SqlType) -> bool) -> Types {
        let bits = SqlType::ALL.into_iter().filter(|sql_type| is_taken(*sql_type)).map(bit);
        Types(bits.fold(0, |all, bit| all | bit))
    }

    /// What an aggregate takes.
    pub fn of_aggregate(kind: AggregateKind) -> Types {
        Types::that(|given| Aggregate::result_type_for(kind, given).is_ok())
    }

    fn has(self, sql_type: SqlType) -> bool {
        self.0 & bit(sql_type) != 0
    }
}

fn bit(sql_type: SqlType) -> u32 {
    1 << sql_type.code()
}

impl Proposal {
    /// A context that takes this type, or other numbers where it is a number.
    pub fn of(column_type: ColumnType, adoption: Adoption) -> Proposal {
        let wanted = column_type.sql_type;
        let takes = Types::that(|given| given.same_kind(wanted) || (given.is_numeric() && wanted.is_numeric()));
        Proposal { column_type, adoption, takes, weight: Weight::Stated }
    }

    /// A context that takes whole numbers only.
    pub fn count() -> Proposal {
        let bigint = ColumnType::fixed(SqlType::Bigint);
        Proposal::of(bigint, Adoption::Counted).taking(Types::that(SqlType::is_integer))
    }

    /// A context that writes values of nearly all types as texts.
    pub fn text() -> Proposal {
        let takes = Types::that(|given| given != SqlType::Varbinary);
        Proposal::of(ColumnType::unbounded(SqlType::Varchar), Adoption::Computed).taking(takes).converting()
    }

    /// The same of a context that takes these other types.
    pub fn taking(self, types: Types) -> Proposal {
        Proposal { takes: Types(types.0 | bit(self.column_type.sql_type)), ..self }
    }

    /// A context that converts values of other types.
    pub fn converting(self) -> Proposal {
        Proposal { weight: Weight::Converted, ..self }
    }

    pub fn adopted(self, adoption: Adoption) -> Proposal {
        Proposal { adoption, ..self }
    }

    /// A guess.
    pub fn assumed(self) -> Proposal {
        Proposal { weight: Weight::Assumed, ..self }
    }

    /// The same for a parameter that is only part of what the context meets: its value decides.
    /// What nothing has decided stays so.
    pub fn carried(self) -> Proposal {
        let adoption = if self.adoption == Adoption::Undecided { self.adoption } else { Adoption::Carried };
        Proposal { column_type: widest(self.column_type.sql_type), adoption, ..self }
    }

    /// A value that gets one type with others, of which this is one: of CASE, of VALUES, of UNION.
    pub fn common_with(other: SqlType, adoption: Adoption) -> Proposal {
        let is_common = |given| types::common_type(Some(given), Some(other)).is_ok();
        Proposal::of(widest(other), adoption).taking(Types::that(is_common))
    }
}

impl Proposals {
    pub fn add(&mut self, index: u16, proposal: Proposal) {
        let known = self.of.entry(index).or_default();
        // Few are different: their number does not grow with the statement.
        if !known.contains(&proposal) {
            known.push(proposal);
        }
    }

    pub fn are_alike(&mut self, parameters: Vec<u16>) {
        if parameters.len() > 1 {
            self.alike.push(parameters);
        }
    }

    pub fn are_compared(&mut self, parameters: Vec<u16>) {
        self.compared.extend(&parameters);
        self.are_alike(parameters);
    }

    /// The types that follow. Assumptions wait for the next pass where this one has found better.
    pub fn chosen(&self) -> Vec<(u16, ColumnType, Adoption)> {
        let groups = self.groups();
        let choose = |weight| {
            let chosen = groups.iter().flat_map(|group| self.chosen_of(group, weight));
            chosen.collect::<Vec<_>>()
        };
        let weights = [Weight::Stated, Weight::Converted, Weight::Assumed];
        weights.into_iter().map(choose).find(|chosen| !chosen.is_empty()).unwrap_or_default()
    }

    /// Parameters that have one type, each with all that it is alike.
    fn groups(&self) -> Vec<Vec<u16>> {
        let mut group_of: BTreeMap<u16, usize> = BTreeMap::new();
        let mut groups: Vec<Vec<u16>> = Vec::new();
        let single = self.of.keys().map(|index| vec![*index]);
        for alike in self.alike.iter().cloned().chain(single) {
            let target = alike.iter().find_map(|index| group_of.get(index).copied()).unwrap_or(groups.len());
            if target == groups.len() {
                groups.push(Vec::new());
            }
            for index in alike {
                let moved = match group_of.get(&index) {
                    Some(other) if *other == target => continue,
                    Some(other) => std::mem::take(&mut groups[*other]),
                    None => vec![index],
                };
                group_of.extend(moved.iter().map(|index| (*index, target)));
                groups[target].extend(moved);
            }
        }
        groups
    }

    fn chosen_of(&self, group: &[u16], weight: Weight) -> Vec<(u16, ColumnType, Adoption)> {
        let own = |index: u16| self.of.get(&index).map_or(&[][..], Vec::as_slice);
        let taken_by_all = |sql_type| group.iter().flat_map(|index| own(*index)).all(|other| other.takes.has(sql_type));
        let mut chosen = Vec::new();
        for index in group {
            let counts = |proposal: &&Proposal| {
                let compared = proposal.adoption == Adoption::Undecided && self.compared.contains(index);
                proposal.weight == weight && !compared
            };
            let others = group.iter().filter(|other| *other != index).flat_map(|other| own(*other));
            let candidates = || {
                let of_others = others.clone().filter(counts).map(|proposal| proposal.carried());
                own(*index).iter().filter(counts).copied().chain(of_others)
            };
            let Some(first) = candidates().next() else { continue };
            let taken_by_own = |sql_type| own(*index).iter().all(|other| other.takes.has(sql_type));
            let any = || SqlType::ALL.into_iter().find(|sql_type| taken_by_own(*sql_type));
            let best = candidates().find(|proposal| taken_by_all(proposal.column_type.sql_type));
            let best = best.or_else(|| candidates().find(|proposal| taken_by_own(proposal.column_type.sql_type)));
            let best = best.or_else(|| any().map(|sql_type| Proposal::of(widest(sql_type), Adoption::Carried)));
            let best = best.unwrap_or(first);
            chosen.push((*index, best.column_type, best.adoption));
        }
        chosen
    }
}
