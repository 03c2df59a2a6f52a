#!/bin/busybox sh
# The first process of a guest. Loads the modules of /lib/modules/load, runs the job, sends what the job leaves in /out to the
# host, and powers the guest off.
#
# The job is a shell script. It comes from the file opt/onbeat/job of QEMU's fw_cfg device, filled up with null bytes, or, by gzip and
# in base64, from the word onbeat.job= of the kernel command line, or from the file /job, where a login has put it. The job `wait` has the
# machine saved; see vm/snapshot.rs.
#
# Frames, one after the other, on the virtio-serial port `onbeat`; see vm/frame.rs:
#   onbeat ready RELEASE
#   onbeat file LENGTH SHA256 PATH
#   LENGTH bytes and a newline
#   onbeat end STATUS FILES
# Without such a port the same bytes leave as base64 on the console, in lines that begin with `onbeat> `; in a user's guest (own/)
# on the serial port ONBEAT_PORT: each PC's kernel has the driver built in.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/root TMPDIR=/tmp LC_ALL=C
mkdir -p /proc /sys /dev /tmp /run /root /var/lib /out
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2> /dev/null
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /out
mount -t tracefs tracefs /sys/kernel/tracing 2> /dev/null
mount -t debugfs debugfs /sys/kernel/debug 2> /dev/null
ip link set lo up

while read -r module; do
    insmod "/lib/modules/$module" || echo "onbeat: cannot load $module"
done < /lib/modules/load

find_port() {
    for name in /sys/class/virtio-ports/*/name; do
        [ -e "$name" ] || continue
        read -r word < "$name"
        if [ "$word" = onbeat ]; then
            name=${name%/name}
            echo "/dev/${name##*/}"
        fi
    done
}

job=/run/job
raw=/sys/firmware/qemu_fw_cfg/by_name/opt/onbeat/job/raw
receive_job() {
    if [ -e /job ]; then
        cp /job $job
        return
    fi
    if [ -e $raw ]; then
        tr -d '\0' < $raw > $job
        return
    fi
    for word in $(cat /proc/cmdline); do
        case $word in
            onbeat.job=*) echo "${word#*=}" | base64 -d | gunzip > $job ;;
        esac
    done
}

port=$(find_port)
if [ -z "$port" ] && [ -n "$ONBEAT_PORT" ]; then
    port=$ONBEAT_PORT
    stty -F "$port" raw -echo clocal
fi
receive_job
if [ "$(cat $job 2> /dev/null)" = wait ]; then
    # The machine is saved within pause, and goes on from there for each job.
    spin &
    pause
    receive_job
fi

if [ -n "$port" ]; then
    exec 3> "$port"
    send() { cat >&3; }
else
    # Lines of the kernel in between would break a frame.
    send() { base64 -w 120 | sed 's/^/onbeat> /' > /dev/console; }
fi

send_file() { # PATH
    path=${1#/out/}
    length=$(stat -c %s "$1")
    checksum=$(sha256sum < "$1")
    {
        echo "onbeat file $length ${checksum%% *} $path"
        cat "$1"
        echo
    } | send
}

echo "onbeat ready $(uname -r)" | send

cd /tmp || exit
if [ -s $job ]; then
    sh $job > /out/output 2> /out/errors < /dev/null
    status=$?
else
    echo "the guest received no job" > /out/errors
    status=127
fi

files=0
find /out -type f | sort > /run/files
while read -r path; do
    send_file "$path"
    files=$((files + 1))
done < /run/files
echo "onbeat end $status $files" | send
exec 3>&-
sync
poweroff -f
