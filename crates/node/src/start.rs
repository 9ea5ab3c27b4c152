//! The start of a node, phase by phase: ports and directories, recovery, what the threads are
//! handed, then the threads, from those that take work to those that hand it over, the network
//! last.
//!
//! Each phase takes what it needs as values and says what it has made. A thread that was begun ends
//! in its turn where a later phase fails.

mod cluster;
mod lots;
mod opening;
mod parts;
mod without_log;

use crate::administration::Administration;
use crate::backup::{self, Backups};
use crate::collect::Collector;
use crate::compound::{self, Worker};
use crate::dispatch;
use crate::equalize::EqualizeThread;
use crate::expiry::{self, Expiry};
use crate::first_schema::FirstSchema;
use crate::mailbox::Mail;
use crate::message::{ExpiryNotice, SnapshotJob, SystemJob, TaskNotice};
use crate::network::{Listeners, NetworkThread};
use crate::options::{ServerError, ServerOptions, SnapshotSettings};
use crate::page_preallocator::PagePreallocator;
use crate::publish;
use crate::schema_follow::{FollowNotice, SchemaFollowThread};
use crate::server::Server;
use crate::snapshots::{GroupSnapshots, SnapshotThread, SnapshotsOnly};
use crate::space::{self, SpaceWatch};
use crate::start::cluster::{RestOfNode, give_first_schema, start_cluster, start_forward};
use crate::start::opening::{Doors, begin_if_new, limit_memory, open_doors, recover, wait_for_others};
use crate::start::parts::{ExecutorEnds, NetworkEnd, Parts, connect};
use crate::start::without_log::{instead_of_log, last_snapshot, snapshots_only};
use crate::stop::{Ending, Insistence};
use crate::submit::Submit;
use crate::system::System;
use crate::tasks::{self, Tasks};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, unbounded};
use ferrite_base::{CallLimits, GroupId, Settings, limits, memory};
use ferrite_group::FIRST_GROUP;
use ferrite_io::threads::{PARTITION_STACK_BYTES, Starting, ThreadError, Threads, spawn};
use ferrite_io::{Clock, Disk, MeteredDisk, SteadyClock, SystemClock, Yielding, lower_priority};
use ferrite_member::{Clients, CopySide, Handle, Running, of_group};
use ferrite_notice::Notice;
use ferrite_partition::assemble::{Assembly, assemble};
use ferrite_partition::coordinator::Job;
use ferrite_partition::gate::{Gate, SharedFailure};
use ferrite_partition::long_read::{Home, LongRead};
use ferrite_partition::recovery::{RecoveredGroup, RecoveredNode};
use ferrite_partition::worker_pool::Helpers;
use ferrite_partition::{Event, long_read};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Within this the stages of compound procedures that still run when the server stops must end.
const WORKERS_END_WITHIN: Duration = Duration::from_secs(limits::COMPOUND_STOP_SECONDS_MAX);

