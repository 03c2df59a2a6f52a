//! `onbeat bus topology --view`: lines and branches of a segment, drawn in text.

use onbeat_figures::units::Letters;
use onbeat_robot::bus::Upstream;

/// Returns the drawing, a line for each device. A line of devices goes straight down; the branches of
/// a device are drawn at their ports.
pub(crate) fn drawn(
    interface: &str,
    names: &[String],
    before: &[Upstream],
    letters: Letters,
) -> Vec<String> {
    let [last_corner, corner, beside_line, line] = match letters {
        Letters::Unicode => ["└", "├", "│", "─"],
        Letters::Ascii => ["`", "+", "|", "-"],
    };
    let mut text = vec![interface.to_owned()];
    let width = names.len().saturating_sub(1).to_string().len();
    // Devices to be drawn: what is left of them, the same for the lines after them, and the place.
    let mut pending: Vec<(String, String, usize)> = Vec::new();
    let first = |upstream: &Upstream| *upstream == Upstream::Interface;
    let roots = before.iter().enumerate().filter(|(_, upstream)| first(upstream));
    pending
        .extend(roots.map(|(place, _)| (format!("{last_corner}{line} "), "   ".to_owned(), place)));
    while let Some((left, under, place)) = pending.pop() {
        text.push(format!("{left}{place:>width$} {}", names[place]));
        let behind = |upstream: &Upstream| match upstream {
            Upstream::Device(device, port) if usize::from(*device) == place => Some(*port),
            _ => None,
        };
        let branches = before.iter().enumerate();
        let branches: Vec<(u8, usize)> =
            branches.filter_map(|(other, upstream)| Some((behind(upstream)?, other))).collect();
        if let [(_, next)] = branches[..] {
            pending.push((under.clone(), under, next));
            continue;
        }

        let last = branches.len().saturating_sub(1);
        // A stack: the branch that is drawn first is pushed last.
        for (number, (port, next)) in branches.into_iter().enumerate().rev() {
            let (mark, beside) =
                if number == last { (last_corner, " ") } else { (corner, beside_line) };
            pending.push((
                format!("{under}{mark}{line} port {port} {line} "),
                format!("{under}{beside}           "),
                next,
            ));
        }
    }

    let lost = before.iter().enumerate().filter(|(_, upstream)| **upstream == Upstream::Unknown);
    text.extend(lost.map(|(place, _)| {
        format!("?  {place:>width$} {}: not known, devices and links contradict", names[place])
    }));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_down_and_branches_are_at_their_ports() {
        let names = ["fork", "tool", "tool drive", "a", "b", "spare"].map(str::to_owned);
        let before = [
            Upstream::Interface,
            Upstream::Device(0, 3),
            Upstream::Device(1, 1),
            Upstream::Device(0, 1),
            Upstream::Device(3, 1),
            Upstream::Device(0, 2),
        ];
        assert_eq!(
            drawn("eth1", &names, &before, Letters::Unicode),
            [
                "eth1",
                "└─ 0 fork",
                "   ├─ port 3 ─ 1 tool",
                "   │           2 tool drive",
                "   ├─ port 1 ─ 3 a",
                "   │           4 b",
                "   └─ port 2 ─ 5 spare",
            ]
        );
        let ascii = drawn("eth1", &names, &before, Letters::Ascii);
        assert_eq!(ascii[1..3], ["`- 0 fork", "   +- port 3 - 1 tool"]);
        assert!(ascii.iter().all(|line| line.is_ascii()), "{ascii:?}");
    }

    #[test]
    fn every_device_is_drawn_once_also_one_whose_place_is_not_known() {
        let names: Vec<String> = (0..12).map(|place| format!("d{place}")).collect();
        let mut before = vec![Upstream::Interface];
        before.extend((1..11).map(|place| Upstream::Device(place - 1, 1)));
        before.push(Upstream::Unknown);
        let text = drawn("eth1", &names, &before, Letters::Unicode);
        assert_eq!(text.len(), 13);
        assert_eq!(text[1], "└─  0 d0");
        assert_eq!(text[11], "   10 d10");
        assert_eq!(text[12], "?  11 d11: not known, devices and links contradict");
    }
}
