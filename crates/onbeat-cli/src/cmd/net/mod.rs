//! `onbeat net`: predictions of a network, a laboratory of namespaces, and devices that answer.

mod board;
mod boards;
mod end;
mod firmware;
mod lab;
pub(super) mod log;
pub(crate) mod options;
mod plan;

use std::sync::atomic::Ordering;

use onbeat::thread::ThreadRequest;
use onbeat_net::address::AddressRange;
use onbeat_net::device::{DeviceCounts, DeviceOptions, Devices};
use onbeat_net::kernel_device::KernelDevices;
use onbeat_report::units;

use super::failure::net::NetFailure;
use super::looping::check_cpu;
use super::{ExitVerdict, Failure};
use crate::signals;
use crate::signals::OnUsr1;
use crate::term::{Tone, advise, wrapped};
use end::end_in_time;
use options::{Net, NetDeviceOptions};

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
    let allow = if options.allow.is_empty() {
        AddressRange::LOOPBACK.into()
    } else {
        options.allow.clone()
    };
    let of_devices = DeviceOptions {
        bind: options.bind,
        first_port: options.port,
        count: options.count,
        allow: allow.clone(),
        silences: options.silent.clone(),
    };
    let devices = Devices::open(&of_devices)?;
    let in_kernel = options.in_kernel.as_deref();
    let in_kernel = in_kernel.map(|interface| KernelDevices::attach(&of_devices, interface));
    let in_kernel = in_kernel.transpose().map_err(NetFailure::KernelDevice)?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    advise(Tone::Plain, &greeting(options, &allow));

    let request = ThreadRequest {
        fifo: (options.priority > 0).then_some(options.priority),
        cpu: options.cpu,
        lock_memory: false,
        dma_latency_us: None,
    };
    for refused in request.prepare_thread().iter().filter(|grant| !grant.granted) {
        let why = refused.why_not.as_deref().unwrap_or_default();
        let sentence =
            format!("the devices run without {}: {why}; they answer later", refused.what);
        advise(Tone::Careful, &wrapped(&sentence, 80));
    }
    end_in_time(&interruptions, options.duration);
    devices.serve(&interruptions.stop)?;

    let by_kernel = in_kernel.as_ref().map(KernelDevices::answered);
    advise(Tone::Plain, &outcome(devices.counts(), by_kernel));
    Ok(ExitVerdict::Pass)
}

fn greeting(options: &NetDeviceOptions, allow: &[AddressRange]) -> String {
    let ports = match options.count {
        1 => format!("1 device answers at {}, UDP port {}", options.bind, options.port),
        count => format!(
            "{count} devices answer at {}, UDP ports {} to {}",
            options.bind,
            options.port,
            u32::from(options.port) + u32::from(count) - 1
        ),
    };
    let allow = allow.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let by = options.in_kernel.as_ref();
    let by = by.map_or_else(String::new, |name| format!("; the kernel answers echoes at {name}"));
    format!("{ports}{by}; allowed: {allow}; Ctrl-C ends")
}

fn outcome(counts: &DeviceCounts, by_kernel: Option<u64>) -> String {
    let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let others = [
        (read(&counts.silent), "left unanswered by --silent"),
        (read(&counts.refused), "from addresses that are not allowed"),
        (read(&counts.invalid), "not valid requests"),
        (read(&counts.unsent), "answers not sent by the system"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: String = others.map(|(count, what)| format!("; {count} {what}")).collect();
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
