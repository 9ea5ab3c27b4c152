//! Accounts and transfers: a procedure, queries, several calls under way at once, and what their
//! errors say.
//!
//! Needs a server: `cargo run --example accounts -- localhost:21212`.

use ferrite_client::{Client, ClientError, ClientOptions, WhenFull};

/// What a run has found.
#[derive(PartialEq, Debug)]
pub struct AccountsReport {
    /// Names and balances, the richest first.
    pub accounts: Vec<(String, i64)>,
    /// The code of a transfer that was refused.
    pub refused: String,
    /// The code of an account that exists already.
    pub twice: String,
}

const SCHEMA: &str = "
    CREATE TABLE accounts (
      id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(50) NOT NULL, balance BIGINT NOT NULL, note VARCHAR(50)
    );
    CREATE PROCEDURE transfer (source BIGINT, target BIGINT, amount BIGINT) AS BEGIN
      DECLARE available BIGINT;
      SELECT balance INTO available FROM accounts WHERE id = source;
      IF available < amount THEN SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'not enough money'; END IF;
      UPDATE accounts SET balance = balance - amount WHERE id = source;
      UPDATE accounts SET balance = balance + amount WHERE id = target;
    END;";

/// The whole example, on an empty database.
pub fn run(address: &str) -> Result<AccountsReport, ClientError> {
    let options = ClientOptions { when_full: WhenFull::Block, ..ClientOptions::new([address]) };
    let client = Client::connect(options)?;
    client.execute(SCHEMA, ()).wait()?;
    for (id, name, balance) in [(1, "Ann", 100), (2, "Bob", 50), (3, "Cid", 0)] {
        client.execute("INSERT INTO accounts VALUES (?, ?, ?, ?)", (id, name, balance, None::<&str>)).wait()?;
    }

    // Ten transfers under way at once. Each is a transaction.
    let transfers: Vec<_> = (0..10).map(|_| client.call("transfer", (1, 3, 7))).collect();
    for transfer in transfers {
        transfer.wait()?;
    }

    // Codes are for programs, texts for people.
    let refused = match client.call("transfer", (3, 1, 1_000)).wait() {
        Err(error) if error.code() == "45001" => {
            eprintln!("refused: {error}");
            error.code().to_owned()
        }
        other => return other.map(|_| unreachable!("account 3 has 70")),
    };
    let again = client.execute("INSERT INTO accounts VALUES (1, 'Eve', 0, NULL)", ()).wait();
    let twice = again.err().map_or_else(String::new, |error| error.code().to_owned());

    let mut accounts = Vec::new();
    for row in &client.query("SELECT * FROM accounts WHERE id <= ? ORDER BY balance DESC", (3,)).wait()? {
        let note: Option<&str> = row.get("note")?;
        assert_eq!(note, None, "nobody has written a note");
        accounts.push((row.get("name")?, row.get("balance")?));
    }
    Ok(AccountsReport { accounts, refused, twice })
}

#[allow(dead_code, reason = "a test has this file as a module, and calls run")]
fn main() -> Result<(), ClientError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "localhost:21212".to_owned());
    let report = run(&address)?;
    for (name, balance) in report.accounts {
        println!("{name} {balance}");
    }
    Ok(())
}
