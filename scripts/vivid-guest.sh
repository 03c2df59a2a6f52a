#!/bin/sh
# A video device for onbeat-camera: `vivid`, a module of Debian's kernels, in a guest under QEMU. Prints what the camera and a reader
# beside it report, in each format of the device that is asked for, and fails unless every one gave pictures.
# usage: vivid-guest.sh [ONBEAT-CAMERA [KERNEL.deb]]; needs qemu-system-x86, busybox-static, kmod, xz-utils, ffmpeg, v4l-utils
#
# All files of the guest are in its initramfs: programs with their libraries, a quarter of a gigabyte, which an emulated processor
# copies in seconds. Reading them from this machine by 9p took it minutes.
set -eu

camera=$(readlink -f "${1:-target/debug/onbeat-camera}")
package=${2:-}
for program in qemu-system-x86_64 busybox depmod modprobe dpkg-deb xz ffmpeg v4l2-ctl; do
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

root=$scratch/root
mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp"
cp "$(command -v busybox)" "$root/bin/busybox"
# A line for each module that it needs, in order.
/sbin/modprobe -d "$scratch/kernel" -S "$version" --show-depends vivid | sed -n 's/^insmod \([^ ]*\).*/\1/p' | while read -r module; do
    name=$(basename "$module" .xz)
    case $module in
        *.xz) xz -dc "$module" >"$root/modules/$name" ;;
        *) cp "$module" "$root/modules/$name" ;;
    esac
    echo "$name" >>"$root/modules/order"
done

# A program as it is called in the guest, and the libraries that it names.
bring() { # PROGRAM NAME
    cp "$1" "$root/bin/$2"
    ldd "$1" | sed -n 's/.* => \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p' | while read -r library; do
        mkdir -p "$root/$(dirname "$library")"
        [ -e "$root/$library" ] || cp -L "$library" "$root/$library"
    done
}
bring "$camera" onbeat-camera
bring "$(command -v ffmpeg)" ffmpeg
bring "$(command -v v4l2-ctl)" v4l2-ctl
# Some libraries are found by this list alone.
mkdir -p "$root/etc"
cp -rL /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d "$root/etc/"
strip "$root/bin/onbeat-camera" 2>/dev/null || true

cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/run
mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
echo "guest: $(uname -r), $(cut -d ' ' -f 1 /proc/uptime) s after its start"
for module in $(cat /modules/order); do
    case $module in vivid.ko) options="n_devs=1 node_types=0x1" ;; *) options= ;; esac
    insmod "/modules/$module" $options || echo "guest: $module is not loaded"
done
onbeat-camera list
for format in YUYV NV12; do
    v4l2-ctl -d /dev/video0 --set-fmt-video=width=640,height=360,pixelformat=$format || echo "guest: $format is refused"
    echo "guest: format $format"
    onbeat-camera run /dev/video0 --name vivid --frames 60 --json &
    run=$!
    for second in $(seq 120); do
        onbeat-camera list --json | grep -q '"name":"vivid"' && break
        kill -0 $run 2>/dev/null || break
        sleep 1
    done
    onbeat-camera watch vivid --for 3s --each --json
    wait $run
    echo "guest: status $? of $format"
done
echo "guest: done, $(cut -d ' ' -f 1 /proc/uptime) s after its start"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$scratch/initramfs"

# Without KVM the guest is emulated: some ten times slower.
accelerator=tcg
[ ! -w /dev/kvm ] || [ -n "${NO_KVM:-}" ] || accelerator=kvm:tcg
processor=max
timeout "${GUEST_SECONDS:-600}" qemu-system-x86_64 -M pc,accel=$accelerator -cpu $processor -m 2048 -smp 2 -display none -no-reboot -monitor none \
    -nic none -serial stdio -kernel "$scratch"/kernel/boot/vmlinuz-* -initrd "$scratch/initramfs" \
    -append "console=ttyS0 ${GUEST_APPEND:-quiet} panic=-1 tsc=reliable" </dev/null | stdbuf -oL tr -d '\r' | tee "$scratch/said"
grep -q '^guest: done' "$scratch/said" || { echo "the guest did not complete its job" >&2; exit 1; }
for format in YUYV NV12; do
    grep -q "^guest: status 0 of $format" "$scratch/said" || { echo "no pictures in the format $format" >&2; exit 1; }
done
