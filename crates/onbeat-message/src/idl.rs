//! Definitions in IDL (`.idl`), a third front end to the types of this crate: the subset that rosidl writes and
//! Fast DDS examples use. OMG IDL 4.2, <https://www.omg.org/spec/IDL/4.2/>.
//!
//! A struct becomes a definition in the `.msg` language. Modules, structs, typedefs, arrays, sequences, bounded texts,
//! constants, enums and bitmasks (32 bits in CDR, others by `@bit_bound`) and annotations are read; the names of an enum become
//! constants of the structs that use it. A type with anything else (`wchar`, unions, maps, sequences of sequences, inheritance,
//! `@optional`, `@mutable`) cannot be used, and says so when it is.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::Primitive;
use super::error::MessageError;
use super::lcm::lower_case;
use super::type_set::TypeSet;
use super::words::{Language, Words};

/// The package of a struct without a module.
const NO_MODULE: &str = "idl";
/// Operators by rank, those that bind least first (OMG IDL 4.2, 7.4.1.4.3); the rank of sums, and most parentheses.
static OPERATORS: [&[&str]; 6] =
    [&["|"], &["^"], &["&"], &["<", ">"], &["+", "-"], &["*", "/", "%"]];
const SUMS: usize = 4;
const MOST_DEPTH: usize = 32;
/// Names of a struct's members as they are written, and whether their elements are `char`.
type Noted = Vec<(String, bool)>;
const NOT_WHOLE: &str = "has a value that is not a whole number";

/// Structs of IDL by the name of their type, `PACKAGE/msg/Name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdlTypes {
    /// Texts in the `.msg` language.
    structs: BTreeMap<String, String>,
    /// Types that cannot be used, with the reason: others can.
    unusable: BTreeMap<String, MessageError>,
    /// Types that stand for another one, in the `.msg` language with its dimensions, by `PACKAGE/Name`.
    aliases: BTreeMap<String, (String, String)>,
    /// Constants that are whole numbers, and the names of enums.
    numbers: BTreeMap<String, i128>,
    /// Names of an enum, or of a typedef of it, as constants of the `.msg` language, by `PACKAGE/Name`.
    enumerators: BTreeMap<String, String>,
    /// What hashes have of the fields of a struct: [`TypeSet::note_idl`].
    noted: BTreeMap<String, Noted>,
    /// Constants of `NAME_Constants`, in the `.msg` language, by the type that they belong to.
    constants: BTreeMap<String, String>,
}

impl IdlTypes {
    /// Adds the types of a file.
    ///
    /// ```
    /// use onbeat_message::IdlTypes;
    ///
    /// let mut types = IdlTypes::default();
    /// types.add("Plan.idl", "module demo { module msg { struct Plan { sequence<double> speeds; long legs[2]; }; }; };")?;
    /// let mut set = onbeat_message::TypeSet::default();
    /// types.add_to(&mut set)?;
    /// assert_eq!(set.text("demo/msg/Plan")?, "float64[] speeds\nint32[2] legs\n");
    /// # Ok::<(), onbeat_message::MessageError>(())
    /// ```
    ///
    /// # Errors
    /// [`MessageError::Line`] with `file` and the line.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), MessageError> {
        let words = Words::new(text, Language::Idl);
        let (modules, enum_names) = (Vec::new(), Vec::new());
        let mut parser = IdlParser { words, modules, enum_names, types: self };
        while !parser.words.are_over() {
            parser.declaration().map_err(|why| parser.words.failed(file, text, why))?;
        }
        Ok(())
    }

    /// Adds the types of files, each with its text, in whatever order they are given.
    ///
    /// # Errors
    /// As [`IdlTypes::add`].
    pub fn add_all(&mut self, files: &[(String, String)]) -> Result<(), MessageError> {
        for _ in 1..files.len() {
            let before = self.clone();
            files.iter().try_for_each(|(file, text)| self.add(file, text))?;
            // Typedefs, enums and lengths of those that come later are known now.
            self.unusable.clear();
            self.constants.clear();
            if *self == before {
                break;
            }
        }
        files.iter().try_for_each(|(file, text)| self.add(file, text))
    }

    /// Adds the definitions of all usable types to a set.
    ///
    /// # Errors
    /// As [`TypeSet::add`].
    pub fn add_to(&self, types: &mut TypeSet) -> Result<(), MessageError> {
        self.structs.iter().try_for_each(|(name, text)| {
            let constants = self.constants.get(name).map_or("", String::as_str);
            types.add(name, &format!("{text}{constants}"))?;
            types.note_idl(name, self.noted.get(name).map_or(&[][..], Vec::as_slice));
            Ok(())
        })
    }

    /// Returns why types cannot be used, each with its name; a type that uses one of them is not complete.
    pub fn unusable(&self) -> impl Iterator<Item = &MessageError> {
        self.unusable.values()
    }
}

struct IdlParser<'t, 'o> {
    words: Words<'t>,
    modules: Vec<&'t str>,
    /// Names of the enums that the struct or typedef at hand uses.
    enum_names: Vec<String>,
    types: &'o mut IdlTypes,
}

