# What a guest does to have causes planted: a disk, a cgroup hierarchy and a cable, then the benchmark with the arguments given.
set -eu
mount -t cgroup2 cgroup2 /sys/fs/cgroup
dd if=/dev/zero of=/tmp/disk bs=1M count=0 seek=128 2> /dev/null
losetup /dev/loop0 /tmp/disk
mke2fs -q /dev/loop0 > /dev/null
mkdir -p /disk
mount -t ext4 /dev/loop0 /disk
export TMPDIR=/disk
for card in eth0 eth1; do
    ip link set $card up
done
exec causes --bench --load idle "$@"