impl Server {
    /// Recovers the database, runs the schema file if it is new, and takes connections.
    pub fn start(options: ServerOptions) -> Result<Server, ServerError> {
        let clock: Arc<dyn Clock> = Arc::new(SteadyClock::new(SystemClock));
        // The port first: a second server on the same port should not wait for recovery to hear of
        // it.
        let mut doors = open_doors(&options)?;
        let memory = PagePreallocator::start(options.memory_ahead_bytes / memory::EXTENT_BYTES)?;
        let disk = Arc::new(space::metered(Arc::clone(&options.disk), options.settings.disk_reserve_bytes));
        let (mut recovered, mut member) = recover(&options, &mut doors, &disk, &clock)?;
        let first_schema = match &member {
            None => {
                recovered = begin_if_new(recovered, &options, &*clock)?;
                None
            }
            // A member's database is begun by the first leader, as a transaction.
            Some(_) => FirstSchema::of(&options),
        };
        let last_snapshot = Arc::new(last_snapshot(&recovered, &*disk, &options.dir)?);
        publish::cannot_run(recovered.compiled()).into_iter().for_each(ferrite_io::notify);
        limit_memory(&options.settings, &mut recovered);
        let failure = SharedFailure::default();
        let latched = Arc::clone(&failure);
        let unsynced = member.as_ref().map(|member| Arc::clone(&member.joined.unsynced));
        recovered.log.on_failure(move |reason| {
            unsynced.iter().for_each(|unsynced| unsynced.log_failed());
            latched.set(reason.clone());
        });

        let (parts, inboxes) = connect(&options, &doors, &recovered, &clock, member.as_ref())?;
        // Where a step below fails, these end before the log does.
        let mut starting = Starting::default();
        let threads = &mut starting.0;
        watch_space(threads, &options, &parts, &disk, &failure)?;
        let submit = parts.submit(options.query_time_max);
        if let Some(member) = &mut member {
            // They end last: what waits for other nodes' answers gets them.
            let peers = member.joined.leaving.hand_over();
            threads.ended_by(move || peers.stop());
            start_forward(threads, &parts, member, inboxes.forward, &submit, &clock)?;
        }
        let is_copy = member.is_some();
        // Nothing is restored then.
        let has_several_groups = recovered.genesis.groups.groups() > 1;
        let streams = member.iter().flat_map(|member| &member.streams);
        let copies: Vec<_> = streams.map(|stream| CopySide::new(Arc::clone(&stream.replication))).collect();
        let gates =
            start_executors(threads, &options, &parts, inboxes.executors, &mut recovered, failure, &clock, is_copy)?;
        if is_copy {
            let _ = submit.gates.set(coordinators_gates(&recovered, &gates));
        }
        let handles = backup::Handles {
            compiled: Arc::clone(&parts.compiled),
            routes: Arc::clone(&parts.routes),
            mode: Arc::clone(&parts.mode),
        };
        let backups = Arc::new(Backups::new(handles, Arc::clone(&parts.identity), Arc::clone(&disk) as Arc<dyn Disk>));
        let running = match member {
            Some(member) => {
                let rest = RestOfNode {
                    options: &options,
                    parts: &parts,
                    recovered: &recovered,
                    backups: &backups,
                    disk: &disk,
                    clock: &clock,
                };
                Some(start_cluster(threads, member, &copies, gates, &rest)?)
            }
            None => None,
        };
        let without_log = recovered.unlogged.map(|unlogged| snapshots_only(unlogged, &last_snapshot, &options.dir));
        start_snapshots(
            threads,
            &parts,
            group_snapshots(recovered.groups, &copies),
            inboxes.snapshots,
            &clock,
            options.snapshots,
            without_log,
        )?;
        start_expiry(threads, &parts, inboxes.expiry, &submit, &clock, options.drop_migrating)?;
        start_group_threads(threads, &parts, inboxes.follow, running.as_ref(), &submit, &clock, &options.settings)?;
        let collector = parts.collector(&backups, &disk);
        collector.begin();
        let of_cluster = running.as_ref().map(Running::handle);
        start_system(threads, &parts, inboxes.system, &submit, &backups, collector, of_cluster)?;
        start_compounds(threads, &parts, inboxes.compounds, &submit)?;
        start_tasks(threads, &parts, inboxes.tasks, &clock)?;
        if let Some(forward) = parts.forward.clone() {
            // The system thread, and what else executes calls, ends after this.
            threads.ended_by(move || forward.close());
        }
        if let Some(running) = &running {
            wait_for_others(running, &mut doors, &options.cluster.ends)?;
        }
        // Also while no node leads yet: calls wait then, and operators see what is wrong.
        open_network(threads, &parts, inboxes.network, doors, &submit)?;
        if let Some(running) = &running {
            running.takes_part(&options.cluster.ends)?;
            if let Some(first) = first_schema {
                give_first_schema(threads, first, running, &parts, &options.cluster.ends)?;
            }
        }
        if !has_several_groups {
            backup::drop_leftovers(&backups);
        }
        Ok(Server {
            identity: parts.identity,
            partition_count: parts.routes.partition_count(),
            plan_cache: parts.plan_cache,
            recovery: parts.recovery,
            shutdown: parts.shutdown,
            log: recovered.log,
            cluster: running.zip(parts.forward),
            ending: Ending {
                threads: starting.succeeded(),
                memory,
                cancelling: parts.cancelling,
                connections: parts.connections,
                network: parts.network,
                time_max: Duration::from_secs(options.settings.stop_seconds),
                grace: options.settings.stop_grace,
                last_snapshot,
                snapshots: parts.snapshot_status,
            },
            insistence: Insistence::default(),
        })
    }
}