impl<'t> IdlParser<'t, '_> {
    fn expect(&mut self, sign: &str, why: &'static str) -> Result<(), &'static str> {
        if self.words.next() == sign { Ok(()) } else { Err(why) }
    }

    fn declaration(&mut self) -> Result<(), &'static str> {
        let annotations = self.annotations()?;
        match self.words.next() {
            "module" => {
                let name = self.name()?;
                self.modules.push(name);
                self.expect("{", "has no { after the name of a module")
            }
            "}" => {
                self.modules.pop().ok_or("closes what was not opened")?;
                self.expect(";", "has no ; after }")
            }
            ";" => Ok(()),
            "const" => self.constant(),
            "typedef" => self.alias(),
            "struct" => {
                let name = self.words.peek();
                self.structure()?;
                let is_mutable = |it: &String| {
                    it == "mutable" || it.starts_with("extensibility") && it.contains("mutable")
                };
                if annotations.iter().any(is_mutable) {
                    self.cannot_use(name, "is mutable, which .msg does not have");
                }
                Ok(())
            }
            word @ ("enum" | "bitmask") => self.enumeration(&annotations, word == "bitmask"),
            "union" | "bitset" | "interface" | "valuetype" | "exception" | "native" => {
                let name = self.name()?;
                self.skip_block();
                self.cannot_use(name, "is neither a struct nor an enum");
                Ok(())
            }
            _ if annotations.iter().any(|it| it == "annotation") => {
                self.skip_block();
                Ok(())
            }
            _ => Err("begins none of module, struct, enum, typedef and const"),
        }
    }

    /// Passes over `@name` and `@name(...)`; returns their texts in lower case, such as `bit_bound(8)`.
    fn annotations(&mut self) -> Result<Vec<String>, &'static str> {
        let mut found = Vec::new();
        while self.words.peek() == "@" {
            self.words.at += 1;
            let begin = self.words.at;
            self.name()?;
            while self.words.peek() == "::" {
                self.words.at += 1;
                self.name()?;
            }
            if self.words.peek() == "(" {
                let mut depth = 0;
                loop {
                    depth += match self.words.next() {
                        "(" => 1,
                        ")" => -1,
                        _ => 0,
                    };
                    if depth == 0 {
                        break;
                    }
                    if self.words.are_over() {
                        return Err("has no ) after an annotation");
                    }
                }
            }
            let words = self.words.since(begin).take(self.words.at - begin);
            found.push(words.collect::<String>().to_ascii_lowercase());
        }
        Ok(found)
    }

    fn name(&mut self) -> Result<&'t str, &'static str> {
        let word = self.words.next();
        let is_name = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name { Ok(word) } else { Err("has no name where one is expected") }
    }

    /// The full name of a type of this module.
    fn full(&self, name: &str) -> String {
        full_within(&self.modules, &[name])
    }

    fn cannot_use(&mut self, name: &str, why: &'static str) {
        let full = self.full(name);
        let (type_name, line) = (full.clone(), self.words.line());
        let error = MessageError::Line { type_name, line, text: name.to_owned(), why };
        self.types.structs.remove(&full);
        self.types.unusable.insert(full, error);
    }

    fn skip_block(&mut self) {
        let mut depth = 0;
        while !self.words.are_over() {
            match self.words.next() {
                "{" => depth += 1,
                "}" => depth -= 1,
                ";" if depth == 0 => return,
                _ => {}
            }
        }
    }

    fn constant(&mut self) -> Result<(), &'static str> {
        // That of a typedef or an enum is the one it stands for.
        let kind = self.element().map(|kind| match self.types.aliases.get(&kind) {
            Some((element, _)) => element.clone(),
            None => kind,
        });
        let name = self.name()?;
        self.expect("=", "is a constant without a value")?;
        let begin = self.words.at;
        let others = ["bool", "float32", "float64"];
        let is_other = |kind: &str| others.contains(&kind) || kind.contains("string");
        let number = match &kind {
            Ok(kind) if !is_other(kind) => self.number(0, 0),
            _ => Err(NOT_WHOLE),
        };
        let number = number.ok().filter(|_| self.words.peek() == ";");
        let value = number.map_or_else(
            || {
                self.words.at = begin;
                self.words_of_value()
            },
            |number| number.to_string(),
        );
        self.expect(";", "has no ; after a constant")?;
        if let Some(number) = number {
            let full = self.full(name);
            self.types.numbers.insert(full, number);
        }
        // rosidl puts the constants of a message into a module NAME_Constants.
        let owner = self.modules.last().and_then(|module| module.strip_suffix("_Constants"));
        match (kind, owner) {
            (Ok(kind), Some(owner)) => self.add_constant(owner, &kind, name, &value),
            (Err(why), Some(_)) => self.cannot_use(name, why),
            (_, None) => {}
        }
        Ok(())
    }

    /// The value of a constant that is not a whole number.
    fn words_of_value(&mut self) -> String {
        let mut value = String::new();
        while self.words.peek() != ";" && !self.words.are_over() {
            let word = self.words.next();
            match word.strip_prefix('"') {
                // Texts one behind the other are one text.
                Some(more) if value.ends_with('"') => {
                    value.pop();
                    value.push_str(more);
                }
                // `L` begins a wide text or letter.
                _ if word == "L" && self.words.peek().starts_with(['"', '\'']) => {}
                _ => value.push_str(word),
            }
        }
        value
    }

    fn add_constant(&mut self, owner: &str, kind: &str, name: &str, value: &str) {
        // A constant has no bound.
        let kind = kind.split('<').next().unwrap_or_default();
        let value = match value {
            "TRUE" => "true",
            "FALSE" => "false",
            value => value,
        };
        let is_of_kind = match (kind, Primitive::from_name(kind)) {
            ("string" | "wstring" | "bool", _) => true,
            ("float32" | "float64", _) => value.parse::<f64>().is_ok(),
            (_, Some(_)) => value.parse::<i128>().is_ok(),
            (_, None) => false,
        };
        if !is_of_kind {
            self.cannot_use(name, "is a constant whose value is not a number of its type");
            return;
        }
        let module = self.modules.pop();
        let full = self.full(owner);
        self.modules.extend(module);
        let line = format!("{kind} {}={value}\n", name.to_ascii_uppercase());
        self.types.constants.entry(full).or_default().push_str(&line);
    }

    fn enumeration(&mut self, annotations: &[String], is_mask: bool) -> Result<(), &'static str> {
        let name = self.name()?;
        // DDS-XTypes 1.3, 7.3.1.2.1.2 and 7.3.1.2.1.9.
        let bits = match stated(annotations, "bit_bound") {
            Some(0..=8) => 8,
            Some(9..=16) => 16,
            Some(33..=64) => 64,
            _ => 32,
        };
        let short_name = short(&self.full(name));
        self.types.aliases.insert(short_name.clone(), (format!("uint{bits}"), String::new()));
        let begin = self.words.at;
        match self.enumerators(name, bits, is_mask) {
            Ok(text) => {
                self.types.enumerators.insert(short_name, text);
            }
            // Its values are numbers without names.
            Err(_) => {
                self.words.at = begin;
                self.skip_block();
            }
        }
        Ok(())
    }

    /// The names of an enum or a bitmask, as constants of the `.msg` language.
    fn enumerators(&mut self, of: &str, bits: u32, is_mask: bool) -> Result<String, &'static str> {
        self.expect("{", "has no { after the name of an enum")?;
        let (mut text, mut next) = (String::new(), 0_i128);
        let mut names: Vec<String> = Vec::new();
        loop {
            let annotations = self.annotations()?;
            if self.words.peek() == "}" {
                self.words.at += 1;
                return self.expect(";", "has no ; after an enum").map(|()| text);
            }
            let written = self.name()?;
            next = stated(&annotations, if is_mask { "position" } else { "value" }).unwrap_or(next);
            if self.words.peek() == "=" {
                self.words.at += 1;
                next = self.number(0, 0)?;
            }
            let bit = u32::try_from(next).ok().filter(|bit| *bit < bits);
            let value = match is_mask {
                true => 1_i128 << bit.ok_or(NOT_WHOLE)?,
                // As a field of this type is shown, which has no sign.
                false => next.rem_euclid(1_i128 << bits),
            };
            for full in [self.full(written), full_within(&self.modules, &[of, written])] {
                self.types.numbers.insert(full, value);
            }
            let name = lower_case(&format!("{of}_{written}"), |name| {
                names.iter().any(|other| other == name)
            });
            let line = format!("uint{bits} {}={value}\n", name.to_ascii_uppercase());
            text.push_str(&line);
            names.push(name);
            next = next.checked_add(1).ok_or(NOT_WHOLE)?;
            if self.words.peek() == "," {
                self.words.at += 1;
            }
        }
    }

    /// Others than one that cannot be read can be used.
    fn alias(&mut self) -> Result<(), &'static str> {
        let begin = self.words.at;
        let Err(why) = self.aliased() else { return Ok(()) };
        let words = self.words.since(begin);
        let end = begin + words.clone().position(|word| word == ";").ok_or(why)?;
        let name = words.take(end - begin).take_while(|word| *word != "[").last().ok_or(why)?;
        self.words.at = end + 1;
        self.cannot_use(name, why);
        Ok(())
    }

    fn aliased(&mut self) -> Result<(), &'static str> {
        self.enum_names.clear();
        let kind = self.field_type()?;
        let names = self.enum_names.concat();
        loop {
            let name = self.name()?;
            let dimensions = self.dimensions()?;
            let short_name = short(&self.full(name));
            self.types.enumerators.insert(short_name.clone(), names.clone());
            self.types.aliases.insert(short_name, joined(kind.clone(), &dimensions)?);
            match self.words.next() {
                "," => {}
                ";" => return Ok(()),
                _ => return Err("has no ; after a typedef"),
            }
        }
    }

    fn structure(&mut self) -> Result<(), &'static str> {
        let name = self.name()?;
        match self.words.next() {
            ";" => return Ok(()),
            "{" => {}
            _ => {
                self.skip_block();
                self.cannot_use(name, "inherits from another struct");
                return Ok(());
            }
        }
        let begin = self.words.at;
        self.enum_names.clear();
        match self.members() {
            Ok((mut text, noted)) => {
                text.push_str(&of_different_names(&std::mem::take(&mut self.enum_names)));
                let full = self.full(name);
                self.types.unusable.remove(&full);
                self.types.noted.insert(full.clone(), noted);
                self.types.structs.insert(full, text);
                self.expect(";", "has no ; after a struct")
            }
            Err(why) => {
                self.cannot_use(name, why);
                self.words.at = begin;
                let mut depth = 1;
                while depth > 0 && !self.words.are_over() {
                    depth += match self.words.next() {
                        "{" => 1,
                        "}" => -1,
                        _ => 0,
                    };
                }
                self.expect(";", "has no ; after a struct")
            }
        }
    }

    /// The members up to the end of their struct, in the `.msg` language, and what hashes have of them.
    fn members(&mut self) -> Result<(String, Noted), &'static str> {
        let (mut text, mut names, mut noted) = (String::new(), Vec::new(), Vec::new());
        loop {
            let annotations = self.annotations()?;
            if self.words.peek() == "}" {
                self.words.at += 1;
                return Ok((text, noted));
            }
            let is_optional = |it: &String| it.starts_with("optional") && !it.contains("false");
            if annotations.iter().any(is_optional) {
                return Err("has an optional member, which .msg does not have");
            }
            let stated = default_in(&annotations);
            let kind = self.field_type()?;
            loop {
                let written = self.name()?;
                let dimensions = self.dimensions()?;
                let (element, shape) = joined(kind.clone(), &dimensions)?;
                let name = lower_case(written, |name| names.iter().any(|other| other == name));
                // rosidl gives a struct without members one that is not a field.
                if name != "structure_needs_at_least_one_member" {
                    text.extend([&element, &shape, " ", &name].map(|part: &str| part));
                    // rosidl writes that of a list as a text.
                    let stated = stated.filter(|_| shape.is_empty());
                    text.extend(stated.map(|value| format!(" {value}")));
                    text.push('\n');
                    noted.push((written.to_owned(), element == "char"));
                }
                names.push(name);
                match self.words.next() {
                    "," => {}
                    ";" => break,
                    _ => return Err("has no ; after a member"),
                }
            }
        }
    }

    fn dimensions(&mut self) -> Result<Vec<usize>, &'static str> {
        let mut all = Vec::new();
        while self.words.peek() == "[" {
            self.words.at += 1;
            all.push(self.count(0)?);
            self.expect("]", "has no ] after a length")?;
        }
        Ok(all)
    }

    /// A length. In angle brackets it has operators from those of sums on: `>>` ends two types.
    fn count(&mut self, rank: usize) -> Result<usize, &'static str> {
        let count = self.number(rank, 0).ok().and_then(|count| usize::try_from(count).ok());
        count.filter(|count| *count > 0).ok_or("has a length that is not a number")
    }

    /// A whole number: operators of a rank, and those that bind more.
    fn number(&mut self, rank: usize, depth: usize) -> Result<i128, &'static str> {
        let Some(operators) = OPERATORS.get(rank) else { return self.operand(depth) };
        let mut left = self.number(rank + 1, depth)?;
        loop {
            let sign = self.words.peek();
            if !operators.contains(&sign) {
                return Ok(left);
            }
            self.words.at += 1;
            // That of a shift is two words.
            if ["<", ">"].contains(&sign) {
                self.expect(sign, NOT_WHOLE)?;
            }
            let right = self.number(rank + 1, depth)?;
            let bits = u32::try_from(right).ok().filter(|bits| *bits < 64);
            let value = match sign {
                "|" => Some(left | right),
                "^" => Some(left ^ right),
                "&" => Some(left & right),
                "<" => bits.and_then(|bits| left.checked_mul(1_i128 << bits)),
                ">" => bits.map(|bits| left >> bits),
                "+" => left.checked_add(right),
                "-" => left.checked_sub(right),
                "*" => left.checked_mul(right),
                "/" => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            left = value.ok_or(NOT_WHOLE)?;
        }
    }

    fn operand(&mut self, depth: usize) -> Result<i128, &'static str> {
        if depth > MOST_DEPTH {
            return Err(NOT_WHOLE);
        }
        let word = self.words.peek();
        let value = match word.chars().next() {
            Some('(') => {
                self.words.at += 1;
                let value = self.number(0, depth + 1)?;
                self.expect(")", NOT_WHOLE)?;
                return Ok(value);
            }
            Some(sign @ ('+' | '-' | '~')) => {
                self.words.at += 1;
                let value = self.operand(depth + 1)?;
                return match sign {
                    '+' => Ok(value),
                    '-' => value.checked_neg().ok_or(NOT_WHOLE),
                    _ => Ok(!value),
                };
            }
            Some('0'..='9') => integer(self.words.next()),
            Some('\'') => letter(self.words.next()).map(i128::from),
            _ => {
                let name = self.scoped(|types, full| types.numbers.contains_key(full))?;
                self.types.numbers.get(&name).copied()
            }
        };
        value.ok_or(NOT_WHOLE)
    }

    /// A type and its shape: `[]`, `[<=N]`, `[N]` or nothing.
    fn field_type(&mut self) -> Result<(String, String), &'static str> {
        if self.words.peek() != "sequence" {
            let element = self.element()?;
            if let Some(names) = self.types.enumerators.get(&element)
                && !self.enum_names.contains(names)
            {
                self.enum_names.push(names.clone());
            }
            let alias = self.types.aliases.get(&element);
            return Ok(alias.cloned().unwrap_or((element, String::new())));
        }
        self.words.at += 1;
        self.expect("<", "has no < after sequence")?;
        let nested = "is a sequence of sequences or arrays, which .msg does not have";
        if self.words.peek() == "sequence" {
            return Err(nested);
        }
        let (element, inner) = self.field_type()?;
        if !inner.is_empty() {
            return Err(nested);
        }
        let shape = match self.words.next() {
            ">" => "[]".to_owned(),
            "," => {
                let most = self.count(SUMS)?;
                self.expect(">", "has no > after a bound")?;
                format!("[<={most}]")
            }
            _ => return Err("has no > after the type of a sequence"),
        };
        Ok((element, shape))
    }

    /// A type without a shape, in the `.msg` language.
    fn element(&mut self) -> Result<String, &'static str> {
        let word = self.words.next();
        let plain = match word {
            "boolean" => "bool",
            "octet" => "byte",
            "char" => "char",
            "float" => "float32",
            "double" => "float64",
            "short" => "int16",
            "long" if self.words.peek() == "long" => {
                self.words.at += 1;
                "int64"
            }
            "long" if self.words.peek() == "double" => return Err("is a long double"),
            "long" => "int32",
            "unsigned" => match (self.words.next(), self.words.peek()) {
                ("short", _) => "uint16",
                ("long", "long") => {
                    self.words.at += 1;
                    "uint64"
                }
                ("long", _) => "uint32",
                _ => return Err("is an unsigned type that IDL does not have"),
            },
            "string" | "wstring" if self.words.peek() == "<" => {
                self.words.at += 1;
                let most = self.count(SUMS)?;
                self.expect(">", "has no > after a bound")?;
                return Ok(format!("{word}<={most}"));
            }
            "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64"
            | "string" | "wstring" => word,
            "wchar" | "map" | "any" | "fixed" => {
                return Err("is of a type that .msg does not have: wchar, map, any, fixed");
            }
            _ => {
                self.words.at -= 1;
                return self.named();
            }
        };
        Ok(plain.to_owned())
    }

    /// Another type: `Name`, `a::msg::Name` or `::a::Name`.
    fn named(&mut self) -> Result<String, &'static str> {
        let full = self.scoped(|types, full| {
            types.structs.contains_key(full)
                || types.unusable.contains_key(full)
                || types.aliases.contains_key(&short(full))
        })?;
        Ok(short(&full))
    }

    /// A name, with modules or without, as seen from this module outwards; the nearest one for what is not known here.
    fn scoped(
        &mut self,
        is_known: impl Fn(&IdlTypes, &str) -> bool,
    ) -> Result<String, &'static str> {
        let is_rooted = self.words.peek() == "::";
        self.words.at += usize::from(is_rooted);
        let mut parts = vec![self.name()?];
        while self.words.peek() == "::" {
            self.words.at += 1;
            parts.push(self.name()?);
        }
        let depth = if is_rooted { 0 } else { self.modules.len() };
        let types: &IdlTypes = self.types;
        let seen = |depth: usize| full_within(&self.modules[..depth], &parts);
        let known = (0..=depth).rev().map(seen).find(|full| is_known(types, full));
        Ok(known.unwrap_or_else(|| seen(if parts.len() > 1 { 0 } else { depth })))
    }
}

