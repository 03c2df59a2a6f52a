//! The modules of a crate or room in the order of dependency: each names only modules before it,
//! so none is part of a circle.

use crate::source::{Source, code_without_tests, paths};
use crate::{catches, holds, rust_below};

/// Folder, and its modules from the innermost on. A module with files of its own counts as one.
const ORDER: [(&str, &str); 32] = [
    ("crates/onbeat-rt/src/", "frame latest broadcast ring time sample sys wait cycle edge_loop"),
    (
        "crates/onbeat-tune/src/",
        "cpu_list user utc holder error private scheduling task_id task_setting host_files \
         irq_handlers tasks task_attributes live_extras live_host change journal context affinity \
         irq shield_v1 shield_v2 shield restore repair capture_archive catalogue plan markdown \
         capture evidence apply wrap explain lint persist",
    ),
    (
        "crates/onbeat-ethercat/src/",
        "al coe registers link_errors input setup sii esi carrier busy_wait wire event layout description step \
         event_words",
    ),
    (
        "crates/onbeat-segment/src/",
        "registers coe cable_positions topology distributed_clock eeprom fmmu sync_manager esc \
         frame device mailbox process_data firmware subdevice datagram_exchange segment \
         sii_contents device_parts esi_parts from_description fault link fault_table fault_log \
         in_process serving fast_path layout_agreement",
    ),
    (
        "crates/onbeat-control/src/",
        "error map process lock stats abi error_record device_table device_state bus_condition sharing joint settings \
         object image claim snapshot request requests value_place goals owner client bus_side create \
         ring_error ring_object ring_reader ring_writer",
    ),
    (
        "crates/onbeat-message/src/",
        "error definition hash value cdr type_set own lcm_words lcm lcm_codec generate",
    ),
    (
        "crates/onbeat/src/",
        "host thread cause load inject record probe net bench control_loop import report worth",
    ),
    (
        "crates/onbeat/src/record/",
        "series words tuning timing encoder boards chain events exclusion joint_steps moments motion robot seconds recording window figures \
         histogram packets resolution distribution imported trend note writer_lock run_file past run_dir \
         run_writer second_maxima tally recorder",
    ),
    (
        "crates/onbeat/src/load/",
        "error event process spec parse bounds ordinary builtin leader reap cpu disk external \
         memory network sched walk options plan run running",
    ),
    (
        "crates/onbeat/src/probe/",
        "interruptions option stall start surroundings resume error companion setting causes ports \
         description drain run timer disturbed hiccup latency write read_write",
    ),
    (
        "crates/onbeat/src/bench/",
        "cell_start cell_tuning fresh_memory load_notes background_load schedule sweep cell \
         host_settings shielding run_tuning measurement turns error cell_slot plan unfinished conduct",
    ),
    // Figures of one run file; figures of runs; words.
    (
        "crates/onbeat/src/report/",
        "units table binomial statistics file_facts enough exclusions verdict events bootstrap normal \
         modes extremes analyses cause_counts probe_figures chain_cycles packets answers boards import_notes cell motion remedies \
         cell_figures ranking best effects causes sweep summary imported judged_run digest \
         comparable compare by_load compare_rows compare_round_trips compare_tables conclusions probes spikes \
         closing sentences tables gate junit export page worth",
    ),
    (
        "crates/onbeat/src/cause/",
        "kind advice assembler bpf btf counters facts event format page decode path_offsets path_record path_stack \
         path_program thread_names path tracefs window flight syscalls timeline judge settle classify ftrace keep \
         quota meter symbols explainer path_reading protobuf perfetto trace_dat waits",
    ),
    (
        "crates/onbeat/src/inject/",
        "fault error log plan actor cgroups descriptor_limit disturb_cycle file_locks find hog idle wait_companion \
         in_loop_waits interrupts in_kernel in_loop_files kernel_lock in_loop irq_thread outside poll_section softirq starve",
    ),
    (
        "crates/onbeat/src/import/",
        "format error stream csv date rt_tests cyclictest payload hlog detect hgrm rtla stress_ng",
    ),
    (
        "crates/onbeat/src/net/",
        "packet actuator address offset_lines clock_fit io_board device socket_drops drop_counters hand_over plan rtt \
         boards kernel_device run_log",
    ),
    ("crates/onbeat-robot/src/", "bus cycle_messages image_service motion probe session live_view"),
    (
        "crates/onbeat-robot/src/bus/",
        "addresses link_error_readings register_query sdo sync0 datagram_view config_record mailbox_layout known_device \
         identification recovery event_queue emergency device acyclic link_error_reads error panic_guard cyclic single_datagram \
         sii_cache frame_exchange lock_step pump preop_setup bring_up \
         clock_sync position_scan register_transfer transfer diagnostics rate_limit no_answer options shutdown stale_inputs \
         main_device scan",
    ),
    (
        "crates/onbeat-robot/src/motion/",
        "event ladder limits wave file goal power status joint window_channel trajectory_error csv waves \
         trajectory controller account task view topology device_events",
    ),
    (
        "crates/onbeat-robot/src/probe/",
        "devices error event_channel bus prediction reaction chain sharing",
    ),
    (
        "crates/onbeat-robot/src/live_view/",
        "error cycle_record sparse_counts cycle_window robot_facts view_request \
         browser_connection view_server",
    ),
    ("crates/onbeat-lab/src/", "toml_file vm joined net study"),
    ("crates/onbeat-lab/src/net/", "board_tests error netlink cabling namespace lab"),
    (
        "crates/onbeat-lab/src/study/",
        "error setting row store application file baseline host measure conduct tables",
    ),
    ("crates/onbeat-lab/src/joined/", "page exchange relation vcpu error spike session pair"),
    ("crates/onbeat-c/src/", "last_error ring run_loop"),
    (
        "crates/onbeat-gateway/src/",
        "account error transport_message network_encoding lcm_packets lcm_socket zmtp zmq_socket ros2_names ros2_absent \
         ros2_node transport bridge log_writer recording log_reader \
         play_target playing main",
    ),
    ("crates/onbeat-tune/src/capture/", "interrupts asked privacy"),
    (
        "crates/onbeat-cli/src/",
        "units complete options probes cli_bus cli_files cli_measure cli_message cli_robot \
         cli_segment cli_tune_measure cli_tune cli_vm_study cli_vm cli_net cli completion help_limits term state signals cmd",
    ),
    // `mod` is the front page: what commands share.
    (
        "crates/onbeat-cli/src/cmd/",
        "failure mod carrier load bus_words gateway message_files whole runs show log robot_goal robot_view \
         host_settings run_tuning robot bench_robot so_far findings queue resume_bench bench bus_link_errors \
         byte_words bus_requests bus_scan bus_values life open_probe resume seconds loads net_end net_log \
         measure bus cell command_watch run_clock compare export_formats spike export gate generate import \
         inject lint_report measure_tuning message_command transport message net_board vm_stock vm_lab \
         net_boards net_lab net_plan net tune repair report segment_orders segment vm_lint vm_list vm_replay \
         vm_run vm_study vm_threads vm_trace vm",
    ),
    (
        "crates/onbeat-cli/src/cmd/findings/",
        "machine spike_causes evidence checked remembered run_findings",
    ),
    (
        "crates/onbeat-cli/src/cmd/tune/",
        "plan_text question selection apply boot_settings check_words check record status persist \
         plan texts undo",
    ),
];

