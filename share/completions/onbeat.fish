# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_onbeat_global_optspecs
    string join \n color= h/help V/version
end

function __fish_onbeat_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_onbeat_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_onbeat_using_subcommand
    set -l cmd (__fish_onbeat_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c onbeat -n "__fish_onbeat_needs_command" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c onbeat -n "__fish_onbeat_needs_command" -s V -l version -d 'Print version'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "bench" -d 'Which tuning keeps a control loop on time, idle and loaded?'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "measure" -d 'How late is one thing?'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "load" -d 'Run a load alone, until Ctrl-C'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "inject" -d 'What would my robot do if ...: one cause of lateness on purpose, at known moments, with a log'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "report" -d 'Tables and page again, from the files of a run alone'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "import" -d 'Files of cyclictest, rtla, stress-ng, jHiccup and others become a run like onbeat\'s own'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "compare" -d 'Two or more runs beside each other: figures, ratios with intervals, what differed'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "export" -d 'A run for other programs: its figures, and what ran around a spike'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "gate" -d 'Does a run pass? For continuous integration: exit status, JUnit XML'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "repair" -d 'Put back what an onbeat that was killed has left changed'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "cell" -d 'One cell of a bench, in a process of its own'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "generate" -d 'Man pages and completions'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l for -d 'Total time, with starting and stopping of loads' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l tunings -d 'Tunings: P maximum priority, M memory locked, C CPU shielded, S sleep then spin; any letters of these, or none' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l loads -d 'Loads; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l order -d 'Cells take turns in short blocks, or run one after the other as in the paper' -r -f -a "interleaved\t''
sequential\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l cpu -d 'The CPU that C shields [default: the one with the fewest device interrupts so far]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l priority -d 'Real-time priority that P gives: the maximum but one, since 99 is the kernel\'s own migration and watchdog threads\'' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l spin -d 'How long S polls the clock before a release' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l seed -d 'Shuffles the cells; the same number gives the same order' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l limit -d 'The longest wake-up latency that is still on time (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l limit-on -d 'What the limit is on' -r -f -a "wakeup\t'Wake-up latency: release to start'
period\t'Observed period: start to start'
response\t'Response time: release to end of work'"
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer" -f -a "timer" -d 'From the release a loop\'s timer was set to, to the first instruction of its cycle'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l for -d 'How long to measure; 0 is until Ctrl-C' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l limit -d 'The longest wake-up latency that is still on time (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l limit-on -d 'What the limit is on' -r -f -a "wakeup\t'Wake-up latency: release to start'
period\t'Observed period: start to start'
response\t'Response time: release to end of work'"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -l for -d 'How long; 0 is until Ctrl-C' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -l dir -d 'Where the disk load writes [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -l supervised -d 'Serve a bench: events on standard output, end when standard input ends'
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l for -d 'How long each lasts' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l every -d 'From one to the next [default: 100ms, or the least that the cause takes]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l count -d 'How many' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l pid -d 'The loop of this process [default: a loop of onbeat\'s own, at priority 90, is run and disturbed]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l cpu -d 'The loop\'s CPU [default: the one it is bound to; for a loop of onbeat\'s own the last one]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l period -d 'The loop\'s period' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l phase -d 'With --pid: where the releases lie in each period of CLOCK_MONOTONIC (`phase_ns` of a run file)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l placebo -d 'Do everything but the cause itself'
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l carried -d 'This process was started to be stopped'
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l limit -d 'The longest wake-up latency that is still on time (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l limit-on -d 'What the limit is on' -r -f -a "wakeup\t'Wake-up latency: release to start'
period\t'Observed period: start to start'
response\t'Response time: release to end of work'"
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l mission -d 'For how long the worst is to be estimated, up to a hundred times the run [default: ten times the run]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l html -d 'Write the page here [default: report.html beside the run files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l full -d 'Print the paper\'s whole tables'
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l from -d 'The format [default: what the content shows]' -r -f -a "cyclictest-json\t'cyclictest --json, with -h'
cyclictest\t'Histogram text of cyclictest: -h, -H, --histfile'
oslat-json\t'oslat --json'
rtla\t'rtla timerlat hist, rtla osnoise hist'
stress-ng\t'The log of stress-ng --cyclic 1 --cyclic-dist N'
hlog\t'HdrHistogram interval log; jHiccup'
hgrm\t'HdrHistogram percentile text'
csv\t'One value per line, with or without its time'"
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l unit -d 'Unit of the values, where the file does not tell' -r -f -a "ns\t''
us\t''
ms\t''
s\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l as -d 'What the values are, where the file does not tell: a series such as wakeup_latency, hiccup, gap' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l period -d 'The loop\'s period, where the file does not tell; gives samples without times their places' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l column -d 'The column of values in a CSV file: its name, or its number from 1' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l load -d 'What else the machine did meanwhile [default: unknown]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -s o -l to -d 'Directory to create for the run [default: a new one in --out, as measure makes it]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -l html -d 'Write a page with all runs, to be laid over each other' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -l full -d 'All series, not only the first one'
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l spike -d 'The spike of this number, as --list and the report show it [default: the worst one whose events are kept]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l cell -d 'The cell of a bench whose spikes are meant: they are numbered cell by cell' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l perfetto -d 'Write a Perfetto trace, for ui.perfetto.dev; - is standard output' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l ftrace -d 'Write the text of the kernel\'s own trace file; - is standard output' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l csv -d 'Every bucket of every interval, a line each' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l json -d 'The summary, as report --json prints it' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l hgrm -d 'HdrHistogram\'s percentile text in ms: a file per cell and series, into this directory' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l parquet -d 'Every bucket of every interval, as Apache Parquet' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l openmetrics -d 'Histograms in seconds for Prometheus and its like' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -l list -d 'List the spikes: number, time, lateness, cause, and whether the events around each are kept'
complete -c onbeat -n "__fish_onbeat_using_subcommand export" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l limit -d 'The longest time that is still good' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l at -d 'How many samples must keep the limit, and the percentile that is held against the baseline, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l series -d 'The series: wakeup_latency, observed_period, response_time, hiccup, gap, ...' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l baseline -d 'A run that this one may not be worse than' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l no-worse-than -d 'The largest ratio to the baseline that is still good' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l tuning -d 'Only this tuning of a bench, or this stream of an imported run [default: a bench\'s best tuning; all streams]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l load -d 'Only under this load [default: all]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l junit -d 'Write the result as JUnit XML' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand repair" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand repair" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l file -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l tuning -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l load -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l started -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l origin-ns -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l cpu -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l priority -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l wait -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l lock-memory
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l causes
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand generate" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand generate" -s h -l help -d 'Print help'
