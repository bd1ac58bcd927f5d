#!/bin/sh
# Starts the RabbitMQ of a release of Debian for tests, where no Docker engine runs, and prints its address. It installs
# nothing: the packages are unpacked into one folder, and the broker runs there, in a chroot. Needs root on Debian.
# usage: debian-rabbitmq.sh trixie|sid PORT    (trixie has RabbitMQ 4.0, sid the newest; a broker of this script that runs is found)
#        debian-rabbitmq.sh stop trixie|sid
set -eu
[ "$1" = stop ] && stop=yes && shift || stop=
release=$1 home=${TMPDIR:-/var/tmp}/txbox-rabbitmq-$1
root=$home/root apt=$home/apt
if [ -n "$stop" ]; then
  kill "$(cat "$home/pid")"
  while kill -0 "$(cat "$home/pid")" 2>/dev/null; do sleep 0.2; done
  # Erlang's name server, which the broker has started, outlives it.
  chroot "$root" /usr/bin/env ERL_EPMD_PORT="$(cat "$home/names")" /usr/bin/epmd -kill >&2
  umount "$root/proc" 2>/dev/null || true
  exit 0
fi
port=$2 url=amqp://guest:guest@127.0.0.1:$2
[ -f "$home/pid" ] && kill -0 "$(cat "$home/pid")" 2>/dev/null && echo "$url" && exit 0

if [ ! -x "$root/usr/lib/rabbitmq/bin/rabbitmq-server" ]; then
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root/etc"
  : >"$apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release main" >"$apt/sources.list"
  get() {
    apt-get -q -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$apt/lists" \
      -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Dir::Cache::archives="$apt/archives" \
      -o Acquire::Languages=none -o APT::Sandbox::User=root "$@" >&2
  }
  get update
  get install --download-only -y --no-install-recommends rabbitmq-server dash coreutils sed grep findutils
  for folder in bin sbin lib lib64; do
    mkdir -p "$root/usr/$folder"
    ln -s "usr/$folder" "$root/$folder"
  done
  for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  rm -f "$apt"/archives/*.deb
  echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
  echo '127.0.0.1 localhost' >"$root/etc/hosts"
fi

mkdir -p "$root/proc" "$root/dev" "$root/srv/broker"
mountpoint -q "$root/proc" || mount --bind /proc "$root/proc"
[ -e "$root/dev/null" ] || mknod -m 666 "$root/dev/null" c 1 3
[ -e "$root/dev/urandom" ] || mknod -m 666 "$root/dev/urandom" c 1 9
setsid chroot "$root" /usr/bin/env -i PATH=/usr/bin:/usr/sbin HOME=/srv/broker LANG=C.UTF-8 \
  ERL_EPMD_PORT=$((port + 1000)) ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODENAME="txbox-$port@localhost" \
  RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$port" RABBITMQ_DIST_PORT=$((port + 2000)) \
  RABBITMQ_MNESIA_BASE=/srv/broker/data RABBITMQ_LOG_BASE=/srv/broker/log RABBITMQ_GENERATED_CONFIG_DIR=/srv/broker/config \
  RABBITMQ_FEATURE_FLAGS_FILE=/srv/broker/feature-flags RABBITMQ_PID_FILE=/srv/broker/pid RABBITMQ_CONF_ENV_FILE=/dev/null \
  RABBITMQ_ENABLED_PLUGINS_FILE=/srv/broker/plugins RABBITMQ_CONFIG_FILE=/srv/broker/rabbitmq \
  RABBITMQ_ALLOW_INPUT=true RABBITMQ_SERVER_START_ARGS=-noinput \
  /usr/lib/rabbitmq/bin/rabbitmq-server >"$home/log" 2>&1 </dev/null &
echo $! >"$home/pid"
echo $((port + 1000)) >"$home/names"
for _ in $(seq 120); do
  grep -q 'Starting broker.* completed' "$home/log" && echo "$url" && exit 0
  sleep 0.5
done
echo 'RabbitMQ did not start:' >&2
tail -n 20 "$home/log" >&2
exit 1
