#!/bin/busybox sh
# The guest's first process, from the initial RAM disk: makes the owner's root file system the guest's own.
/bin/busybox --install -s /bin
export PATH=/bin

# Ends the machine. Before the status port is open, the console alone gets to know why.
fail() {
  echo "rails guest: $1"
  [ -z "$port_is_open" ] || echo "failed $1" >&4
  poweroff -f
}

# The device of a virtio-serial port, which appears some time after its driver was loaded.
port() {
  tries=0
  while [ $tries -lt 100 ]; do
    for name in /sys/class/virtio-ports/*/name; do
      if [ "$(cat "$name" 2>/dev/null)" = "$1" ]; then
        device=${name%/name}
        echo "/dev/${device##*/}"
        return
      fi
    done
    tries=$((tries + 1))
    sleep 0.1
  done
}

# Makes a path of the owner's visible although a tmpfs lies over it.
show() {
  if [ -d "/host$1" ]; then mkdir -p "/mnt$1"; else mkdir -p "/mnt${1%/*}" && : > "/mnt$1"; fi
  mount --bind "/host$1" "/mnt$1" || fail "mounting $1"
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do
  insmod "$module" || fail "loading ${module##*/}"
done

status=$(port rails.status)
output=$(port rails.output)
[ -n "$status" ] && [ -n "$output" ] || fail "finding the serial ports"
exec 4> "$status"
port_is_open=1

mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose host /mnt || fail "mounting the root"
mount --bind /mnt /host
mount -t proc proc /mnt/proc &&
  mount -t sysfs sysfs /mnt/sys &&
  mount -t cgroup2 cgroup2 /mnt/sys/fs/cgroup &&
  mount -t devtmpfs dev /mnt/dev || fail "mounting the kernel's file systems"
mkdir -p /mnt/dev/pts /mnt/dev/shm
mount -t devpts devpts /mnt/dev/pts
ln -s /proc/self/fd /mnt/dev/fd
ln -s fd/0 /mnt/dev/stdin
ln -s fd/1 /mnt/dev/stdout
ln -s fd/2 /mnt/dev/stderr
for place in /run /tmp /dev/shm; do
  mount -t tmpfs -o mode=1777 tmpfs "/mnt$place" || fail "mounting $place"
done
. /shown
mkdir -p /mnt/run/netns /mnt/run/lock /mnt/run/rails-guest/home
cp /bin/busybox /run.sh /command.sh /mnt/run/rails-guest/ || fail "filling /run"
ip link set lo up
exec switch_root /mnt /run/rails-guest/busybox sh /run/rails-guest/run.sh "$output"
