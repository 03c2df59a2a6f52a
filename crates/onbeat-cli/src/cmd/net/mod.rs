//! `onbeat net`: predictions of a network, a laboratory of namespaces, and devices that answer.

mod board;
mod boards;
mod firmware;
mod lab;
pub(super) mod log;
pub(crate) mod options;
mod plan;
mod serving;

use onbeat::thread::ThreadRequest;
use onbeat_net::device::{DeviceCounts, DeviceOptions, Devices};
use onbeat_net::kernel_device::KernelDevices;
use onbeat_report::units;

use super::failure::net::NetFailure;
use super::looping::check_cpu;
use super::{ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise};
use options::{Net, NetDeviceOptions};
use serving::{allowed, end_in_time, others, prepare_thread, read};

pub(crate) fn run(command: &Net) -> Result<ExitVerdict, Failure> {
    match command {
        Net::Plan(options) => plan::run(options),
        Net::Lab(options) => lab::run(options),
        Net::Device(options) => answer(options),
        Net::Board(options) => board::run(options),
        Net::Log(options) => log::run(options),
    }
}

fn answer(options: &NetDeviceOptions) -> Result<ExitVerdict, Failure> {
    check_cpu(options.cpu)?;
    let (allow, allowed) = allowed(&options.allow);
    let of_devices = DeviceOptions {
        bind: options.bind,
        first_port: options.port,
        count: options.count,
        allow,
        silences: options.silent.clone(),
    };
    let devices = Devices::open(&of_devices)?;
    let in_kernel = options.in_kernel.as_deref();
    let in_kernel = in_kernel.map(|interface| KernelDevices::attach(&of_devices, interface));
    let in_kernel = in_kernel.transpose().map_err(NetFailure::KernelDevice)?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    advise(Tone::Plain, &greeting(options, &allowed));

    let fifo = (options.priority > 0).then_some(options.priority);
    let request = ThreadRequest { fifo, cpu: options.cpu, ..ThreadRequest::default() };
    prepare_thread(&request, "the devices run", "they answer later");
    end_in_time(&interruptions, options.duration);
    devices.serve(&interruptions.stop)?;

    let by_kernel = in_kernel.as_ref().map(KernelDevices::answered);
    advise(Tone::Plain, &outcome(&devices.counts, by_kernel));
    Ok(ExitVerdict::Pass)
}

fn greeting(options: &NetDeviceOptions, allowed: &str) -> String {
    let ports = match options.count {
        1 => format!("1 device answers at {}, UDP port {}", options.bind, options.port),
        count => format!(
            "{count} devices answer at {}, UDP ports {} to {}",
            options.bind,
            options.port,
            u32::from(options.port) + u32::from(count) - 1
        ),
    };
    let by = options.in_kernel.as_ref();
    let by = by.map_or_else(String::new, |name| format!("; the kernel answers echoes at {name}"));
    format!("{ports}{by}; allowed: {allowed}; Ctrl-C ends")
}

fn outcome(counts: &DeviceCounts, by_kernel: Option<u64>) -> String {
    let others = others(&[
        (read(&counts.silent), "left unanswered by --silent"),
        (read(&counts.refused), "from addresses that are not allowed"),
        (read(&counts.invalid), "not valid requests"),
        (read(&counts.unsent), "answers not sent by the system"),
    ]);
    let answered = read(&counts.answered);
    by_kernel.map_or_else(
        || format!("{} answered{others}", units::counted(answered, "packet")),
        |kernel| {
            let all = answered + kernel;
            let (all, kernel) = (units::counted(all, "packet"), units::count(kernel));
            format!("{all} answered, {kernel} of them by the kernel{others}")
        },
    )
}
