//! The first frame of a connection.

use super::Dispatcher;
use crate::connection::{self, Connection, is_admin};
use ferrite_wire::login::{self, LoginAccepted, LoginFailure, LoginRequest, Service};

impl Dispatcher {
    #[cold]
    pub(super) fn login(&mut self, connection: &mut Connection, body: &[u8]) {
        let refused = match LoginRequest::parse(body) {
            Ok(request) if request.service == Service::Kerberos => Some(LoginFailure::ServiceNotAvailable),
            Ok(_) if !self.node.connections.takes_logins(is_admin(connection.id)) => {
                let reason = "this node is shutting down: log in to another node, or try again later";
                login::write_failure_because(connection.out(), LoginFailure::Rejoining, reason);
                connection.closing = true;
                return;
            }
            Ok(request) => {
                self.node.connections.user(request.user);
                None
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = refused {
            login::write_failure(connection.out(), failure);
            connection.closing = true;
            return;
        }
        let identity = &self.node.identity;
        let accepted = LoginAccepted {
            host_id: identity.host_id,
            connection_id: connection::public_id(identity.host_id, connection.id),
            cluster_start_ms: identity.cluster_start_ms,
            leader_address: identity.leader_address,
            build: &identity.build,
        };
        accepted.write(connection.out());
        connection.logged_in = true;
    }
}
