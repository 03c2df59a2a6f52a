# Waits in a user's guest until it has booted, and then runs the job as a guest of onbeat's own does (/init). Read by sh, in a
# mount namespace of its own: nothing of the guest's files is needed or changed.

from=/onbeat/root
busybox=$from/bin/busybox
$busybox mkdir /onbeat/kept
$busybox mount -t tmpfs -o size=75%,mode=0700 onbeat /onbeat/kept
$busybox cp -R $from/. /onbeat/kept/
cd /onbeat/kept || exit
$busybox mount -o move . /
echo > $from/ready
exec ./bin/busybox chroot . /bin/busybox sh /wait
