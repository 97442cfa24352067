# Shared by ingest and the hooks; sourced, never run.

usage() {
  echo "usage: ingest INBOX OUTBOX" >&2
  exit 2
}

# absolute NAME PATH: set the variable NAME to PATH, absolute and without a slash at the end
absolute() {
  local path=$2
  [[ $path == /* ]] || path=$PWD/$path
  while [[ $path == */ ]]; do path=${path%/}; done
  printf -v "$1" %s "$path"
}

# collect FROM TO: copy the records under the same relative paths
collect() {
  (cd -- "$1" && find . -type f -name '*.rec' -print0 | xargs -0 -r cp --parents --no-preserve=mode -t "$2" --)
}

# setting HOME NAME: print its value
setting() {
  local LC_ALL=C file files=()
  for file in "$1/conf/ingest.conf" "$1"/conf/local.d/*.conf; do
    if [ -f "$file" ]; then files+=("$file"); fi
  done
  sed -n "s/#.*//; s/^[[:blank:]]*$2[[:blank:]]*=[[:blank:]]*\([0-9]*\)[[:blank:]]*\$/\1/p" "${files[@]}" | tail -n 1
}
