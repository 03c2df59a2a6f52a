//! The series of a run: what is counted, once per cycle.

use serde::{Deserialize, Serialize};

/// One counted figure of a cycle. The tag in the run file is the snake-case name.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Series {
    /// Of every release of the grid: `s_k − r_k` where it was served, and as
    /// [`Self::SkippedLatency`] where it was skipped. What tables, effects and verdicts of onbeat's
    /// own runs are about.
    #[default]
    ReleaseLatency,
    /// `s_k − r_k`, of served releases only.
    WakeupLatency,
    /// `s_k − s_(k−1)`.
    ObservedPeriod,
    /// `e_k − s_k`.
    ExecutionTime,
    /// `e_k − r_k`.
    ResponseTime,
    /// How late the sleep itself returned; kept when the wait spins.
    SleepLatency,
    /// For a release `r_k` that was skipped: the next start minus `r_k`.
    SkippedLatency,
    /// Wake-up latency minus the smallest one seen so far; in runs of jHiccup, a sleep's length
    /// minus the shortest one seen.
    Hiccup,
    /// From the instant a timer was set to, to its interrupt's handler; in imported runs only.
    InterruptLatency,
    /// From the instant a timer was set to, back to user space; in imported runs only.
    ReturnLatency,
    /// Time between two readings of the clock by a loop that does nothing else; in imported runs
    /// only.
    Gap,
    /// Values whose meaning the source does not state; in imported runs only.
    Recorded,
    /// From the end of one write to an output to the end of the next.
    WriteInterval,
    /// From an edge at an input to the loop's taking it up: t_r of Mossige, Sampath and Rao (2007),
    /// 4.1.2.
    ReadLatency,
    /// From an edge at an input to the end of the write that answers it, the chosen delay among it.
    ReadWrite,
    /// From a command's being issued to its effect's being seen at an output.
    Chain,
    /// From a command's being issued to the start of the cycle that serves it.
    Pickup,
    /// From sending a bus frame or a packet to having its reply.
    RoundTrip,
    /// Between two frames' passing a device, by its own clock.
    DeviceInterval,
    /// From asking for the exchange of a process image to having it.
    Exchange,
    /// From the release that a packet belongs to, to its answer.
    PacketResponse,
    /// Of a round trip: from the program's call to the kernel's stamp of the sending.
    SendPath,
    /// Of a round trip: between the kernel's stamps of sending and receipt, without
    /// [`Self::DeviceTime`].
    NetworkTime,
    /// Of [`Self::NetworkTime`]: between the network card's stamps of sending and receipt, without
    /// [`Self::DeviceTime`]. The rest is the driver's and the card's.
    WireTime,
    /// Of a round trip: from receipt to answer, by the device's clock.
    DeviceTime,
    /// Of a round trip: from the kernel's stamp of the receipt to the program.
    ReceivePath,
    /// From the end of the first board's delay to the second board's taking the edge up: t_n of
    /// Mossige, Sampath and Rao (2007), 4.1.3.
    NetworkLatency,
    /// From the end of the second board's delay to the end of its write.
    OutputLatency,
    /// From the capture of a picture to a reader's having it; of every picture that was due.
    CaptureToUser,
    /// Of [`Self::CaptureToUser`]: from capture to publication, by the camera's program.
    CaptureToPublished,
    /// Of [`Self::CaptureToUser`]: from publication to the reader.
    PublishedToUser,
}

impl Series {
    /// Those that onbeat's own loop has histograms of. Wake-up latency is not among them: it is
    /// what is left of release latency without the skipped releases.
    pub const CYCLE: [Self; 6] = [
        Self::ReleaseLatency,
        Self::ObservedPeriod,
        Self::ExecutionTime,
        Self::ResponseTime,
        Self::SleepLatency,
        Self::SkippedLatency,
    ];

    /// All of them: those of a cycle, then those of imported runs and of single probes.
    pub const ALL: [Self; 31] = [
        Self::ReleaseLatency,
        Self::WakeupLatency,
        Self::ObservedPeriod,
        Self::ExecutionTime,
        Self::ResponseTime,
        Self::SleepLatency,
        Self::SkippedLatency,
        Self::Hiccup,
        Self::InterruptLatency,
        Self::ReturnLatency,
        Self::Gap,
        Self::Recorded,
        Self::WriteInterval,
        Self::ReadLatency,
        Self::ReadWrite,
        Self::Chain,
        Self::Pickup,
        Self::RoundTrip,
        Self::DeviceInterval,
        Self::Exchange,
        Self::PacketResponse,
        Self::SendPath,
        Self::NetworkTime,
        Self::WireTime,
        Self::DeviceTime,
        Self::ReceivePath,
        Self::NetworkLatency,
        Self::OutputLatency,
        Self::CaptureToUser,
        Self::CaptureToPublished,
        Self::PublishedToUser,
    ];

