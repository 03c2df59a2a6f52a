//! Definitions in LCM's language (`.lcm`): a second front end to the types of this crate.
//!
//! A struct becomes a definition in the `.msg` language, so all generators and CDR serve it; an
//! array of several dimensions becomes one list, row by row. [`crate::LcmCodec`] has LCM's own encoding.

use std::collections::BTreeMap;

use super::definition::{Primitive, full_name};
use super::error::MessageError;
use super::lcm_words::{LcmWord, words};
use super::type_set::TypeSet;

/// The package of a struct without one: a type of ROS 2 has one.
const NO_PACKAGE: &str = "lcm";

/// Structs of LCM by the name of their type, `PACKAGE/msg/Name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LcmTypes {
    pub(super) structs: BTreeMap<String, LcmStruct>,
}

/// A struct of LCM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LcmStruct {
    name: String,
    pub(super) members: Vec<LcmMember>,
    /// Lines of the `.msg` language.
    constants: Vec<String>,
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LcmMember {
    pub(super) name: String,
    pub(super) of: LcmType,
    pub(super) dimensions: Vec<LcmDimension>,
}

/// Type of a member, or of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LcmType {
    Number(Primitive),
    Text,
    Struct(String),
}

/// Number of elements in one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LcmDimension {
    /// Always this number, with its text: the fingerprint has it.
    Fixed(usize, String),
    /// The value of an earlier member.
    Member(String),
}

/// LCM's primitive types but `string`.
const NUMBERS: [(&str, Primitive); 8] = [
    ("int8_t", Primitive::Int8),
    ("int16_t", Primitive::Int16),
    ("int32_t", Primitive::Int32),
    ("int64_t", Primitive::Int64),
    ("byte", Primitive::Uint8),
    ("float", Primitive::Float32),
    ("double", Primitive::Float64),
    ("boolean", Primitive::Bool),
];

impl LcmType {
    /// Returns LCM's name of a primitive type; `None` for a struct.
    pub(super) fn primitive_name(&self) -> Option<&'static str> {
        match self {
            Self::Number(number) => {
                NUMBERS.iter().find(|(_, known)| known == number).map(|(name, _)| *name)
            }
            Self::Text => Some("string"),
            Self::Struct(_) => None,
        }
    }

    fn msg_name(&self) -> &str {
        match self {
            Self::Number(number) => number.name(),
            Self::Text => "string",
            Self::Struct(name) => name,
        }
    }
}

impl LcmTypes {
    /// Adds the structs of a file.
    ///
    /// ```
    /// use onbeat_message::LcmTypes;
    ///
    /// let mut types = LcmTypes::default();
    /// types.add("plan.lcm", "package demo;\nstruct plan_t { int32_t n; double speeds[n]; }\n")?;
    /// let text = types.types()?.text("demo/msg/plan_t")?;
    /// assert_eq!(text, "int32 n\nfloat64[] speeds\n");
    /// # Ok::<(), onbeat_message::MessageError>(())
    /// ```
    ///
    /// # Errors
    /// [`MessageError::Line`] with `file` and the line.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), MessageError> {
        let mut parser = LcmParser { words: words(text), at: 0, package: NO_PACKAGE.to_owned() };
        let added = parser.file();
        let added = added.map_err(|why| parser.failed(file, text, why))?;
        self.structs.extend(added.into_iter().map(|of| (of.name.clone(), of)));
        Ok(())
    }

    /// Returns the names of all types.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.structs.keys().map(String::as_str)
    }

    /// Adds the definitions of all types to a set.
    ///
    /// # Errors
    /// As [`TypeSet::add`].
    pub fn add_to(&self, types: &mut TypeSet) -> Result<(), MessageError> {
        self.structs.iter().try_for_each(|(name, of)| types.add(name, &of.msg_text()))
    }

    /// Returns the same types as definitions of the `.msg` language.
    ///
    /// # Errors
    /// [`MessageError`] for a type that is not defined, or contains itself.
    pub fn types(&self) -> Result<TypeSet, MessageError> {
        let mut types = TypeSet::default();
        self.add_to(&mut types)?;
        self.names().try_for_each(|name| types.used(name).map(|_| ()))?;
        Ok(types)
    }
}

