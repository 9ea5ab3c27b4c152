//! What a compiled Java class says of its methods, and of what it refers to: enough to know a
//! function's types, and what a class needs that is not there, without a JVM, so that replay and
//! tools need none.
//!
//! Promises that no bytes make reading panic, or take more memory than a few times their length:
//! names stay where they are in the file, which may have one of them stand for thousands of
//! methods. Knows the class file format as far as to step over what it does not need.

use ferrite_base::{UserError, UserResult};
use ferrite_value::SqlType;
use std::collections::BTreeSet;

const MAGIC: u32 = 0xCAFE_BABE;
pub(crate) const PUBLIC: u16 = 1;
pub(crate) const STATIC: u16 = 8;
const PROTECTED: u16 = 4;
const BRIDGE: u16 = 0x40;
const ABSTRACT: u16 = 0x400;
const SYNTHETIC: u16 = 0x1000;

/// A class as its file tells it.
#[derive(Debug)]
pub(crate) struct ClassFile<'a> {
    pub access: u16,
    /// With slashes, as those of the interfaces.
    pub name: String,
    pub interfaces: Vec<String>,
    /// With dots; none for `java.lang.Object`.
    pub superclass: Option<String>,
    fields: Vec<Method<'a>>,
    methods: Vec<Method<'a>>,
}

/// What a class refers to, by its constants.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// With slashes, and without the brackets of arrays.
    pub classes: Vec<String>,
    pub members: Vec<MemberReference>,
}

/// A field or a method of another class.
#[derive(Debug)]
pub(crate) struct MemberReference {
    pub class: String,
    pub name: String,
    pub descriptor: String,
}

/// A method or a field. Texts are UTF-8 but for characters that no name of ours has.
#[derive(Debug)]
pub(crate) struct Method<'a> {
    access: u16,
    name: &'a [u8],
    /// `(I[B)Ljava/lang/String;`
    descriptor: &'a [u8],
}

impl<'a> ClassFile<'a> {
    pub fn parse(bytes: &'a [u8]) -> UserResult<ClassFile<'a>> {
        parse(&mut Reader(bytes)).ok_or_else(|| UserError::ddl("42P13", "the class file is damaged"))
    }

    pub fn is_public(&self) -> bool {
        self.access & PUBLIC != 0
    }

    /// Names and descriptors of what other classes can use of it.
    pub fn visible_members(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let visible = self
            .fields
            .iter()
            .chain(&self.methods)
            .filter(|member| member.access & (PUBLIC | PROTECTED) != 0 && member.access & SYNTHETIC == 0);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        visible.map(move |member| (text(member.name), text(member.descriptor)))
    }

    /// Names and descriptors of all its fields and methods. None: they have more bytes than `room`,
    /// since a name may stand for thousands of them.
    pub fn members(&self, room: usize) -> Option<BTreeSet<(String, String)>> {
        let all = || self.fields.iter().chain(&self.methods);
        let length: usize = all().map(|member| member.name.len() + member.descriptor.len()).sum();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (length <= room).then(|| all().map(|member| (text(member.name), text(member.descriptor))).collect())
    }

    pub fn is_abstract(&self) -> bool {
        self.access & ABSTRACT != 0
    }

    /// Public methods of objects by this name, but those that the compiler has made up.
    pub fn methods<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Method<'a>> {
        self.methods.iter().filter(move |method| {
            method.name == name.as_bytes()
                && method.access & PUBLIC != 0
                && method.access & (STATIC | BRIDGE | SYNTHETIC | ABSTRACT) == 0
        })
    }

    /// A method of that name that is there but cannot be called, and why.
    pub fn unusable(&self, name: &str) -> Option<&'static str> {
        let method = self.methods.iter().find(|method| method.name == name.as_bytes())?;
        Some(if method.access & STATIC != 0 { "is static" } else { "is not public" })
    }
}

impl<'a> Method<'a> {
    /// The parameters' types as descriptors, and that of the result.
    pub fn types(&self) -> Option<(Vec<&'a str>, &'a str)> {
        types(std::str::from_utf8(self.descriptor).ok()?)
    }
}

/// A method's parameters' types as descriptors, and that of its result. None: it is not a method's
/// descriptor.
pub(crate) fn types(descriptor: &str) -> Option<(Vec<&str>, &str)> {
    let (mut parameters, result) = descriptor.strip_prefix('(')?.split_once(')')?;
    let mut types = Vec::new();
    while !parameters.is_empty() {
        let dimensions = parameters.len() - parameters.trim_start_matches('[').len();
        let length = match parameters.as_bytes().get(dimensions)? {
            b'L' => parameters.find(';')? + 1,
            _ => dimensions + 1,
        };
        let (one, rest) = parameters.split_at_checked(length)?;
        types.push(one);
        parameters = rest;
    }
    Some((types, result))
}

