#!/onbeat/root/bin/busybox sh
# The first process of a user's guest, by rdinit=. It leaves an agent behind and becomes what the kernel would have started.
#
#   kernel ── /onbeat/start ──┬── agent (waits until the guest has booted, runs the job, powers off)
#                             └── exec /init of the guest's own initrd, or switch_root to root=
#
# Who changes to the real root deletes all files of this one, and fails where it cannot. So the agent has a mount namespace of
# its own, in which a tmpfs with its files is moved over the root.

busybox=/onbeat/root/bin/busybox
$busybox mkdir -p /proc /dev
$busybox mount -t devtmpfs devtmpfs /dev 2> /dev/null
$busybox setsid $busybox unshare -m $busybox sh /onbeat/root/agent &
until [ -e /onbeat/root/ready ]; do
    $busybox usleep 10000
done

if [ -x /init ]; then
    $busybox umount /dev
    exec /init "$@"
fi

# Without an initrd, the kernel would have mounted the root itself.
say() { echo "onbeat: $*" > /dev/console; }
$busybox mkdir -p /onbeat-root
$busybox mount -t proc proc /proc
root='' type='' init=/sbin/init flags=ro
for word in $($busybox cat /proc/cmdline); do
    case $word in
        root=*) root=${word#root=} ;;
        rootfstype=*) type="-t ${word#rootfstype=}" ;;
        init=*) init=${word#init=} ;;
        ro | rw) flags=$word ;;
    esac
done
case $root in
    UUID=* | LABEL=* | PARTUUID=* | PARTLABEL=*) root=$($busybox findfs "$root" 2> /dev/null || echo "$root") ;;
esac
tries=0
until [ -b "$root" ] || [ $tries -ge 100 ]; do
    $busybox usleep 100000
    tries=$((tries + 1))
done
# shellcheck disable=SC2086 # an option and its word, or nothing
if ! $busybox mount $type -o $flags "$root" /onbeat-root 2> /dev/null; then
    say "cannot mount root=$root: give the guest's initrd, or a root= that its kernel mounts without one"
    $busybox poweroff -f
fi
$busybox umount /proc
exec $busybox switch_root /onbeat-root "$init" "$@"
