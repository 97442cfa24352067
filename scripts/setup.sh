# Sourced by the entry points: a Python, the checkout's .venv, the engine, the base image. It says what it does on
# stderr, does nothing twice, and ends with 3 and an instruction where it cannot go on.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv

# Make .venv where it is absent, or was made from another lock, at another place, or by an interrupted run.
setup_venv() {
    if venv_is_current; then return; fi
    local python
    if ! python=$(find_python); then
        install_python
        python=$(find_python) || no_python
    fi
    (cd -- "$root" && exec "$python" -E -s -m scripts.setup_venv)
}

# Find or start an engine and bring the base image into it.
setup_machine() {
    "$venv/bin/python" -P -m scripts.setup_machine
}

asks_for_help() {
    local argument
    for argument in "$@"; do
        case $argument in
            -h | --help) return 0 ;;
            --) return 1 ;;
        esac
    done
    return 1
}

# The same bytes as scripts/setup_venv.py writes when it is done.
venv_is_current() {
    [ -x "$venv/bin/python" ] &&
        { printf '%s\n' "$root" && cat -- "$root/requirements.lock" "$root/scripts/setup_venv.py"; } |
        cmp -s - "$venv/set-up"
}

# Print the path of the first CPython from 3.11 on that can make virtual environments.
find_python() {
    local name
    for name in python3 python3.13 python3.12 python3.11; do
        "$name" -c '
import ensurepip, os, sys, venv
if sys.version_info < (3, 11) or sys.implementation.name != "cpython":
    sys.exit(1)
print(os.path.realpath(sys._base_executable))' 2>/dev/null && return 0
    done
    return 1
}

# Print the version of the first Python from 3.11 on, whether it can make virtual environments or not.
python_version() {
    local name
    for name in python3 python3.13 python3.12 python3.11; do
        "$name" -c '
import sys
if sys.version_info < (3, 11):
    sys.exit(1)
print("%d.%d" % sys.version_info[:2])' 2>/dev/null && return 0
    done
    return 1
}

# Debian and Ubuntu ship python3 without what makes virtual environments, and small images of them without python3.
install_python() {
    local version said packages="python3 python3-venv"
    if version=$(python_version); then packages=python$version-venv; fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then no_python "$packages"; fi
    printf 'set-up: installing %s with apt-get\n' "$packages" >&2
    export DEBIAN_FRONTEND=noninteractive
    # One dead source among several is no reason to stop: the installation itself decides.
    apt-get -qq update >&2 || true
    # shellcheck disable=SC2086 # a list of words
    if ! said=$(apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 $packages 2>&1); then
        printf '%s\n' "$said" >&2
        no_python "$packages"
    fi
}

no_python() {
    printf 'error: no Python from 3.11 on that can make virtual environments (venv and ensurepip)\n' >&2
    printf 'hint: install one, then run this again; on Debian or Ubuntu: sudo apt-get install %s\n' \
        "${1:-python3 python3-venv}" >&2
    printf 'reason code: tool_missing\n' >&2
    exit 3
}
