//! What classes need that is not here: names of the server's API that this server does not have,
//! and classes that neither the jars nor the JDK bring. Java finds out at the first call; whoever
//! loads a class should hear of it before.
//!
//! Owns the list of the API's classes and members (`procedure_api.txt`; a test of the crate `java`
//! compares it with what is compiled). Looks at procedures and functions, and at what they reach: a
//! jar may bring its application's clients along, which need much that no server has. Promises no
//! more than its words: what is reached by reflection is not seen.

use crate::class_file::{ClassFile, MemberReference, java_name, references, types};
use crate::jar::Classes;
use crate::objects::Catalog;
use ferrite_base::limits::CLASS_WARNINGS_MAX;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::sync::LazyLock;

/// A line for each class, then one for each of its members: ` name descriptor`.
pub const PROCEDURE_API: &str = include_str!("procedure_api.txt");

/// What procedures extend.
const PROCEDURES: [&str; 3] =
    ["org/voltdb/VoltProcedure", "org/voltdb/VoltNonTransactionalProcedure", "org/voltdb/VoltCompoundProcedure"];
/// Where the classes of the JDK are.
const OF_THE_JDK: [&str; 9] = [
    "java/",
    "javax/",
    "jdk/",
    "sun/",
    "com/sun/",
    "org/w3c/dom/",
    "org/xml/sax/",
    "org/ietf/jgss/",
    "netscape/javascript/",
];
/// Packages of the original's server. A jar may have classes in them.
const OF_THE_SERVER: [&str; 2] = ["org/voltdb/", "org/voltcore/"];
/// Every object has these.
const OF_OBJECTS: [&str; 9] =
    ["<init>", "clone", "equals", "finalize", "getClass", "hashCode", "notify", "notifyAll", "toString"];

/// Has no members that a class could inherit; `Object` has none but [`OF_OBJECTS`].
const MARKERS: [&str; 3] = ["java/lang/Object", "java/io/Serializable", "java/lang/Cloneable"];

/// How many base classes are looked into.
const ANCESTORS_MAX: usize = 64;

struct ApiClass {
    /// What it extends and implements.
    above: Vec<&'static str>,
    members: BTreeSet<(&'static str, &'static str)>,
}

static API: LazyLock<BTreeMap<&'static str, ApiClass>> = LazyLock::new(|| {
    let mut classes = BTreeMap::new();
    let mut class = "";
    for line in PROCEDURE_API.lines() {
        if let Some(member) = line.strip_prefix(' ') {
            let known: &mut ApiClass = classes.get_mut(class).expect("members stand below their class");
            known.members.insert(member.split_once(' ').expect("a name and a descriptor"));
        } else {
            let mut words = line.split(' ');
            class = words.next().expect("a line has a word");
            classes.insert(class, ApiClass { above: words.collect(), members: BTreeSet::new() });
        }
    }
    classes
});

/// A class as a line of the list and those of its members. None: it is not for users.
pub fn api_of_class(bytes: &[u8]) -> Option<String> {
    let class = ClassFile::parse(bytes).ok()?;
    if !class.is_public() {
        return None;
    }
    let mut out = class.name.clone();
    let above = class.superclass.iter().map(|name| name.replace('.', "/")).chain(class.interfaces.iter().cloned());
    above.filter(|name| name != "java/lang/Object").for_each(|name| out.extend([" ", &name]));
    out.push('\n');
    let members: BTreeSet<(String, String)> = class.visible_members().collect();
    for (name, descriptor) in members {
        writeln!(out, " {name} {descriptor}").expect("a string takes all");
    }
    Some(out)
}

/// Whether the API has that member, in the class or above it. What is above in the JDK is not
/// looked at.
fn has_member(class: &str, name: &str, descriptor: &str) -> bool {
    let Some(known) = API.get(class) else { return class.starts_with("java/") };
    known.members.contains(&(name, descriptor))
        || (OF_OBJECTS.contains(&name) && name != "<init>")
        || name == "wait"
        || (name != "<init>" && known.above.iter().any(|above| has_member(above, name, descriptor)))
}

