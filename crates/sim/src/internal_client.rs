//! The node as its own client, as backups and restores need it: what the server does with threads
//! and channels, on one thread. While an answer is waited for, the parties get their turns, clients
//! among them.

use crate::clients::{Doors, again, reply};
use crate::history::Outstanding;
use crate::node::Node;
use crate::operation::{Action, Told};
use crossbeam_channel::unbounded;
use ferrite_backup::{Server, drop_statements};
use ferrite_base::{ErrorKind, PartitionId, SqlLimits, UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_io::Clock;
use ferrite_io::simulated::{Fault, SimulatedDisk};
use ferrite_partition::coordinator::{BACKUP, Job, TakenSnapshot};
use ferrite_partition::{Compiled, Event, ProgramCall, StoreSet};
use ferrite_value::Value;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// Loads that are not answered yet, at most.
const LOADS_MAX: usize = 3;

pub struct InternalClient<'n> {
    node: &'n Node,
    batch_bytes: usize,
    /// Numbers of loads that are on their way.
    loads: RefCell<VecDeque<usize>>,
    /// Of the disk, from the step on in which a restore takes place.
    fault: RefCell<Option<(SimulatedDisk, Fault)>>,
}

impl<'n> InternalClient<'n> {
    pub fn new(node: &'n Node, batch_bytes: usize) -> InternalClient<'n> {
        InternalClient { node, batch_bytes, loads: RefCell::default(), fault: RefCell::default() }
    }

    /// The disk fails when a restore is in its last step: `fault.at` is counted from there.
    pub fn failing_at_the_last_step(self, disk: &SimulatedDisk, fault: Fault) -> InternalClient<'n> {
        InternalClient { fault: RefCell::new(Some((disk.clone(), fault))), ..self }
    }

    /// Waits for the answer.
    fn outcome(&self, number: usize) -> UserResult<()> {
        loop {
            let told = self.node.with_clients(|_, clients| clients.history.operations[number].told.clone());
            let kind = match told {
                Told::Nothing => {
                    self.node.move_on();
                    continue;
                }
                Told::Done(_) => return Ok(()),
                Told::Failed(_) => ErrorKind::Parameters,
                Told::Refused(_) => ErrorKind::Unavailable,
                Told::Unknown => ErrorKind::OutcomeUnknown,
            };
            let text = if let Told::Failed(text) | Told::Refused(text) = told { text } else { String::new() };
            return Err(UserError::new(kind, "22023", text));
        }
    }

    /// Waits for the load that has been on its way for longest.
    fn wait_for_load(&self) -> UserResult<()> {
        let number = self.loads.borrow_mut().pop_front();
        number.map_or(Ok(()), |number| self.outcome(number))
    }
}

fn compiled(doors: &Doors) -> Arc<Compiled> {
    Arc::clone(&doors.compiled.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Server for InternalClient<'_> {
    fn catalog(&self) -> Arc<Catalog> {
        self.node.with_clients(|doors, _| Arc::clone(&compiled(doors).catalog))
    }

    fn partitions(&self) -> usize {
        self.node.with_clients(|doors, _| doors.partitions.len())
    }

    fn partition_of(&self, value: &Value<'_>) -> UserResult<PartitionId> {
        self.node.with_clients(|doors, _| ferrite_node::route::partition_of_value(value, &doors.ring))
    }

    fn change_schema(&self, text: &str) -> UserResult<()> {
        // The model knows of one schema change at a time whose outcome is open.
        while self.node.with_clients(|_, clients| clients.history.schema.outstanding.is_some()) {
            if self.node.log_has_failed() {
                // It stays open, and this one would be refused.
                return Err(UserError::new(ErrorKind::Unavailable, "58030", "the log has failed"));
            }
            self.node.move_on();
        }
        if text.contains("FILL TABLE ")
            && let Some((disk, fault)) = self.fault.take()
        {
            disk.fail(Fault { at: disk.count(fault.kind) + fault.at, ..fault });
        }
        let number = self.node.with_clients(|doors, clients| {
            let now = doors.clock.wall_micros();
            let schema = &mut clients.history.schema;
            schema.outstanding =
                Some(Outstanding { variant: schema.variant.clone(), text: text.to_owned(), told: None });
            let number = clients.begin(Action::Schema { text: text.to_owned() }, now);
            let limits = SqlLimits::CEILING;
            let reply = reply(doors, number, now);
            let job = Job::Schema { text: text.to_owned(), limits, time_max: None, reply };
            doors.coordinator.send(job).expect("the node is there");
            number
        });
        self.outcome(number)
    }

    fn drop_tables(&self, prefix: &str) -> UserResult<()> {
        while !self.loads.borrow().is_empty() {
            let _ = self.wait_for_load();
        }
        let text = drop_statements(&self.catalog(), prefix);
        if text.is_empty() { Ok(()) } else { self.change_schema(&text) }
    }

    fn load(&self, table: &str, partition: Option<PartitionId>, rows: Vec<u8>) -> UserResult<()> {
        while self.loads.borrow().len() >= LOADS_MAX {
            self.wait_for_load()?;
        }
        let number = self.node.with_clients(|doors, clients| {
            let compiled = compiled(doors);
            let insert = compiled.find(&format!("{table}.insert")).ok_or_else(|| UserError::unknown_table(table))?;
            let now = doors.clock.wall_micros();
            let number = clients.begin(Action::Load { table: table.to_owned(), bytes: rows.len() }, now);
            let call = ProgramCall {
                program: Arc::clone(compiled.program(insert)),
                compiled,
                parameters: rows,
                reply: reply(doors, number, now),
                stores: StoreSet::All,
                load: true,
                retry: Some(again(Arc::clone(&doors.letterbox), number)),
                recompile: None,
                turn: None,
                time_max: None,
            };
            match partition {
                Some(partition) => {
                    let event = Event::Program(Box::new(call));
                    doors.to(partition).send(event).expect("the node is there");
                }
                None => doors.coordinator.send(Job::Calls(vec![call])).expect("the node is there"),
            }
            Ok::<usize, UserError>(number)
        })?;
        self.loads.borrow_mut().push_back(number);
        // Others are not kept from their turns by somebody who has much to send.
        self.node.move_on();
        Ok(())
    }

    fn wait_for_loads(&self) -> UserResult<()> {
        while !self.loads.borrow().is_empty() {
            self.wait_for_load()?;
        }
        Ok(())
    }

    fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// With the log's word on it: the caller's thread is the only one, so nobody could bring it
    /// later.
    fn take_snapshot(&self) -> UserResult<TakenSnapshot> {
        let (to, taken) = unbounded();
        self.node.with_clients(|doors, _| {
            doors.coordinator.send(Job::Checkpoint { snapshot: BACKUP, to }).expect("the node is there");
        });
        loop {
            if let Ok(taken) = taken.try_recv() {
                while taken.logged.is_empty() {
                    self.node.move_on();
                }
                return Ok(taken);
            }
            self.node.move_on();
        }
    }
}
