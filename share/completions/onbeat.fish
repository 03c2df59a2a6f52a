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
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "robot" -d 'A robot moves: trajectories, limits, safe stop, on real or simulated EtherCAT devices'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "segment" -d 'Simulated EtherCAT devices, for any MainDevice'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "bus" -d 'A running EtherCAT bus: its state, devices, values, events, statistics, SDO transfers'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "repair" -d 'Put back what an onbeat that was killed has left changed'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "cell" -d 'One cell of a bench, in a process of its own'
complete -c onbeat -n "__fish_onbeat_needs_command" -f -a "generate" -d 'Man pages and completions'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l for -d 'Total time, with starting and stopping of loads' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l tunings -d 'Tunings: P maximum priority, M memory locked, C CPU shielded, S sleep then spin; any letters of these, or none' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l loads -d 'Loads; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l load-dir -d 'Directory that the loads\' disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l order -d 'Cells take turns in short blocks, or run one after the other as in the paper' -r -f -a "interleaved\t''
sequential\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l cpu -d 'The CPU that C shields [default: the one with the fewest device interrupts so far]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l priority -d 'Real-time priority that P gives: the maximum but one, since 99 is the kernel\'s own migration and watchdog threads\'' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l with -d 'What the loop does in each cycle besides being on time: `bus` exchanges process data with 59 simulated EtherCAT devices' -r -f -a "bus\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l spin -d 'How long S polls the clock before a release' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l seed -d 'Shuffles the cells; the same number gives the same order' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand bench" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -f -a "timer" -d 'From the release a loop\'s timer was set to, to the first instruction of its cycle'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -f -a "hiccup" -d 'From the smallest wake-up latency seen to this one: what the platform takes from a program that only sleeps'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -f -a "latency" -d 'From a release every 100 us, at priority 99, to the first instruction of its cycle, second by second'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -f -a "write" -d 'From the end of one write to an output to the end of the next'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -f -a "read-write" -d 'From an edge at an input to the end of the write that answers it, a chosen delay between them'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -f -a "chain" -d 'From a command\'s being issued, at any phase of the loop, to its effect\'s being seen at the output'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -f -a "bus" -d 'From a release to the end of a cycle that exchanges process data with the devices of an EtherCAT segment'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and not __fish_seen_subcommand_from timer hiccup latency write read-write chain bus sharing" -f -a "sharing" -d 'From asking for the exchange of a process image that others read to having it'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this), relative and relative-spin[=50us] (no grid: sleep for the period after each cycle, as in the papers of 2007 and 2009)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l load-dir -d 'Directory that the load\'s disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l loads -d 'Several loads in turns, such as idle,paper (none is idle); --for is for all of them together, in equal shares' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l load-sweep -d 'A load that rises step by step: 0..100/10 (percent of all CPUs) or sched:0..100/20 (groups); --for is for all steps' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l allowed-jitter -d 'With --load-sweep: the largest max - min that is still good, and decides the exit status [default: 100us, 1ms with a network in between, which decide nothing]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l beside -d 'End when this process does' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l for -d 'How long to measure; 0 is until Ctrl-C, or until the probe is done' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l resume -d 'Go on with the latest run of the same command in --out that has not had its whole time yet (it was killed, the machine went down, a signal ended it), in the same file; without one a new run begins'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from timer" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this), relative and relative-spin[=50us] (no grid: sleep for the period after each cycle, as in the papers of 2007 and 2009)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l load-dir -d 'Directory that the load\'s disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l loads -d 'Several loads in turns, such as idle,paper (none is idle); --for is for all of them together, in equal shares' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l load-sweep -d 'A load that rises step by step: 0..100/10 (percent of all CPUs) or sched:0..100/20 (groups); --for is for all steps' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l allowed-jitter -d 'With --load-sweep: the largest max - min that is still good, and decides the exit status [default: 100us, 1ms with a network in between, which decide nothing]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l beside -d 'End when this process does' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l for -d 'How long to measure; 0 is until Ctrl-C, or until the probe is done' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l resume -d 'Go on with the latest run of the same command in --out that has not had its whole time yet (it was killed, the machine went down, a signal ended it), in the same file; without one a new run begins'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from hiccup" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this), relative and relative-spin[=50us] (no grid: sleep for the period after each cycle, as in the papers of 2007 and 2009)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l load-dir -d 'Directory that the load\'s disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l loads -d 'Several loads in turns, such as idle,paper (none is idle); --for is for all of them together, in equal shares' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l load-sweep -d 'A load that rises step by step: 0..100/10 (percent of all CPUs) or sched:0..100/20 (groups); --for is for all steps' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l allowed-jitter -d 'With --load-sweep: the largest max - min that is still good, and decides the exit status [default: 100us, 1ms with a network in between, which decide nothing]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l beside -d 'End when this process does' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l for -d 'How long to measure; 0 is until Ctrl-C, or until the probe is done' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l resume -d 'Go on with the latest run of the same command in --out that has not had its whole time yet (it was killed, the machine went down, a signal ended it), in the same file; without one a new run begins'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from latency" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this), relative and relative-spin[=50us] (no grid: sleep for the period after each cycle, as in the papers of 2007 and 2009)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l load-dir -d 'Directory that the load\'s disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l loads -d 'Several loads in turns, such as idle,paper (none is idle); --for is for all of them together, in equal shares' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l load-sweep -d 'A load that rises step by step: 0..100/10 (percent of all CPUs) or sched:0..100/20 (groups); --for is for all steps' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l allowed-jitter -d 'With --load-sweep: the largest max - min that is still good, and decides the exit status [default: 100us, 1ms with a network in between, which decide nothing]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l beside -d 'End when this process does' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l for -d 'How long to measure; 0 is until Ctrl-C, or until the probe is done' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l output -d 'What is written to: pipe (read at once by a thread on another CPU), gpio:CHIP/LINE, serial:DEVICE, file:PATH, udp:HOST:PORT, pwm:CHIP/CHANNEL (a quarter and three quarters of its period in turn)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l resume -d 'Go on with the latest run of the same command in --out that has not had its whole time yet (it was killed, the machine went down, a signal ended it), in the same file; without one a new run begins'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from write" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this), relative and relative-spin[=50us] (no grid: sleep for the period after each cycle, as in the papers of 2007 and 2009)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l load-dir -d 'Directory that the load\'s disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l loads -d 'Several loads in turns, such as idle,paper (none is idle); --for is for all of them together, in equal shares' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l load-sweep -d 'A load that rises step by step: 0..100/10 (percent of all CPUs) or sched:0..100/20 (groups); --for is for all steps' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l allowed-jitter -d 'With --load-sweep: the largest max - min that is still good, and decides the exit status [default: 100us, 1ms with a network in between, which decide nothing]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l beside -d 'End when this process does' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l for -d 'How long to measure; 0 is until Ctrl-C, or until the probe is done' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l input -d 'Where edges come from: generator (a thread on another CPU, every period), gpio:CHIP/LINE (rising edges with the kernel\'s time stamps), and with --stimulus serial:DEVICE, file:FIFO, udp:HOST:PORT' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l output -d 'What is written to: pipe (read at once by a thread on another CPU), gpio:CHIP/LINE, serial:DEVICE, file:PATH, udp:HOST:PORT, pwm:CHIP/CHANNEL (a quarter and three quarters of its period in turn)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l stimulus -d 'What the generator writes to, when the input is at the other end of a cable, a FIFO or a socket' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l delay -d 'From taking an edge up to the write that answers it' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l resume -d 'Go on with the latest run of the same command in --out that has not had its whole time yet (it was killed, the machine went down, a signal ended it), in the same file; without one a new run begins'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from read-write" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this), relative and relative-spin[=50us] (no grid: sleep for the period after each cycle, as in the papers of 2007 and 2009)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l load-dir -d 'Directory that the load\'s disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l loads -d 'Several loads in turns, such as idle,paper (none is idle); --for is for all of them together, in equal shares' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l load-sweep -d 'A load that rises step by step: 0..100/10 (percent of all CPUs) or sched:0..100/20 (groups); --for is for all steps' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l allowed-jitter -d 'With --load-sweep: the largest max - min that is still good, and decides the exit status [default: 100us, 1ms with a network in between, which decide nothing]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l beside -d 'End when this process does' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l for -d 'How long to measure; 0 is until Ctrl-C, or until the probe is done' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l output -d 'What is written to: pipe (read at once by a thread on another CPU), gpio:CHIP/LINE, serial:DEVICE, file:PATH, udp:HOST:PORT, pwm:CHIP/CHANNEL (a quarter and three quarters of its period in turn)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l observe -d 'Where the output\'s effect is seen: gpio:CHIP/LINE with the kernel\'s time stamps, or udp:HOST:PORT, serial:DEVICE, file:FIFO [default: the other end of the pipe; for another output the return of the write]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l count -d 'How many commands are issued, one every seven to eight periods; 0 for no end but --for' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l with -d 'What the loop\'s output is: a place (--output), or a bus of simulated devices: an input changes, and the set-point of a drive follows through the motion controller (without a drive, an output of the same device); then --devices, --exchange, --wire, --clock, --device-delay as of `measure bus`' -r -f -a "output\t''
bus\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l devices -d 'File that lists the devices, see docs/segment.md; `humanoid` ships with onbeat and has 59' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l exchange -d 'pipelined: send at once, read the reply in the next cycle; same-cycle: wait for the reply before the controller\'s turn' -r -f -a "pipelined\t''
same-cycle\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l spin -d 'same-cycle: waits for a reply awake for this long before it sleeps; given up where replies never come meanwhile' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l wire -d 'To simulated devices: interfaces (veth in a namespace of their own), socket (in this process, no rights), or any of them' -r -f -a "any\t''
interfaces\t''
socket\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l clock -d 'reference: releases follow the reference clock of the segment; own: they follow this computer\'s' -r -f -a "own\t''
reference\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l device-delay -d 'Simulated devices take their outputs and show their inputs this long after a frame has passed, as those with a processor do [default: `delay_us` of the file]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l resume -d 'Go on with the latest run of the same command in --out that has not had its whole time yet (it was killed, the machine went down, a signal ended it), in the same file; without one a new run begins'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from chain" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this), relative and relative-spin[=50us] (no grid: sleep for the period after each cycle, as in the papers of 2007 and 2009)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l load-dir -d 'Directory that the load\'s disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l loads -d 'Several loads in turns, such as idle,paper (none is idle); --for is for all of them together, in equal shares' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l load-sweep -d 'A load that rises step by step: 0..100/10 (percent of all CPUs) or sched:0..100/20 (groups); --for is for all steps' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l allowed-jitter -d 'With --load-sweep: the largest max - min that is still good, and decides the exit status [default: 100us, 1ms with a network in between, which decide nothing]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l beside -d 'End when this process does' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l for -d 'How long to measure; 0 is until Ctrl-C, or until the probe is done' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l devices -d 'File that lists the devices, see docs/segment.md; `humanoid` ships with onbeat and has 59' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l interface -d 'Network interface with real devices, which must be those of the file [default: the file\'s devices are simulated]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l exchange -d 'pipelined: send at once, read the reply in the next cycle; same-cycle: wait for the reply before the controller\'s turn' -r -f -a "pipelined\t''
same-cycle\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l spin -d 'same-cycle: waits for a reply awake for this long before it sleeps; given up where replies never come meanwhile' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l wire -d 'To simulated devices: interfaces (veth in a namespace of their own), socket (in this process, no rights), or any of them' -r -f -a "any\t''
interfaces\t''
socket\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l clock -d 'reference: releases follow the reference clock of the segment; own: they follow this computer\'s' -r -f -a "own\t''
reference\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l device-delay -d 'Simulated devices take their outputs and show their inputs this long after a frame has passed, as those with a processor do [default: `delay_us` of the file]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l serve -d 'Shares the process image under this name: `onbeat bus state --name NAME`, and a process that owns the outputs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l sharing -d 'How those who share the image keep out of each other\'s way' -r -f -a "wait-free\t''
pi\t''
plain\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l resume -d 'Go on with the latest run of the same command in --out that has not had its whole time yet (it was killed, the machine went down, a signal ended it), in the same file; without one a new run begins'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from bus" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l cpu -d 'Stay on this CPU [default: wherever the scheduler puts the loop]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l wait -d 'How to wait: sleep, spin[=50us] (sleep, then poll the clock for the last part), adaptive[=300us] (a margin that follows the machine, never longer than this), relative and relative-spin[=50us] (no grid: sleep for the period after each cycle, as in the papers of 2007 and 2009)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l load -d 'What else the machine shall do meanwhile; see `onbeat load --help`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l load-dir -d 'Directory that the load\'s disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l loads -d 'Several loads in turns, such as idle,paper (none is idle); --for is for all of them together, in equal shares' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l load-sweep -d 'A load that rises step by step: 0..100/10 (percent of all CPUs) or sched:0..100/20 (groups); --for is for all steps' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l allowed-jitter -d 'With --load-sweep: the largest max - min that is still good, and decides the exit status [default: 100us, 1ms with a network in between, which decide nothing]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l beside -d 'End when this process does' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l priority -d 'Real-time priority, 1 to 99; 0 is an ordinary thread. 90 leaves room above for what must not wait for the loop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l for -d 'How long to measure; 0 is until Ctrl-C, or until the probe is done' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l sharing -d 'How the loop and its readers keep out of each other\'s way: wait-free (nobody waits), pi (a mutex with priority inheritance, as in the paper), plain (one without)' -r -f -a "wait-free\t''
pi\t''
plain\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l readers -d 'Ordinary threads that read the image, 10,000 times a second each' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l hold -d 'How long a reader stays in each reading, polling the clock; matters where there is a lock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l no-causes -d 'Leave out the flight recorder that finds out why cycles were late'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l no-lock-memory -d 'Leave memory unlocked'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l resume -d 'Go on with the latest run of the same command in --out that has not had its whole time yet (it was killed, the machine went down, a signal ended it), in the same file; without one a new run begins'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -l hog -d 'A thread of half the loop\'s priority takes four fifths of the loop\'s CPU, and one reader runs there too: without priority inheritance the loop waits for the hog. Without --cpu, the last CPU is taken'
complete -c onbeat -n "__fish_onbeat_using_subcommand measure; and __fish_seen_subcommand_from sharing" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -l for -d 'How long; 0 is until Ctrl-C' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -l dir -d 'Directory that the disk part writes in [default: the system\'s directory for temporary files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -l supervised -d 'Serve a bench: events on standard output, end when standard input ends'
complete -c onbeat -n "__fish_onbeat_using_subcommand load" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l for -d 'How long each lasts' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l every -d 'From one to the next [default: 100ms, or the least that the cause takes]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l count -d 'How many' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand inject" -l pid -d 'The loop of this process [default: a loop of onbeat\'s own is run and disturbed, at priority 90 unless the cause takes an ordinary one]' -r
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
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l mission -d 'For how long the worst is to be estimated, up to a hundred times the run [default: ten times the run]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l html -d 'Write the page here [default: report.html beside the run files]' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l full -d 'Print the paper\'s whole tables'
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l brief -d 'Print tables and verdict only, and write no page: quick, for a run that goes on'
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand report" -s h -l help -d 'Print help'
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
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -l on -d 'The series to show [default: what each run is about]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -l html -d 'Write a page with all runs, to be laid over each other' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand compare" -l full -l all-series -d 'Show all series'
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
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l series -d 'The series: release_latency, observed_period, response_time, hiccup, gap, ...' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l limit-on -d 'events=N: at most N alarms of bus and robot' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l baseline -d 'A run that this one may not be worse than' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l no-worse-than -d 'The largest ratio to the baseline that is still good' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l tuning -d 'Only this tuning of a bench, or this stream of an imported run [default: a bench\'s best tuning; all streams]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l load -d 'Only under this load [default: all]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l junit -d 'Write the result as JUnit XML, an error where there is none; - is standard output' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand gate" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and not __fish_seen_subcommand_from run goal" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and not __fish_seen_subcommand_from run goal" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and not __fish_seen_subcommand_from run goal" -f -a "run" -d 'Moves the joints of a robot along a trajectory, until Ctrl-C; that stops it in order'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and not __fish_seen_subcommand_from run goal" -f -a "goal" -d 'Says where joints of a running robot should be'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l trajectory -d 'What to play: hold, sine, gait, csv:FILE; goal follows the lines of standard input, commander whoever gives goals through the image (--name) [default: the file\'s, else hold]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l interface -d 'Network interface that the devices are behind' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l name -d 'Shares the process image under this name, for `onbeat bus state --name NAME` and whoever else looks on, and for `onbeat robot goal NAME`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l for -d 'How long until it stops in order; 0 is until Ctrl-C' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l priority -d 'Real-time priority of the loop, 1 to 99; 0 for none' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l cpu -d 'Keep the loop on this CPU' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l wait -d 'How the loop waits for a release: sleep, spin=TIME, adaptive=TIME' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l period -d 'Distance of two releases' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l work -d 'Work per cycle: the loop polls the clock that long, as a controller would compute' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l deadline -d 'A cycle that ends later than this after its release has missed its deadline [default: the period]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l on-overrun -d 'What to do when a cycle ends after the next release: skip (and count), catch-up=N, stop' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l phase -d 'Where the releases lie: avoid-tick keeps them clear of the kernel\'s periodic tick, whose interrupt would make them late; a time such as 0us or 250us puts them there in each period of the clock' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l spikes-over -d 'From which lateness on (late start, plus work beyond the plan) a cycle is kept as a spike [default: 10 times the median wake-up latency of its interval, at least 50us]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l dma-latency -d 'Keep CPUs out of idle states that take longer than this to leave; changes the whole machine while it runs' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l limit -d 'The longest that is still on time, of what the run is about (or see --limit-on)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l at -d 'How many of the releases must keep it, in percent' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l limit-on -d 'What the limit is on: main (what the run is about), release, period or response; or events=N: at most N alarms of bus and robot, which needs no --limit' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l out -d 'Directory that gets one directory per run, and `latest`' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l simulate -d 'The devices of the file are simulated in this process; so it is without --interface'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l same-cycle -d 'A cycle waits for its own reply; without it, it works with the reply of the one before, which costs a cycle and no wait'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l no-causes -d 'Do not look for the causes of spikes'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l lockdown -d 'Kill the process if the loop asks the kernel for anything but sleep and time'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l json -d 'Print one JSON object and nothing else'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -l verbose -d 'Print all conclusions in sentences above the closing lines'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from goal" -l for -d 'How long to go on commanding once the robot follows; 0 is not at all. The joints stay there afterwards' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from goal" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand robot; and __fish_seen_subcommand_from goal" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and not __fish_seen_subcommand_from run fault heal status" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and not __fish_seen_subcommand_from run fault heal status" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and not __fish_seen_subcommand_from run fault heal status" -f -a "run" -d 'Simulated devices answer on a network interface, until Ctrl-C'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and not __fish_seen_subcommand_from run fault heal status" -f -a "fault" -d 'Have something go wrong on a segment that is running'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and not __fish_seen_subcommand_from run fault heal status" -f -a "heal" -d 'End all faults of a segment that is running, and forget those still to come'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and not __fish_seen_subcommand_from run fault heal status" -f -a "status" -d 'Devices with their AL states, frames and faults of a segment that is running'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l device -d 'Of an ESI file, the device of this type or name; several times for several devices. Without it, one of each' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l veth -d 'Make a pair of interfaces, NAME for the MainDevice and NAME-seg for the devices; for a ring also NAMEb and NAMEb-seg. All are gone at the end' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l tap -d 'Make a TAP device NAME for the MainDevice, for a ring also NAMEb; the least delay of the three' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l interface -d 'Answer on a network interface that is there' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l second -d 'The interface at the far end of a ring' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l pcap -d 'Capture all frames in this file, for Wireshark' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l log -d 'Write all faults into this file, a line of JSON each' -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l priority -d 'Real-time priority of the devices, 1 to 99, where it is permitted; 0 for none. Real devices are never late, and MainDevices wait for a few milliseconds only' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l for -d 'How long; 0 is until Ctrl-C' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l device -d 'Name of the device' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l with -d 'Name of the device it changes places with (`swap`)' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l by -d 'How much: ns or a time such as 2ms, parts per billion, or what is added to a working counter' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l code -d 'AL status code, abort code or error code, such as 0x1b' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l state -d 'AL state: init, preop, safeop, op, or its number' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l mails -d 'How many mails' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l share -d 'Part of the frames that it befalls, 0 to 1' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l for -d 'How long; without it, until `onbeat segment heal`' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l on -d 'Interface that the MainDevice uses; needed when several segments are running' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -l list -d 'All kinds, and the faults that are there'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from fault" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from heal" -l on -d 'Interface that the MainDevice uses; needed when several segments are running' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from heal" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from heal" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from status" -l on -d 'Interface that the MainDevice uses; needed when several segments are running' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from status" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from status" -l json -d 'As JSON'
complete -c onbeat -n "__fish_onbeat_using_subcommand segment; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -f -a "scan" -d 'Scan for devices (read-only)'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -f -a "run" -d 'Runs a bus whose outputs belong to another process, and shares its process image'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -f -a "state" -d 'Does it run, in which cycle is it, who owns the outputs?'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -f -a "info" -d 'Its devices: identity, AL state, place in the process image'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -f -a "watch" -d 'Values of devices, line by line'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -f -a "events" -d 'What has happened on it'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -f -a "stats" -d 'Cycles, frames, times since it began'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and not __fish_seen_subcommand_from scan run state info watch events stats sdo" -f -a "sdo" -d 'Reads or writes an object of a device'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from scan" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from scan" -l beside-running -d 'Scan although a bus is running there; registers are read only, between its frames'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from scan" -l json -d 'As JSON'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from scan" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from run" -l interface -d 'Network interface with the file\'s devices [default: they are simulated]' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from run" -l name -d 'Name of the process image' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from run" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from state" -l name -d 'The bus\'s name' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from state" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from state" -l json -d 'As JSON'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from state" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from info" -l name -d 'The bus\'s name' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from info" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from info" -l json -d 'As JSON'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from info" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from watch" -l every -d 'How often' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from watch" -l count -d 'How many times; 0 is until Ctrl-C' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from watch" -l name -d 'The bus\'s name' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from watch" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from watch" -l json -d 'As JSON'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from events" -l from -d 'From this number on; events that are kept no more are counted as missed' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from events" -l name -d 'The bus\'s name' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from events" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from events" -l follow -d 'Goes on with those that come, until Ctrl-C or the bus ends'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from events" -l json -d 'As JSON'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from events" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from stats" -l name -d 'The bus\'s name' -r
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from stats" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from stats" -l text -d 'A line `KEY VALUE` each, for scripts (docs/control.md)'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from stats" -l json -d 'As JSON'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from stats" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from sdo" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from sdo" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from sdo" -f -a "read" -d 'Reads an object'
complete -c onbeat -n "__fish_onbeat_using_subcommand bus; and __fish_seen_subcommand_from sdo" -f -a "write" -d 'Writes an object'
complete -c onbeat -n "__fish_onbeat_using_subcommand repair" -l color -d 'Colours in the output; `auto` follows the terminal, NO_COLOR and CLICOLOR_FORCE' -r -f -a "auto\t''
always\t''
never\t''"
complete -c onbeat -n "__fish_onbeat_using_subcommand repair" -l force -d 'Restore also settings that something else has changed since'
complete -c onbeat -n "__fish_onbeat_using_subcommand repair" -l forget -d 'Drop changes that cannot be undone from the record'
complete -c onbeat -n "__fish_onbeat_using_subcommand repair" -s h -l help -d 'Print help'
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l file -r -F
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l tuning -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l load -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l started -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l origin-ns -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l cpu -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l priority -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l wait -r
complete -c onbeat -n "__fish_onbeat_using_subcommand cell" -l with -r -f -a "bus\t''"
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
