//! Tags of a row's keys that are known before the row is inserted.
//!
//! Replay works them out when it reads a transaction ([`Upcoming`](crate::Upcoming)); a call does
//! not. Whoever inserts is compiled once for each, so that a call's path does not ask.

use crate::hash_table::NO_TAG;

/// Of one key.
pub(crate) trait Tag: Copy {
    /// [`NO_TAG`] where it is not known.
    fn known(self) -> u32;
}

/// Of a row's keys.
pub(crate) trait Tags: Copy {
    type Tag: Tag;
    /// In the index at that place among its table's.
    fn of_index(self, position: usize) -> Self::Tag;
    /// Of its group, in the view at that place among those that follow its table.
    fn of_view(self, position: usize) -> Self::Tag;
}

/// Nothing is known.
#[derive(Clone, Copy)]
pub(crate) struct Unknown;

impl Tag for Unknown {
    #[inline(always)]
    fn known(self) -> u32 {
        NO_TAG
    }
}

impl Tags for Unknown {
    type Tag = Unknown;

    #[inline(always)]
    fn of_index(self, _: usize) -> Unknown {
        Unknown
    }

    #[inline(always)]
    fn of_view(self, _: usize) -> Unknown {
        Unknown
    }
}

impl Tag for u32 {
    #[inline(always)]
    fn known(self) -> u32 {
        self
    }
}

/// Those that are there, by place; [`NO_TAG`] where one is not known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known<'u> {
    pub(crate) indexes: &'u [u32],
    pub(crate) views: &'u [u32],
}

impl Tags for Known<'_> {
    type Tag = u32;

    #[inline(always)]
    fn of_index(self, position: usize) -> u32 {
        self.indexes.get(position).copied().unwrap_or(NO_TAG)
    }

    #[inline(always)]
    fn of_view(self, position: usize) -> u32 {
        self.views.get(position).copied().unwrap_or(NO_TAG)
    }
}
