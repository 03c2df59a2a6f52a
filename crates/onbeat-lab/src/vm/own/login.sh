# Starts the agent in a user's guest that has booted from its own disk. Read by sh, as root, from the serial console's shell; the
# files come from a disk that is a tar archive, with the job.

from=/run/onbeat/onbeat/root

# A login's cgroup may have no real-time budget (RT_GROUP_SCHED): that of the whole machine has.
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    echo $$ > /sys/fs/cgroup/cgroup.procs
else
    for procs in /sys/fs/cgroup/*/cgroup.procs; do
        [ ! -e "$procs" ] || echo $$ > "$procs"
    done
fi 2> /dev/null

# The serial port of results may raise more interrupts than a PREEMPT_RT kernel takes note of, which then switches it off.
echo Y > /sys/module/spurious/parameters/noirqdebug 2> /dev/null

echo "onbeat: agent"
# The shell stays, so that no other login is offered and nothing ends with this one.
$from/bin/busybox unshare -m $from/bin/busybox chroot $from /bin/busybox sh /wait < /dev/null > /dev/console 2>&1