/// The SQL type whose values a Java type stands for.
pub(crate) fn sql_type(descriptor: &str) -> Option<SqlType> {
    Some(match descriptor {
        "B" | "Ljava/lang/Byte;" => SqlType::Tinyint,
        "S" | "Ljava/lang/Short;" => SqlType::Smallint,
        "I" | "Ljava/lang/Integer;" => SqlType::Integer,
        "J" | "Ljava/lang/Long;" => SqlType::Bigint,
        "F" | "D" | "Ljava/lang/Float;" | "Ljava/lang/Double;" => SqlType::Float,
        "Z" | "Ljava/lang/Boolean;" => SqlType::Boolean,
        "Ljava/lang/String;" => SqlType::Varchar,
        "[B" | "[Ljava/lang/Byte;" => SqlType::Varbinary,
        "Ljava/math/BigDecimal;" => SqlType::Decimal,
        "Lorg/voltdb/types/TimestampType;" | "Ljava/util/Date;" | "Ljava/sql/Date;" | "Ljava/sql/Timestamp;" => {
            SqlType::Timestamp
        }
        "Lorg/voltdb/types/GeographyPointValue;" => SqlType::Point,
        "Lorg/voltdb/types/GeographyValue;" => SqlType::Geography,
        _ => return None,
    })
}

/// A type as people write it.
pub(crate) fn java_name(descriptor: &str) -> String {
    let element = descriptor.trim_start_matches('[');
    let arrays = "[]".repeat(descriptor.len() - element.len());
    let name = match element {
        "B" => "byte",
        "C" => "char",
        "D" => "double",
        "F" => "float",
        "I" => "int",
        "J" => "long",
        "S" => "short",
        "Z" => "boolean",
        "V" => "void",
        class => return class.trim_start_matches('L').trim_end_matches(';').replace('/', ".") + &arrays,
    };
    name.to_owned() + &arrays
}

enum Constant<'a> {
    Text(&'a [u8]),
    Class(u16),
    /// A field or method: its class, its name and type.
    Member(u16, u16),
    NameAndType(u16, u16),
    Other,
}

struct Constants<'a>(Vec<Constant<'a>>);

impl<'a> Constants<'a> {
    fn text(&self, index: u16) -> Option<&'a [u8]> {
        match self.0.get(usize::from(index))? {
            Constant::Text(bytes) => Some(*bytes),
            _ => None,
        }
    }

    fn string(&self, index: u16) -> Option<String> {
        self.text(index).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn class(&self, index: u16) -> Option<String> {
        match self.0.get(usize::from(index))? {
            Constant::Class(name) => self.string(*name),
            _ => None,
        }
    }
}

/// From the beginning of a class file; leaves what stands behind the constants.
fn constants<'a>(reader: &mut Reader<'a>) -> Option<Constants<'a>> {
    if reader.u32()? != MAGIC {
        return None;
    }
    reader.bytes(4)?;
    let count = reader.u16()?;
    let mut constants = vec![Constant::Other];
    while constants.len() < usize::from(count) {
        let [tag] = *reader.bytes(1)? else { return None };
        constants.push(match tag {
            1 => {
                let length = reader.u16()?;
                Constant::Text(reader.bytes(length.into())?)
            }
            7 => Constant::Class(reader.u16()?),
            9..=11 => Constant::Member(reader.u16()?, reader.u16()?),
            12 => Constant::NameAndType(reader.u16()?, reader.u16()?),
            8 | 16 | 19 | 20 => reader.skip(2)?,
            15 => reader.skip(3)?,
            3 | 4 | 17 | 18 => reader.skip(4)?,
            5 | 6 => reader.skip(8)?,
            _ => return None,
        });
        if matches!(tag, 5 | 6) {
            // Long ones count twice.
            constants.push(Constant::Other);
        }
    }
    Some(Constants(constants))
}

/// What the class refers to. None: the file is damaged, or names of its constants are together many
/// times as long as the file.
pub(crate) fn references(bytes: &[u8]) -> Option<References> {
    let constants = constants(&mut Reader(bytes))?;
    let mut found = References::default();
    // A name may stand for thousands of classes.
    let mut room = bytes.len().saturating_mul(4);
    for constant in &constants.0 {
        let before = room;
        match constant {
            Constant::Class(name) => {
                let written = constants.string(*name)?;
                room = room.saturating_sub(written.len());
                // Of an array the class of its elements; those of numbers have none.
                let element = written.trim_start_matches('[');
                let class = match written.len() - element.len() {
                    0 => Some(element),
                    _ => element.strip_prefix('L').and_then(|name| name.strip_suffix(';')),
                };
                found.classes.extend(class.map(str::to_owned));
            }
            Constant::Member(class, name_and_type) => {
                let Constant::NameAndType(name, descriptor) = constants.0.get(usize::from(*name_and_type))? else {
                    return None;
                };
                let class = constants.class(*class)?;
                let name = constants.string(*name)?;
                let descriptor = constants.string(*descriptor)?;
                room = room.saturating_sub(class.len() + name.len() + descriptor.len());
                found.members.push(MemberReference { class, name, descriptor });
            }
            _ => {}
        }
        if room == 0 && before > 0 {
            return None;
        }
    }
    Some(found)
}

