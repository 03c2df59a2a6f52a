use super::*;

fn matrix(text: &str) -> Result<Matrix, TomlFileError> {
    Matrix::from_toml(text, Path::new("/lab"))
}

fn refused(text: &str) -> String {
    matrix(text).expect_err(text).to_string()
}

#[test]
fn the_lists_multiply_with_the_seeds_of_a_cell_together() {
    let text = r#"
        kernels = ["a", "b"]
        command_lines = [{ name = "plain", words = "" }, "preempt=full  threadirqs"]
        tunings = ["none", "PM"]
        loads = ["idle", { name = "busy", load = "cpu=50%" }]
        seeds = [7, 3, 5]
    "#;
    let matrix = matrix(text).expect("a file");
    let all = matrix.experiments();
    assert_eq!(all.len(), 2 * 2 * 2 * 2 * 3);
    assert_eq!(all.len(), matrix.experiment_count());

    let seeds: Vec<u32> = all.iter().take(4).map(|experiment| experiment.seed).collect();
    assert_eq!(seeds, [7, 3, 5, 7]);
    assert_eq!(all[0].cell, all[2].cell);
    assert_eq!((&*all[3].cell.load, &*all[6].cell.tuning), ("busy", "PM"));
    let last = all.last().expect("experiments");
    assert_eq!(last.cell.command_line, "preempt=full  threadirqs");
    assert_eq!(matrix.kernel_arguments(last), ["preempt=full", "threadirqs"]);
}

#[test]
fn a_file_with_kernels_alone_is_one_idle_experiment_per_kernel() {
    let matrix = matrix("kernels = [\"linux-image-rt-amd64\"]").expect("a file");
    assert_eq!(matrix.clock, ClockChoice::Virtual { shift: 3 });
    let all = matrix.experiments();
    assert_eq!((all.len(), &*all[0].cell.load, all[0].seed), (1, "idle", 1));
    let script = matrix.job(&all[0]).script();
    assert!(script.contains("'usleep' '137' || return"), "{script}");
    assert!(script.contains("'--for' '2000000000ns' '--period' '1000000ns'"), "{script}");
    assert!(script.contains("'--priority' '98'"), "{script}");
    assert!(!script.contains("--no-lock-memory"), "{script}");
}

#[test]
fn a_tuning_becomes_options_of_the_measurement() {
    let matrix = matrix("kernels = [\"k\"]\ntunings = [\"none\", \"S\"]").expect("a file");
    let all = matrix.experiments();
    let none = matrix.job(&all[0]).script();
    assert!(none.contains("'--priority' '0' '--no-lock-memory'"), "{none}");
    assert!(!none.contains("spin"), "{none}");
    let spins = matrix.job(&all[1]).script();
    assert!(spins.contains("'--wait' 'spin'"), "{spins}");
}

#[test]
fn settings_are_applied_in_the_guest_or_stand_on_its_command_line() {
    let text = "kernels = [\"k\"]\ntunings = [\"PM+kern.preempt_mode+kern.threadirqs\"]\n\
                command_lines = [\"quiet\"]\nperiod_us = 500";
    let matrix = matrix(text).expect("a file");
    let all = matrix.experiments();
    assert_eq!(matrix.kernel_arguments(&all[0]), ["quiet", "threadirqs"]);
    let script = matrix.job(&all[0]).script();
    let apply = "'apply' 'kern.preempt_mode' '--cpus' '0' '--period' '500000ns' || return";
    let at = script.find(apply);
    let delay = script.find("'usleep'");
    assert!(at.is_some() && at < delay, "{script}");
}

#[test]
fn another_probe_is_measured_with_its_options() {
    let text = "kernels = [\"k\"]\ngpio = true\n\
                measure = \"write --output gpio:gpiochip0/0\"\nperiod_us = 500";
    let matrix = matrix(text).expect("a file");
    assert_eq!(matrix.wiring, GuestWiring::Gpio);
    let script = matrix.job(&matrix.experiments()[0]).script();
    assert!(script.contains("'onbeat' 'measure' 'write' '--json'"), "{script}");
    assert!(script.contains("'--output' 'gpio:gpiochip0/0' '--priority' '98'"), "{script}");
}

