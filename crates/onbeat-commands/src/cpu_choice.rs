//! The CPUs of `--cpus`: a list or `all`, met in full or refused.

use std::fs;
use std::str::FromStr;

use onbeat_host::machine::online_cpus;
use onbeat_host::thread::may_run_on;
use onbeat_tune::CpuList;

use crate::failure::cpus::CpusFailure;

/// The CPUs asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuChoice {
    /// Every CPU that this process may use.
    All,
    Listed(CpuList),
}

impl FromStr for CpuChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "all" => Ok(Self::All),
            "" => Err("no CPU is listed; write 1-3, 0,2 or all".to_owned()),
            it => it.parse::<CpuList>().map(Self::Listed).map_err(|why| format!("{why}, or all")),
        }
    }
}

/// Which CPUs there are, and which of them this process may use.
pub struct MachineCpus<'m> {
    present: CpuList,
    online: CpuList,
    may_use: &'m dyn Fn(u32) -> bool,
}

impl MachineCpus<'_> {
    pub fn read() -> Self {
        let online: CpuList = online_cpus().into_iter().collect();
        let present = fs::read_to_string("/sys/devices/system/cpu/present").ok();
        let present = present.and_then(|text| text.parse().ok());
        Self { present: present.unwrap_or_else(|| online.clone()), online, may_use: &may_run_on }
    }

    pub fn chosen(&self, choice: &CpuChoice) -> Result<Vec<u32>, CpusFailure> {
        let CpuChoice::Listed(list) = choice else {
            let all: Vec<u32> = self.usable().iter().collect();
            return if all.is_empty() { Err(CpusFailure::NoneAllowed) } else { Ok(all) };
        };

        let listed = |cpus: CpuList| (!cpus.is_empty()).then(|| cpus.to_string());
        if let Some(cpus) = listed(list.minus(&self.present)) {
            return Err(CpusFailure::NotThere { cpus, present: self.present.to_string() });
        }
        if let Some(cpus) = listed(list.minus(&self.online)) {
            return Err(CpusFailure::Offline { cpus, online: self.online.to_string() });
        }
        if let Some(cpus) = listed(list.iter().filter(|cpu| !(self.may_use)(*cpu)).collect()) {
            return Err(CpusFailure::NotAllowed { cpus, allowed: self.usable().to_string() });
        }
        Ok(list.iter().collect())
    }

    /// Returns the CPUs that this process may use.
    pub fn usable(&self) -> CpuList {
        self.online.iter().filter(|cpu| (self.may_use)(*cpu)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    fn chosen(choice: &str, online: &str, allowed: &str) -> Result<Vec<u32>, String> {
        let allowed = list(allowed);
        let machine = MachineCpus {
            present: list("0-7"),
            online: list(online),
            may_use: &|cpu| allowed.contains(cpu),
        };
        machine.chosen(&choice.parse()?).map_err(|why| why.to_string())
    }

    #[test]
    fn a_list_or_all_become_the_cpus_of_the_loops() {
        assert_eq!(chosen("1-3,5", "0-7", "0-7"), Ok(vec![1, 2, 3, 5]));
        assert_eq!(chosen("3,3,1", "0-7", "0-7"), Ok(vec![1, 3]));
        assert_eq!(chosen("all", "0-5", "2-7"), Ok(vec![2, 3, 4, 5]));
    }

    #[test]
    fn what_cannot_be_used_is_refused_in_a_sentence_that_names_it() {
        let refused = |choice, online, allowed| chosen(choice, online, allowed).unwrap_err();
        assert_eq!(refused("6-9", "0-7", "0-7"), "this machine has no CPU 8-9; it has CPUs 0-7");
        assert_eq!(
            refused("0,6-7", "0-5", "0-5"),
            "CPU 6-7 is offline; CPUs online: 0-5 (echo 1 | sudo tee /sys/devices/system/cpu/cpuN/online brings one back)"
        );
        assert!(
            refused("0-3", "0-7", "0,2,5")
                .starts_with("this process may not use CPU 1,3: its cpuset allows 0,2,5")
        );
        for none in ["", " "] {
            assert_eq!(refused(none, "0-7", "0-7"), "no CPU is listed; write 1-3, 0,2 or all");
        }
        for wrong in ["3-1", "a", "1,,2", "-1", "0x3", "1-2-3", "ALL", "70000"] {
            assert!(refused(wrong, "0-7", "0-7").ends_with(", or all"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_choice_is_met_in_full_or_refused(
            wanted in proptest::collection::btree_set(0_u32..12, 1..6),
            online in proptest::collection::btree_set(0_u32..8, 1..8),
            allowed in proptest::collection::btree_set(0_u32..8, 1..8),
        ) {
            let of = |set: &std::collections::BTreeSet<u32>| set.iter().copied().collect::<CpuList>();
            let usable = of(&online).and(&of(&allowed));
            let got = chosen(&of(&wanted).to_string(), &of(&online).to_string(), &of(&allowed).to_string());
            prop_assert_eq!(got.is_ok(), of(&wanted).is_within(&usable));
            if let Ok(cpus) = got {
                prop_assert_eq!(cpus, wanted.into_iter().collect::<Vec<_>>());
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = CpuChoice::from_str(&text);
        }
    }
}
