//! Which partitions share a group. Fixed when a database is made, and the same on all its nodes.
//!
//! Invariants: every partition of the cluster is of exactly one group; groups are numbered from 0
//! without a gap, and each has a partition. So a map of one group says nothing that the number of
//! partitions does not say.

use crate::bytes::{ReadFault, Reader};
use crate::ids::{GroupId, PartitionId};
use crate::limits;
use std::sync::Arc;

/// Partition -> group, for all partitions of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMap {
    partitions: u32,
    groups: u32,
    /// By partition. None: there is one group.
    of: Option<Arc<[GroupId]>>,
}

impl GroupMap {
    /// All partitions are of group 0. A number from outside is to be compared with its limit by the
    /// caller; it allocates nothing here.
    pub const fn single(partitions: u32) -> GroupMap {
        GroupMap { partitions, groups: 1, of: None }
    }

    /// `of`: the group of each partition. None: a group has no partition, or there are no
    /// partitions, or more of them or of groups than may be.
    pub fn new(of: Vec<GroupId>) -> Option<GroupMap> {
        if of.is_empty() || of.len() > limits::PARTITIONS_MAX {
            return None;
        }
        let mut groups: Vec<GroupId> = of.clone();
        groups.sort_unstable();
        groups.dedup();
        let is_dense = groups.iter().zip(0..).all(|(group, number)| group.0 == number);
        let partitions = of.len() as u32;
        let fits = groups.len() <= limits::CLUSTER_GROUPS_MAX;
        (is_dense && fits).then(|| match groups.len() {
            1 => GroupMap::single(partitions),
            count => GroupMap { partitions, groups: count as u32, of: Some(of.into()) },
        })
    }

    /// Of the cluster.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    pub fn groups(&self) -> u32 {
        self.groups
    }

    pub fn is_single(&self) -> bool {
        self.of.is_none()
    }

    /// None: the cluster does not have that partition.
    pub fn group_of(&self, partition: PartitionId) -> Option<GroupId> {
        match &self.of {
            None => (partition.0 < self.partitions).then_some(GroupId(0)),
            Some(of) => of.get(partition.index()).copied(),
        }
    }

    /// None: the cluster does not have that group.
    pub fn partitions_of(&self, group: GroupId) -> Option<GroupPartitions> {
        if group.0 >= self.groups {
            return None;
        }
        let ids = self.of.as_ref().map(|of| {
            let own = of.iter().zip(0..).filter(|(other, _)| **other == group);
            own.map(|(_, partition)| PartitionId(partition)).collect::<Arc<[PartitionId]>>()
        });
        let count = ids.as_ref().map_or(self.partitions, |ids| ids.len() as u32);
        Some(GroupPartitions { group, count, ids })
    }

    /// u32 partitions, then the u32 group of each.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.partitions.to_le_bytes());
        for partition in 0..self.partitions {
            let group = self.group_of(PartitionId(partition)).expect("a map has a group for every partition");
            out.extend_from_slice(&group.0.to_le_bytes());
        }
    }

    /// The same back.
    pub fn read<E: From<ReadFault>>(bytes: &mut Reader<'_, E>) -> Result<GroupMap, E> {
        let of = bytes.list(limits::PARTITIONS_MAX, |bytes| bytes.u32().map(GroupId))?;
        GroupMap::new(of).ok_or_else(|| ReadFault::Malformed("groups are not numbered without a gap").into())
    }
}

/// The partitions of one group, and the place of each among the group's stores: the ids are the
/// cluster's, ascending, and places are counted from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupPartitions {
    group: GroupId,
    count: u32,
    /// None: the ids are the places.
    ids: Option<Arc<[PartitionId]>>,
}

impl GroupPartitions {
    pub fn group(&self) -> GroupId {
        self.group
    }

    #[allow(clippy::len_without_is_empty, reason = "a group has a partition")]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// # Panics
    /// If there is no such place.
    pub fn id(&self, place: usize) -> PartitionId {
        assert!(place < self.len(), "a group has no place {place}");
        self.ids.as_ref().map_or(PartitionId(place as u32), |ids| ids[place])
    }

    pub fn ids(&self) -> impl Iterator<Item = PartitionId> + '_ {
        (0..self.len()).map(|place| self.id(place))
    }

    /// None: the partition is of another group, or there is none of that number.
    #[inline]
    pub fn place_of(&self, partition: PartitionId) -> Option<usize> {
        match &self.ids {
            None => (partition.0 < self.count).then_some(partition.index()),
            Some(ids) => ids.binary_search(&partition).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(groups: &[u32]) -> Option<GroupMap> {
        GroupMap::new(groups.iter().copied().map(GroupId).collect())
    }

    #[test]
    fn every_partition_has_one_group_and_one_place_in_it() {
        for groups in [&[0][..], &[0, 0, 0], &[0, 1], &[1, 0], &[2, 0, 1, 1, 0, 2, 2]] {
            let map = map(groups).expect("groups without a gap");
            assert_eq!(map.partitions() as usize, groups.len());
            let mut places = 0;
            for group in (0..map.groups()).map(GroupId) {
                let own = map.partitions_of(group).expect("the group is there");
                assert!(own.len() > 0 && own.group() == group);
                for (place, id) in own.ids().enumerate() {
                    assert_eq!((map.group_of(id), own.place_of(id), own.id(place)), (Some(group), Some(place), id));
                    places += 1;
                }
                let others = (0..map.partitions() + 2).map(PartitionId).filter(|id| map.group_of(*id) != Some(group));
                assert!(others.into_iter().all(|id| own.place_of(id).is_none()));
            }
            assert_eq!(places, groups.len());
            assert_eq!(map.partitions_of(GroupId(map.groups())), None);
            assert_eq!(map.group_of(PartitionId(map.partitions())), None);
        }
        assert_eq!(map(&[0, 0]), Some(GroupMap::single(2)));
    }

    #[test]
    fn a_gap_no_partition_and_too_many_are_refused() {
        for groups in [&[][..], &[1], &[0, 2], &[1, 1, 2]] {
            assert_eq!(map(groups), None, "{groups:?}");
        }
        assert!(map(&vec![0; limits::PARTITIONS_MAX]).is_some());
        assert_eq!(map(&vec![0; limits::PARTITIONS_MAX + 1]), None);
        let groups: Vec<u32> = (0..=limits::CLUSTER_GROUPS_MAX as u32).collect();
        assert_eq!((map(&groups), map(&groups[1..])), (None, None));
        assert!(map(&groups[..groups.len() - 1]).is_some());
    }

    #[test]
    fn its_bytes_read_back_and_no_part_of_them_does() {
        for groups in [&[0, 0][..], &[0, 1, 0, 2]] {
            let mut bytes = Vec::new();
            map(groups).expect("groups without a gap").put(&mut bytes);
            let mut reader = Reader::<ReadFault>::new(&bytes);
            assert_eq!(GroupMap::read(&mut reader).ok(), map(groups));
            assert!(reader.is_empty());
            for end in 0..bytes.len() {
                assert!(GroupMap::read(&mut Reader::<ReadFault>::new(&bytes[..end])).is_err());
            }
        }
        let gap = [2u32, 0, 5].iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        assert!(GroupMap::read(&mut Reader::<ReadFault>::new(&gap)).is_err());
    }
}
