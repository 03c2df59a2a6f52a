# What a guest with two CPUs does in each of its boots, to have tunings applied, checked and undone. The first argument is the
# boot; files of the boot before are in /machine.tar. What the test reads is written to /out; see tuned_guests.rs.
set -eu
groups=/sys/fs/cgroup
fair=/sys/kernel/debug/sched/fair_server/cpu1/runtime
boot_ids="shield.isolcpus shield.nohz_full shield.rcu_nocbs"

mount -t cgroup2 cgroup2 $groups
[ ! -e /machine.tar ] || tar -xf /machine.tar -C /
# systemd-sysctl does this on a machine.
[ ! -e /etc/sysctl.d/90-onbeat.conf ] || sysctl -p /etc/sysctl.d/90-onbeat.conf > /dev/null

# The kernel command line that GRUB makes of its files.
kernel_line() {
    GRUB_CMDLINE_LINUX= GRUB_CMDLINE_LINUX_DEFAULT=
    . /etc/default/grub
    for part in /etc/default/grub.d/*.cfg; do
        [ ! -e "$part" ] || . "$part"
    done
    echo $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT
}

# Every setting of cpusets, interrupts and the applied tunings, and the CPUs and group of two programs.
settings() {
    find $groups -type d | sort
    find $groups -name 'cpuset.*' -o -name cgroup.subtree_control -o -name cgroup.type | sort |
        xargs grep -H '' /dev/null 2> /dev/null || true
    grep -H '' /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity /proc/sys/kernel/timer_migration \
        /sys/devices/virtual/workqueue/cpumask /proc/sys/kernel/sched_rt_runtime_us $fair
    for task in $loop $other; do
        grep -H '^Cpus_allowed_list:' /proc/$task/status
        grep -H '' /proc/$task/cgroup
    done
}

sleep 100000 & loop=$!
sleep 100000 & other=$!

apply() {
    onbeat tune apply shield.cpuset_v2 sched.fair_server sched.rt_runtime timer.migration irq.default wq.unbound --cpus 1 --polls --task $loop --yes --json
}

cpus() {
    grep -H '^Cpus_allowed_list:' /proc/$loop/status /proc/$other/status
}

apply_and_undo() {
    settings > /tmp/before
    apply > /out/apply.json
    cpus > /out/applied
    cat $groups/onbeat-loop/cpuset.cpus.partition $fair > /out/partition
    settings > /tmp/applied
    ! cmp -s /tmp/before /tmp/applied
    onbeat tune undo --json > /out/undo.json
    settings > /tmp/after
    diff /tmp/before /tmp/after > /out/difference || true
}

# The fair server without the tuning that goes with it: alone, and beside a shield by a plan and by hand.
fair_server_in_a_shield() {
    onbeat tune apply sched.fair_server --cpus 1 --polls --yes > /dev/null 2> /out/alone || true
    onbeat tune undo > /dev/null
    onbeat tune apply shield.cpuset_v2 --cpus 1 --task $loop --yes --json > /dev/null
    onbeat tune plan sched.fair_server --cpus 1 --polls --json > /out/refused.json || true
    sh -c "echo 0 > $fair" 2> /out/busy || true
    onbeat tune undo > /dev/null
}

check() { onbeat tune check --cpus 1 --polls --json > /out/check.json; }

case $1 in
    first)
        mkdir -p /etc/default/grub.d
        echo 12 > /etc/debian_version
        echo 'GRUB_CMDLINE_LINUX_DEFAULT="panic=-1"' > /etc/default/grub
        check
        apply_and_undo
        onbeat tune persist $boot_ids timer.migration --cpus 1 --polls --yes --json > /out/persist.json
        # The reboot comes while a shield is in effect.
        apply > /dev/null
        ;;
    second)
        check
        onbeat tune persist --json > /out/persisted.json
        onbeat tune undo > /out/undone || true
        onbeat tune persist --remove --json > /out/removed.json
        ;;
    third)
        check
        onbeat tune persist --json > /out/persisted.json
        apply_and_undo
        fair_server_in_a_shield
        ;;
esac

kernel_line > /out/line
cat /sys/devices/system/cpu/isolated > /out/isolated
cat /sys/devices/system/cpu/nohz_full > /out/nohz_full
tar -cf /out/machine.tar -C / etc var/lib
