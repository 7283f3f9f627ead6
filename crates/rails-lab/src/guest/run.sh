# The guest's first process on the root file system: runs the command and says how it ended. $1 is the output port.
cd /run/rails-guest || exit
# A port can be opened once only, a pipe again and again: the command may open /dev/stderr.
./busybox mkfifo output
./busybox cat < output > "$1" &
pump=$!
echo up >&4
/bin/sh command.sh < /dev/null > output 2>&1 4>&-
status=$?
# What the command left running would keep the pipe open. Killing a kernel thread does nothing.
for process in /proc/[0-9]*; do
  pid=${process##*/}
  [ "$pid" = 1 ] || [ "$pid" = "$pump" ] || kill -KILL "$pid" 2>/dev/null
done
wait "$pump"
echo "exit $status" >&4
./busybox poweroff -f
