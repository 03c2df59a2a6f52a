//! `onbeat net plan`: the prediction as a picture, a table and a sentence, or as JSON.

use onbeat_net::plan::{
    DevicePrediction, LinkPrediction, NetPrediction, Network, picture, simulate,
};
use onbeat_report::table::{Column, Row, Table};
use onbeat_report::units::{count, counted, fixed, three_digits};

use super::options::PlanOptions;
use crate::cmd::{ExitVerdict, Failure};
use crate::term::{Tone, columns, letters, say, unicode, wrapped};

pub(super) fn run(options: &PlanOptions) -> Result<ExitVerdict, Failure> {
    let network = Network::read(&options.file)?;
    let prediction = simulate(&network)?;
    if options.json {
        say(Tone::Plain, &serde_json::to_string(&prediction)?);
        return Ok(ExitVerdict::Pass);
    }

    if !prediction.name.is_empty() {
        say(Tone::Plain, &format!("{}\n", prediction.name));
    }
    let drawn = picture(&network, &prediction)?;
    say(Tone::Plain, &if unicode() { drawn } else { in_ascii(&drawn) });
    say(Tone::Plain, table(&prediction).to_text(columns()).trim_end());
    say(Tone::Plain, &format!("\n{}", wrapped(&sentences(&network, &prediction), columns())));
    Ok(ExitVerdict::Pass)
}

/// The picture for terminals that show ASCII only.
fn in_ascii(drawn: &str) -> String {
    let replacements = [("└─", "`-"), ("├─", "|-"), ("│", "|"), ("─", "-"), ("µ", "u")];
    replacements.iter().fold(drawn.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn table(prediction: &NetPrediction) -> Table {
    let us = |value: f64| fixed(value, 1);
    let row = |group: &[DevicePrediction]| {
        let most = |pick: fn(&DevicePrediction) -> f64| group.iter().map(pick).fold(0.0, f64::max);
        let sum = |pick: fn(&DevicePrediction) -> u64| group.iter().map(pick).sum::<u64>();
        let answered = sum(|device| device.answered);
        let of_answers = |value: f64| if answered > 0 { us(value) } else { "-".to_owned() };
        // A device without an answer has no times.
        let least = group.iter().filter(|device| device.answered > 0);
        let least = least.map(|device| device.round_trip.min_us).fold(f64::INFINITY, f64::min);
        Row::new([
            DevicePrediction::names(group),
            us(most(|device| device.on_wire_us)),
            of_answers(least),
            of_answers(most(|device| device.round_trip.max_us)),
            count(answered),
            count(sum(|device| device.late)),
            count(sum(|device| device.lost)),
        ])
    };
    let groups = prediction.devices.chunk_by(|one, next| one.group == next.group);

    Table {
        title: format!(
            "Predicted round trips, {}, {}",
            counted(prediction.cycles, "cycle"),
            letters().microseconds()
        ),
        columns: Column::all(&["device"], &["on wire", "min", "max", "answered", "late", "lost"]),
        rows: groups.map(row).collect(),
        legend: vec![
            "on wire: command and answer on every link of the longest path; late: after the next release."
                .to_owned(),
        ],
    }
}

fn sentences(network: &Network, prediction: &NetPrediction) -> String {
    let NetPrediction { command_bytes, answer_bytes, period_us, in_time, .. } = prediction;
    let first_us = prediction.first_answer.min_us;
    let last_us = prediction.last_answer.max_us;
    let size = format!(
        "A command takes {command_bytes} bytes on the wire, an answer {answer_bytes}, and 12 more for the gap."
    );
    let arrive = if prediction.devices.iter().any(|device| device.answered > 0) {
        let (first, last) = (fixed(first_us, 1), fixed(last_us, 1));
        format!("The answers of a cycle arrive from {first} to {last} us after its release")
    } else {
        "No answer arrives".to_owned()
    };
    let period = fixed(*period_us, if period_us.fract() == 0.0 { 0 } else { 1 });
    let column = format!("{arrive}; the period is {period} us.");

    let devices = prediction.devices.len();
    let in_time = if *in_time == devices as u64 {
        String::new()
    } else {
        format!(" {in_time} of {devices} devices answer every command within the period.")
    };
    let busiest = prediction.links.iter().max_by(|a, b| a.busy_percent.total_cmp(&b.busy_percent));
    let busiest = busiest.map_or(String::new(), |link| {
        let LinkPrediction { from, to, busy_percent, .. } = link;
        let is_over = *busy_percent > 100.0;
        let busy = if is_over { "cannot carry this traffic, which takes" } else { "is busy" };
        format!(" The busiest link, {from} to {to}, {busy} {busy_percent:.1} % of the time.")
    });

    let per_answer_us = network.per_answer_us();
    let taking = if per_answer_us * devices as f64 > *period_us {
        let each = three_digits(per_answer_us);
        format!(" The controller cannot take {devices} answers of {each} us each in a period.")
    } else {
        String::new()
    };
    let phases = if network.background_streams() > 0 {
        let cycles = counted(prediction.cycles, "simulated cycle");
        format!(
            " These are the times of {cycles}, not bounds: background traffic at other instants \
             (offset_us, seed) may delay answers more."
        )
    } else {
        String::new()
    };

    format!("{size} {column}{in_time}{busiest}{taking}{phases}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_an_answer_has_no_time_and_a_link_over_its_rate_is_named() {
        let plan = "[traffic]\npayload = 1000\ncycles = 20\n\
            [[switches]]\nname = \"s\"\nlink = \"10M\"\nbuffer_kb = 3\n\
            [[devices]]\nname = \"b\"\ncount = 10\nto = \"s\"\nlink = \"1G\"\n";
        let network = Network::parse(plan).unwrap();
        let prediction = simulate(&network).unwrap();
        assert!(prediction.devices.iter().any(|device| device.answered == 0));
        let text = table(&prediction).to_text(100);
        assert!(text.contains("1,703.3") && !text.contains(" 0.0 "), "{text}");
        let said = sentences(&network, &prediction);
        assert!(said.contains("s to controller, cannot carry this traffic"), "{said}");
        assert!(!said.contains("cannot take") && !said.contains("not bounds"), "{said}");
    }

    #[test]
    fn a_program_that_is_too_slow_is_named_and_times_beside_a_camera_are_no_bounds() {
        let plan = "[controller]\nper_answer_us = 300\n\
            [[switches]]\nname = \"s\"\nlink = \"1G\"\n\
            [[devices]]\nname = \"b\"\ncount = 8\nto = \"s\"\nlink = \"100M\"\n\
            [[hosts]]\nname = \"camera\"\nto = \"s\"\nlink = \"1G\"\n\
            [[background]]\nfrom = \"camera\"\nto = \"controller\"\n\
            frame = 9018\nevery_us = 1000\n";
        let network = Network::parse(plan).unwrap();
        let said = sentences(&network, &simulate(&network).unwrap());
        assert!(said.contains("cannot take 8 answers of 300 us each in a period."), "{said}");
        assert!(said.contains("times of 100 simulated cycles, not bounds"), "{said}");
    }
}
