# Sourced by `demo` and `test`: makes sure that the tools they call are there, installs what a
# Debian root may install, and otherwise says in one sentence what is missing and how to get it.

say() { printf '%s\n' "$*" >&2; }

# fail MESSAGE...: ends the script with a plain explanation.
fail() {
  say "error: $1"
  shift
  for line in "$@"; do say "       $line"; done
  exit 1
}

apt_updated=""

# apt_install PACKAGE...: true when the packages are installed afterwards.
apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  if [ -z "$apt_updated" ]; then
    DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >&2 || return 1
    apt_updated=yes
  fi
  say "installing: $*"
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" </dev/null >&2
}

require_c_compiler() {
  command -v cc >/dev/null || apt_install build-essential ||
    fail "no C compiler (cc) found; the memory allocator and the linker need one" "on Debian: apt-get install build-essential"
}

require_rust() {
  if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    export PATH
  fi
  command -v cargo >/dev/null ||
    fail "no Rust toolchain (cargo) found" "install rustup as described at https://rustup.rs, then run this command again;" \
      "rustup fetches the version named in rust-toolchain.toml by itself"
  local wanted have
  wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
  have=$(cargo --version 2>/dev/null | cut -d' ' -f2)
  if [ -z "$have" ]; then
    fail "cargo does not run here; version $wanted is needed" "with rustup: rustup toolchain install $wanted -c clippy -c rustfmt"
  fi
  if [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" != "$wanted" ]; then
    fail "cargo $have is too old; version $wanted or newer is needed" "with rustup: rustup toolchain install $wanted -c clippy -c rustfmt"
  fi
}

require_rust_checks() {
  cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 ||
    fail "rustfmt or clippy is missing" "with rustup: rustup component add clippy rustfmt"
}

require_python() {
  command -v python3 >/dev/null || apt_install python3 python3-venv ||
    fail "no python3 found; the Python client's tests need it" "on Debian: apt-get install python3 python3-venv"
  # Debian ships the venv module without ensurepip, so importing venv alone proves nothing.
  python3 -c 'import venv, ensurepip' 2>/dev/null || apt_install python3-venv ||
    fail "python3 cannot make virtual environments" "on Debian: apt-get install python3-venv"
}

require_java() {
  if ! command -v javac >/dev/null; then
    apt_install default-jdk-headless || fail "no JDK (javac) found; the Java clients' tests need version 17 or newer" \
      "on Debian: apt-get install default-jdk-headless"
  fi
  local version
  version=$(javac -version 2>&1 | sed 's/^javac \([0-9]*\).*/\1/')
  [ "$version" -ge 17 ] 2>/dev/null || fail "javac $version is too old; the Java clients' tests need version 17 or newer"
  command -v mvn >/dev/null || apt_install maven ||
    fail "no Maven (mvn) found; the Java clients' tests need it" "on Debian: apt-get install maven"
}

require_node() {
  command -v node >/dev/null && command -v npm >/dev/null || apt_install nodejs npm ||
    fail "no Node.js (node, npm) found; the Node.js driver's tests need version 18 or newer" "on Debian: apt-get install nodejs npm"
  local version
  version=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
  [ "$version" -ge 18 ] 2>/dev/null || fail "node $version is too old; the Node.js driver needs version 18 or newer"
}

# find_network_tools: installs what tests need that split a cluster's network. Without them, or
# without root, those tests say so and end.
find_network_tools() {
  { command -v ip && command -v tc && command -v nft; } >/dev/null || apt_install iproute2 nftables ||
    say "no ip, tc or nft found, so no network is split; on Debian: apt-get install iproute2 nftables"
}

# find_chromium: the program of a Chromium in $browser, empty where there is none and none can be
# installed. CHROMIUM names one.
find_chromium() {
  browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
  [ -n "$browser" ] || { apt_install chromium && browser=$(command -v chromium) || browser=""; }
}

# The differential tests start a server of their own; only the programs are wanted, so no cluster is
# made with the package.
require_postgres() {
  local found
  found=$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1)
  [ -n "$found" ] || command -v initdb >/dev/null || install_postgres ||
    fail "no PostgreSQL (initdb) found; the differential tests compare answers with it" "on Debian: apt-get install postgresql"
  command -v setpriv >/dev/null || apt_install util-linux ||
    fail "no setpriv found; PostgreSQL is started with it" "on Debian: apt-get install util-linux"
}

install_postgres() {
  apt_install postgresql-common || return 1
  sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
  apt_install postgresql
}
