# The agent in its own root: the end of the guest's boot, then the job. Read by sh.

/bin/busybox --install -s /bin
export PATH=/bin ONBEAT_PORT=/dev/ttyS1
mount -t proc proc /proc
guest=/proc/1/root

# With a job in a file somebody has logged in, and the guest has booted but for some services. For all others:
#
# The guest's own root is a file system on a device or a tmpfs; while it is the one that the kernel began with, it boots. One that
# stays there has booted after a minute.
first=$(stat -L -c %d $guest/.)
seconds=0
until [ -e /job ] || [ "$(stat -L -c %d $guest/. 2> /dev/null || echo "$first")" != "$first" ] || [ $seconds -ge 60 ]; do
    sleep 1
    seconds=$((seconds + 1))
done

state() { chroot $guest /bin/sh -c 'PATH=/usr/bin:/bin systemctl is-system-running' 2> /dev/null; }
if grep -q systemd /proc/1/comm; then
    until case $(state) in
        running | degraded | maintenance) true ;;
        *) false ;;
    esac do
        sleep 1
    done
elif [ ! -e /job ]; then
    # Nothing says when another first process has started everything.
    sleep 10
fi

# The port of a study's commands, and that of results after a login; a guest without this driver answers none, and sends its results by
# the serial port.
chroot $guest /bin/sh -c 'PATH=/usr/sbin:/sbin:/usr/bin:/bin modprobe virtio_console' 2> /dev/null
tries=0
until [ ! -e /job ] || grep -qsx onbeat $guest/sys/class/virtio-ports/*/name || [ $tries -ge 20 ]; do
    usleep 100000
    tries=$((tries + 1))
done
exec /init
