//! Orders to this node as a part of its cluster; each is answered when the node has carried it out.

use super::{Handled, System, answer};
use ferrite_base::{ErrorKind, NodeId, UserError, UserResult};
use ferrite_cluster::NotHandedOver;
use ferrite_member::{AcceptLoss, HandOver, Handle, Order, RemoveNode};
use ferrite_partition::Reply;
use ferrite_value::Value;
use ferrite_wire::response::{self, ResponseWriter};

impl System {
    pub(super) fn of_cluster(&self, name: &str) -> UserResult<&Handle> {
        let alone = || {
            let error = UserError::parameters(format!("{name}: this server is not part of a cluster"));
            error.with_hint("it has no other nodes; a restart with --cluster makes it one of several")
        };
        self.cluster.as_ref().ok_or_else(alone)
    }

    /// `@AcceptLoss(node)`: the node leads with what it has, since all nodes that have more are
    /// lost for good. The answer comes when it leads.
    pub(super) fn accept_loss(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let [Value::Integer(node)] = parameters else {
            return Err(UserError::parameters("@AcceptLoss takes the number of a node"));
        };
        let node = NodeId(u32::try_from(*node).unwrap_or(0));
        let told = answers(reply);
        self.order("@AcceptLoss", Order::AcceptLoss(AcceptLoss { node, told }))
    }

    /// `@RemoveNode(node)`: a lost node no longer belongs to the cluster. The answer comes when
    /// that is so.
    pub(super) fn remove_node(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let [Value::Integer(node)] = parameters else {
            return Err(UserError::parameters("@RemoveNode takes the number of a node"));
        };
        let node = NodeId(u32::try_from(*node).unwrap_or(0));
        let told = answers(reply);
        self.order("@RemoveNode", Order::RemoveNode(RemoveNode { node, told }))
    }

    pub(super) fn order(&self, procedure: &str, order: Order) -> UserResult<Handled> {
        let gone = |_| UserError::new(ErrorKind::Unavailable, "57P03", "this node is shutting down");
        self.of_cluster(procedure)?.orders.send(order).map_err(gone)?;
        Ok(Handled::PassedOn)
    }

    /// `@TransferLead(node)`: another node leads from then on, this one or any. The answer comes
    /// when it does.
    pub(super) fn transfer_lead(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let to = match parameters {
            [] | [Value::Null] => None,
            [Value::Integer(node)] => Some(NodeId(u32::try_from(*node).unwrap_or(0))),
            _ => return Err(UserError::parameters("@TransferLead takes the number of a node, or nothing")),
        };
        let cluster = self.of_cluster("@TransferLead")?;
        if let Some(reason) = to.and_then(|to| cluster.keeps_no_data(to)) {
            return Err(UserError::parameters(reason));
        }
        let tell = answers(reply);
        let told = Box::new(move |outcome: Result<NodeId, NotHandedOver>| {
            tell(outcome.map(|node| format!("node {node} leads")).map_err(|reason| reason.to_string()));
        });
        let order = HandOver { group: None, to, by_call: true, patience: None, told };
        self.order("@TransferLead", Order::HandOver(order))
    }
}

/// For what an order to the node comes to.
fn answers(reply: &Reply) -> Box<dyn FnOnce(Result<String, String>) + Send> {
    let back = reply.clone();
    Box::new(move |outcome| {
        answer(&back, |out| match outcome {
            Ok(text) => {
                let mut writer = ResponseWriter::begin(out, back.handle);
                writer.status_text(&text);
                writer.status_table(0);
                writer.finish();
            }
            Err(text) => {
                response::write_error(out, back.handle, &UserError::new(ErrorKind::Unavailable, "57P03", text));
            }
        });
    })
}
