//! Programs of others beside onbeat: Java, Octave, Python, shells, Perfetto, other MainDevices. Without one, the
//! harness says so test by test while it runs, which the built-in one cannot.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod camera_interrupted;
#[path = "../../crates/onbeat/tests/it/cause_world/mod.rs"]
mod cause_world;
mod clients_read_cycles;
mod completion;
mod controllers_stop_safely;
mod equipment;
#[path = "../exports/exports_open_elsewhere.rs"]
mod exports_open_elsewhere;
mod firmware_in_qemu;
#[path = "../java/hiccup_meter.rs"]
mod hiccup_meter;
#[path = "../maindevices/maindevices_reach_op.rs"]
mod maindevices_reach_op;
mod octave_interrupted;
mod one_call;
mod pictures_in_a_page;
mod prompt;
mod python_installs;
mod remote_robot;
#[path = "../java/run_files_open_in_java.rs"]
mod run_files_open_in_java;
#[path = "../perfetto/spikes_open_in_perfetto.rs"]
mod spikes_open_in_perfetto;
mod two_instances_follow_a_marker;
#[path = "../vm/killed.rs"]
mod vm_killed;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    if let Some(status) = vm_killed::answered_as_qemu() {
        return status;
    }
    let mut arguments = Arguments::from_args();
    // They share what is installed for them, and the CPUs.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let trials = [
        camera_interrupted::trials(),
        clients_read_cycles::trials(),
        completion::trials(),
        controllers_stop_safely::trials(),
        exports_open_elsewhere::trials(),
        firmware_in_qemu::trials(),
        hiccup_meter::trials(),
        maindevices_reach_op::trials(),
        octave_interrupted::trials(),
        one_call::trials(),
        pictures_in_a_page::trials(),
        python_installs::trials(),
        remote_robot::trials(),
        run_files_open_in_java::trials(),
        spikes_open_in_perfetto::trials(),
        two_instances_follow_a_marker::trials(),
        vm_killed::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}