/// Looks once, so that a full disk is known before the first call, and then now and then.
fn watch_space(
    threads: &mut Threads,
    options: &ServerOptions,
    parts: &Parts,
    disk: &Arc<MeteredDisk>,
    failure: &SharedFailure,
) -> Result<(), ThreadError> {
    let watch = Arc::new(SpaceWatch {
        mode: Arc::clone(&parts.mode),
        disk: Arc::clone(&options.disk),
        dirs: vec![options.dir.clone()],
        reserve: options.settings.disk_reserve_bytes,
        log_failure: Arc::clone(failure),
        failed: Mutex::new(false),
    });
    watch.check();
    // Weak: the disk outlives the server while another owner holds a file of it.
    let looks = Arc::downgrade(&watch);
    disk.subscribe(move || {
        if let Some(watch) = looks.upgrade() {
            watch.check();
        }
    });
    let (told, stop) = bounded(0);
    threads.ended_by(move || drop(told));
    threads.spawn("space", move || watch.run(&stop))
}

/// Where answers about the schema wait.
fn coordinators_gates(recovered: &RecoveredNode, gates: &[Vec<Arc<Gate>>]) -> Vec<(GroupId, Arc<Gate>)> {
    let groups = recovered.groups.iter().map(|group| group.partitions.group()).zip(gates);
    groups.filter_map(|(group, gates)| Some((group, Arc::clone(gates.last()?)))).collect()
}

/// Long reads, and each group's partitions and coordinator, which borrows their stores. By group
/// the gates of these, the coordinator's last.
#[allow(clippy::too_many_arguments, reason = "what the start has made so far")]
fn start_executors(
    threads: &mut Threads,
    options: &ServerOptions,
    parts: &Parts,
    ends: ExecutorEnds,
    recovered: &mut RecoveredNode,
    failure: SharedFailure,
    clock: &Arc<dyn Clock>,
    is_copy: bool,
) -> Result<Vec<Vec<Arc<Gate>>>, ThreadError> {
    let ExecutorEnds { groups, long_reads, reads } = ends;
    let limits = CallLimits::new(options.query_time_max, &options.settings);
    start_long_reads(threads, options.long_query_threads.max(1), &reads, limits)?;
    let mut without_log = instead_of_log(recovered, parts.snapshots.clone());
    let mut gates = Vec::new();
    let mut partitions = Vec::new();
    let mut coordinators = Vec::new();
    for (own, ends) in recovered.groups.iter_mut().zip(groups) {
        let id = own.partitions.group();
        let schemas = Arc::clone(&parts.schemas);
        let executors = assemble(Assembly {
            of: own.partitions.clone(),
            partitions: ends.partitions,
            jobs: ends.jobs,
            long_reads: long_reads.at(Home::Coordinator(ends.coordinator)),
            stores: std::mem::take(&mut own.stores),
            sequences: own.sequences.clone(),
            compiled: Arc::clone(&own.compiled),
            history: own.history.clone(),
            group: own.group.clone(),
            failure: Arc::clone(&failure),
            clock: Arc::clone(clock),
            limits,
            counts: Arc::clone(&parts.row_counts),
            publish: Box::new(move |compiled| schemas.publish(id, compiled)),
            is_copy,
            without_log: without_log.take(),
            lots: parts.lots.as_ref().map(|lots| Arc::clone(&lots.hub) as _),
        });
        gates.push(executors.gates);
        partitions.extend(own.partitions.ids().zip(executors.partitions));
        coordinators.push((of_group("coordinator", id), executors.coordinator));
    }
    let routes = Arc::clone(&parts.routes);
    threads.ended_by(move || {
        let table = routes.kept_table();
        table.hosted_groups().for_each(|group| routes.end(group));
        table.hosted().for_each(|partition| drop(table.to_partition(partition, Event::Stop)));
    });
    for (id, partition) in partitions {
        let seat = Arc::clone(parts.routes.table().seat(id).expect("its group is here"));
        threads.spawn(&format!("partition-{id}"), move || partition.run(&seat))?;
    }
    let table = parts.routes.kept_table();
    threads.ended_by(move || {
        let places = table.hosted_groups().filter_map(|group| table.place_of(group));
        places.for_each(|place| drop(table.to_coordinator(place, Job::Stop)));
    });
    for (name, coordinator) in coordinators {
        threads.spawn(&name, move || coordinator.run())?;
    }
    Ok(gates)
}

