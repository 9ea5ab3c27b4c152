//! The three programs from their options to their exit codes.
//!
//! 0: all went well. 1: a statement failed, or rows were rejected. 2: it could not begin, or had to
//! stop.

use crate::command::Expanded;
use crate::dump;
use crate::editor::{Editor, Typed};
use crate::interrupt::Interrupts;
use crate::load;
use crate::names::Names;
use crate::options::{Colour, ConnectionOptions, DumpOptions, LoadOptions, SqlOptions};
use crate::render::Look;
use crate::session::{Session, text};
use crate::shell::{Flow, Settings, Shell};
use crate::source;
use crate::style::Style;
use ferrite_value::OwnedValue;
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

const FAILED: u8 = 1;
const CANNOT: u8 = 2;

fn cannot(message: &str) -> ExitCode {
    ferrite_io::errln!("ferrite: {message}");
    ExitCode::from(CANNOT)
}

/// The options with the password filled in that was asked for.
fn with_password(connection: &ConnectionOptions) -> io::Result<ConnectionOptions> {
    let mut connection = connection.clone();
    if connection.ask_password {
        connection.password = Some(ask_password()?);
    }
    Ok(connection)
}

/// Reads a line from the terminal without showing it.
fn ask_password() -> io::Result<String> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    (&terminal).write_all(b"Password: ")?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    let mut line = String::new();
    let read = io::BufReader::new(&terminal).read_line(&mut line);
    tcsetattr(&terminal, OptionalActions::Flush, &before)?;
    (&terminal).write_all(b"\n")?;
    read?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// `ferrite sql`.
pub fn run_sql(options: &SqlOptions) -> ExitCode {
    let scripted = !options.command.is_empty() || !options.file.is_empty();
    let interactive = !scripted && io::stdin().is_terminal();
    let connection = match with_password(&options.connection) {
        Ok(connection) => connection,
        Err(error) => return cannot(&format!("cannot ask for the password: {error}")),
    };
    let interrupts = if interactive { Interrupts::catch() } else { Ok(Interrupts::none()) };
    let interrupts = match interrupts {
        Ok(interrupts) => interrupts,
        Err(error) => return cannot(&format!("cannot watch for Ctrl-C: {error}")),
    };
    let session = match Session::connect(&connection, interrupts) {
        Ok(session) => session,
        Err(error) => return cannot(&error.to_string()),
    };
    let look = Look {
        format: options.format(),
        expanded: options.expanded,
        style: Style::choose(options.color, &io::stdout()),
        null: options.null.clone(),
    };
    let settings = Settings {
        look,
        expanded: if options.expanded { Expanded::On } else { Expanded::Off },
        timing: options.timing || interactive,
        go_on: options.r#continue,
        error_style: Style::choose(options.color, &io::stderr()),
    };
    let address = connection.address();
    let mut shell = Shell::new(session, connection, settings);
    if interactive {
        return prompt(shell, &address, Style::choose(options.color, &io::stdout()));
    }
    run_scripts(&mut shell, options, scripted);
    // Also where `exit` stands behind an error that was passed over.
    if shell.failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}

/// Until `exit`, or the first error unless errors are passed over. What failed the shell knows.
fn run_scripts(shell: &mut Shell, options: &SqlOptions, scripted: bool) {
    let ends = |flow: Flow| match flow {
        Flow::Go => false,
        Flow::Failed => !options.r#continue,
        Flow::Quit => true,
    };
    for command in &options.command {
        if ends(shell.run_script(command.as_bytes(), None)) {
            return;
        }
    }
    let standard_input = [Path::new("-").to_path_buf()];
    let files = if scripted { options.file.as_slice() } else { &standard_input };
    for path in files {
        let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
        let flow = match source::open(path) {
            Ok(reader) => shell.run_script(reader, Some(&name)),
            Err(error) => {
                ferrite_io::errln!("ferrite: {}", source::cannot_read(path, &error));
                shell.failed = true;
                Flow::Failed
            }
        };
        if ends(flow) {
            return;
        }
    }
}