#[test]
fn paths_are_relative_to_the_file() {
    let text = "kernels = [{ name = \"own\", image = \"vmlinuz\", modules = \"/lib/modules/6\" }]";
    let origin = matrix(text).expect("a file").kernels[0].origin.clone();
    let image = PathBuf::from("/lab/vmlinuz");
    assert_eq!(origin, KernelOrigin::Image { image, modules: Some("/lib/modules/6".into()) });
}

#[test]
fn what_a_file_gets_wrong_is_named_with_its_place() {
    let wrong = "kernels = [\"k\"]\nseed = 3\n";
    assert!(
        refused(wrong).starts_with("line 2, column 1: unknown field `seed`"),
        "{}",
        refused(wrong)
    );
    assert_eq!(refused(""), "`kernels` is empty; list at least one");
    assert_eq!(
        refused("kernels = [\"k\", \"k\"]"),
        "`kernels` has \"k\" twice; names in a list must differ"
    );
    assert_eq!(
        refused("kernels = [\"k\"]\nshift = 20"),
        "`shift` is 20, at most 10: an instruction takes 2^shift ns"
    );
    assert_eq!(
        refused("kernels = [\"k\"]\nclock = \"free\"\nshift = 3"),
        "`shift` is for clock = \"virtual\" only; leave it out"
    );
    assert_eq!(
        refused("kernels = [{ name = \"k\" }]"),
        "kernel \"k\" needs one of `package`, `image` with optional `modules`, `qemu` or `domain`"
    );
    assert_eq!(
        refused("kernels = [\"k\"]\ntunings = [\"PMC\"]"),
        "tuning `PMC`: C shields a CPU, and these guests have one"
    );
    let tuning = |word: &str| refused(&format!("kernels = [\"k\"]\ntunings = [\"{word}\"]"));
    assert_eq!(
        tuning("PM+irq.affinity"),
        "tuning `PM+irq.affinity`: it names CPUs other than the loop's, and these guests have one"
    );
    assert!(tuning("shield.isolcpus").ends_with("and these guests have one"));
    assert!(tuning("kern.preempt_rt").contains("neither a command nor a kernel parameter"));
    assert!(tuning("P+plan").contains("for `onbeat bench` only; name ids"));
    assert!(refused("kernels = [\"k\"]\nmeasure = \" \"").starts_with("`measure` is empty"));
    assert_eq!(
        refused("kernels = [\"k\"]\nseeds = 20000"),
        "the lists multiply to 20000 experiments, at most 10000 are allowed"
    );
    assert_eq!(refused("kernels = [\"k\"]\nseeds = 0"), "`seeds` is empty; list at least one");
    assert_eq!(refused("kernels = [\"k\"]\nperiod_us = 0"), "`period_us` is 0; it must be above 0");
    assert!(refused("kernels = [3]").contains("a kernel is the name of a package"));
    assert!(refused("kernels = [\"k\"]\nloads = [\"idel\"]").contains("unknown load \"idel\""));
    assert!(refused("kernels = [\"k\"]\ntunings = [\"X\"]").contains("`X` is not a valid tuning"));
}

#[test]
fn a_second_board_is_started_before_the_measurement_with_its_priority() {
    let text = "kernels = [\"k\"]\nboards = true\ntunings = [\"none\", \"PM\"]\n\
                measure = \"chain --via udp:10.77.0.2:7471 --one-clock\"";
    let matrix = matrix(text).expect("a file");
    assert_eq!(matrix.wiring, GuestWiring::TwoBoards);
    for (experiment, priority) in matrix.experiments().iter().zip(["0", "98"]) {
        let script = matrix.job(experiment).script();
        let (board, measured) = script.split_once("'usleep'").expect("a delay");
        assert!(board.contains("onbeat net board $OPTIONS --bind 10.77.0.2"), "{script}");
        assert!(
            board.ends_with(&format!("'board' '--priority' '{priority}' || return\n")),
            "{script}"
        );
        assert!(measured.contains("'chain'") && measured.contains("'--one-clock'"), "{script}");
    }
}