fn parse<'a>(reader: &mut Reader<'a>) -> Option<ClassFile<'a>> {
    let constants = constants(reader)?;
    let access = reader.u16()?;
    let name = constants.class(reader.u16()?).unwrap_or_default();
    let superclass = constants.class(reader.u16()?).map(|name| name.replace('/', "."));
    let count = reader.u16()?;
    let mut interfaces = Vec::new();
    for _ in 0..count {
        interfaces.extend(constants.class(reader.u16()?));
    }
    let text = |index: u16| constants.text(index);
    let fields = members(reader, &text)?;
    let methods = members(reader, &text)?;
    Some(ClassFile { access, name, interfaces, superclass, fields, methods })
}

/// Fields or methods.
fn members<'a>(reader: &mut Reader<'a>, text: &dyn Fn(u16) -> Option<&'a [u8]>) -> Option<Vec<Method<'a>>> {
    let count = reader.u16()?;
    let mut members = Vec::new();
    for _ in 0..count {
        let access = reader.u16()?;
        let name = text(reader.u16()?)?;
        let descriptor = text(reader.u16()?)?;
        for _ in 0..reader.u16()? {
            reader.u16()?;
            let length = reader.u32()?;
            reader.bytes(length as usize)?;
        }
        members.push(Method { access, name, descriptor });
    }
    Some(members)
}

/// What is left of the bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(&mut self, count: usize) -> Option<Constant<'a>> {
        self.bytes(count).map(|_| Constant::Other)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
}