    /// The `Tag=` of its lines in a run file, and its name everywhere else. Lines of
    /// [`Self::ReleaseLatency`] carry no tag, so that readers of HdrHistogram logs show it first.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::ReleaseLatency => "release_latency",
            Self::WakeupLatency => "wakeup_latency",
            Self::ObservedPeriod => "observed_period",
            Self::ExecutionTime => "execution_time",
            Self::ResponseTime => "response_time",
            Self::SleepLatency => "sleep_latency",
            Self::SkippedLatency => "skipped_latency",
            Self::Hiccup => "hiccup",
            Self::InterruptLatency => "interrupt_latency",
            Self::ReturnLatency => "return_latency",
            Self::Gap => "gap",
            Self::Recorded => "recorded",
            Self::WriteInterval => "write_interval",
            Self::ReadLatency => "read_latency",
            Self::ReadWrite => "read_write",
            Self::Chain => "chain",
            Self::Pickup => "pickup",
            Self::RoundTrip => "round_trip",
            Self::DeviceInterval => "device_interval",
            Self::Exchange => "exchange",
            Self::PacketResponse => "packet_response",
            Self::SendPath => "send_path",
            Self::NetworkTime => "network_time",
            Self::WireTime => "wire_time",
            Self::DeviceTime => "device_time",
            Self::ReceivePath => "receive_path",
            Self::NetworkLatency => "network_latency",
            Self::OutputLatency => "output_latency",
            Self::CaptureToUser => "capture_to_user",
            Self::CaptureToPublished => "capture_to_published",
            Self::PublishedToUser => "published_to_user",
        }
    }

    /// The series of a tag.
    #[must_use]
    pub fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|series| series.tag() == tag)
    }

    /// The name for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::ReleaseLatency => "release latency",
            Self::WakeupLatency => "wake-up latency",
            Self::ObservedPeriod => "observed period",
            Self::ExecutionTime => "execution time",
            Self::ResponseTime => "response time",
            Self::SleepLatency => "sleep latency",
            Self::SkippedLatency => "latency of skipped releases",
            Self::Hiccup => "hiccup",
            Self::InterruptLatency => "interrupt latency",
            Self::ReturnLatency => "return latency",
            Self::Gap => "gap",
            Self::Recorded => "recorded value",
            Self::WriteInterval => "write interval",
            Self::ReadLatency => "read latency",
            Self::ReadWrite => "edge to output",
            Self::Chain => "command to output",
            Self::Pickup => "command to cycle",
            Self::RoundTrip => "round trip",
            Self::DeviceInterval => "interval at the devices",
            Self::Exchange => "exchange",
            Self::PacketResponse => "release to answer",
            Self::SendPath => "sender's stack",
            Self::NetworkTime => "network",
            Self::WireTime => "wire",
            Self::DeviceTime => "device",
            Self::ReceivePath => "receiver's stack",
            Self::NetworkLatency => "board to board",
            Self::OutputLatency => "output latency",
            Self::CaptureToUser => "capture to user",
            Self::CaptureToPublished => "capture to publication",
            Self::PublishedToUser => "publication to user",
        }
    }

    /// Significant decimal digits of its histograms. A period sits near T, where its spread is a
    /// small part of it: it needs one more (32 ns or 64 ns at 1 ms instead of 0.5 µs or 1 µs).
    #[must_use]
    pub const fn digits(self) -> u8 {
        match self {
            Self::ObservedPeriod | Self::WriteInterval | Self::DeviceInterval => 4,
            _ => 3,
        }
    }

    /// Returns whether a sample is a picture of a camera: these come at the camera's period, not at the loop's.
    #[must_use]
    pub const fn is_of_pictures(self) -> bool {
        matches!(self, Self::CaptureToUser | Self::CaptureToPublished | Self::PublishedToUser)
    }

    /// Whether a skipped release is late by any limit on this series: what was never served, never
    /// answered or never written was late for certain. A stop that loses a hundred writes is one long
    /// interval between two of them, and a hundred writes that were due.
    #[must_use]
    pub const fn is_late_when_skipped(self) -> bool {
        matches!(self, Self::ResponseTime | Self::ReadWrite | Self::WriteInterval)
    }

    /// Its place in [`Series::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }
}