/// The constants of enums. Enums of two modules can have one name, and a class no two constants of it: those of the first one
/// are kept.
fn of_different_names(enums: &[String]) -> String {
    fn names(of: &str) -> impl Iterator<Item = &str> {
        let declared = of.lines().filter_map(|line| line.split_once('='));
        declared.filter_map(|(declared, _)| declared.rsplit(' ').next())
    }
    let (mut text, mut taken) = (String::new(), BTreeSet::new());
    for one in enums {
        if !names(one).any(|name| taken.contains(name)) {
            taken.extend(names(one));
            text.push_str(one);
        }
    }
    text
}

/// A whole number as it is written (OMG IDL 4.2, 7.2.6.1).
fn integer(word: &str) -> Option<i128> {
    let digits = word.to_ascii_lowercase();
    match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(digits), _) => i128::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) if !digits.is_empty() => i128::from_str_radix(digits, 8).ok(),
        _ => digits.parse().ok(),
    }
}

/// The number of an annotation, as in `bit_bound(8)` and `bit_bound(value=8)`.
fn stated(annotations: &[String], name: &str) -> Option<i128> {
    let inner = |it: &String| {
        let inner = it.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
        inner.rsplit('=').next().map(str::to_owned)
    };
    let number = annotations.iter().find_map(inner)?;
    match number.strip_prefix('-') {
        Some(digits) => integer(digits).map(|number| -number),
        None => integer(&number),
    }
}

