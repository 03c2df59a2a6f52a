//! Definitions in LCM's language (`.lcm`): a second front end to the types of this crate.
//!
//! A struct becomes a definition in the `.msg` language, so all generators and CDR serve it; an
//! array of several dimensions becomes one list, row by row. [`crate::LcmCodec`] has LCM's own encoding.

use std::collections::BTreeMap;

use super::definition::{Primitive, full_name};
use super::error::MessageError;
use super::type_set::TypeSet;
use super::words::{Language, Words};

/// The package of a struct without one: a type of ROS 2 has one.
const NO_PACKAGE: &str = "lcm";

/// Structs of LCM by the name of their type, `PACKAGE/msg/Name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LcmTypes {
    pub(super) structs: BTreeMap<String, LcmStruct>,
    /// Types that a file has and that cannot be used, with the reason: others of the file can.
    unusable: BTreeMap<String, MessageError>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LcmStruct {
    name: String,
    pub(super) members: Vec<LcmMember>,
    /// Lines of the `.msg` language.
    constants: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LcmMember {
    /// As it is written: the fingerprint has it.
    pub(super) name: String,
    /// As a type of ROS 2 can have it: in lower case.
    pub(super) field: String,
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
    /// Always this number, with its text, which is that of the constant if one is named: the fingerprint has it.
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
        let words = Words::new(text, Language::Lcm);
        let mut parser = LcmParser { words, package: NO_PACKAGE.to_owned(), values: Vec::new() };
        while !parser.words.are_over() {
            match parser.declaration() {
                Ok(None) => {}
                Ok(Some(of)) => {
                    self.unusable.remove(&of.name);
                    self.structs.insert(of.name.clone(), of);
                }
                Err((name, why)) => {
                    let error = parser.words.failed(file, text, why);
                    let name = name.filter(|_| parser.skip_struct());
                    self.unusable.insert(name.ok_or_else(|| error.clone())?, error);
                }
            }
        }
        // A file of which nothing can be used is a mistake.
        match self.unusable.values().next() {
            Some(why) if self.structs.is_empty() => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Returns the reason why a type, or one that it uses, cannot be used.
    pub(super) fn check(&self, name: &str) -> Result<(), MessageError> {
        let mut checked: Vec<&str> = Vec::new();
        let mut next = vec![name];
        while let Some(name) = next.pop() {
            if let Some(why) = self.unusable.get(name) {
                return Err(why.clone());
            }
            if checked.contains(&name) {
                continue;
            }
            checked.push(name);
            let members = self.structs.get(name).map_or(&[][..], |of| &of.members);
            next.extend(members.iter().filter_map(|member| match &member.of {
                LcmType::Struct(inner) => Some(inner.as_str()),
                _ => None,
            }));
        }
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
    /// As [`TypeSet::add`]. That a type is not complete is the error of its use.
    pub fn types(&self) -> Result<TypeSet, MessageError> {
        let mut types = TypeSet::default();
        self.add_to(&mut types)?;
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
            text.extend([member.of.msg_name(), &shape, " ", &member.field, "\n"]);
        }
        text.extend(self.constants.iter().map(|line| format!("{line}\n")));
        text
    }
}

/// The name of a member in a type of ROS 2: lower case, with `_` before a capital behind a small letter. Members
/// that would have one name are told apart by a number.
fn field_name(written: &str, of: &LcmStruct) -> String {
    lower_case(written, |name| of.members.iter().any(|other| other.field == name))
}

/// A name in lower case, as [`field_name`] describes it.
pub(super) fn lower_case(written: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = String::new();
    let mut last = '_';
    for letter in written.chars() {
        if letter.is_ascii_uppercase() && (last.is_ascii_lowercase() || last.is_ascii_digit()) {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
        last = letter;
    }
    let name = name.trim_start_matches(|first: char| !first.is_ascii_lowercase());
    let name = if name.is_empty() { "member" } else { name };
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

/// A whole number of a constant, decimal or hexadecimal.
fn whole(value: &str) -> Option<usize> {
    match value.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

/// Reads a file word by word.
struct LcmParser<'t> {
    words: Words<'t>,
    package: String,
    /// Constants of the struct that can be dimensions, with their values and these as written.
    values: Vec<(String, usize, String)>,
}

impl<'t> LcmParser<'t> {
    /// A package, or a struct; an error has the name of the struct that it is in.
    fn declaration(&mut self) -> Result<Option<LcmStruct>, (Option<String>, &'static str)> {
        let unnamed = |why| (None, why);
        match self.words.next() {
            "package" => {
                // A type of ROS 2 has one word here.
                self.package = self.name().map_err(unnamed)?.replace('.', "_");
                self.expect(";").map_err(unnamed)?;
                Ok(None)
            }
            "struct" => {
                let name = self.name().and_then(|name| self.full(name)).map_err(unnamed)?;
                let of = self.one_struct(name.clone());
                of.map(Some).map_err(|why| (Some(name), why))
            }
            "enum" => {
                let name = self.name().and_then(|name| self.full(name)).map_err(unnamed)?;
                Err((Some(name), "is an enum, which LCM has deprecated"))
            }
            _ => Err((None, "begins neither a package nor a struct")),
        }
    }

    /// Passes over the rest of a struct; returns whether it has an end.
    fn skip_struct(&mut self) -> bool {
        while !self.words.are_over() {
            // Within a struct is no other one.
            match self.words.peek() {
                "struct" | "package" => return false,
                "}" => {
                    self.words.at += 1;
                    return true;
                }
                _ => self.words.at += 1,
            }
        }
        false
    }

    fn one_struct(&mut self, name: String) -> Result<LcmStruct, &'static str> {
        self.values.clear();
        let mut of = LcmStruct { name, ..LcmStruct::default() };
        self.expect("{")?;
        while self.words.peek() != "}" {
            if self.words.peek() == "const" {
                self.words.at += 1;
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
            if name.contains(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
                return Err("has a name that is not of letters, digits and _");
            }
            if of.members.iter().any(|other| other.name == name) {
                return Err("has the name of an earlier member");
            }
            let dimensions = self.dimensions(of)?;
            of.members.push(LcmMember {
                name: name.to_owned(),
                field: field_name(name, of),
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
        while self.words.peek() == "[" {
            self.words.at += 1;
            let size = self.words.next();
            let is_whole = |member: &LcmMember| {
                let name = member.of.primitive_name().unwrap_or_default();
                member.dimensions.is_empty() && name.starts_with("int")
            };
            dimensions.push(match whole(size) {
                Some(0) => return Err("has a dimension of 0"),
                Some(count) => LcmDimension::Fixed(count, size.to_owned()),
                None if of.members.iter().any(|it| it.name == size && is_whole(it)) => {
                    LcmDimension::Member(size.to_owned())
                }
                None => match self.values.iter().find(|(name, ..)| name == size) {
                    Some((_, 0, _)) => return Err("has a dimension of 0"),
                    Some((_, count, text)) => LcmDimension::Fixed(*count, text.clone()),
                    None => {
                        return Err(
                            "has a dimension that is not a number, a constant or an earlier integer member",
                        );
                    }
                },
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
            let written = self.name()?;
            let name = written.to_uppercase();
            self.expect("=")?;
            let value = self.words.next();
            if let Some(count) = whole(value) {
                self.values.push((written.to_owned(), count, value.to_owned()));
            }
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

    fn name(&mut self) -> Result<&'t str, &'static str> {
        let word = self.words.next();
        let is_name = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        is_name.then_some(word).ok_or("has no name where one is needed")
    }

    fn expect(&mut self, wanted: &'static str) -> Result<(), &'static str> {
        match self.words.next() == wanted {
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
        match self.words.next() {
            "," => Ok(false),
            word if word == end => Ok(true),
            _ => Err("needs a semicolon or a comma"),
        }
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
            ("struct a {\n double x-y;\n}", "letters, digits"),
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
        types.add("own.lcm", "struct a { int8_t n; a more[2]; }").unwrap();
        let why = types.types().unwrap().used("lcm/a").unwrap_err().to_string();
        assert!(why.contains("contains itself"), "{why}");
    }

    #[test]
    fn names_have_their_capitals_in_the_fingerprint_and_lower_case_in_the_definition() {
        let mut types = LcmTypes::default();
        let text = "struct s { double leftTrigger, ButtonA; int32_t nX; float _v[nX], V; }";
        types.add("pad.lcm", text).unwrap();
        let text = types.types().unwrap().text("lcm/s").unwrap();
        let wanted =
            "float64 left_trigger\nfloat64 button_a\nint32 n_x\nfloat32[] v\nfloat32 v_2\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_constant_may_be_a_dimension_and_a_struct_hold_a_list_of_its_own() {
        let mut types = LcmTypes::default();
        let text = "struct tree_t { const int32_t W = 4, H = 0x2; int8_t grid[W][H]; int32_t n; tree_t b[n]; }";
        types.add("tree.lcm", text).unwrap();
        let text = types.types().unwrap().text("lcm/tree_t").unwrap();
        assert!(text.starts_with("int8[8] grid\nint32 n\nlcm/msg/tree_t[] b\n"), "{text}");
        crate::LcmCodec::new(&types, "lcm/tree_t").unwrap();
    }

    /// By the classes of lcm-gen 1.5.
    #[test]
    fn fingerprints_are_those_of_lcm_gen() {
        let mut types = LcmTypes::default();
        types.add("stick.lcm", "package trial; struct stick_t { int64_t utime; double leftTrigger; boolean ButtonA; }").unwrap();
        let tree = "package trial; struct tree_t { const int32_t WIDTH = 4; int8_t grid[WIDTH]; int32_t n; tree_t branches[n]; }";
        types.add("tree.lcm", tree).unwrap();
        let of = |name| crate::LcmCodec::new(&types, name).unwrap().fingerprint();
        assert_eq!(
            (of("trial/stick_t"), of("trial/tree_t")),
            (0x8e38_b44d_36e8_1e5f, 0x96e3_b2b7_d43d_f131)
        );
    }

    #[test]
    fn only_what_is_used_must_be_usable() {
        let mut types = LcmTypes::default();
        let text = "enum old_t { A = 0, B = 1 }\nstruct bad_t { map<int> x; }\nstruct good_t { int8_t x; }\nstruct user_t { bad_t b; missing_t m; }";
        types.add("some.lcm", text).unwrap();
        crate::LcmCodec::new(&types, "lcm/good_t").unwrap();
        let why = crate::LcmCodec::new(&types, "lcm/user_t").unwrap_err().to_string();
        assert!(why.starts_with("some.lcm, line 2: "), "{why}");
    }
}
