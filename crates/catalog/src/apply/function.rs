//! User-defined functions: what their classes say of them, and when they may come and go.

use super::{Draft, already_exists, check, invalid};
use crate::class_file::{ClassFile, PUBLIC, java_name, sql_type};
use crate::jar::Classes;
use ferrite_base::limits::FUNCTIONS_MAX;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::UserFunction;
use ferrite_value::SqlType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many base classes are looked into for a method.
const ANCESTORS_MAX: usize = 64;

impl Draft {
    pub(super) fn create_function(&mut self, name: &str, class: &str, method: Option<&str>) -> UserResult<()> {
        check::identifier(name)?;
        if self.catalog.functions.contains_key(name) {
            return Err(already_exists(name));
        }
        if self.catalog.functions.len() >= FUNCTIONS_MAX {
            return Err(UserError::limit(format!("limit of {FUNCTIONS_MAX} functions reached")));
        }
        let function = function(&self.catalog.classes, name, class, method)?;
        self.catalog.functions.insert(name.to_owned(), Arc::new(function));
        Ok(())
    }

    /// `aggregate`: the statement said what it is; None: either.
    pub(super) fn drop_function(&mut self, name: &str, aggregate: Option<bool>, if_exists: bool) -> UserResult<()> {
        match self.catalog.functions.get(name) {
            None if if_exists => return Ok(()),
            None => return Err(UserError::unknown_routine(name).in_ddl()),
            Some(function) if aggregate == Some(true) && !function.is_aggregate() => {
                return Err(
                    invalid(format!("{name} is not an aggregate function")).with_hint(format!("DROP FUNCTION {name}"))
                );
            }
            Some(_) => {}
        }
        self.catalog.functions.remove(name);
        Ok(())
    }

    /// After the classes have changed: the same functions over the new ones.
    pub(super) fn renew_functions(&mut self) -> UserResult<()> {
        let mut functions = BTreeMap::new();
        for (name, known) in &self.catalog.functions {
            let renewed = function(&self.catalog.classes, name, &known.class, known.method.as_deref())
                .map_err(|error| error.in_context(format_args!("function {name}")))?;
            functions.insert(name.clone(), Arc::new(renewed));
        }
        self.catalog.functions = functions;
        Ok(())
    }
}

fn function(classes: &Classes, name: &str, class: &str, method: Option<&str>) -> UserResult<UserFunction> {
    if !classes.has_class(class) {
        return Err(UserError::ddl("42704", format!("class {class} is not among the loaded classes"))
            .with_hint("load the jar with the class first (load classes FILE.jar, or @UpdateClasses); drop the function before its class"));
    }
    let bytes = classes.class_bytes(class)?;
    let first = ClassFile::parse(&bytes)?;
    if first.access & PUBLIC == 0 || first.is_abstract() {
        return Err(unfit(format!("class {class} must be public, and neither abstract nor an interface")));
    }
    let lookup = Lookup { classes, class, first };
    let (parameters, result) = match method {
        Some(method) => lookup.typed(method)?,
        None => {
            lookup.like("start", &[], "void")?;
            lookup.like("combine", &[class], "void")?;
            let (_, result) = lookup.signature("end")?;
            (lookup.parameters("assemble")?, lookup.result("end", &result)?)
        }
    };
    if method.is_none() && parameters.is_empty() {
        return Err(unfit(format!("method assemble of class {class} takes no value")));
    }
    Ok(UserFunction::new(name.to_owned(), class.to_owned(), method.map(str::to_owned), parameters, result))
}

struct Lookup<'c> {
    classes: &'c Classes,
    class: &'c str,
    first: ClassFile<'c>,
}