/// The value of `@default`, if it is a number or a flag: others are in lower case here, or of no type of `.msg`.
fn default_in(annotations: &[String]) -> Option<&str> {
    annotations
        .iter()
        .find_map(|it| it.strip_prefix("default(")?.strip_suffix(')')?.rsplit('=').next())
        .filter(|it| ["true", "false"].contains(it) || it.parse::<f64>().is_ok())
}

/// The code of a letter in quotation marks (OMG IDL 4.2, 7.2.6.2).
fn letter(quoted: &str) -> Option<u8> {
    /// Letters behind a backslash, and what they stand for.
    const ESCAPED: [(u8, u8); 7] =
        [(b'n', 10), (b't', 9), (b'v', 11), (b'b', 8), (b'r', 13), (b'f', 12), (b'a', 7)];
    let inner = quoted.strip_prefix('\'')?.strip_suffix('\'')?;
    let digits = |from: usize, base| u8::from_str_radix(inner.get(from..)?, base).ok();
    match inner.as_bytes() {
        [one] => Some(*one),
        [b'\\', b'x', ..] => digits(2, 16),
        [b'\\', b'0'..=b'7', ..] => digits(1, 8),
        [b'\\', one] => {
            let known = ESCAPED.iter().find(|(name, _)| name == one);
            Some(known.map_or(*one, |(_, code)| *code))
        }
        _ => None,
    }
}

