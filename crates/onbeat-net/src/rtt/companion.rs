//! The cold side of a round trip: the first packets, the counts.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_rt::Flow;

use super::RttError;
use super::channel::{DeviceCounters, FateReceiver, PacketFate};
use crate::background::BackgroundThread;
use crate::drop_counters::drop_counters;
use crate::knock::silent;
use onbeat::probe::ProbeError;
use onbeat::probe::description::Companion;
use onbeat_record::{
    CycleTally, DevicePackets, KernelDrops, Note, PacketAccount, PredictedAnswers, Recorder,
    RoundTripTally, Series,
};

/// Packets that try to reach a device before the run.
const TRIES: u64 = 5;

/// Counts what the loop passes on, and writes the account of each device.
pub(super) struct RoundTripCompanion {
    pub(super) socket: UdpSocket,
    pub(super) targets: Vec<SocketAddr>,
    pub(super) payload: usize,
    pub(super) lost_after_ns: u64,
    pub(super) fates: FateReceiver,
    pub(super) tally: RoundTripTally,
    /// Cycle by cycle; `None` with a single device and no plan.
    pub(super) cycles: Option<CycleTally>,
    /// What a plan predicts; `None` without one.
    pub(super) predicted: Option<PredictedAnswers>,
    /// What the kernel had dropped when the run began; `None` before, and where it does not say.
    pub(super) dropped_before: Option<KernelDrops>,
    /// Remarks from the set-up.
    pub(super) remarks: Vec<String>,
    pub(super) _devices: Option<BackgroundThread>,
}

impl RoundTripCompanion {
    fn count(&mut self, recorder: &mut Recorder) {
        let devices = self.targets.len();
        for fate in self.fates.queue.take() {
            if let (Some(cycles), Some(device), Some(cycle)) =
                (&mut self.cycles, fate.device, fate.answered_cycle)
            {
                cycles.count(device.into(), cycle, fate.since_release_ns);
            }
            let whose = fate.device.map_or(0..devices, |one| one.into()..usize::from(one) + 1);
            for device in whose {
                self.tally.count(device, fate.round_trip_ns);
                count_one(recorder, fate);
            }
        }
    }

    /// What the kernel dropped during this run.
    fn drops(&self) -> Option<KernelDrops> {
        Some(drop_counters(&self.socket)?.since(self.dropped_before.as_ref()?))
    }

    fn account(&self) -> PacketAccount {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.fates.counters;
        let device = |(number, of): (usize, &DeviceCounters)| {
            let mut packets = DevicePackets {
                address: self.targets[number].to_string(),
                scheduled: read(&of.scheduled),
                answered: read(&of.answered),
                late: read(&of.late),
                lost: read(&of.lost),
                unsent: read(&of.unsent),
                refused: read(&of.refused),
                duplicates: read(&of.duplicates),
                reordered: read(&of.reordered),
                strays: read(&of.strays),
                ..DevicePackets::default()
            };

            self.tally.fill(number, &mut packets);
            self.cycles.iter().for_each(|cycles| cycles.fill(number, &mut packets));
            packets
        };

        PacketAccount {
            payload: self.payload as u64,
            lost_after_ns: self.lost_after_ns,
            foreign: read(&counters.foreign),
            unrecorded: read(&counters.unrecorded),
            devices: counters.devices.iter().enumerate().map(device).collect(),
            // The cycle of a single device is its answer.
            cycles: self.cycles.as_ref().filter(|_| self.targets.len() > 1).map(CycleTally::cycles),
            drops: self.drops(),
            predicted: self.predicted.clone(),
        }
    }
}

fn count_one(recorder: &mut Recorder, fate: &PacketFate) {
    recorder.count(Series::RoundTrip, fate.round_trip_ns);
    recorder.count(Series::PacketResponse, fate.since_release_ns);
    if let Some(parts) = fate.parts {
        recorder.count(Series::SendPath, parts.send_ns);
        recorder.count(Series::NetworkTime, parts.network_ns);
        recorder.count(Series::DeviceTime, parts.device_ns);
        recorder.count(Series::ReceivePath, parts.receive_ns);
        if let Some(wire_ns) = parts.wire_ns {
            recorder.count(Series::WireTime, wire_ns.get());
        }
    }
}

impl Companion for RoundTripCompanion {
    fn start(&mut self) -> Result<(), ProbeError> {
        let open = |why: io::Error| ProbeError::from(RttError::Socket(why));
        let silent = silent(&self.socket, &self.targets, self.payload, TRIES).map_err(open)?;
        if silent.len() == self.targets.len() {
            let devices = silent.len();
            return Err(RttError::NoAnswer { devices, first: silent[0] }.into());
        }
        let remark =
            |address| format!("{address} did not answer before the run; its packets count as lost");
        self.remarks.extend(silent.into_iter().map(remark));
        self.dropped_before = drop_counters(&self.socket);
        Ok(())
    }

    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        self.count(recorder);
        Flow::Continue
    }

    fn after_block(&mut self, recorder: &mut Recorder) {
        self.count(recorder);
        self.cycles.iter_mut().for_each(CycleTally::end_cycle);
        // A file that cannot be written ends the run by itself.
        let _ = recorder.write_out();
        let _ = recorder.writer().note(&Note::Packets(Box::new(self.account())));
    }

    fn end(&mut self) -> Vec<String> {
        let mut remarks = std::mem::take(&mut self.remarks);
        let account = self.account();
        let sum = |pick: fn(&DevicePackets) -> u64| account.devices.iter().map(pick).sum::<u64>();

        let refused = sum(|device| device.refused);
        if refused > 0 {
            let number = self.fates.counters.refusal.load(Ordering::Relaxed) as i32;
            let why = io::Error::from_raw_os_error(number);
            remarks.push(format!("the system refused to send {refused} packets, last with: {why}"));
        }

        let unchanged = self.fates.counters.unchanged.load(Ordering::Relaxed);
        if unchanged > 0 {
            remarks.push(format!(
                "{unchanged} packets came back unchanged, from a plain echo that states no times; their round trips are not split"
            ));
        }

        if account.unrecorded > 0 {
            remarks.push(format!(
                "{} packets are in the account of the devices and in no series: the queue to the recorder was full",
                account.unrecorded
            ));
        }

        remarks
    }
}
