//! `onbeat robot run --view`: the robot in a browser of this machine.

use onbeat_report::units::{count, counted, percent};
use onbeat_robot::live_view::{
    LiveView, LiveViewAccount, LiveViewError, PageServerPlan, ViewLimits,
};
use onbeat_robot::session::RobotFile;

use super::options::RobotRunOptions;
use crate::term::{Tone, advise};

/// The page, as `viewer/` builds it.
const PAGE: &str = include_str!("../../../assets/live.html");

/// Returns the name under which other processes, and the view, see the robot; `None` where nobody
/// does.
pub(super) fn shared_name(options: &RobotRunOptions) -> Option<String> {
    let of_view = || options.view.map(|_| format!("view-{}", std::process::id()));
    options.name.clone().or_else(of_view)
}

/// Opens the view and prints its address. The robot's ring must exist.
pub(super) fn open(
    options: &RobotRunOptions,
    file: &RobotFile,
    name: Option<&str>,
) -> Result<Option<LiveView>, LiveViewError> {
    let (Some(port), Some(name)) = (options.view, name) else { return Ok(None) };
    let limits = ViewLimits::for_browsers(options.view_browsers.into());
    let plan = PageServerPlan { port, page: PAGE.into(), avoid_cpu: options.cpu, limits };
    let view = LiveView::open(name, file, plan)?;
    advise(Tone::Plain, &format!("live view: {}", view.server.address()));
    Ok(Some(view))
}

/// Ends the view and prints what it did.
pub(super) fn finish(view: LiveView) {
    advise(Tone::Faint, &sentence(&view.server.finish()));
}

/// What a view did.
pub(in crate::cmd) fn sentence(account: &LiveViewAccount) -> String {
    let LiveViewAccount { browsers, events, merged, cycles, lost, cpu_ns, lasted_ns, .. } =
        *account;
    let cpu = percent(cpu_ns as f64 / lasted_ns.max(1) as f64);
    let slow = match merged {
        0 => String::new(),
        _ => format!(", {} merged into later ones for slow browsers", count(merged)),
    };
    // Of a run that is followed by its files nothing is lost.
    let shown = match cycles + lost {
        0 => String::new(),
        _ => format!("; {} shown, {} lost", counted(cycles, "cycle"), count(lost)),
    };
    format!(
        "live view: {}, {}{slow}{}{shown}; {cpu} of a CPU",
        counted(browsers, "browser"),
        counted(events, "event"),
        closed(account),
    )
}

/// Connections that one of the limits applied to.
fn closed(account: &LiveViewAccount) -> String {
    let LiveViewAccount { refused, gave_way, no_request, floods, .. } = *account;
    let words = [
        (refused, "refused"),
        (gave_way, "closed for others"),
        (no_request, "closed without a request"),
        (floods, "closed for too many bytes"),
    ];
    let those = words.iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = those.map(|(n, words)| format!("{} {words}", count(*n))).collect();
    if parts.is_empty() { String::new() } else { format!("; connections: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_view_names_what_was_merged_and_lost() {
        let account = LiveViewAccount {
            browsers: 1,
            events: 200,
            merged: 3,
            cycles: 10_000,
            lost: 5,
            cpu_ns: 9_000_000,
            lasted_ns: 1_000_000_000,
            ..LiveViewAccount::default()
        };
        assert_eq!(
            sentence(&account),
            "live view: 1 browser, 200 events, 3 merged into later ones for slow browsers; \
             10,000 cycles shown, 5 lost; 0.9 % of a CPU"
        );
        let limited = LiveViewAccount { merged: 0, gave_way: 2, floods: 1_200, ..account };
        assert_eq!(
            sentence(&limited),
            "live view: 1 browser, 200 events; connections: 2 closed for others, 1,200 closed for \
             too many bytes; 10,000 cycles shown, 5 lost; 0.9 % of a CPU"
        );
    }
}
