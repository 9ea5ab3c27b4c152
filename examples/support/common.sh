# Sourced by the examples' commands: finds or builds the server, starts one on a temporary directory
# unless the caller names servers, builds clients, and stops everything at the end.

examples=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
root=$(cd "$examples/.." && pwd)
cd "$root"
source scripts/prerequisites.sh
work=$(mktemp -d)
server_process=""

stop_everything() {
  if [ -n "$server_process" ]; then
    kill "$server_process" 2>/dev/null || true
    wait "$server_process" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop_everything EXIT
trap 'exit 130' INT TERM

# The server that FERRITE_BINARY names, else one built here.
find_server() {
  if [ -z "${FERRITE_BINARY:-}" ]; then
    require_rust
    require_c_compiler
    cargo build --quiet --release --locked --bin ferrite
    FERRITE_BINARY=$(realpath "${CARGO_TARGET_DIR:-target}/release/ferrite")
  fi
  export FERRITE_BINARY
}

# start_server SCHEMA FLAG...: a server on a temporary directory and a free port; its address is in
# $server.
start_server() {
  local schema=$1
  shift
  find_server
  : >"$work/server.log" # There before it is looked into.
  "$FERRITE_BINARY" server --dir "$work/data" --listen 127.0.0.1:0 --schema "$schema" "$@" >"$work/server.log" 2>&1 &
  server_process=$!
  for _ in $(seq 600); do
    server=$(sed -n 's/^ferrite ready on \([^ ]*\).*/\1/p' "$work/server.log")
    if [ -n "$server" ]; then return; fi
    if ! kill -0 "$server_process" 2>/dev/null; then break; fi
    sleep 0.1
  done
  cat "$work/server.log" >&2
  fail "the server did not start"
}

# build_rust PACKAGE: its program's path is in $program. Built as the server was, so that nothing is
# compiled twice.
build_rust() {
  require_rust
  local profile=release
  case "${FERRITE_CLUSTER_BINARY:-${FERRITE_BINARY:-}}" in */debug/*) profile=dev ;; esac
  cargo build --quiet --locked --profile "$profile" -p "$1"
  program="${CARGO_TARGET_DIR:-target}/${profile/dev/debug}/$1"
}

# build_java MODULE...: builds these modules and what they stand on; their folders' target/classes
# are on $classpath with the driver's.
build_java() {
  require_java
  local modules
  modules=$(printf ':%s,' "$@")
  mvn --batch-mode --quiet --no-transfer-progress -f "$root/clients/java/pom.xml" -pl "${modules%,}" -am compile
  local histogram
  histogram=$(find "${MAVEN_REPOSITORY:-$HOME/.m2/repository}/org/hdrhistogram/HdrHistogram" -name 'HdrHistogram-2.2.2.jar' | head -n 1)
  classpath="$root/clients/java/driver/target/classes:$examples/support/java/target/classes:$histogram"
}

# The Node.js driver, built anew when a source is newer.
build_node_driver() {
  require_node
  if [ ! -f clients/node/dist/esm/index.js ] || [ -n "$(find clients/node/src -newer clients/node/dist/esm/index.js -name '*.ts' -print -quit)" ]; then
    (cd clients/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null && npm run --silent build)
  fi
}

# build_node FOLDER: the driver, and what the example in this folder needs.
build_node() {
  build_node_driver
  (cd "$1" && npm ci --no-audit --no-fund --loglevel=error >/dev/null)
}

# names_servers ARGUMENT...: true if one of them says where the servers are.
names_servers() {
  case " $* " in *" --servers"*) return 0 ;; *) return 1 ;; esac
}

# build_spring: the web application's jar is in $spring.
build_spring() {
  require_java
  mvn --batch-mode --quiet --no-transfer-progress -DskipTests -f "$root/clients/java/pom.xml" -pl :voter-spring -am package
  spring="$examples/voter-spring/target/voter-spring-0.1.0.jar"
}

# start_spring ARGUMENT...: the web application on a free port, which is in $port; it ends with the
# script.
start_spring() {
  java -jar "$spring" --server.port=0 "--logging.file.name=$work/application.log" "$@" >/dev/null &
  application=$!
  trap 'kill $application 2>/dev/null || true; wait $application 2>/dev/null || true; stop_everything' EXIT
  for _ in $(seq 600); do
    port=$(sed -n 's/.*Tomcat started on port \([0-9]*\).*/\1/p' "$work/application.log" 2>/dev/null || true)
    if [ -n "$port" ]; then return; fi
    if ! kill -0 $application 2>/dev/null; then break; fi
    sleep 0.1
  done
  cat "$work/application.log" >&2
  fail "the application did not start"
}
