#!/bin/bash
# Stands in for the proot of udocker's own build: Debian's does not bear the `-k KERNEL` that udocker always gives.
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
  -k) shift 2 ;;
  -[brwipq]) arguments+=("$1" "$2") && shift 2 ;;
  -*) arguments+=("$1") && shift ;;
  *) break ;;
  esac
done
exec /usr/bin/proot "${arguments[@]}" "$@"
