//! The phases of a failover, by the names that documents, `ferrite admin status` and this code
//! share (ARCHITECTURE.md, "A failover").

/// How far a group has come on the way to its next leader. *Seal* and *decide*, between the first
/// three, are one command of the metadata each: no phase that lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailoverPhase {
    /// The leader is not heard; the voters have not sealed its epoch yet.
    Detect,
    /// The epoch is sealed: members promise to follow no earlier one, until enough of them have.
    Promise,
    /// The next leader is chosen; the first entry of its epoch is not committed yet.
    Open,
    /// Its tables make the changes that are committed and that they lack.
    Apply,
    /// It executes calls.
    Serve,
}

impl FailoverPhase {
    pub const ALL: [FailoverPhase; 5] = {
        use FailoverPhase::{Apply, Detect, Open, Promise, Serve};
        [Detect, Promise, Open, Apply, Serve]
    };

    pub fn name(self) -> &'static str {
        match self {
            FailoverPhase::Detect => "detect",
            FailoverPhase::Promise => "promise",
            FailoverPhase::Open => "open",
            FailoverPhase::Apply => "apply",
            FailoverPhase::Serve => "serve",
        }
    }

    /// As one byte of a message; 0 stands for none.
    pub fn code(self) -> u8 {
        FailoverPhase::ALL.iter().position(|phase| *phase == self).map_or(0, |place| place as u8 + 1)
    }

    /// None for a byte that no phase has: a later release's.
    pub fn of_code(code: u8) -> Option<FailoverPhase> {
        FailoverPhase::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::FailoverPhase;

    #[test]
    fn documents_have_the_names() {
        let architecture = include_str!("../../../ARCHITECTURE.md");
        let page = include_str!("../../../docs/cluster.md");
        let mut rest = architecture.split("## A failover").nth(1).expect("the section is there");
        for phase in FailoverPhase::ALL {
            let row = format!("\n| {} | ", phase.name());
            rest = rest.split_once(&row).unwrap_or_else(|| panic!("{row:?} is missing, or comes too early")).1;
            assert!(page.contains(&format!("`{}`", phase.name())), "docs/cluster.md: {phase:?}");
        }
    }

    #[test]
    fn a_byte_stands_for_each() {
        for phase in FailoverPhase::ALL {
            assert_eq!(FailoverPhase::of_code(phase.code()), Some(phase));
        }
        assert_eq!([0, 6, 255].map(FailoverPhase::of_code), [None; 3]);
    }
}
