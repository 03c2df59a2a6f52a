//! Two boards: what became of the edges between them, how well their clocks are known, and t_r,
//! t_n and t_w.

use std::collections::BTreeMap;

use super::statistics::Statistics;
use super::units::{Letters, count, time_ns};
use onbeat_record::{BoardAccount, ClockAccount, PtpAccount, RunFile, Series};

/// Returns the account of the edges, the clocks, and the means of Mossige, Sampath and Rao (2007);
/// nothing for a run without a second board.
#[must_use]
pub fn sentences(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Vec<String> {
    let Some(account) = &run.boards else { return Vec::new() };
    let delay_ns = run.header.timing.as_ref().map_or(0, |timing| timing.delay_ns);
    let ptp = account.ptp.as_ref().map(wall_clocks);
    [Some(fates(account)), means(account, delay_ns, series), Some(clocks(account)), ptp]
        .into_iter()
        .flatten()
        .collect()
}

fn time(ns: f64) -> String {
    time_ns(ns.round() as u64, Letters::Ascii)
}

fn fates(account: &BoardAccount) -> String {
    let others = [
        (account.refused, "not sent by the system"),
        (account.write_failures, "failed writes to the output"),
        (account.duplicates, "further reports"),
    ];
    let others: Vec<String> = others
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!(", {} {what}", count(*n)))
        .collect();
    let lost = match account.lost {
        0 => "0 lost".to_owned(),
        n => format!("{} lost, each counted with {}", count(n), time(account.lost_after_ns as f64)),
    };
    format!(
        "{} edges sent to the board at {}: {} outputs reported, {lost}{}",
        count(account.sent),
        account.board,
        count(account.returned),
        others.concat()
    )
}

/// The means; none where an edge has no one-way figure, because they would be of different edges.
fn means(
    account: &BoardAccount,
    delay_ns: u64,
    series: &BTreeMap<Series, Statistics>,
) -> Option<String> {
    let of = |one: Series| series.get(&one);
    let whole = of(Series::Chain)?;
    let read = of(Series::ReadLatency)?;
    let network = of(Series::NetworkLatency)?;
    let output = of(Series::OutputLatency)?;
    if account.lost > 0 || account.unfitted > 0 {
        return None;
    }

    let bound_ns = account.clock.as_ref().map_or(0, |clock| clock.most_bound_ns);
    let delays_ns = (delay_ns + account.delay_ns) as f64;
    Some(format!(
        "t_rwn, the mean without both delays of {}: {}; t_n = t_rwn - t_rw, from the end of the first delay to the second \
         board's program: {}, both +- {}; t_r, from the edge to the first board's program: {}; t_w, from the end of the \
         second delay to the output: {}; jitter of the whole (max - min): {}",
        time(delays_ns),
        time(whole.mean_ns - delays_ns),
        time(network.mean_ns),
        time(bound_ns as f64),
        time(read.mean_ns),
        time(output.mean_ns),
        time(whole.jitter_ns as f64)
    ))
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", time(ns.unsigned_abs() as f64))
}

fn wall_clocks(ptp: &PtpAccount) -> String {
    let PtpAccount {
        interface,
        state,
        readings,
        losses,
        rms_ns,
        most_offset_ns,
        path_delay_ns,
        ..
    } = ptp;
    if !ptp.is_locked {
        return format!(
            "ptp4l on {interface}: the clocks were not locked ({} readings, port {state}); one-way figures rest on the clock \
             fit alone",
            count(*readings)
        );
    }
    let lost = match losses {
        0 => String::new(),
        n => format!("; the time transmitter was lost {} times", count(*n)),
    };
    format!(
        "ptp4l on {interface}: offset of the wall clocks {} rms and {} at most in {} readings, path delay {}; neither clock \
         was set{lost}",
        time(*rms_ns as f64),
        time(*most_offset_ns as f64),
        count(*readings),
        signed(*path_delay_ns)
    )
}

fn clocks(account: &BoardAccount) -> String {
    let unfitted = match account.unfitted {
        0 => String::new(),
        n => format!(
            "; {} edges have no one-way figures, because a clock was set, changed its rate, or is not the one it was said \
             to be: each counts until its report was back",
            count(n)
        ),
    };
    if account.is_one_clock {
        return format!("Clocks: both boards read one clock{unfitted}");
    }
    let Some(clock) = &account.clock else {
        return format!("The clocks of the boards are not known to each other{unfitted}");
    };
    let ClockAccount { fits, offset_ns, drift_ppm, least_bound_ns, most_bound_ns, .. } = clock;
    let ahead = if *offset_ns < 0 { "behind" } else { "ahead" };
    format!(
        "Clocks: at the end the second board's was {} {ahead}, and {drift_ppm:+.2} ppm fast; {} fits of packets in both \
         directions, none wrong by more than {} to {}, which holds for every one-way figure{unfitted}",
        time(offset_ns.unsigned_abs() as f64),
        count(*fits),
        time(*least_bound_ns as f64),
        time(*most_bound_ns as f64)
    )
}