/// Class files made by hand, for tests that have no compiler.
#[cfg(test)]
pub(crate) mod made {
    /// A class, and of it perhaps a member: its name and descriptor.
    pub type Reference<'a> = (&'a str, Option<(&'a str, &'a str)>);

    /// A public class that refers to these.
    pub fn referring(superclass: &str, references: &[Reference<'_>]) -> Vec<u8> {
        built(superclass, &[], references)
    }

    /// A public class that extends and implements these.
    pub fn extending(superclass: &str, interfaces: &[String]) -> Vec<u8> {
        built(superclass, interfaces, &[])
    }

    fn built(superclass: &str, interfaces: &[String], references: &[Reference<'_>]) -> Vec<u8> {
        let mut constants: Vec<Vec<u8>> = Vec::new();
        let mut add = |tag: u8, bytes: &[u8]| {
            constants.push([&[tag], bytes].concat());
            constants.len() as u16
        };
        let class = |add: &mut dyn FnMut(u8, &[u8]) -> u16, name: &str| {
            let text = add(1, &[&(name.len() as u16).to_be_bytes(), name.as_bytes()].concat());
            add(7, &text.to_be_bytes())
        };
        let superclass = class(&mut add, &superclass.replace('.', "/"));
        let interfaces: Vec<u16> = interfaces.iter().map(|name| class(&mut add, name)).collect();
        for (name, member) in references {
            let class = class(&mut add, name);
            if let Some((name, descriptor)) = member {
                let name = add(1, &[&(name.len() as u16).to_be_bytes(), name.as_bytes()].concat());
                let descriptor = add(1, &[&(descriptor.len() as u16).to_be_bytes(), descriptor.as_bytes()].concat());
                let both = add(12, &[name.to_be_bytes(), descriptor.to_be_bytes()].concat());
                add(10, &[class.to_be_bytes(), both.to_be_bytes()].concat());
            }
        }
        let mut out = 0xCAFE_BABE_u32.to_be_bytes().to_vec();
        out.extend_from_slice(&[0, 0, 0, 61]);
        out.extend_from_slice(&(constants.len() as u16 + 1).to_be_bytes());
        constants.iter().for_each(|constant| out.extend_from_slice(constant));
        let head = [super::PUBLIC, 0, superclass, interfaces.len() as u16];
        for half in head.into_iter().chain(interfaces).chain([0, 0]) {
            out.extend_from_slice(&half.to_be_bytes());
        }
        out
    }

    /// A class with these methods: access, name, descriptor.
    pub fn class(access: u16, superclass: &str, methods: &[(u16, &str, &str)]) -> Vec<u8> {
        let mut constants: Vec<Vec<u8>> = Vec::new();
        let mut text = |words: &str| {
            let mut constant = vec![1];
            constant.extend_from_slice(&(words.len() as u16).to_be_bytes());
            constant.extend_from_slice(words.as_bytes());
            constants.push(constant);
            constants.len() as u16
        };
        let superclass = text(&superclass.replace('.', "/"));
        let named: Vec<_> = methods.iter().map(|(access, name, kind)| [*access, text(name), text(kind)]).collect();
        constants.push([&[7][..], &superclass.to_be_bytes()].concat());
        let superclass = constants.len() as u16;
        let mut out = 0xCAFE_BABE_u32.to_be_bytes().to_vec();
        out.extend_from_slice(&[0, 0, 0, 61]);
        // A long one first, which counts twice.
        out.extend_from_slice(&(constants.len() as u16 + 3).to_be_bytes());
        constants.iter().for_each(|constant| out.extend_from_slice(constant));
        out.extend_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, 1]);
        for half in [access, 0, superclass, 0, 0, methods.len() as u16] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        for method in named {
            method.iter().for_each(|half| out.extend_from_slice(&half.to_be_bytes()));
            out.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 2, 9, 9]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_their_types_are_read() {
        let bytes = made::class(
            PUBLIC,
            "a.Base",
            &[
                (PUBLIC, "f", "(I[BLjava/lang/String;[[JZ)Ljava/math/BigDecimal;"),
                (PUBLIC | BRIDGE, "f", "()V"),
                (PUBLIC | STATIC, "g", "()V"),
                (0, "h", "()V"),
            ],
        );
        let class = ClassFile::parse(&bytes).unwrap();
        assert_eq!(class.superclass.as_deref(), Some("a.Base"));
        let methods: Vec<_> = class.methods("f").collect();
        assert_eq!(methods.len(), 1);
        let (types, result) = methods[0].types().unwrap();
        assert_eq!(types, ["I", "[B", "Ljava/lang/String;", "[[J", "Z"]);
        assert_eq!(sql_type(result), Some(SqlType::Decimal));
        assert_eq!((sql_type("[[J"), &*java_name("[[J"), &*java_name("[La/B;")), (None, "long[][]", "a.B[]"));
        assert_eq!((class.unusable("g"), class.unusable("h")), (Some("is static"), Some("is not public")));
    }

    /// A megabyte that would be eight gigabytes if each method had its name to itself.
    #[test]
    fn a_name_that_many_methods_share_is_there_once() {
        const METHODS: u16 = 60_000;
        let name = "n".repeat(60_000);
        let mut bytes = made::class(PUBLIC, "java.lang.Object", &[(PUBLIC, &name, "()I")]);
        let method = bytes.split_off(bytes.len() - 16);
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(&METHODS.to_be_bytes());
        bytes.extend(method.repeat(METHODS.into()));
        let class = ClassFile::parse(&bytes).unwrap();
        assert!(class.members(bytes.len() * 4).is_none());
        assert_eq!(class.methods(&name).count(), usize::from(METHODS));
        let first = class.methods(&name).next().unwrap();
        assert!(bytes.as_ptr_range().contains(&first.name.as_ptr()));
    }

    #[test]
    fn damaged_classes_are_refused_or_read_but_never_a_panic() {
        let bytes = made::class(PUBLIC, "java.lang.Object", &[(PUBLIC, "f", "(I)I")]);
        for end in 0..bytes.len() {
            assert!(ClassFile::parse(&bytes[..end]).is_err(), "cut at {end}");
        }
        for position in 0..bytes.len() {
            for bit in [1u8, 4, 0x80] {
                let mut other = bytes.clone();
                other[position] ^= bit;
                if let Ok(class) = ClassFile::parse(&other) {
                    let _ = class.methods("f").filter_map(Method::types).count();
                }
            }
        }
    }

    #[test]
    fn references_of_damaged_classes_are_refused_or_read_but_never_a_panic() {
        let bytes = made::referring("a.B", &[("a/C", Some(("f", "()V"))), ("[[La/D;", None), ("[J", None)]);
        let found = references(&bytes).unwrap();
        assert_eq!(found.classes, ["a/B", "a/C", "a/D"]);
        assert_eq!(found.members.len(), 1);
        for position in 0..bytes.len() {
            for bit in [1u8, 4, 0x80] {
                let mut other = bytes.clone();
                other[position] ^= bit;
                let _ = references(&other);
            }
        }
    }

    /// Names are copied for who asks: those that thousands of classes share, only up to a few times
    /// the file.
    #[test]
    fn a_name_that_many_references_share_is_not_copied_for_each() {
        let name = "n".repeat(60_000);
        let mut bytes = made::referring(&name, &[]);
        let behind = bytes.split_off(bytes.len() - 12);
        const CLASSES: u16 = 60_000;
        bytes[8..10].copy_from_slice(&(CLASSES + 3).to_be_bytes());
        bytes.extend([7, 0, 1].repeat(CLASSES.into()));
        bytes.extend(behind);
        assert!(references(&bytes).is_none());
    }
}
