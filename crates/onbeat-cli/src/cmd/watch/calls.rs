//! `onbeat watch --cycle`: the cycles are the calls of a function.

use std::num::NonZeroU32;

use onbeat::cause::probe_price::price_of_probes_ns;
use onbeat::cause::stream::FunctionPlace;
use onbeat::probe::Interruptions;
use onbeat_watch::calls::{collector_of_calls, look_at_calls, loop_of_calls};
use onbeat_watch::choose::SeenThread;
use onbeat_watch::survey::Survey;
use onbeat_watch::symbol::{FirstInstruction, FunctionFound, find};
use onbeat_watch::threads;
use onbeat_watch::words::{choice_words, process_words};

use super::options::WatchOptions;
use super::record;
use crate::cmd::failure::watch::WatchFailure;
use crate::cmd::{ExitVerdict, Failure, show};
use crate::term::{Tone, letters, say, say_wrapped};

pub(super) fn watch(
    options: &WatchOptions,
    pid: i32,
    symbol: &str,
    seen: &Survey,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let found = find(pid, symbol)?;
    let number = NonZeroU32::new(pid.unsigned_abs()).unwrap_or(NonZeroU32::MIN);
    let place = FunctionPlace { pid: number, file: found.file.clone(), offset: found.offset };
    let refused = |why| WatchFailure::NotProbed { function: found.name.clone(), why };
    let calls = look_at_calls(&place, &interruptions.stop).map_err(refused)?;
    let is_asked = |thread: &&SeenThread| {
        let facts = &thread.facts;
        options.thread.is_empty()
            || options
                .thread
                .iter()
                .any(|name| *name == facts.name || name.parse::<u32>() == Ok(facts.tid()))
    };
    let count =
        |thread: &SeenThread| calls.get(&thread.facts.tid()).map_or(0, |calls| calls.begins.len());
    let caller = seen.threads.iter().filter(is_asked).max_by_key(|thread| count(thread));
    let chosen = caller
        .and_then(|thread| loop_of_calls(thread, seen.looked_ns, calls.get(&thread.facts.tid())?));
    let Some((watched, timer)) = chosen else {
        let function = found.name.clone();
        return Err(WatchFailure::NotCalled { function }.into());
    };

    if !options.output.json {
        let process = process_words(pid);
        show::table(&threads::table(seen, &process, Some(watched.thread.tid()), letters()));
        say_wrapped(Tone::Plain, &words(&found));
        say_wrapped(Tone::Plain, &choice_words(&watched, letters()));
        say(Tone::Plain, "");
    }
    let mut collector = collector_of_calls(&watched, timer, &place).map_err(refused)?;
    record(options, &mut collector, seen, &watched, interruptions)
}

fn words(found: &FunctionFound) -> String {
    let FunctionFound { name, file, offset, first } = found;
    let is_emulated = *first == FirstInstruction::Emulated;
    let price = price_of_probes_ns(is_emulated)
        .map(|ns| format!(" Its probes make each call {:.1} us longer here.", ns / 1e3))
        .unwrap_or_default();
    let warning = if is_emulated {
        ""
    } else {
        " Its first instruction is single-stepped, which is the dearer of two ways: a function that begins with push or a nop (-fpatchable-function-entry=1) is probed for less."
    };
    format!("A cycle is a call of {name}, at {offset:#x} of {}.{price}{warning}", file.display())
}