/// The module of a file, as names below its crate; empty for the crate's front page.
fn module_of(path: &str) -> Vec<&str> {
    let below = path.split_once("/src/").map_or("", |(_, below)| below);
    let mut names: Vec<&str> = below.trim_end_matches(".rs").split('/').collect();
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(name)) {
        names.pop();
    }

    names
}

/// The absolute form of a path that begins with `crate`, `super` or `outer`, the module around
/// `super`, as names below the crate.
fn resolved<'p>(path: &'p str, module: &[&'p str]) -> Vec<&'p str> {
    let mut names = path.split("::");
    let levels = match names.next() {
        Some("super") => 1,
        Some("outer") => 2,
        _ => module.len(),
    };

    let around = &module[..module.len().saturating_sub(levels)];
    around.iter().copied().chain(names).collect()
}

/// What the files of one folder name against the order of its modules.
fn named_too_early(sources: &[Source], (folder, order): (&str, &str)) -> Vec<String> {
    let order: Vec<&str> = order.split_whitespace().collect();
    let place = |name: &str| order.iter().position(|module| *module == name);
    let front_page = format!("{folder}mod.rs");
    let front = module_of(&front_page);
    let mut found = Vec::new();

    for source in rust_below(sources, folder) {
        let module = module_of(&source.path);
        let Some(own) = module.get(front.len()) else { continue };
        let Some(own_place) = place(own) else {
            found.push(source.at(1, &format!("{own} has no place in the order of {folder}")));
            continue;
        };

        // `paths` would take the second `super` for the start of a path, and a visibility for one.
        let code = code_without_tests(&source.text)
            .replace("super::super::", "outer::")
            .replace("pub(in crate::", "pub(in ");
        let all = ["crate", "super", "outer"].map(|root| paths(&code, root));
        for (line, path) in all.iter().flatten() {
            let named = resolved(path, &module);
            let Some(inside) = named.strip_prefix(&front[..]) else { continue };
            let first = inside.first().copied().unwrap_or("*");
            match place(first).or_else(|| place("mod")) {
                Some(there) if there <= own_place => {}
                Some(_) => {
                    found.push(source.at(*line, &format!("{own} may not name {first}, after it")));
                }
                None => {
                    let what = format!("{own} names {first} by its front page; name the module");
                    found.push(source.at(*line, &what));
                }
            }
        }
    }

    found
}

fn named_against_the_order(sources: &[Source]) -> Vec<String> {
    ORDER.iter().flat_map(|folder| named_too_early(sources, *folder)).collect()
}

#[test]
fn a_module_names_only_modules_before_it() {
    holds(named_against_the_order);
}

#[test]
fn a_module_that_names_a_later_one_is_found() {
    let check = named_against_the_order;
    let right =
        "use super::time::Instant;\nuse crate::ring::Ring;\npub(in crate::cycle) fn f() {}\n";
    let wait = "crates/onbeat-rt/src/wait.rs";
    catches(check, wait, "use super::time::Instant;\nuse super::cycle::run;\n", 2, right);
    catches(check, wait, "fn f() {\n    crate::cycle::run();\n}\n", 2, right);
    catches(check, wait, "use super::Instant;\n", 1, right);
    catches(check, wait, "use super::*;\n", 1, "#[cfg(test)]\nmod tests {\n    use super::*;\n}\n");
    let new = "crates/onbeat-rt/src/new.rs";
    assert_eq!(check(&[Source::planted(new, "")]).len(), 1, "a module without a place");

    let failure = "crates/onbeat-cli/src/cmd/failure.rs";
    catches(check, failure, "use super::ExitVerdict;\n", 1, "use crate::signals::SignalError;\n");

    let below = "crates/onbeat-segment/src/device/drive.rs";
    catches(
        check,
        below,
        "use super::super::link::Link;\n",
        1,
        "use super::motor::Motor;\nuse super::super::coe::Dictionary;\n",
    );
}

#[test]
fn every_module_of_the_order_exists() {
    let sources = crate::tracked();
    for (folder, order) in ORDER {
        for module in order.split_whitespace() {
            let is_file = |source: &Source| {
                source.path.strip_prefix(folder).is_some_and(|below| {
                    below.strip_prefix(module).is_some_and(|rest| rest.starts_with(['.', '/']))
                })
            };
            assert!(sources.iter().any(is_file), "{folder} has no module {module}");
        }
    }
}
