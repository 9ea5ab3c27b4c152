//! A node without threads, for tests of the network.

use crate::cancelling::Cancelling;
use crate::compound::Compounds;
use crate::connections::{ConnectionLimits, Connections};
use crate::dispatch::Handles;
use crate::group_schemas::GroupSchemas;
use crate::groups_calls::GroupsCalls;
use crate::message::SystemJob;
use crate::publish::Publisher;
use crate::routes::{GroupWays, Routes};
use crate::submit::Submit;
use crate::work::Work;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{GroupId, GroupMap, Settings};
use ferrite_catalog::Catalog;
use ferrite_group::FIRST_GROUP;
use ferrite_partition::coordinator::Job;
use ferrite_partition::long_read::{Home, LongReads};
use ferrite_partition::{Compiled, Event, GroupInboxes};
use ferrite_system::Identity;
use std::sync::Arc;

/// A node without running threads, with an empty schema, as a network thread sees it.
pub fn handles(partitions: u32) -> Handles {
    handles_and_calls(partitions).0
}

/// What comes to its threads.
pub struct Inboxes {
    pub partitions: Vec<Receiver<Event>>,
    /// By group.
    pub coordinators: Vec<Receiver<Job>>,
    pub system: Receiver<SystemJob>,
}

/// The same, and what comes to the system thread.
pub fn handles_and_calls(partitions: u32) -> (Handles, Receiver<SystemJob>) {
    let (handles, inboxes) = handles_and_inboxes(partitions, "");
    (handles, inboxes.system)
}

/// The same with a schema.
pub fn handles_and_inboxes(partitions: u32, schema: &str) -> (Handles, Inboxes) {
    handles_of_groups(&vec![FIRST_GROUP; partitions as usize], schema)
}

/// The same where the partitions belong to these groups, which are all hosted here.
pub fn handles_of_groups(groups: &[GroupId], schema: &str) -> (Handles, Inboxes) {
    let partitions = groups.len() as u32;
    let (system, calls) = unbounded();
    let mut catalog = Catalog::default();
    for statement in ferrite_sql::parse_batch(schema).expect("the schema parses") {
        let (change, _) = ferrite_sql::bind_ddl(&catalog, &statement).expect("the schema binds");
        catalog = catalog.apply(&change).expect("the changes are legal").0;
    }
    let compiled = Compiled::new(Arc::new(catalog), &Default::default()).expect("the schema compiles");
    let (inboxes, ends): (Vec<_>, Vec<_>) = (0..partitions).map(|_| unbounded()).unzip();
    let map = GroupMap::new(groups.to_vec()).expect("groups without gaps");
    let routes = Routes::new(&map);
    let of_group = |group| {
        let numbered = inboxes.iter().zip(groups).filter(|(_, of)| **of == group);
        let partitions = numbered.map(|(inbox, _): (&Sender<Event>, _)| inbox.clone()).collect();
        let (coordinator, jobs) = unbounded();
        let of = map.partitions_of(group).expect("it has partitions");
        routes.begin(GroupWays { partitions: GroupInboxes::new(of, partitions), coordinator });
        jobs
    };
    let coordinators = routes.kept_table().groups().map(of_group).collect();
    let settings = Settings::default();
    let query_time_max = std::time::Duration::from_secs(10);
    let compiled = Arc::new(compiled);
    let publisher = Publisher {
        compiled: Arc::new(ArcSwap::new(Arc::clone(&compiled))),
        plan_cache: Arc::default(),
        expiry: unbounded().0,
        tasks: unbounded().0,
        network: Arc::new([]),
        unable: Arc::default(),
    };
    let in_force = Arc::clone(&publisher.compiled);
    let versions = groups.iter().map(|group| (*group, Arc::clone(&compiled)));
    let submit = Submit {
        compiled: in_force,
        schemas: Arc::new(GroupSchemas::new(publisher, versions.collect())),
        mode: Arc::default(),
        routes: Arc::new(routes),
        system,
        compounds: Arc::new(Compounds::new(&settings, Arc::new(ferrite_io::SystemClock)).0),
        query_time_max,
        gates: Default::default(),
        forward: None,
        elsewhere: Arc::default(),
        groups_calls: GroupsCalls::new(None),
    };
    let long_reads = LongReads::new(2, Home::Coordinator(unbounded().0)).0;
    let handles = Handles {
        submit: Arc::new(submit),
        plan_cache: Arc::default(),
        work: Arc::new(Work::new(&settings)),
        connections: Arc::new(Connections::new(ConnectionLimits::default())),
        cancelling: Arc::new(Cancelling {
            list: Arc::clone(long_reads.cancellations().all()),
            long_reads: long_reads.line(),
            elsewhere: None,
        }),
        identity: Arc::new(Identity {
            host_id: 0,
            host_name: "host1".to_owned(),
            listen: "127.0.0.1:21212".parse().expect("an address"),
            admin_listen: None,
            clients_trusted: true,
            drop_migrating: false,
            backups: ferrite_backup::request::BackupDirectories { own: "/data/one".into(), root: None },
            cluster_start_ms: 1_795_215_464_349,
            leader_address: [127, 0, 0, 1],
            build: "14.0.0_test".to_owned(),
            version: "14.0.0",
            dir: "/data/one".into(),
            durability: "interval=5".to_owned(),
            query_time_max,
        }),
        topology: Arc::new(ferrite_member::Topology::new(ferrite_system::hosts::Hosts::alone(0))),
        mailboxes: Arc::new([]),
        forward: None,
        settings,
    };
    (handles, Inboxes { partitions: ends, coordinators, system: calls })
}
