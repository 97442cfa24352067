# Shared by ingest and the hooks; sourced, never run.

usage() {
  echo "usage: ingest INBOX OUTBOX" >&2
  exit 2
}

# collect FROM TO: copy the records
collect() {
  cd $1
  for file in $(find . -name '*.rec'); do
    mkdir -p $2/$(dirname $file)
    cp $file $2/$file
  done
  cd - >/dev/null
}

# setting NAME: print its value
setting() {
  cat $home/conf/local.d/*.conf $home/conf/ingest.conf | grep "^$1=" | tail -n 1 | cut -d= -f2
}