/// The full name of what these modules contain.
fn full_within(modules: &[&str], parts: &[&str]) -> String {
    let mut packages: Vec<&str> = modules.iter().chain(parts).copied().collect();
    let name = packages.pop().unwrap_or_default();
    packages.retain(|it| *it != "msg");
    let package = if packages.is_empty() { NO_MODULE.to_owned() } else { packages.join("_") };
    format!("{package}/msg/{name}")
}

fn short(full: &str) -> String {
    full.replace("/msg/", "/")
}

/// A type with the dimensions of its declarator.
fn joined(
    (element, shape): (String, String),
    dimensions: &[usize],
) -> Result<(String, String), &'static str> {
    if dimensions.is_empty() {
        return Ok((element, shape));
    }
    // An array of arrays becomes one, row by row; CDR has the same bytes.
    let inner = match shape.strip_prefix('[').and_then(|shape| shape.strip_suffix(']')) {
        None => 1,
        Some(count) => count
            .parse::<usize>()
            .map_err(|_| "is an array of sequences, which .msg does not have")?,
    };
    let count = dimensions.iter().try_fold(inner, |all, count| all.checked_mul(*count));
    Ok((element, format!("[{}]", count.ok_or("has more elements than can be counted")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(idl: &str, name: &str) -> String {
        let mut types = IdlTypes::default();
        types.add("a.idl", idl).unwrap();
        let mut set = TypeSet::default();
        types.add_to(&mut set).unwrap();
        set.text(name).unwrap()
    }

    #[test]
    fn files_can_come_in_any_order() {
        let own = "module a { module S_Constants { const long K = 5; }; \
                   struct S { b::E e; octet d[b::N]; b::O o; }; };";
        let used = "module b { const long N = 2; @bit_bound(8) enum E { X }; typedef double O; };";
        for texts in [[own, used], [used, own]] {
            let mut types = IdlTypes::default();
            types.add_all(&texts.map(|text| ("a.idl".to_owned(), text.to_owned()))).unwrap();
            assert_eq!(types.unusable().count(), 0);
            let mut set = TypeSet::default();
            types.add_to(&mut set).unwrap();
            let text = set.text("a/msg/S").unwrap();
            assert!(text.starts_with("uint8 e\nbyte[2] d\nfloat64 o\n"), "{text}");
            assert_eq!(text.matches("K=5").count(), 1, "{text}");
        }

        let constants = [("a", "b::N"), ("b", "c::N"), ("c", "2")].map(|(module, number)| {
            let text = format!(
                "module {module} {{ const long N = {number}; struct S {{ octet d[N]; }}; }};"
            );
            (format!("{module}.idl"), text)
        });
        let mut types = IdlTypes::default();
        types.add_all(&constants).unwrap();
        assert_eq!(types.unusable().count(), 0);
    }

    #[test]
    fn what_rosidl_writes_is_the_type_it_was_written_from() {
        let idl = r#"
// generated from rosidl_adapter/resource/msg.idl.em
#include "std_msgs/msg/Header.idl"
module nav { module msg {
    typedef double double__36[36];
    module Pose_Constants {
      @verbatim (language="comment", text="a (strange); \"comment\"")
      const octet KIND = 3;
      const char LETTER = 'A'; const char QUOTE = '\''; const char LAST = '\x7a';
      const wstring NOTE = L"a \"" "b";
    };
    @verbatim (language="comment", text=
      "Two lines;" "\n" "of it }")
    struct Pose {
      std_msgs::msg::Header header;
      @default (value=0.5) @unit (value="m")
      double__36 covariance;
      sequence<uint8> data;
      sequence<string<8>, 10> names;
      string<20> text;
      unsigned long long stamp; boolean on;
      Inner inner;
      sequence<Inner, 3> few;
    };
    struct Inner { float x, y[2][3]; };
}; };
module std_msgs { module msg { struct Header { string frame_id; }; }; };
"#;
        let wanted = "std_msgs/Header header\nfloat64[36] covariance\nuint8[] data\nstring<=8[<=10] names\n\
                      string<=20 text\nuint64 stamp\nbool on\nnav/Inner inner\nnav/Inner[<=3] few\nbyte KIND=3\n\
                      char LETTER=65\nchar QUOTE=39\nchar LAST=122\nwstring NOTE=\"a \\\"b\"\n";
        let text = text_of(idl, "nav/msg/Pose");
        assert!(text.starts_with(wanted), "{text}");
        assert!(text.contains("MSG: nav/Inner\nfloat32 x\nfloat32[6] y\n"), "{text}");
    }

    #[test]
    fn what_fast_dds_examples_use_is_read_and_the_rest_is_named_when_it_is_used() {
        let idl = "const long MOST = 4;\nenum Color { RED, GREEN };\n\
                   struct Shape { @key string color; long shapeSize; Color fill; long grid[MOST]; };\n\
                   struct Wide { wchar w; };\n\
                   struct Text { wstring w; sequence<wstring<9>, 2> more; };\nunion U switch (long) { case 1: long a; };\n\
                   struct Child : Shape { long more; };\nstruct Last { char c; };";
        let shape = "string color\nint32 shape_size\nuint32 fill\nint32[4] grid\n\
                     uint32 COLOR_RED=0\nuint32 COLOR_GREEN=1\n";
        assert_eq!(text_of(idl, "idl/msg/Shape"), shape);
        assert_eq!(text_of(idl, "idl/msg/Last"), "char c\n");
        assert_eq!(text_of(idl, "idl/msg/Text"), "wstring w\nwstring<=9[<=2] more\n");
        let mut types = IdlTypes::default();
        types.add("a.idl", idl).unwrap();
        let named: Vec<String> = types.unusable().map(ToString::to_string).collect();
        assert_eq!(named.len(), 3, "{named:?}");
        for (name, why) in [("Wide", "wchar"), ("U", "neither a struct"), ("Child", "inherits")] {
            let is_named =
                |it: &String| it.contains(&format!("idl/msg/{name}")) && it.contains(why);
            assert!(named.iter().any(is_named), "{name}: {named:?}");
        }
        for wrong in [
            "struct",
            "struct A { long",
            "module a {} ",
            "x",
            "const long A;",
            "struct A { long a[0]; };x",
        ] {
            let mut types = IdlTypes::default();
            assert!(types.add("a.idl", wrong).is_err(), "{wrong}");
        }
    }

    /// Their bytes are others than those of the members alone.
    #[test]
    fn annotations_that_change_the_encoding_are_heeded() {
        let idl = "@bit_bound(8) enum Mode { OFF, ON };\n@bit_bound(value=16) enum Kind { A };\n\
                   bitmask Flags { @position(0) LOW, @position(31) HIGH }; @bit_bound(64) bitmask Wide { A };\n\
                   struct State { Mode mode; @optional(FALSE) Kind kind; Flags flags; Wide wide; };\n\
                   struct Maybe { long a; @optional long b; };\n@mutable struct Free { long a; };\n\
                   @extensibility(MUTABLE) struct Freer { long a; };\n\
                   @verbatim(language=\"comment\", text=\"mutable\") @appendable struct Plain { long a; };";
        let state = "uint8 mode\nuint16 kind\nuint32 flags\nuint64 wide\n\
                     uint8 MODE_OFF=0\nuint8 MODE_ON=1\nuint16 KIND_A=0\nuint32 FLAGS_LOW=1\n\
                     uint32 FLAGS_HIGH=2147483648\nuint64 WIDE_A=1\n";
        assert_eq!(text_of(idl, "idl/msg/State"), state);
        assert_eq!(text_of(idl, "idl/msg/Plain"), "int32 a\n");
        let mut types = IdlTypes::default();
        types.add("a.idl", idl).unwrap();
        let named: Vec<String> = types.unusable().map(ToString::to_string).collect();
        assert_eq!(named.len(), 3, "{named:?}");
        for (why, count) in [("is mutable", 2), ("has an optional member", 1)] {
            assert_eq!(named.iter().filter(|it| it.contains(why)).count(), count, "{named:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_nearest_module_that_has_them() {
        let idl = "module acme {\n module base { const long N = 0x3; typedef double Time; struct Id { octet raw; }; };\n\
                   module nav { const long N = 6; struct Time { long sec; };\n\
                   struct Fix { base::Id id; Time at; base::Time own; double a[base::N], b[N]; }; };\n\
                   module nav { module deep { const long M = N; struct Low { Fix fix; double c[M]; }; }; };\n};";
        let fix = "acme_base/Id id\nacme_nav/Time at\nfloat64 own\nfloat64[3] a\nfloat64[6] b\n";
        let text = text_of(idl, "acme_nav/msg/Fix");
        assert!(text.starts_with(fix), "{text}");
        let text = text_of(idl, "acme_nav_deep/msg/Low");
        assert!(text.starts_with("acme_nav/Fix fix\nfloat64[6] c\n"), "{text}");
    }

    #[test]
    fn a_typedef_that_cannot_be_read_is_no_obstacle_to_the_others() {
        let idl = "typedef sequence<sequence<double>> Grid;\ntypedef map<string, long> Names[2];\n\
                   typedef long Count;\nstruct Fine { Count n; };\nstruct Coarse { Grid grid; };";
        assert_eq!(text_of(idl, "idl/msg/Fine"), "int32 n\n");
        let mut types = IdlTypes::default();
        types.add("a.idl", idl).unwrap();
        let named: Vec<String> = types.unusable().map(ToString::to_string).collect();
        assert_eq!(named.len(), 2, "{named:?}");
        for (name, why) in [("Grid", "sequence of sequences"), ("Names", "map")] {
            let is_named =
                |it: &String| it.contains(&format!("idl/msg/{name}")) && it.contains(why);
            assert!(named.iter().any(is_named), "{name}: {named:?}");
        }
        for wrong in ["typedef long", "typedef ;"] {
            assert!(IdlTypes::default().add("a.idl", wrong).is_err(), "{wrong}");
        }
        let deep = format!("typedef {}", "sequence<".repeat(1 << 16));
        assert!(IdlTypes::default().add("a.idl", &deep).is_err());
    }

    #[test]
    fn constants_are_computed_and_enums_have_names() {
        let idl = "const long BASE = 2 * 8 - 010; const long MASK = ~(1 << 2) & 0xF | 'A' ^ 'A';\n\
                   enum Light { kRed, @value(5) GREEN, Blue, @value(-1) NONE };\n\
                   typedef Light Lamps[2];\n\
                   module a { module msg { module S_Constants {\n\
                   const unsigned long TWICE = 2 * BASE; const Light FIRST = GREEN; const double HALF = -.5;\n\
                   const double TWO = 4 / 2; const string<4> NOTE = \"a\"; };\n\
                   struct S { octet a[BASE | 1]; sequence<string<MASK-1>> b; Lamps lamps;\n\
                   @default(value=-0.5) double gain; @default(TRUE) boolean on; @default(GREEN) Light light; }; }; };";
        let wanted = "byte[9] a\nstring<=10[] b\nuint32[2] lamps\nfloat64 gain -0.5\nbool on true\nuint32 light\n\
                      uint32 LIGHT_K_RED=0\nuint32 LIGHT_GREEN=5\nuint32 LIGHT_BLUE=6\n\
                      uint32 LIGHT_NONE=4294967295\n\
                      uint32 TWICE=16\nuint32 FIRST=5\nfloat64 HALF=-.5\nstring NOTE=\"a\"\n";
        assert_eq!(text_of(idl, "a/msg/S"), wanted);
        let mut types = IdlTypes::default();
        types.add("a.idl", idl).unwrap();
        let named: Vec<String> = types.unusable().map(ToString::to_string).collect();
        assert!(named.len() == 1 && named[0].contains("`TWO` is a constant"), "{named:?}");
        for wrong in ["1 / 0", "1 << 64", "0x", "08", "1 +", "(1", "NAME", "9 9", "1 < 2"] {
            let idl = format!("const long N = {wrong}; struct A {{ long a[N]; }};");
            let mut types = IdlTypes::default();
            types.add("a.idl", &idl).unwrap();
            assert_eq!(types.unusable().count(), 1, "{wrong}");
        }
        let deep = format!("const long N = {}1;", "(".repeat(1 << 16));
        IdlTypes::default().add("a.idl", &deep).unwrap();
    }

    #[test]
    fn of_enums_with_one_name_in_two_modules_the_first_one_gives_constants() {
        let idl = "module motor { enum Mode { OFF, ON }; }; module supply { enum Mode { OFF, LOW, ON }; };\n\
                   struct S { motor::Mode a; supply::Mode b; };";
        let wanted = "uint32 a\nuint32 b\nuint32 MODE_OFF=0\nuint32 MODE_ON=1\n";
        assert_eq!(text_of(idl, "idl/msg/S"), wanted);
    }

    /// As ROS 2 has published it for `std_msgs/msg/Byte`, whose field is an octet in IDL.
    /// The second one is SHA-256 of its description, in which a `char` has number 13 and names keep their capitals.
    #[test]
    fn hashes_are_those_of_the_types_in_idl() {
        for (name, member, wanted) in [
            ("Byte", "octet data", [0x41, 0xe1, 0xa3, 0x34]),
            ("Letters", "sequence<char> inUse", [0x22, 0x81, 0x89, 0xff]),
        ] {
            let idl =
                format!("module std_msgs {{ module msg {{ struct {name} {{ {member}; }}; }}; }};");
            let mut types = IdlTypes::default();
            types.add("a.idl", &idl).unwrap();
            let mut set = TypeSet::default();
            types.add_to(&mut set).unwrap();
            let hash = set.hash(&format!("std_msgs/msg/{name}")).unwrap();
            assert_eq!(hash[..4], wanted, "{name}");
        }
    }

    #[test]
    fn what_is_no_type_of_a_member_is_passed_over() {
        let idl = "@annotation Unit { string value default \"m\"; };\nexception Fault { string why; };\n\
                   native Handle;\ninterface Api { void set(in long x); };\ntypedef long Count, Pair[2];\n\
                   struct Fine { @range(min=(-1), max=2) Count n; Pair pair; };";
        assert_eq!(text_of(idl, "idl/msg/Fine"), "int32 n\nint32[2] pair\n");
        for wrong in ["@a(", "@a((1) struct A { long a; };"] {
            assert!(IdlTypes::default().add("a.idl", wrong).is_err(), "{wrong}");
        }
    }
}
