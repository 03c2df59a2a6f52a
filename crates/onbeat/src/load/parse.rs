//! Parser for loads. An unknown name is refused with the nearest known one.

use std::str::FromStr;

use super::spec::{
    CATALOGUE, CatalogueEntry, DEFAULT_GROUPS, Load, LoadError, LoadPart, MOST_GROUPS,
};
use crate::near_word::nearest;

impl FromStr for Load {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let mut parts = Vec::new();
        let mut idle = false;
        let mut rest = Some(text);
        while let Some(here) = rest {
            // `run:` takes everything up to the end, including `+`.
            let (piece, behind) = match here.split_once('+') {
                Some(split) if !here.trim_start().starts_with("run:") => (split.0, Some(split.1)),
                _ => (here, None),
            };

            match piece.trim() {
                "" => return Err(LoadError::Empty(text.to_owned())),
                "idle" => idle = true,
                piece => parts.push(part(piece)?),
            }

            rest = behind;
            if idle && (rest.is_some() || !parts.is_empty()) {
                return Err(LoadError::IdleNotAlone);
            }
        }

        Self::from_parts(parts)
    }
}

fn part(piece: &str) -> Result<LoadPart, LoadError> {
    if let Some((name @ ("stress-ng" | "run"), what)) = piece.split_once(':') {
        let what = what.trim().to_owned();
        return Ok(if name == "run" { LoadPart::Run(what) } else { LoadPart::StressNg(what) });
    }

    let (name, value) = match piece.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (piece, None),
    };

    let plain = match (name, value) {
        ("cpu", None) => return Ok(LoadPart::Cpu { percent: 100 }),
        ("cpu", Some(share)) => return percent(share),
        ("sched", None) => return Ok(LoadPart::Sched { groups: DEFAULT_GROUPS }),
        ("sched", Some(groups)) => return number_of_groups(groups),
        ("paper", _) => LoadPart::Paper,
        ("disk", _) => LoadPart::Disk,
        ("network", _) => LoadPart::Network,
        ("memory", _) => LoadPart::Memory,
        ("walk", _) => LoadPart::Walk,
        // Refused with an example of what stands behind the colon.
        ("stress-ng", _) => return Ok(LoadPart::StressNg(String::new())),
        ("run", _) => return Ok(LoadPart::Run(String::new())),
        _ => return unknown(piece),
    };

    match value {
        None => Ok(plain),
        Some(value) => {
            Err(LoadError::TakesNoValue { name: name.to_owned(), value: value.to_owned() })
        }
    }
}

fn percent(share: &str) -> Result<LoadPart, LoadError> {
    let number = share.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
    match number {
        Some(percent @ 1..=100) => Ok(LoadPart::Cpu { percent }),
        _ => Err(LoadError::Share(share.to_owned())),
    }
}

fn number_of_groups(groups: &str) -> Result<LoadPart, LoadError> {
    match groups.parse() {
        Ok(groups @ 1..=MOST_GROUPS) => Ok(LoadPart::Sched { groups }),
        _ => Err(LoadError::Groups(groups.to_owned())),
    }
}

fn unknown<T>(typed: &str) -> Result<T, LoadError> {
    let name = typed.split(['=', ':']).next().unwrap_or(typed).to_lowercase();
    let nearest = nearest(&name, CATALOGUE.iter().map(CatalogueEntry::name));
    Err(LoadError::Unknown { typed: typed.to_owned(), nearest: nearest.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_load_or_a_sentence_and_never_a_panic(text in "\\PC{0,40}") {
            match text.parse::<Load>() {
                Ok(load) => prop_assert_eq!(load.to_string().parse::<Load>().unwrap(), load),
                Err(error) => prop_assert!(error.to_string().len() > 20),
            }
        }
    }

    #[test]
    fn an_unknown_load_names_the_nearest_and_lists_all() {
        for (typed, nearest) in [
            ("dsik", "disk"),
            ("papers", "paper"),
            ("netwrok", "network"),
            ("CPU", "cpu"),
            ("stressng:x", "stress-ng"),
        ] {
            let error = typed.parse::<Load>().unwrap_err();
            assert!(
                matches!(&error, LoadError::Unknown { nearest: Some(near), .. } if near == nearest),
                "{error}"
            );
            let message = error.to_string();
            assert!(message.contains(&format!("did you mean {nearest}?")), "{message}");
            assert!(CATALOGUE.iter().all(|entry| message.contains(entry.name())), "{message}");
        }

        let far = "xylophone".parse::<Load>().unwrap_err();
        assert!(matches!(far, LoadError::Unknown { nearest: None, .. }));
    }

    #[test]
    fn values_outside_their_range_are_refused_with_the_range() {
        for (typed, part) in [
            ("cpu=0%", "1% to 100%"),
            ("cpu=101%", "1% to 100%"),
            ("cpu=50", "1% to 100%"),
            ("sched=0", "1 to 1000"),
            ("sched=many", "1 to 1000"),
            ("disk=3", "takes no value"),
            ("disk+disk", "twice"),
            ("cpu+cpu=10%", "twice"),
            ("idle+disk", "combined"),
            ("disk+idle", "combined"),
            ("", "missing"),
            ("disk+", "missing"),
            ("run:", "run:make"),
            ("run", "run:make"),
            ("stress-ng: ", "stress-ng:--cpu"),
        ] {
            let message = typed.parse::<Load>().unwrap_err().to_string();
            assert!(message.contains(part), "{typed}: {message}");
        }
    }
}
