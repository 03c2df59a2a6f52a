//! Forty guests in virtual time beside a loaded host: `make test-vm-repeat`.

use crate::test_lab;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use onbeat::campaign::CampaignEvent;
use onbeat_lab::vm::{LabResults, Laboratory, LatencyTest, Matrix, Shard, Virtual};

use test_lab::{RT, STOCK, TestLab};

/// Guests that are compared with the first of their kernel.
const TIMES: u16 = 20;

/// `stress-ng` on all CPUs of the host, its memory and its file systems, until it is dropped.
struct Stress(Child);

impl Stress {
    fn start() -> Option<Self> {
        let words = "-n 19 stress-ng --quiet --cpu 2 --vm 1 --vm-bytes 64M --switch 1 --timer 1";
        let mut command = Command::new("nice");
        command.args(words.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
        if Command::new("stress-ng").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: stress-ng is not installed: apt-get install stress-ng");
            return None;
        }
        Some(Self(command.spawn().expect("a load")))
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        // Its workers end with it, when it is asked to.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let _ = self.0.wait();
    }
}

fn conduct(lab: &TestLab, again: u16, out: &Path) -> LabResults<Virtual> {
    let text = format!(
        "kernels = [{{ name = \"rt\", package = \"{RT}\" }}, {{ name = \"stock\", package = \"{STOCK}\" }}]\n\
         loads = [{{ name = \"writer\", load = \"{}\" }}]\nduration_ms = 500\n",
        LatencyTest::WRITER
    );
    let matrix = Matrix::from_toml(&text, Path::new(".")).expect("a matrix");
    let laboratory = Laboratory {
        work: &lab.work,
        out,
        boots: [RT, STOCK].map(|package| lab.boot(&lab.kernel(package))).to_vec(),
        jobs: 1,
        niceness: 19,
        again,
        shard: Shard::WHOLE,
    };
    let mut report = |event: CampaignEvent<'_>| {
        if let CampaignEvent::Failed { cell, why } = event {
            panic!("{cell}: {why}");
        }
    };
    let clock = |seed| Virtual { shift: 3, seed };
    laboratory.conduct(&matrix, clock, &AtomicBool::new(false), &mut report).expect("results")
}

#[test]
fn forty_guests_beside_a_loaded_host_send_the_bytes_of_those_on_a_quiet_one() {
    let Some(lab) = TestLab::open() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let quiet = conduct(&lab, 0, out.path());
    let Some(_stress) = Stress::start() else { return };

    let repeated = conduct(&lab, TIMES, out.path());
    let (compared, differing) = (repeated.compared, repeated.differing.len());
    println!("{} of {compared} guests sent the same bytes", compared - differing);
    assert_eq!((compared, differing), (2 * usize::from(TIMES), 0));

    let main = quiet.series().expect("series")[0];
    let cells = quiet.cells_of(main).expect("figures");
    let ratio = cells[1].figures.max_ratio(&cells[0].figures);
    println!("maximum of the stock kernel over that of PREEMPT_RT: {ratio:.1}");
    assert!(ratio > 5.0, "{cells:?}");
}
