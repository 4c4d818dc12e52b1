#!/bin/bash
# Stands in for udocker's own build of patchelf: Debian's has neither its --set-root-prefix and
# --restore-root-prefix, which make a program look for its loader and libraries in the container's
# folder and back, nor its -q.
arguments=()
while [ $# -gt 1 ]; do
  case $1 in
  -q) quiet=yes && shift ;;
  --set-root-prefix | --restore-root-prefix) action=$1 root=$2 && shift 2 ;;
  *) arguments+=("$1") && shift ;;
  esac
done
file=$1

# Most files of a container are none that patchelf could change, and bash knows so by itself.
IFS= LC_ALL=C read -r -N 4 magic 2>/dev/null <"$file"
if [ "$magic" != $'\x7fELF' ]; then exit 1; fi
if [ "$quiet" ]; then exec 2>/dev/null; fi
if [ -z "$action" ]; then exec /usr/bin/patchelf "${arguments[@]}" "$file"; fi

move() { # PATH: what a path becomes
  case $action:$1 in
  --set-root-prefix:"$root"/* | --restore-root-prefix:[!/]*) echo "$1" ;;
  --set-root-prefix:/*) echo "$root/$1" ;;
  --restore-root-prefix:"$root"//*) echo "${1#"$root"/}" ;;
  *) echo "$1" ;;
  esac
}

if interpreter=$(/usr/bin/patchelf --print-interpreter "$file" 2>/dev/null); then
  moved=$(move "$interpreter")
  if [ "$moved" != "$interpreter" ]; then changes+=(--set-interpreter "$moved"); fi
fi
rpath=$(/usr/bin/patchelf --print-rpath "$file" 2>/dev/null)
if [ "$rpath" ]; then
  IFS=: read -r -a folders <<<"$rpath"
  moved=$(for folder in "${folders[@]}"; do move "$folder"; done | paste -sd:)
  if [ "$moved" != "$rpath" ]; then changes+=(--set-rpath "$moved"); fi
fi
if [ ${#changes[@]} = 0 ]; then exit 0; fi
exec /usr/bin/patchelf "${changes[@]}" "$file"