impl Lookup<'_> {
    /// Descriptors of the method's parameters and result: the class's own or, where it has none by
    /// that name, the next base class's.
    fn signature(&self, method: &str) -> UserResult<(Vec<String>, String)> {
        if let Some(found) = self.own_signature(&self.first, method)? {
            return Ok(found);
        }
        let mut unusable = self.first.unusable(method);
        let mut superclass = self.first.superclass.clone();
        for _ in 0..ANCESTORS_MAX {
            let Some(name) = superclass.filter(|name| self.classes.has_class(name)) else { break };
            let bytes = self.classes.class_bytes(&name)?;
            let base = ClassFile::parse(&bytes)?;
            if let Some(found) = self.own_signature(&base, method)? {
                return Ok(found);
            }
            unusable = unusable.or_else(|| base.unusable(method));
            superclass = base.superclass;
        }
        Err(unfit(match unusable {
            Some(why) => format!("method {method} of class {} {why}; it must be public and not static", self.class),
            None => format!("class {} has no public method {method}", self.class),
        }))
    }

    /// What `at` itself says of a method, if it has one by that name.
    fn own_signature(&self, at: &ClassFile<'_>, method: &str) -> UserResult<Option<(Vec<String>, String)>> {
        let mut found = at.methods(method);
        let Some(one) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(unfit(format!("class {} has more than one public method {method}", self.class))
                .with_hint("give the method a name that no other method has"));
        }
        let (parameters, result) = one.types().ok_or_else(|| unfit(format!("class {} is damaged", self.class)))?;
        Ok(Some((parameters.into_iter().map(str::to_owned).collect(), result.to_owned())))
    }

    fn typed(&self, method: &str) -> UserResult<(Vec<SqlType>, SqlType)> {
        let (_, result) = self.signature(method)?;
        Ok((self.parameters(method)?, self.result(method, &result)?))
    }

    fn parameters(&self, method: &str) -> UserResult<Vec<SqlType>> {
        let (parameters, _) = self.signature(method)?;
        let typed = |(index, descriptor): (usize, &String)| {
            sql_type(descriptor).ok_or_else(|| {
                let class = self.class;
                let java = java_name(descriptor);
                unfit(format!(
                    "parameter {index} of {class}.{method} is of type {java}, which has no corresponding SQL type"
                ))
            })
        };
        parameters.iter().enumerate().map(typed).collect()
    }

    fn result(&self, method: &str, descriptor: &str) -> UserResult<SqlType> {
        sql_type(descriptor).ok_or_else(|| {
            let class = self.class;
            let java = java_name(descriptor);
            unfit(format!("{class}.{method} returns {java}, which has no corresponding SQL type"))
        })
    }

    /// The method is there with just these types.
    fn like(&self, method: &str, parameters: &[&str], result: &str) -> UserResult<()> {
        let (found, returned) = self.signature(method)?;
        let found: Vec<String> = found.iter().map(|descriptor| java_name(descriptor)).collect();
        if found == parameters && java_name(&returned) == result {
            return Ok(());
        }
        let class = self.class;
        let parameters = parameters.join(", ");
        Err(unfit(format!("class {class} needs the public method {result} {method}({parameters})")))
    }
}

fn unfit(message: String) -> UserError {
    UserError::ddl("42P13", message)
}

#[cfg(test)]
mod tests {
    use crate::class_file::made::class;
    use crate::{Catalog, Change};
    use ferrite_value::SqlType;

    fn load(files: &[(&str, Vec<u8>)]) -> Change {
        Change::LoadClasses { jar: crate::jar::stored(files).into() }
    }

    fn create(name: &str, class: &str, method: Option<&str>) -> Change {
        Change::CreateFunction { name: name.into(), class: class.into(), method: method.map(str::to_owned) }
    }

    #[test]
    fn types_come_from_the_class_and_follow_it() {
        const OBJECT: &str = "java.lang.Object";
        let functions =
            class(1, "a.Base", &[(1, "twice", "(J)J"), (9, "fixed", "()I"), (1, "list", "(Ljava/util/List;)I")]);
        let base = class(1, OBJECT, &[(1, "half", "(I)D")]);
        let aggregate: [(u16, &str, &str); 4] =
            [(1, "start", "()V"), (1, "assemble", "(D)V"), (1, "combine", "(La/Sum;)V"), (1, "end", "()D")];
        let sum = class(1, OBJECT, &aggregate);
        let lame = class(1, OBJECT, &aggregate[..3]);
        let jar =
            load(&[("a/F.class", functions), ("a/Base.class", base), ("a/Sum.class", sum), ("a/Lame.class", lame)]);
        let (catalog, _) = Catalog::default().apply(&jar).unwrap();
        let (catalog, _) = catalog.apply(&create("TWICE", "a.F", Some("twice"))).unwrap();
        let (catalog, _) = catalog.apply(&create("HALF", "a.F", Some("half"))).unwrap();
        let (catalog, _) = catalog.apply(&create("TOTAL", "a.Sum", None)).unwrap();
        assert_eq!(catalog.functions["HALF"].parameters, [SqlType::Integer]);
        assert_eq!(
            (catalog.functions["TOTAL"].result, catalog.functions["TOTAL"].is_aggregate()),
            (SqlType::Float, true)
        );
        let refused = [
            (create("TWICE", "a.F", Some("twice")), "already exists"),
            (create("X", "a.F", Some("fixed")), "is static"),
            (create("X", "a.F", Some("none")), "has no public method none"),
            (create("X", "a.F", Some("list")), "java.util.List, which has no corresponding SQL type"),
            (create("X", "a.None", Some("f")), "not among the loaded classes"),
            (create("X", "a.Lame", None), "needs the public method void combine(a.Lame)"),
            (Change::RemoveClasses { patterns: vec!["a.Sum".into()] }, "function TOTAL"),
            (load(&[("a/F.class", class(1, OBJECT, &[]))]), "function HALF"),
            (Change::DropFunction { name: "HALF".into(), aggregate: Some(true), if_exists: false }, "not an aggregate"),
        ];
        for (change, words) in refused {
            let error = catalog.apply(&change).unwrap_err().to_string();
            assert!(error.contains(words), "{change:?}: {error}");
        }
        let other = class(1, "a.Base", &[(1, "twice", "(Ljava/lang/String;)Ljava/lang/String;")]);
        let (changed, _) = catalog.apply(&load(&[("a/F.class", other)])).unwrap();
        assert_eq!(changed.functions["TWICE"].result, SqlType::Varchar);
        let drop = Change::DropFunction { name: "TOTAL".into(), aggregate: Some(true), if_exists: false };
        assert_eq!(changed.apply(&drop).unwrap().0.functions.len(), 2);
    }
}