fn start_long_reads(
    threads: &mut Threads,
    count: usize,
    reads: &Receiver<LongRead>,
    limits: CallLimits,
) -> Result<(), ThreadError> {
    // They end when those that hand over reads, which begin later, have ended.
    threads.ended_by(|| {});
    // A lone report may take as many cores again as reports have threads.
    let helpers = Arc::new(Helpers::new(count, PARTITION_STACK_BYTES));
    for number in 0..count {
        let reads = reads.clone();
        let helpers = Arc::clone(&helpers);
        threads.spawn(&format!("long-query-{number}"), move || {
            lower_priority(Yielding::Some);
            long_read::serve(&reads, limits, helpers);
        })?;
    }
    Ok(())
}

/// What the snapshot thread uses of each group. `copies`: of a member, in the order of the groups.
fn group_snapshots(groups: Vec<RecoveredGroup>, copies: &[Arc<CopySide>]) -> Vec<GroupSnapshots> {
    let own = groups.into_iter().enumerate().map(|(number, own)| {
        let group = own.group;
        let last_entry = Box::new(move || group.end().position);
        GroupSnapshots { snapshots: own.snapshots, last_entry, copy: copies.get(number).cloned() }
    });
    own.collect()
}

fn start_snapshots(
    threads: &mut Threads,
    parts: &Parts,
    groups: Vec<GroupSnapshots>,
    inbox: Receiver<SnapshotJob>,
    clock: &Arc<dyn Clock>,
    settings: SnapshotSettings,
    without_log: Option<SnapshotsOnly>,
) -> Result<(), ThreadError> {
    let recovery = &parts.recovery;
    let may_be_cut_short = without_log.is_none();
    let several = groups.len() > 1;
    let mode = Arc::clone(&parts.mode);
    let schemas = Arc::clone(&parts.schemas);
    let thread = SnapshotThread {
        groups,
        inbox,
        routes: Arc::clone(&parts.routes),
        mode: Arc::clone(&parts.mode),
        serves: Box::new(move |group| if several { schemas.serves(group) } else { mode.serves() }),
        work: Arc::clone(&parts.work),
        log: Arc::clone(&parts.log),
        status: Arc::clone(&parts.snapshot_status),
        clock: Arc::clone(clock),
        settings,
        log_bytes_before: recovery.log_bytes,
        entries_before: recovery.created || recovery.transactions + recovery.schema_changes > 0,
        without_log,
    };
    let status = Arc::clone(&parts.snapshot_status);
    let sender = parts.snapshots.clone();
    threads.ended_by(move || {
        status.stop.store(may_be_cut_short, Relaxed);
        let _ = sender.send(SnapshotJob::Stop);
    });
    threads.spawn("snapshot", move || thread.run())
}