fn prompt(mut shell: Shell, address: &str, style: Style) -> ExitCode {
    let mut editor = match Editor::new(Rc::clone(&shell.names), style) {
        Ok(editor) => editor,
        Err(error) => return cannot(&format!("cannot use the terminal: {error}")),
    };
    ferrite_io::outln!(
        "ferrite {} at {address}, {}. \\? for help.",
        env!("CARGO_PKG_VERSION"),
        server_version(&mut shell)
    );
    loop {
        // What a Ctrl-C was meant for has ended.
        shell.session().interrupts().forget();
        shell.refresh_names();
        shell.history = editor.history();
        let typed = match shell.recalled.take() {
            Some(text) => editor.read_again("ferrite> ", &text),
            None => editor.read("ferrite> "),
        };
        let text = match typed {
            Ok(Typed::Text(text)) => text,
            Ok(Typed::Cancelled) => continue,
            Ok(Typed::End) => return ExitCode::SUCCESS,
            Err(error) => return cannot(&format!("cannot read from the terminal: {error}")),
        };
        if shell.run_script(text.as_bytes(), None) == Flow::Quit {
            return ExitCode::SUCCESS;
        }
    }
}

fn server_version(shell: &mut Shell) -> String {
    let answer = shell.session().ask("@SystemInformation", &[text("OVERVIEW")]);
    let table = answer
        .ok()
        .and_then(|mut response| if response.tables.is_empty() { None } else { Some(response.tables.remove(0)) });
    let version = table.and_then(|table| {
        let key = table.column_index("KEY")?;
        let value = table.column_index("VALUE")?;
        let row = table.rows.iter().find(|row| row[key] == text("VERSION"))?;
        match &row[value] {
            OwnedValue::Text(version) => Some(version.to_string()),
            _ => None,
        }
    });
    version.map_or_else(|| "version unknown".to_owned(), |version| format!("server version {version}"))
}

/// `ferrite load`.
pub fn run_load(options: &LoadOptions) -> ExitCode {
    let connection = match with_password(&options.connection) {
        Ok(connection) => connection,
        Err(error) => return cannot(&format!("cannot ask for the password: {error}")),
    };
    let interrupts = match Interrupts::catch() {
        Ok(interrupts) => interrupts,
        Err(error) => return cannot(&format!("cannot watch for Ctrl-C: {error}")),
    };
    let path = options.file.as_deref().unwrap_or(Path::new("-"));
    let input = match load::Input::open(path) {
        Ok(input) => input,
        Err(error) => return cannot(&source::cannot_read(path, &error)),
    };
    let mut session = match Session::connect(&connection, interrupts.clone()) {
        Ok(session) => session,
        Err(error) => return cannot(&error.to_string()),
    };
    let names = match Names::read(&mut session) {
        Ok(names) => names,
        Err(error) => return cannot(&format!("cannot read the catalog: {error}")),
    };
    match load::run(&connection, &names, &options.table, input, &options.data, &interrupts) {
        Ok(loaded) => {
            ferrite_io::errln!("{loaded}");
            if loaded.rejected > 0 {
                ferrite_io::errln!("corrected, they can be loaded with --comment '{}'", load::rejects::MARK);
                return ExitCode::from(FAILED);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            ferrite_io::errln!("ferrite: {}", error.message);
            if let Some(hint) = &error.hint {
                ferrite_io::errln!("hint: {hint}");
            }
            ExitCode::from(CANNOT)
        }
    }
}

/// `ferrite dump`.
pub fn run_dump(options: &DumpOptions) -> ExitCode {
    let connection = match with_password(&options.connection) {
        Ok(connection) => connection,
        Err(error) => return cannot(&format!("cannot ask for the password: {error}")),
    };
    let mut session = match Session::connect(&connection, Interrupts::none()) {
        Ok(session) => session,
        Err(error) => return cannot(&error.to_string()),
    };
    let gzip = options.gzip || options.output.as_deref().is_some_and(source::is_gzip_name);
    let out: Box<dyn Write> = match &options.output {
        Some(path) => match File::create(path) {
            Ok(file) => Box::new(file),
            Err(error) => return cannot(&format!("cannot write {}: {error}", path.display())),
        },
        None => Box::new(io::stdout()),
    };
    let style = Style::choose(Colour::Auto, &io::stderr());
    let mut warn = |words: &str| ferrite_io::errln!("{} {words}", style.hint("warning:"));
    let written = if gzip {
        let mut encoder = GzEncoder::new(BufWriter::new(out), Compression::default());
        dump::run(&mut session, options, &mut encoder, &mut warn)
            .and_then(|()| encoder.finish().and_then(|mut out| out.flush()).map_err(dump::DumpError::from))
    } else {
        let mut out = BufWriter::new(out);
        dump::run(&mut session, options, &mut out, &mut warn).and_then(|()| out.flush().map_err(dump::DumpError::from))
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(dump::DumpError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => cannot(&error.to_string()),
    }
}