impl LcmStruct {
    fn msg_text(&self) -> String {
        let mut text = String::new();
        for member in &self.members {
            let fixed = member.dimensions.iter().map(|of| match of {
                LcmDimension::Fixed(count, _) => Some(*count),
                LcmDimension::Member(_) => None,
            });
            let shape = match (member.dimensions.len(), fixed.product::<Option<usize>>()) {
                (0, _) => String::new(),
                (_, Some(count)) => format!("[{count}]"),
                (_, None) => "[]".to_owned(),
            };
            text.extend([member.of.msg_name(), &shape, " ", &member.name, "\n"]);
        }
        text.extend(self.constants.iter().map(|line| format!("{line}\n")));
        text
    }
}

/// Reads a file word by word.
struct LcmParser<'t> {
    words: Vec<LcmWord<'t>>,
    at: usize,
    package: String,
}

impl<'t> LcmParser<'t> {
    fn file(&mut self) -> Result<Vec<LcmStruct>, &'static str> {
        let mut structs = Vec::new();
        while self.at < self.words.len() {
            match self.next() {
                "package" => {
                    // A type of ROS 2 has one word here.
                    self.package = self.name()?.replace('.', "_");
                    self.expect(";")?;
                }
                "struct" => structs.push(self.one_struct()?),
                _ => return Err("begins neither a package nor a struct"),
            }
        }
        Ok(structs)
    }

    fn one_struct(&mut self) -> Result<LcmStruct, &'static str> {
        let name = self.name()?;
        let name = self.full(name)?;
        let mut of = LcmStruct { name, ..LcmStruct::default() };
        self.expect("{")?;
        while self.peek() != "}" {
            if self.peek() == "const" {
                self.at += 1;
                self.constants(&mut of)?;
            } else {
                self.members(&mut of)?;
            }
        }
        self.expect("}")?;
        Ok(of)
    }

    /// `TYPE NAME[N][M], NAME;`
    fn members(&mut self, of: &mut LcmStruct) -> Result<(), &'static str> {
        let word = self.name()?;
        let number = NUMBERS.iter().find(|(name, _)| *name == word);
        let member_type = match number {
            Some((_, number)) => LcmType::Number(*number),
            None if word == "string" => LcmType::Text,
            None => LcmType::Struct(self.full(word)?),
        };

        loop {
            let name = self.name()?;
            let is_lower = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
            if !name.starts_with(|first: char| first.is_ascii_lowercase())
                || !name.chars().all(|letter| is_lower(letter) || letter == '_')
            {
                return Err("has a name that is not in lower case, which a type of ROS 2 needs");
            }
            if of.members.iter().any(|other| other.name == name) {
                return Err("has the name of an earlier member");
            }
            let dimensions = self.dimensions(of)?;
            of.members.push(LcmMember {
                name: name.to_owned(),
                of: member_type.clone(),
                dimensions,
            });
            if self.next_is(";")? {
                return Ok(());
            }
        }
    }

    fn dimensions(&mut self, of: &LcmStruct) -> Result<Vec<LcmDimension>, &'static str> {
        let mut dimensions = Vec::new();
        while self.peek() == "[" {
            self.at += 1;
            let size = self.next();
            let is_whole = |member: &LcmMember| {
                let name = member.of.primitive_name().unwrap_or_default();
                member.dimensions.is_empty() && name.starts_with("int")
            };
            dimensions.push(match size.parse() {
                Ok(count @ 1..) => LcmDimension::Fixed(count, size.to_owned()),
                Ok(0) => return Err("has a dimension of 0"),
                Err(_) if of.members.iter().any(|it| it.name == size && is_whole(it)) => {
                    LcmDimension::Member(size.to_owned())
                }
                Err(_) => {
                    return Err(
                        "has a dimension that is not a number or an earlier integer member",
                    );
                }
            });
            self.expect("]")?;
        }
        Ok(dimensions)
    }

    /// `TYPE NAME = VALUE, NAME = VALUE;`
    fn constants(&mut self, of: &mut LcmStruct) -> Result<(), &'static str> {
        let word = self.name()?;
        let number = NUMBERS.iter().find(|(name, _)| *name == word);
        let (_, number) = number.ok_or("is a constant of a type that has none")?;
        loop {
            let name = self.name()?.to_uppercase();
            self.expect("=")?;
            let value = self.next();
            of.constants.push(format!("{} {name}={value}", number.name()));
            if self.next_is(";")? {
                return Ok(());
            }
        }
    }

    /// The name of a type: `PACKAGE.NAME`, or a name of this package.
    fn full(&self, word: &str) -> Result<String, &'static str> {
        let (package, name) = word.rsplit_once('.').unwrap_or((&self.package, word));
        full_name(&format!("{}/{name}", package.replace('.', "_")))
            .map_err(|_| "is not the name of a type")
    }

    fn peek(&self) -> &'t str {
        self.words.get(self.at).map_or("", |word| word.text)
    }

    fn next(&mut self) -> &'t str {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn name(&mut self) -> Result<&'t str, &'static str> {
        let word = self.next();
        let is_name = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        is_name.then_some(word).ok_or("has no name where one is needed")
    }

    fn expect(&mut self, wanted: &'static str) -> Result<(), &'static str> {
        match self.next() == wanted {
            true => Ok(()),
            false => Err(match wanted {
                ";" => "needs a semicolon",
                "{" | "}" => "needs a brace",
                "]" => "needs a bracket",
                _ => "needs an equals sign",
            }),
        }
    }

    /// Returns whether a list ends here; a comma continues it.
    fn next_is(&mut self, end: &str) -> Result<bool, &'static str> {
        match self.next() {
            "," => Ok(false),
            word if word == end => Ok(true),
            _ => Err("needs a semicolon or a comma"),
        }
    }

    /// The error at the last word that was read.
    fn failed(&self, file: &str, text: &str, why: &'static str) -> MessageError {
        let last = self.words.get(self.at.saturating_sub(1)).or(self.words.last());
        let line = last.map_or(1, |word| word.line);
        let shown = text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        MessageError::Line { type_name: file.to_owned(), line, text: shown, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_becomes_a_definition() {
        let mut types = LcmTypes::default();
        let text = "package my.robot; // one\nstruct inner_t { byte b; }\n/* struct no_t { } */\n\
            struct plan_t {\n int16_t n, m;\n boolean on; string words[2][3];\n float grid[n][m];\n\
            my.robot.inner_t one; inner_t many[m];\n const int32_t A = 1, B_2 = -0x10;\n}\n";
        types.add("plan.lcm", text).unwrap();
        let text = types.types().unwrap().text("my_robot/plan_t").unwrap();
        let own = text.split("===").next().unwrap();
        assert_eq!(
            own,
            "int16 n\nint16 m\nbool on\nstring[6] words\nfloat32[] grid\nmy_robot/msg/inner_t one\n\
             my_robot/msg/inner_t[] many\nint32 A=1\nint32 B_2=-0x10\n"
        );
    }

    #[test]
    fn a_wrong_line_is_reported_with_file_and_number() {
        for (wrong, why) in [
            ("struct a {\n double X;\n}", "lower case"),
            ("struct a {\n double x[n];\n}", "dimension"),
            ("struct a {\n double n; int8_t x[n];\n}", "dimension"),
            ("struct a {\n int8_t x[0];\n}", "dimension of 0"),
            ("struct a {\n int8_t x\n}", "semicolon"),
            ("struct a\n int8_t x;\n}", "brace"),
            ("struct a {\n int8_t x; int8_t x;\n}", "earlier member"),
            ("package demo;\n int8_t x;", "neither"),
            ("struct a {\n const string X = 1;\n}", "constant"),
        ] {
            let error = LcmTypes::default().add("bad.lcm", wrong).unwrap_err().to_string();
            assert!(error.starts_with("bad.lcm, line ") && error.contains(why), "{error}");
        }

        let mut types = LcmTypes::default();
        types.add("own.lcm", "struct a { int8_t n; a more[n]; }").unwrap();
        assert!(types.types().unwrap_err().to_string().contains("contains itself"));
    }
}
