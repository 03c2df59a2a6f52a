#!/bin/sh
# A video device for onbeat-camera: `vivid`, a module of Debian's stock kernel, in a guest under QEMU that sees this machine's files
# read-only. Prints what the camera and a reader beside it report, in each format of the device that is asked for.
# usage: vivid-guest.sh [ONBEAT-CAMERA [KERNEL.deb]]; needs qemu-system-x86, busybox-static, kmod, ffmpeg, v4l-utils
set -eu

camera=$(readlink -f "${1:-target/debug/onbeat-camera}")
package=${2:-}
for program in qemu-system-x86_64 busybox depmod modprobe dpkg-deb ffmpeg; do
    command -v "$program" >/dev/null 2>&1 || [ -x "/sbin/$program" ] || { echo "skipped: $program is not installed"; exit 0; }
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -z "$package" ]; then
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p')
    (cd "$scratch" && apt-get download -qq "$kernel" 2>/dev/null) || { echo "skipped: $kernel cannot be fetched"; exit 0; }
    package=$(echo "$scratch"/linux-image-*.deb)
fi
dpkg-deb -x "$package" "$scratch/kernel"
version=$(basename "$scratch"/kernel/lib/modules/*)
/sbin/depmod -b "$scratch/kernel" "$version"

mkdir -p "$scratch/initramfs/bin" "$scratch/initramfs/modules" "$scratch/initramfs/host" "$scratch/initramfs/proc" "$scratch/initramfs/sys" \
    "$scratch/initramfs/dev"
cp "$(command -v busybox)" "$scratch/initramfs/bin/busybox"
for module in virtio_pci 9pnet_virtio 9p vivid; do
    # A line for each module that it needs, in order.
    /sbin/modprobe -d "$scratch/kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | awk '!seen[$0]++' >"$scratch/list"
while read -r module; do
    cp "$module" "$scratch/initramfs/modules/"
    basename "$module"
done <"$scratch/list" >"$scratch/initramfs/modules/order"

cat >"$scratch/initramfs/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
/bin/busybox mount -t proc proc /proc
echo "guest: \$(/bin/busybox uname -r)"
/bin/busybox mount -t sysfs sys /sys
for module in \$(/bin/busybox cat /modules/order); do
    case \$module in vivid.ko) options="n_devs=1 node_types=0x1" ;; *) options= ;; esac
    /bin/busybox insmod /modules/\$module \$options || echo "guest: \$module is not loaded"
done
/bin/busybox mount -t 9p -o trans=virtio,ro,version=9p2000.L,msize=524288,cache=loose host /host || echo "guest: no files of the host"
for folder in tmp run var/tmp; do /bin/busybox mount -t tmpfs tmpfs /host/\$folder; done
/bin/busybox mount -t devtmpfs dev /host/dev
/bin/busybox mount -t proc proc /host/proc
/bin/busybox mount -t sysfs sys /host/sys
/bin/busybox mkdir -p /host/dev/shm /host/run/onbeat
/bin/busybox mount -t tmpfs tmpfs /host/dev/shm
# The program may be below a folder that is empty in the guest.
/bin/busybox cp /onbeat-camera /host/run/onbeat-camera
/bin/busybox cat >/host/run/job <<'JOB'
export PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/run
camera=/run/onbeat-camera
\$camera list
for format in YUYV MJPG NV12; do
    if command -v v4l2-ctl >/dev/null; then
        v4l2-ctl -d /dev/video0 --set-fmt-video=width=640,height=360,pixelformat=\$format >/dev/null 2>&1 || echo "guest: \$format is refused"
    fi
    echo "guest: format \$format"
    \$camera run /dev/video0 --name vivid --frames 300 --json &
    run=\$!
    # An emulated processor takes a minute to load ffmpeg.
    for _ in \$(seq 120); do
        \$camera list --json 2>/dev/null | grep -q '"name":"vivid"' && break
        sleep 1
    done
    \$camera watch vivid --for 5s --each --json
    wait \$run
    echo "guest: status \$?"
done
echo "guest: done"
JOB
/bin/busybox chroot /host /bin/sh /run/job 2>&1
/bin/busybox poweroff -f
INIT
chmod +x "$scratch/initramfs/init"
cp "$camera" "$scratch/initramfs/onbeat-camera"
(cd "$scratch/initramfs" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$scratch/initramfs.gz"

# Without KVM the guest is emulated: some ten times slower.
accelerator=tcg
[ ! -w /dev/kvm ] || accelerator=kvm:tcg
timeout "${GUEST_SECONDS:-600}" qemu-system-x86_64 -M pc,accel=$accelerator -m 2048 -smp 2 -nographic -no-reboot -monitor none -serial stdio \
    -kernel "$scratch"/kernel/boot/vmlinuz-* -initrd "$scratch/initramfs.gz" -append "console=ttyS0 quiet panic=-1 loglevel=3" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap </dev/null | stdbuf -oL tr -d '\r' | tee "$scratch/said"
grep -q '^guest: done' "$scratch/said" || { echo "the guest did not complete its job" >&2; exit 1; }
