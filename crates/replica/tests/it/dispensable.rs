//! A leader without whose members the voters can decide commits and confirms only as long as nobody
//! can have accepted their loss (docs/replication.md, section 8).

use ferrite_base::{Epoch, GroupId, Position};
use ferrite_replica::group::{Effect, Group, GroupConfiguration, Member, Remembered, Timing};

/// Node 1 leads alone, of several nodes that could do without it.
fn alone() -> Group {
    let one = Member::new(1, 1);
    let mut group = Group::new(GroupId(0), one, Timing::DEFAULT, Remembered { intact: true, ..Remembered::default() });
    group.is_led_among(true, true);
    group.configured(GroupConfiguration::alone(Epoch(1), one), 0);
    group.written(group.end());
    assert!(group.is_open());
    group.take_effects();
    group
}

fn commits(group: &mut Group) -> Vec<Position> {
    let commit = |effect| if let Effect::Commit(position) = effect { Some(position) } else { None };
    group.take_effects().into_iter().filter_map(commit).collect()
}

#[test]
fn what_is_durable_too_late_waits_until_it_may_lead_again() {
    let mut group = alone();
    group.append(7, 10).expect("it is open");
    group.may_lead(false);
    group.written(group.end());
    group.tick(1);
    assert_eq!((commits(&mut group), group.commit()), (vec![], Position(1)));
    group.may_lead(true);
    assert_eq!(commits(&mut group), [Position(2)]);
}

#[test]
fn a_read_waits_too() {
    let mut group = alone();
    assert_eq!(group.read(), Some(0), "nobody else may lead");
    group.may_lead(false);
    let round = group.read().expect("it leads");
    assert!(round > 0);
    group.tick(1);
    assert!(!group.take_effects().contains(&Effect::Confirmed(round)));
    group.may_lead(true);
    assert!(group.take_effects().contains(&Effect::Confirmed(round)));
}

#[test]
fn where_nobody_could_do_without_it_it_leads_on() {
    let mut group = alone();
    group.may_lead(false);
    group.is_led_among(false, true);
    group.append(7, 10).expect("it is open");
    group.written(group.end());
    assert_eq!((commits(&mut group), group.read()), (vec![Position(2)], Some(0)));
}