/// Warnings for a schema change: of all procedures and functions if it has changed the classes,
/// else of the new ones.
pub fn class_warnings(before: &Catalog, after: &Catalog) -> Vec<String> {
    let reloaded = before.classes != after.classes;
    if reloaded && after.classes.is_empty() {
        return Vec::new();
    }
    let named = |catalog: &Catalog| -> BTreeSet<String> {
        let procedures = catalog.procedures.values().filter_map(|procedure| procedure.class.clone());
        procedures.chain(catalog.functions.values().map(|function| function.class.clone())).collect()
    };
    let mut roots = named(after);
    if !reloaded {
        let known = named(before);
        roots.retain(|class| !known.contains(class));
    }
    let mut warnings = missing(after, roots, reloaded);
    if warnings.len() > CLASS_WARNINGS_MAX {
        let more = warnings.split_off(CLASS_WARNINGS_MAX).len();
        warnings.push(format!("{more} more like these: ferrite check lists them all"));
    }
    warnings
}

/// What the classes `roots` need that is not there, and with `procedures` all those that extend a
/// procedure, too.
pub fn missing(catalog: &Catalog, roots: BTreeSet<String>, procedures: bool) -> Vec<String> {
    let classes = &catalog.classes;
    let mut roots = roots;
    if procedures {
        roots.extend(procedure_classes(catalog));
    }
    // Those nested in a root are looked at as closely.
    let is_root = |class: &str| {
        let outer = class.split_once('$').map_or(class, |(outer, _)| outer);
        roots.contains(class) || roots.contains(outer)
    };
    let mut seen: BTreeSet<String> = roots.clone();
    let mut next: VecDeque<String> = roots.iter().cloned().collect();
    let mut warnings = BTreeSet::new();
    let mut inherited = Inherited { classes, known: BTreeMap::new() };
    while let Some(class) = next.pop_front() {
        let Ok(bytes) = classes.class_bytes(&class) else { continue };
        let Some(found) = references(&bytes) else {
            warnings.insert(format!("class {class} is damaged"));
            continue;
        };
        for name in found.classes {
            let dotted = name.replace('/', ".");
            if API.contains_key(&*name) {
                continue;
            }
            if classes.has_class(&dotted) {
                if seen.insert(dotted.clone()) {
                    next.push_back(dotted);
                }
            } else if OF_THE_SERVER.iter().any(|server| name.starts_with(server)) {
                warnings.insert(format!(
                    "class {class} refers to {dotted}, which is not here: put a class of that name into the jar"
                ));
            } else if is_root(&class) && !OF_THE_JDK.iter().any(|jdk| name.starts_with(jdk)) {
                warnings.insert(format!("class {class} refers to {dotted}, which is not among the loaded classes"));
            }
        }
        for MemberReference { class: of, name, descriptor } in found.members {
            if let Found::Missing { from } = inherited.find(&of, &name, &descriptor) {
                let shown = shown_member(&from, &name, &descriptor);
                warnings.insert(format!("class {class} refers to {shown}, which is not here"));
            }
        }
    }
    warnings.into_iter().collect()
}

/// Where a member is that a class refers to.
#[derive(PartialEq, Eq, Debug)]
enum Found {
    Here,
    /// Neither the loaded classes nor those of the API above them have it; `from` is that class of
    /// the API which would.
    Missing {
        from: String,
    },
    /// The search ends in classes that are not looked at: those of the JDK, or missing ones.
    Unknown,
}

/// Looks members up as Java does: in the class itself, then in what stands above it.
struct Inherited<'a> {
    classes: &'a Classes,
    /// Loaded classes that were looked into. None: there is no such class, or it cannot be read.
    known: BTreeMap<String, Option<LoadedClass>>,
}

struct LoadedClass {
    /// What it extends and implements, with slashes.
    above: Vec<String>,
    members: BTreeSet<(String, String)>,
}

impl Inherited<'_> {
    fn find(&mut self, class: &str, name: &str, descriptor: &str) -> Found {
        let member = (name.to_owned(), descriptor.to_owned());
        let mut seen = BTreeSet::new();
        let mut next = VecDeque::from([class.to_owned()]);
        let mut missing = None;
        let mut unknown = false;
        while let Some(class) = next.pop_front() {
            if !seen.insert(class.clone()) || MARKERS.contains(&&*class) {
                continue;
            }
            if API.contains_key(&*class) {
                if has_member(&class, name, descriptor) {
                    return Found::Here;
                }
                missing.get_or_insert(class);
                continue;
            }
            match self.loaded(&class) {
                Some(loaded) if loaded.members.contains(&member) => return Found::Here,
                Some(loaded) if seen.len() < ANCESTORS_MAX => next.extend(loaded.above.iter().cloned()),
                _ => unknown = true,
            }
        }
        let of_object = name == "wait" || OF_OBJECTS.contains(&name);
        match missing {
            // Constructors are not inherited: that of a loaded class is its own matter.
            Some(from) if from == class || !(unknown || of_object) => Found::Missing { from },
            _ => Found::Unknown,
        }
    }

    fn loaded(&mut self, class: &str) -> Option<&LoadedClass> {
        if !self.known.contains_key(class) {
            let bytes = self.classes.class_bytes(&class.replace('/', ".")).ok();
            self.known.insert(class.to_owned(), bytes.and_then(|bytes| LoadedClass::read(&bytes)));
        }
        self.known.get(class)?.as_ref()
    }
}

