//! Which clients may do what runs code, reads and writes files, or stops the server.
//!
//! FerriteDB has no users yet, so the door that a connection came in by decides
//! (docs/decisions/0014-doors-and-privileges.md): connections to the administration port may do all
//! of it. Those to the client port may, too, as long as that is reached from this machine only, or
//! the operator trusts all clients that reach it. Knows addresses and names of procedures, but not
//! sockets.

use crate::connection::{is_admin, trusted_elsewhere};
use crate::system_procedures::{self, Right};
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_notice::Notice;
use ferrite_system::Identity;
use std::net::{IpAddr, SocketAddr};

/// Whether clients that come to this address are trusted with code and files. Those of an address
/// that only this machine reaches are, whatever form it is written in; those of an address that
/// means all of the machine's are not.
pub fn clients_are_trusted(listen: IpAddr, trust_clients: bool) -> bool {
    trust_clients || listen.to_canonical().is_loopback()
}

/// Notices for the operator: which doors lead beyond this machine, and to what.
pub fn notices(listen: SocketAddr, admin: Option<SocketAddr>, trust_clients: bool) -> Vec<Notice> {
    let beyond = |address: SocketAddr| !clients_are_trusted(address.ip(), false);
    let mut notices = Vec::new();
    if beyond(listen) {
        notices.push(match trust_clients {
            true => Notice::ClientsTrusted { address: listen },
            false => Notice::ClientPortOpen { address: listen, admin },
        });
    }
    if let Some(address) = admin.filter(|admin| beyond(*admin)) {
        notices.push(Notice::AdminPortOpen { address });
    }
    notices
}

/// Whether the caller may call that procedure.
pub fn permit(identity: &Identity, name: &str, parameters: usize, admin: bool) -> UserResult<()> {
    let right = system_procedures::find(name).map_or(Right::Anyone, |known| known.right);
    // Without parameters it is the database's own snapshot, in its own directory.
    let own_snapshot = name == "@SnapshotSave" && parameters == 0;
    match right {
        _ if admin || own_snapshot => Ok(()),
        Right::Anyone => Ok(()),
        // No hint: tools look for these words at the end.
        Right::Administrator if identity.admin_listen.is_some() => {
            Err(UserError::new(ErrorKind::Permission, "42501", format!("{name} is not available to this client")))
        }
        Right::Administrator | Right::Trusted => trusted(identity, name),
    }
}

/// Whether a connection's calls may run code and touch files, for the node that they are passed on
/// to.
pub fn is_trusted(identity: &Identity, connection: u64) -> bool {
    is_admin(connection) || identity.clients_trusted
}

/// Whether the caller may send a schema change that loads or removes classes. Of one that is
/// connected to another node, that node's doors decide.
pub fn permit_classes(identity: &Identity, connection: u64) -> UserResult<()> {
    const WHAT: &str = "LOAD CLASSES and REMOVE CLASSES";
    match trusted_elsewhere(connection) {
        _ if is_admin(connection) => Ok(()),
        Some(true) => Ok(()),
        Some(false) => {
            let text = format!("{WHAT} are refused: the node that the client is connected to does not trust it");
            Err(UserError::new(ErrorKind::Permission, "42501", text)
                .with_hint("connect to the administration port, or start the server with --trust-clients"))
        }
        None => trusted(identity, WHAT),
    }
}

fn trusted(identity: &Identity, what: &str) -> UserResult<()> {
    if identity.clients_trusted {
        return Ok(());
    }
    let listen = identity.listen;
    let verb = if what.contains(" and ") { "are" } else { "is" };
    let (message, instead) = match identity.admin_listen {
        Some(admin) => (format!("{what} {verb} accepted on the administration port only, {admin}"), "connect there"),
        None => (
            format!("{what} {verb} refused: the server has no administration port"),
            "start the server with --admin-listen 127.0.0.1:21211",
        ),
    };
    Err(UserError::new(ErrorKind::Permission, "42501", message)
        .with_detail(format!("clients connect to {listen}, which is open to other machines"))
        .with_hint(format!("{instead}, or start the server with --trust-clients to let every client do it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_machine_alone_reaches_is_trusted_unasked() {
        for (address, trusted) in [
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("::ffff:0.0.0.0", false),
            ("192.168.1.5", false),
            ("169.254.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("fe80::1", false),
            ("::127.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(clients_are_trusted(address, false), trusted, "{address}");
            assert!(clients_are_trusted(address, true), "{address}");
        }
    }

    #[test]
    fn the_node_that_a_client_is_connected_to_decides_what_it_may() {
        use crate::connection::{id, of_other_node};
        let handles = crate::testing::handles(1);
        assert!(permit_classes(&handles.identity, id(1, 0, false)).is_ok(), "trusted here");
        assert!(permit_classes(&handles.identity, of_other_node(1, false, false)).is_err());
        assert!(permit_classes(&handles.identity, of_other_node(1, false, true)).is_ok());
        assert!(permit_classes(&handles.identity, of_other_node(1, true, false)).is_ok(), "an administrator");
    }

    #[test]
    fn the_operator_is_told_of_doors_that_lead_beyond_this_machine() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address and a port");
        let (here, all, admin) = (address("127.0.0.1:1"), address("0.0.0.0:1"), address("127.0.0.1:2"));
        let texts = |listen, admin, trusted| -> Vec<String> {
            notices(listen, admin, trusted).iter().map(Notice::to_string).collect()
        };
        let lines = |listen, admin, trusted| texts(listen, admin, trusted).join("\n");
        assert_eq!(lines(here, Some(admin), false), "");
        assert_eq!(lines(here, None, true), "", "nobody is trusted who was not");
        assert!(lines(all, Some(admin), false).ends_with(
            "classes, backups and shutdown are accepted on the administration port only, 127.0.0.1:2 (--trust-clients: from every client)"
        ));
        assert!(
            lines(all, None, false).contains("shutdown are refused (--admin-listen 127.0.0.1:21211: accepted there;")
        );
        assert!(
            lines(all, None, true).starts_with(
                "clients are trusted (--trust-clients): any client that reaches 0.0.0.0:1 may load classes"
            )
        );
        let both = texts(all, Some(address("[::]:2")), false);
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(
            both[1]
                .starts_with("the administration port is open to other machines: any client that reaches [::]:2 may"),
            "{both:?}"
        );
    }
}