#[test]
fn each_experiment_is_in_exactly_one_shard() {
    for of in [1_u32, 2, 7, 200] {
        let shards: Vec<Shard> =
            (1..=of).map(|number| format!("{number}/{of}").parse().expect("a shard")).collect();
        for index in 0..450 {
            assert_eq!(
                shards.iter().filter(|shard| shard.has(index)).count(),
                1,
                "{index} of {of}"
            );
        }
    }
    for text in ["0/3", "4/3", "3", "a/3", "1/0", "-1/3", "1/3/5"] {
        let refused = text.parse::<Shard>().expect_err(text).to_string();
        assert_eq!(refused, format!("\"{text}\" is not a shard; write 3/200 for the third of 200"));
    }
}

#[test]
fn a_users_guest_is_a_kernel_of_the_list_and_wired_with_nothing() {
    let own = "kernels = [{ name = \"mine\", qemu = \"start.sh\" }, { name = \"dom\", domain = \"d.xml\" }]";
    let found = matrix(own).expect("a file");
    assert_eq!(found.own_guest().map(|own| own.name.as_str()), Some("mine"));
    let names: Vec<bool> = found.kernels.iter().map(KernelChoice::is_own).collect();
    assert_eq!(names, [true, true]);
    assert!(matrix("kernels = [\"k\"]").expect("a file").own_guest().is_none());

    assert!(refused(&format!("{own}\ngpio = true")).contains("\"mine\" is a guest of your own"));
    for alone in ["package = \"p\", login = \"root\"", "qemu = \"s\", password_file = \"p\""] {
        let text = format!("kernels = [{{ name = \"x\", {alone} }}]");
        assert!(refused(&text).starts_with("kernel \"x\": `login` is for a guest of your own"));
    }
    let both = "kernels = [{ name = \"x\", package = \"p\", qemu = \"start.sh\" }]";
    assert!(refused(both).contains("needs one of `package`"), "{}", refused(both));
}

#[test]
fn guests_measure_by_plans_where_all_of_them_can() {
    let period = std::time::Duration::from_millis(1);
    // As the command line does: `None` for a probe of the network.
    let plan = |words: &[String]| {
        let load = words.iter().skip_while(|word| *word != "--load").nth(1).expect("a load");
        let load = load.parse().map_err(|_| "no load".to_owned())?;
        let plan = GuestPlan::latency(period * 500, period, 90, load);
        Ok((words[1] != "rtt").then_some(plan))
    };
    let of = |more: &str| {
        let text = format!("kernels = [\"k\"]\nloads = [\"idle\", \"cpu=50%\"]\n{more}");
        let mut found = matrix(&text).expect("a file");
        let is_planned = found.plan_by(plan).expect("a plan");
        let script = found.job(&found.experiments()[1]).script();
        (is_planned, script)
    };

    let (is_planned, script) = of("");
    assert!(is_planned && script.contains("'onbeat' 'agent' 'measure'"), "{script}");
    assert!(script.contains("\"load\":\"cpu=50%\""), "{script}");
    for more in ["measure = \"rtt --to 10.0.0.2\"", "tunings = [\"none\", \"mem.thp\"]"] {
        let (is_planned, script) = of(more);
        assert!(!is_planned && script.contains("'onbeat' 'measure'"), "{script}");
    }
    let mut found = matrix("kernels = [\"k\"]").expect("a file");
    assert_eq!(
        found.plan_by(|_| Err("no such option".to_owned())),
        Err("no such option".to_owned())
    );
}