fn start_expiry(
    threads: &mut Threads,
    parts: &Parts,
    inbox: Receiver<ExpiryNotice>,
    submit: &Arc<Submit>,
    clock: &Arc<dyn Clock>,
    drop_migrating: bool,
) -> Result<(), ThreadError> {
    let handles = expiry::Handles {
        submit: Arc::clone(submit),
        compiled: Arc::clone(&parts.compiled),
        routes: Arc::clone(&parts.routes),
        mode: Arc::clone(&parts.mode),
        forward: parts.forward.clone(),
        figures: Arc::clone(&parts.expired),
        clock: Arc::clone(clock),
        drop_migrating,
    };
    let expiry = Expiry::new(handles, (parts.expiry.clone(), inbox));
    let sender = parts.expiry.clone();
    threads.ended_by(move || drop(sender.send(ExpiryNotice::Stop)));
    threads.spawn("expiry", move || expiry.run())
}

/// Where there are several groups: schema changes reach all of them.
fn start_schema_follow(
    threads: &mut Threads,
    parts: &Parts,
    cluster: Handle,
    inbox: Option<Receiver<FollowNotice>>,
) -> Result<(), ThreadError> {
    let ends = parts.follow.clone().zip(inbox).zip(parts.forward.clone());
    let Some(((follow, inbox), forward)) = ends else { return Ok(()) };
    let stopped = Arc::clone(&follow);
    let table = parts.routes.kept_table();
    let thread = SchemaFollowThread {
        follow,
        inbox,
        schemas: Arc::clone(&parts.schemas),
        forward,
        cluster,
        coordinator: table.ways_of(FIRST_GROUP).map(|ways| ways.coordinator.clone()),
        groups: table.groups().filter(|group| *group != FIRST_GROUP).collect(),
    };
    threads.ended_by(move || stopped.stop());
    threads.spawn("schema-follow", move || thread.run())
}

/// Where there are several groups: what they all have is kept alike.
fn start_group_threads(
    threads: &mut Threads,
    parts: &Parts,
    inbox: Option<Receiver<FollowNotice>>,
    running: Option<&Running>,
    submit: &Arc<Submit>,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<(), ThreadError> {
    let Some(running) = running.filter(|_| parts.follow.is_some()) else { return Ok(()) };
    start_schema_follow(threads, parts, running.handle(), inbox)?;
    let (notices, inbox) = unbounded();
    let thread = EqualizeThread {
        cluster: running.handle(),
        schemas: Arc::clone(&parts.schemas),
        calls: submit.groups_calls.clone(),
        clock: Arc::clone(clock),
        groups: parts.routes.kept_table().groups().collect(),
        transaction_bytes_max: settings.transaction_bytes,
        notices,
        inbox,
    };
    threads.ended_by(thread.stop());
    threads.spawn("equalize", move || thread.run())
}

fn start_system(
    threads: &mut Threads,
    parts: &Parts,
    inbox: Receiver<SystemJob>,
    submit: &Arc<Submit>,
    backups: &Arc<Backups>,
    collector: Collector,
    cluster: Option<Handle>,
) -> Result<(), ThreadError> {
    let system = System {
        inbox,
        submit: Arc::clone(submit),
        cancellations: parts.cancelling.list.of_group(FIRST_GROUP),
        plan_cache: Arc::clone(&parts.plan_cache),
        row_counts: Arc::clone(&parts.row_counts),
        collector,
        snapshots: parts.snapshots.clone(),
        backups: Arc::clone(backups),
        administration: Administration {
            mode: Arc::clone(&parts.mode),
            shutdown: Arc::clone(&parts.shutdown),
            is_member: cluster.is_some(),
        },
        changes: Arc::default(),
        forward: parts.forward.clone(),
        identity: Arc::clone(&parts.identity),
        settings: parts.settings,
        cluster,
    };
    let sender = parts.system.clone();
    threads.ended_by(move || drop(sender.send(SystemJob::Stop)));
    threads.spawn("system", move || system.run())
}

/// A worker whose stage does not end is abandoned at the stop: its call was answered, and what it
/// does ends with the process.
fn start_compounds(
    threads: &mut Threads,
    parts: &Parts,
    inboxes: compound::Inboxes,
    submit: &Arc<Submit>,
) -> Result<(), ThreadError> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    // Disconnected when all workers have ended.
    let (alive, ended) = bounded::<()>(0);
    let compounds = Arc::clone(&parts.compounds);
    threads.ended_by(move || {
        compounds.stop(workers);
        if ended.recv_timeout(WORKERS_END_WITHIN) == Err(RecvTimeoutError::Timeout) {
            ferrite_io::notify(Notice::StageAbandoned);
        }
    });
    let compounds = Arc::clone(&parts.compounds);
    threads.spawn("compound-watch", move || compounds.watch(&inboxes.watch))?;
    for number in 0..workers {
        let submit = Arc::clone(submit);
        let worker = Worker {
            compounds: Arc::clone(&parts.compounds),
            send_call: Box::new(move |request, reply| submit.frame(request, reply)),
            cancellations: parts.cancelling.list.of_group(FIRST_GROUP),
            work: inboxes.work.clone(),
        };
        let alive = alive.clone();
        spawn(&format!("compound-{number}"), move || {
            let _alive = alive;
            worker.run();
        })?;
    }
    Ok(())
}

