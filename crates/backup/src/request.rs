//! What callers ask of backups: paths, nonces and the settings in JSON, as leniently written as
//! existing tools do.

use ferrite_base::{UserError, UserResult};
use ferrite_value::Value;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Bytes of a nonce.
const NONCE_BYTES_MAX: usize = 100;
/// Bytes of a path.
const PATH_BYTES_MAX: usize = 3_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Native,
    Csv,
}

/// Which tables of all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    only: Option<Vec<String>>,
    skipped: Vec<String>,
}

impl Choice {
    pub fn includes(&self, table: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(table));
        self.only.as_deref().is_none_or(named) && !named(&self.skipped)
    }

    /// Names that none of the tables has.
    pub fn unknown<'c>(&'c self, tables: impl Iterator<Item = &'c str>) -> Option<&'c str> {
        let tables: Vec<&str> = tables.collect();
        let mut named = self.only.iter().flatten().chain(&self.skipped);
        named.find(|name| !tables.iter().any(|table| table.eq_ignore_ascii_case(name))).map(String::as_str)
    }

    pub fn is_all(&self) -> bool {
        *self == Choice::default()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Save {
    pub dir: PathBuf,
    pub nonce: String,
    /// Whether the answer waits for the end.
    pub block: bool,
    pub format: Format,
    pub tables: Choice,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restore {
    pub dir: PathBuf,
    pub nonce: String,
    pub tables: Choice,
}

/// Where backups may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupDirectories {
    /// The database's directory, which is no place for them.
    pub own: PathBuf,
    /// `--backup-dir`: all of them lie in it. None: anywhere else.
    pub root: Option<PathBuf>,
}

/// Whether `@SnapshotSave` was called for a snapshot in the database's own directory: without
/// parameters, or with settings that say neither where to nor under which name.
pub fn is_own_snapshot(parameters: &[Value<'_>]) -> bool {
    match parameters {
        [] => true,
        [Value::Text(settings)] => Settings::parse(settings).is_ok_and(|settings| {
            let is_empty =
                |value: &Setting| matches!(value, Setting::Text(text) if text.is_empty() || text == "file://");
            let unsaid = |key: &&str| settings.values.get(*key).is_none_or(is_empty);
            let native =
                settings.values.get("format").is_none_or(|format| *format == Setting::Text("native".to_owned()));
            native && ["uripath", "path", "nonce", "tables", "skiptables"].iter().all(unsaid)
        }),
        _ => false,
    }
}

/// `@SnapshotSave` with a path.
pub fn save(parameters: &[Value<'_>], place: &BackupDirectories) -> UserResult<Save> {
    match parameters {
        [Value::Text(path), Value::Text(nonce), Value::Integer(block)] => Ok(Save {
            dir: place.directory(path)?,
            nonce: checked_nonce(nonce)?.to_owned(),
            block: *block != 0,
            format: Format::Native,
            tables: Choice::default(),
        }),
        [Value::Text(settings)] => {
            let mut settings = Settings::parse(settings)?;
            let path = settings.text("uripath")?.or(settings.text("path")?);
            let nonce = settings.text("nonce")?.ok_or_else(|| missing("nonce"))?;
            let save = Save {
                dir: place.directory(&path.ok_or_else(|| missing("uripath"))?)?,
                nonce: checked_nonce(&nonce)?.to_owned(),
                block: settings.flag("block")?,
                format: match settings.text("format")?.as_deref() {
                    None | Some("native") => Format::Native,
                    Some("csv") => Format::Csv,
                    Some(other) => {
                        return Err(UserError::parameters(format!("there is no snapshot format {other}"))
                            .with_hint("say native or csv"));
                    }
                },
                tables: settings.choice()?,
            };
            for ignored in ["service", "pathType", "data", "terminus"] {
                settings.values.remove(ignored);
            }
            settings.nothing_left()?;
            Ok(save)
        }
        _ => Err(UserError::parameters(
            "@SnapshotSave takes a path, a nonce and 1 to wait or 0, or one string of settings in JSON",
        )),
    }
}

/// `@SnapshotRestore`.
pub fn restore(parameters: &[Value<'_>], place: &BackupDirectories) -> UserResult<Restore> {
    match parameters {
        [Value::Text(path), Value::Text(nonce)] => Ok(Restore {
            dir: place.directory(path)?,
            nonce: checked_nonce(nonce)?.to_owned(),
            tables: Choice::default(),
        }),
        [Value::Text(settings)] => {
            let mut settings = Settings::parse(settings)?;
            let path = settings.text("path")?.or(settings.text("uripath")?);
            let nonce = settings.text("nonce")?.ok_or_else(|| missing("nonce"))?;
            let restore = Restore {
                dir: place.directory(&path.ok_or_else(|| missing("path"))?)?,
                nonce: checked_nonce(&nonce)?.to_owned(),
                tables: settings.choice()?,
            };
            // Rows go by this database's own hash ring; and none can be there twice, since tables
            // must be empty.
            for ignored in ["hashinator", "duplicatesPath", "pathType"] {
                settings.values.remove(ignored);
            }
            settings.nothing_left()?;
            Ok(restore)
        }
        _ => Err(UserError::parameters("@SnapshotRestore takes a path and a nonce, or one string of settings in JSON")),
    }
}

#[cold]
fn missing(key: &str) -> UserError {
    UserError::parameters(format!("the settings name no {key}"))
}

impl BackupDirectories {
    /// A directory on the server that a caller may name: absolute or, where backups have a
    /// directory of their own, relative to that and within it; without detours, and not within the
    /// database's own, where a file of any name could be taken for the database's.
    pub fn directory(&self, text: &str) -> UserResult<PathBuf> {
        let refuse = |reason: &str| {
            let error = UserError::parameters(format!("the path {text} {reason}"));
            Err(match &self.root {
                None => error.with_hint("name a directory on the server's machine, such as /var/backups/ferrite"),
                Some(root) => error.with_hint(format!(
                    "name a directory in {}, where backups go (--backup-dir), such as monday",
                    root.display()
                )),
            })
        };
        let plain = text.strip_prefix("file://").unwrap_or(text);
        let path = Path::new(plain);
        if plain.contains('\0') || plain.len() > PATH_BYTES_MAX {
            return refuse("is not a path");
        }
        if path.components().any(|component| matches!(component, Component::ParentDir)) {
            return refuse("leads upwards with ..");
        }
        let path: PathBuf = match &self.root {
            Some(root) => root.join(path).components().collect(),
            None if !path.is_absolute() => return refuse("is not absolute"),
            None => path.components().collect(),
        };
        let seen = without_links(&path);
        if self.root.as_ref().is_some_and(|root| !seen.starts_with(without_links(root))) {
            return refuse("lies outside of --backup-dir");
        }
        if self.is_own(&path) {
            return refuse("lies within the database's own directory");
        }
        if path.exists() && !path.is_dir() {
            return refuse("is not a directory");
        }
        Ok(path)
    }

    /// Whether that path is the database's own directory, or lies within it.
    pub fn is_own(&self, path: &Path) -> bool {
        let own = std::path::absolute(&self.own).unwrap_or_else(|_| self.own.clone());
        without_links(path).starts_with(without_links(&own))
    }
}

/// The nearest directory above that is there, without links, and what comes below it.
fn without_links(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((std::fs::canonicalize(above).ok()?, above)));
    there.map_or(path.to_path_buf(), |(real, above)| real.join(path.strip_prefix(above).expect("it stands above")))
}

/// The name of a backup in its directory.
pub fn checked_nonce(nonce: &str) -> UserResult<&str> {
    let reason = if nonce.is_empty() {
        "is empty"
    } else if nonce.len() > NONCE_BYTES_MAX {
        "is too long"
    } else if nonce.contains(['-', ',']) {
        "has a - or a comma in it"
    } else if nonce.starts_with('.') {
        "begins with a ."
    } else if !nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.') {
        "has a character that file names should not have"
    } else {
        return Ok(nonce);
    };
    Err(UserError::parameters(format!("the nonce {nonce:?} {reason}")).with_hint("use letters, digits, _ and ."))
}

/// Settings in JSON, with keys and words that need no quotes.
#[derive(Debug)]
struct Settings {
    values: BTreeMap<String, Setting>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Setting {
    Text(String),
    List(Vec<String>),
}

impl Settings {
    fn parse(text: &str) -> UserResult<Settings> {
        let mut scanner = Scanner { rest: text.trim() };
        let values = scanner.object().filter(|_| scanner.rest.is_empty());
        values.map(|values| Settings { values }).ok_or_else(|| {
            UserError::parameters(format!("the settings are not JSON: {}", text.chars().take(100).collect::<String>()))
                .with_hint(r#"such as {uripath:"file:///var/backups",nonce:"monday",block:true}"#)
        })
    }

    fn text(&mut self, key: &str) -> UserResult<Option<String>> {
        match self.values.remove(key) {
            None => Ok(None),
            Some(Setting::Text(text)) => Ok(Some(text)),
            Some(Setting::List(_)) => Err(UserError::parameters(format!("{key} is one string, no list"))),
        }
    }

    fn flag(&mut self, key: &str) -> UserResult<bool> {
        match self.text(key)?.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(UserError::parameters(format!("{key} is true or false, not {other}"))),
        }
    }

    fn choice(&mut self) -> UserResult<Choice> {
        let mut list = |key: &str| match self.values.remove(key) {
            None => None,
            Some(Setting::List(names)) => Some(names),
            Some(Setting::Text(names)) => Some(names.split(',').map(|name| name.trim().to_owned()).collect()),
        };
        Ok(Choice { only: list("tables"), skipped: list("skiptables").unwrap_or_default() })
    }

    fn nothing_left(&self) -> UserResult<()> {
        match self.values.keys().next() {
            Some(key) => Err(UserError::parameters(format!("there is no setting {key}"))),
            None => Ok(()),
        }
    }
}

struct Scanner<'t> {
    rest: &'t str,
}

impl<'t> Scanner<'t> {
    fn accept(&mut self, text: &str) -> bool {
        let found = self.rest.strip_prefix(text);
        self.rest = found.map_or(self.rest, str::trim_start);
        found.is_some()
    }

    fn object(&mut self) -> Option<BTreeMap<String, Setting>> {
        let mut values = BTreeMap::new();
        if !self.accept("{") {
            return None;
        }
        while !self.accept("}") {
            let key = self.word()?;
            if !(self.accept(":") || self.accept("=>") || self.accept("=")) {
                return None;
            }
            let value = if self.accept("[") { Setting::List(self.list()?) } else { Setting::Text(self.word()?) };
            values.insert(key, value);
            if !(self.accept(",") || self.accept(";") || self.rest.starts_with('}')) {
                return None;
            }
        }
        Some(values)
    }

    fn list(&mut self) -> Option<Vec<String>> {
        let mut words = Vec::new();
        while !self.accept("]") {
            words.push(self.word()?);
            if !(self.accept(",") || self.accept(";") || self.rest.starts_with(']')) {
                return None;
            }
        }
        Some(words)
    }

    /// Quoted in either way, or up to the next sign.
    fn word(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        if quote != '"' && quote != '\'' {
            let end = self.rest.find([',', ';', ':', '=', '{', '}', '[', ']', '"', '\'']).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            return (!word.trim().is_empty()).then(|| word.trim().to_owned());
        }
        let mut word = String::new();
        let mut characters = self.rest[1..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => word.push(match characters.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                }),
                end if end == quote => {
                    self.rest = self.rest[1 + at + 1..].trim_start();
                    return Some(word);
                }
                other => word.push(other),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "/var/lib/ferrite";

    fn anywhere() -> BackupDirectories {
        BackupDirectories { own: OWN.into(), root: None }
    }

    fn save_text(text: &str) -> UserResult<Save> {
        save(&[Value::Text(text)], &anywhere())
    }

    #[test]
    fn settings_as_existing_tools_write_them() {
        let expected = Save {
            dir: "/tmp/dir".into(),
            nonce: "x".into(),
            block: false,
            format: Format::Native,
            tables: Choice::default(),
        };
        for text in [
            r#"{uripath:"file:///tmp/dir",nonce:"x",block:false,format:"native"}"#,
            r#"{"uripath":"file:///tmp/dir","nonce":"x"}"#,
            "{'uripath'='file:///tmp/dir'; nonce => x; block: 0; service: log_truncation}",
            "  { nonce : x , path : '/tmp/dir' , } ",
        ] {
            assert_eq!(save_text(text).unwrap(), expected, "{text}");
        }
        let csv =
            save_text("{path:'/tmp/dir',nonce:'x',block:TRUE,format:csv,tables:['A',\"b\"],skiptables:[C]}").unwrap();
        assert!(csv.block && csv.format == Format::Csv && csv.tables.includes("a") && csv.tables.includes("B"));
        assert!(!csv.tables.includes("C") && !csv.tables.includes("D"));
        assert_eq!(csv.tables.unknown(["A", "B"].into_iter()), Some("C"));
        let classic = [Value::Text("/tmp/dir"), Value::Text("x"), Value::Integer(1)];
        assert_eq!(save(&classic, &anywhere()).unwrap(), Save { block: true, ..expected });
    }

    #[test]
    fn settings_without_a_place_mean_the_databases_own() {
        let own = |text| is_own_snapshot(&[Value::Text(text)]);
        assert!(
            is_own_snapshot(&[]) && own("{block:true,format:\"native\"}") && own("{uripath:\"\",nonce:'',block:false}")
        );
        for text in ["{path:'/tmp/dir'}", "{nonce:x}", "{format:csv}", "{tables:['A']}", "{", "", "/tmp/dir"] {
            assert!(!own(text), "{text}");
        }
        assert!(!is_own_snapshot(&[Value::Text("/tmp/dir"), Value::Text("x"), Value::Integer(1)]));
    }

    #[test]
    fn what_is_refused() {
        for (text, words) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("{a}", "not JSON"),
            ("{a:[b}", "not JSON"),
            ("{a:'b}", "not JSON"),
            ("{path:'/tmp/dir',nonce:'x'} more", "not JSON"),
            ("{path:'/tmp/dir'}", "no nonce"),
            ("{nonce:x}", "no uripath"),
            ("{path:'/tmp/dir',nonce:'x',block:perhaps}", "true or false"),
            ("{path:'/tmp/dir',nonce:'x',format:xml}", "no snapshot format xml"),
            ("{path:'/tmp/dir',nonce:'x',colour:red}", "no setting colour"),
            ("{path:'/tmp/dir',nonce:'a-b'}", "has a - or a comma"),
            ("{path:'/tmp/dir',nonce:'a/b'}", "file names"),
            ("{path:'/tmp/dir',nonce:'..'}", "begins with a ."),
            ("{path:'dir',nonce:x}", "not absolute"),
            ("{path:'/tmp/../etc',nonce:x}", "leads upwards"),
            ("{path:'/var/lib/ferrite/snapshots',nonce:x}", "own directory"),
            ("{path:'/var/lib/ferrite/',nonce:x}", "own directory"),
            ("{path:'/dev/null',nonce:x}", "not a directory"),
        ] {
            let error = save_text(text).unwrap_err();
            assert!(error.message().contains(words), "{text}: {error}");
        }
        assert!(restore(&[Value::Text("/tmp/dir"), Value::Null], &anywhere()).is_err());
        let text = "{path:'/tmp/dir',nonce:'x',hashinator:true,duplicatesPath:'/tmp'}";
        assert_eq!(restore(&[Value::Text(text)], &anywhere()).unwrap().nonce, "x");
    }

    #[test]
    fn with_a_directory_for_backups_they_are_all_in_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (own, root, outside) = (dir.path().join("data"), dir.path().join("backups"), dir.path().join("elsewhere"));
        for folder in [&own, &root, &outside] {
            std::fs::create_dir(folder).expect("a folder");
        }
        std::os::unix::fs::symlink(&outside, root.join("link")).expect("a link");
        std::os::unix::fs::symlink(&root, outside.join("back")).expect("a link");
        std::fs::write(root.join("file"), "").expect("a file");
        let place = BackupDirectories { own: own.clone(), root: Some(root.clone()) };
        let absolute = root.join("monday/noon").display().to_string();
        for (text, expected) in [
            ("monday", root.join("monday")),
            ("monday/./noon", root.join("monday/noon")),
            ("", root.clone()),
            (absolute.as_str(), root.join("monday/noon")),
            (&format!("file://{absolute}"), root.join("monday/noon")),
            (&outside.join("back/monday").display().to_string(), outside.join("back/monday")),
        ] {
            assert_eq!(place.directory(text).unwrap(), expected, "{text}");
        }
        for (text, words) in [
            ("../elsewhere", "leads upwards"),
            ("monday/../../elsewhere", "leads upwards"),
            ("link", "lies outside of --backup-dir"),
            ("link/monday", "lies outside of --backup-dir"),
            ("/etc/cron.d", "lies outside of --backup-dir"),
            ("/", "lies outside of --backup-dir"),
            ("/proc/self/root/etc", "lies outside of --backup-dir"),
            (&own.display().to_string(), "lies outside of --backup-dir"),
            (&format!("{}x", root.display()), "lies outside of --backup-dir"),
            ("file", "is not a directory"),
        ] {
            let error = place.directory(text).unwrap_err();
            assert!(error.message().contains(words), "{text}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(&*root.display().to_string())), "{text}: {error}");
        }
    }
}
