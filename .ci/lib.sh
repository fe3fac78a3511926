# shellcheck shell=bash
# Shared by the legs of the CI run: what has to be installed, and one server to test against.
# Sourced from the repository root by scripts that have set -euo pipefail.

ci=$PWD/.ci
work=$ci/work
node=$work/node_modules/.bin/node
mkdir -p "$work"

die() {
  echo "$*" >&2
  exit 1
}

# Installs the Debian packages named, for a machine that came without them.
install_debian() {
  echo "installing with apt-get: $*"
  {
    apt-get update -qq &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
  } </dev/null >"$work/apt.log" 2>&1 || {
    tail -n 20 "$work/apt.log"
    die "apt-get could not install: $*"
  }
}

# Node 22, the conformance suite and the TypeScript SDKs, at the versions of the lock file.
# The system's node only carries npm: the suite imports what node has from 22 on.
install_node() {
  local want
  want=$(cat "$ci/package.json" "$ci/package-lock.json" | sha256sum | cut -d' ' -f1)
  if [[ $(cat "$work/npm.stamp" 2>/dev/null) != "$want" || ! -x $node ]]; then
    command -v npm >/dev/null || install_debian nodejs npm
    echo "installing the npm packages of .ci/package.json"
    rm -rf "$work/node_modules" "$work/npm.stamp"
    cp "$ci/package.json" "$ci/package-lock.json" "$work/"
    (cd "$work" && npm ci --no-audit --no-fund </dev/null >npm.log 2>&1) ||
      { tail -20 "$work/npm.log"; die "npm ci failed"; }
    echo "$want" >"$work/npm.stamp"
  fi
  [[ $("$node" --version) == v22.* ]] || die "the node under .ci/work is not 22"
}

# A virtual environment .ci/work/NAME with the pins of .ci/interop/NAME.txt.
install_python() {
  local name=$1 want
  want=$(sha256sum <"$ci/interop/$name.txt" | cut -d' ' -f1)
  if [[ $(cat "$work/$name.stamp" 2>/dev/null) != "$want" || ! -x $work/$name/bin/python ]]; then
    echo "installing the Python packages of .ci/interop/$name.txt"
    rm -rf "${work:?}/$name" "$work/$name.stamp"
    python3 -m venv "$work/$name" >"$work/$name.log" 2>&1 || {
      install_debian python3 python3-venv
      python3 -m venv --clear "$work/$name" >"$work/$name.log" 2>&1
    } || { tail -20 "$work/$name.log"; die "no virtual environment for $name"; }
    "$work/$name/bin/pip" install --disable-pip-version-check -q -r "$ci/interop/$name.txt" \
      </dev/null >>"$work/$name.log" 2>&1 ||
      { tail -20 "$work/$name.log"; die "pip install failed for $name"; }
    echo "$want" >"$work/$name.stamp"
  fi
}

server_pid=
server_log=
url=

# Starts an example on a free port, with the arguments that follow its name, waits until /ready
# says 200, and leaves its address in `url`.
start_server() {
  local name=$1 bin=${CARGO_TARGET_DIR:-target}/release/examples/$1 tries port answer
  shift
  [[ -x $bin ]] || die "$bin is not built: cargo build --release --examples"
  server_log=$work/$name.log
  RUST_BACKTRACE=1 "$bin" --bind 127.0.0.1:0 "$@" </dev/null >"$server_log" 2>&1 &
  server_pid=$!
  for ((tries = 0; tries < 100; tries++)); do
    url=$(grep -aoEm1 'http://127\.0\.0\.1:[0-9]+/mcp' "$server_log" | head -n 1) || url=
    [[ -z $url ]] || break
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.1
  done
  [[ -n $url ]] || server_failed "$name did not print its address"
  port=${url#http://127.0.0.1:}
  port=${port%/mcp}
  for ((tries = 0; tries < 100; tries++)); do
    answer=$(ask_ready "$port" 2>/dev/null) || answer=
    [[ $answer != "HTTP/1.1 200"* ]] || return 0
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.1
  done
  server_failed "$name did not become ready: ${answer:-no answer}"
}

# The status line of GET /ready. Needs nothing but bash, so a bare machine has it.
ask_ready() {
  local line
  exec 3<>"/dev/tcp/127.0.0.1/$1"
  printf 'GET /ready HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$1" >&3
  IFS= read -r -t 2 line <&3
  exec 3>&-
  echo "$line"
}

server_failed() {
  echo "--- the last lines of $server_log"
  tail -n 40 "$server_log"
  die "$1"
}

# Ends the server and fails if it had ended by itself, does not obey SIGTERM, or panicked.
stop_server() {
  local pid=$server_pid tries status=0
  [[ -n $pid ]] || return 0
  kill -TERM "$pid" 2>/dev/null || server_failed "the server ended during the run"
  for ((tries = 0; tries < 100; tries++)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -0 "$pid" 2>/dev/null && server_failed "the server goes on 10 s after SIGTERM"
  wait "$pid" || status=$?
  server_pid=
  [[ $status == 0 || $status == 143 ]] || server_failed "the server ended with status $status"
  ! grep -aq 'panicked at' "$server_log" || server_failed "the server panicked"
}

# Whatever way the script ends, no server outlives it.
kill_server() {
  [[ -z $server_pid ]] || kill -KILL "$server_pid" 2>/dev/null || true
}
trap kill_server EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