fn start_tasks(
    threads: &mut Threads,
    parts: &Parts,
    inbox: Receiver<TaskNotice>,
    clock: &Arc<dyn Clock>,
) -> Result<(), ThreadError> {
    let handles = tasks::Handles {
        compiled: Arc::clone(&parts.compiled),
        mode: Arc::clone(&parts.mode),
        system: parts.system.clone(),
        figures: Arc::clone(&parts.task_figures),
        clock: Arc::clone(clock),
        partition_count: parts.routes.partition_count(),
        forward: parts.forward.clone(),
    };
    let tasks = Tasks::new(handles, (parts.tasks.clone(), inbox));
    let sender = parts.tasks.clone();
    threads.ended_by(move || drop(sender.send(TaskNotice::Stop)));
    threads.spawn("tasks", move || tasks.run())
}

/// Takes connections: afterwards, the node is there for its clients.
fn open_network(
    threads: &mut Threads,
    parts: &Parts,
    ends: Vec<NetworkEnd>,
    doors: Doors,
    submit: &Arc<Submit>,
) -> Result<(), ThreadError> {
    let handles = dispatch::Handles {
        submit: Arc::clone(submit),
        plan_cache: Arc::clone(&parts.plan_cache),
        work: Arc::clone(&parts.work),
        connections: Arc::clone(&parts.connections),
        cancelling: Arc::clone(&parts.cancelling),
        identity: Arc::clone(&parts.identity),
        topology: Arc::clone(&parts.topology),
        mailboxes: Arc::clone(&parts.network),
        forward: parts.forward.clone(),
        settings: parts.settings,
    };
    let compounds = Arc::clone(&parts.compounds);
    let cancellations = Arc::clone(&parts.cancelling.list);
    let network = Arc::clone(&parts.network);
    threads.ended_by(move || {
        compounds.stop_soon();
        cancellations.stop();
        network.iter().for_each(|mailbox| mailbox.send(Mail::Stop));
    });
    let admin = doors.admin.map(|(listener, _)| listener);
    let mut listeners = Some(Listeners { clients: doors.clients, admin });
    for (number, NetworkEnd { poll, mailbox, mail }) in ends.into_iter().enumerate() {
        let thread = NetworkThread::new(poll, listeners.take(), mail, mailbox, handles.clone());
        let thread = thread.map_err(ThreadError)?;
        threads.spawn(&format!("network-{number}"), move || thread.run())?;
    }
    Ok(())
}