impl LoadedClass {
    fn read(bytes: &[u8]) -> Option<LoadedClass> {
        let class = ClassFile::parse(bytes).ok()?;
        let superclass = class.superclass.iter().map(|name| name.replace('.', "/"));
        let above = superclass.chain(class.interfaces.iter().cloned()).collect();
        Some(LoadedClass { above, members: class.members(bytes.len().saturating_mul(4))? })
    }
}

fn shown_member(class: &str, name: &str, descriptor: &str) -> String {
    let class = class.replace('/', ".");
    let parameters = types(descriptor).map(|(parameters, _)| {
        let names: Vec<String> = parameters.into_iter().map(java_name).collect();
        names.join(", ")
    });
    match parameters {
        Some(parameters) if name == "<init>" => format!("{class}({parameters})"),
        Some(parameters) => format!("{class}.{name}({parameters})"),
        None => format!("{class}.{name}"),
    }
}

/// The loaded classes that extend a procedure of the API, directly or not.
fn procedure_classes(catalog: &Catalog) -> Vec<String> {
    let classes = &catalog.classes;
    let mut above: BTreeMap<String, String> = BTreeMap::new();
    for name in classes.class_names() {
        let superclass = classes.class_bytes(&name).ok().and_then(|bytes| ClassFile::parse(&bytes).ok()?.superclass);
        if let Some(superclass) = superclass {
            above.insert(name, superclass);
        }
    }
    let is_procedure = |name: &&String| {
        let mut at = *name;
        for _ in 0..ANCESTORS_MAX {
            let Some(superclass) = above.get(at) else { return false };
            if PROCEDURES.contains(&&*superclass.replace('.', "/")) {
                return true;
            }
            at = superclass;
        }
        false
    };
    above.keys().filter(is_procedure).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::class_file::made;
    use crate::jar::stored;

    fn catalog(files: &[(&str, Vec<u8>)]) -> Catalog {
        Catalog::default().apply(&Change::LoadClasses { jar: stored(files).into() }).expect("a jar").0
    }

    fn procedure(refers: &[made::Reference<'_>]) -> Vec<u8> {
        made::referring("org.voltdb.VoltProcedure", refers)
    }

    #[test]
    fn what_procedures_refer_to_that_is_not_here_is_told() {
        let catalog = catalog(&[
            (
                "a/Vote.class",
                procedure(&[
                    ("org/voltdb/VoltTable", Some(("getLong", "(I)J"))),
                    ("org/voltdb/VoltTable", Some(("addRow", "([Ljava/lang/Object;)V"))),
                    ("org/voltdb/VoltTable", Some(("noSuch", "(I[Ljava/lang/String;)V"))),
                    ("a/Vote", Some(("voltQueueSQL", "()V"))),
                    ("org/voltdb/utils/Missing", Some(("now", "()J"))),
                    ("org/voltcore/utils/Pair", None),
                    ("org/voltcore/logging/VoltLogger", Some(("warn", "(Ljava/lang/Object;)V"))),
                    ("[Lorg/voltdb/VoltTable;", None),
                    ("[[J", None),
                    ("org/voltdb/own/Helper", None),
                    ("a/Help", None),
                    ("java/util/List", None),
                    ("com/google/gson/Gson", None),
                ]),
            ),
            (
                "a/Help.class",
                made::referring("java.lang.Object", &[("org/voltdb/Gone", None), ("org/slf4j/Logger", None)]),
            ),
            ("a/Indirect.class", made::referring("a.Vote", &[("org/voltdb/Elsewhere", None)])),
            ("a/Client.class", made::referring("java.lang.Object", &[("org/voltdb/client/ClientFactory", None)])),
            ("org/voltdb/own/Helper.class", made::referring("java.lang.Object", &[])),
            ("a/Compound.class", made::referring("org.voltdb.VoltCompoundProcedure", &[])),
            (
                "a/Pay.class",
                made::referring(
                    "a.Compound",
                    &[
                        ("a/Pay", Some(("completeProcedure", "(J)V"))),
                        ("a/Pay", Some(("completeProcedure", "(D)V"))),
                        ("a/Pay", Some(("hashCode", "()I"))),
                        ("a/Pay", Some(("<init>", "(I)V"))),
                        ("a/FromJdk", Some(("elsewhere", "()V"))),
                    ],
                ),
            ),
            ("a/FromJdk.class", made::referring("java.util.ArrayList", &[])),
            ("a/Circle.class", made::referring("a.Square", &[("org/voltdb/Nothing", None)])),
            ("a/Square.class", made::referring("a.Circle", &[])),
        ]);
        let at = |words: &str| format!("{words}, which is not here: put a class of that name into the jar");
        assert_eq!(
            class_warnings(&Catalog::default(), &catalog),
            [
                &*at("class a.Help refers to org.voltdb.Gone"),
                &*at("class a.Indirect refers to org.voltdb.Elsewhere"),
                "class a.Pay refers to org.voltdb.VoltCompoundProcedure.completeProcedure(double), which is not here",
                "class a.Vote refers to com.google.gson.Gson, which is not among the loaded classes",
                &*at("class a.Vote refers to org.voltcore.utils.Pair"),
                "class a.Vote refers to org.voltdb.VoltProcedure.voltQueueSQL(), which is not here",
                "class a.Vote refers to org.voltdb.VoltTable.noSuch(int, java.lang.String[]), which is not here",
                &*at("class a.Vote refers to org.voltdb.utils.Missing"),
            ]
        );
        assert_eq!(class_warnings(&catalog, &catalog), [""; 0], "nothing has changed");
    }

    #[test]
    fn as_many_warnings_as_the_limit_and_not_one_more() {
        let names: Vec<String> = (0..=CLASS_WARNINGS_MAX).map(|number| format!("org/voltdb/No{number:03}")).collect();
        let refers = |count: usize| names[..count].iter().map(|name| (name.as_str(), None)).collect::<Vec<_>>();
        let warned = |count| class_warnings(&Catalog::default(), &catalog(&[("P.class", procedure(&refers(count)))]));
        assert_eq!(warned(CLASS_WARNINGS_MAX).len(), CLASS_WARNINGS_MAX);
        let over = warned(CLASS_WARNINGS_MAX + 1);
        assert_eq!(over.len(), CLASS_WARNINGS_MAX + 1);
        assert_eq!(over[CLASS_WARNINGS_MAX], "1 more like these: ferrite check lists them all");
    }

    /// Interfaces that extend each other many times over, and a superclass that is its own: each is
    /// looked at once.
    #[test]
    fn what_stands_above_a_class_is_looked_at_once() {
        let extends = |above: &[String]| made::extending("org.voltdb.VoltTable", above);
        let layer = |number: usize| [format!("L{number}"), format!("R{number}")];
        let mut files = vec![("P.class".to_owned(), procedure(&[("L0", Some(("nowhere", "()V")))]))];
        for number in 0..ANCESTORS_MAX / 4 {
            let bytes = extends(&layer(number + 1));
            files.extend(layer(number).map(|name| (format!("{name}.class"), bytes.clone())));
        }
        files.extend(layer(ANCESTORS_MAX / 4).map(|name| (format!("{name}.class"), extends(&layer(0)))));
        let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
        let warnings = class_warnings(&Catalog::default(), &catalog(&files));
        assert_eq!(warnings, ["class P refers to org.voltdb.VoltTable.nowhere(), which is not here"]);
    }

    #[test]
    fn the_api_is_known_with_what_stands_above_its_classes() {
        assert!(has_member("org/voltdb/VoltTable", "getLong", "(I)J"), "of its base class");
        assert!(has_member("org/voltdb/VoltTable", "hashCode", "()I"));
        assert!(has_member("org/voltdb/VoltProcedure$VoltAbortException", "getMessage", "()Ljava/lang/String;"));
        assert!(!has_member("org/voltdb/VoltTable", "getLong", "()V"));
        assert!(!API.contains_key("org/voltdb/Bridge"), "the server's own");
    }
}
