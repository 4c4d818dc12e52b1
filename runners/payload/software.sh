#!/bin/sh
# Leave what software_files.py reads of an environment without Python: software.sh PREFIX WORD...,
# by any POSIX shell. Files are copied to PREFIX-NAME; of each WORD, a program or an absolute path,
# a line of PREFIX-programs says where it is: WORD, a tab and the path, empty if there is none.

prefix=$1
shift
copy() { if [ -r "$1" ]; then cat "$1" >"$prefix-$2"; fi; }

copy /etc/os-release os-release
copy /var/lib/dpkg/status dpkg
copy /lib/apk/db/installed apk
copy /var/lib/rpm/rpmdb.sqlite rpm
copy /usr/lib/sysimage/rpm/rpmdb.sqlite rpm
uname -m >"$prefix-machine" 2>/dev/null
getconf GNU_LIBC_VERSION >"$prefix-libc" 2>/dev/null
for file in /lib/ld-musl-*; do
    if [ -e "$file" ]; then echo musl >"$prefix-libc"; fi
done
for word in "$@"; do
    case $word in
        /*) if [ -e "$word" ]; then path=$word; else path=''; fi ;;
        *) path=$(command -v "$word" 2>/dev/null) || path='' ;;
    esac
    printf '%s\t%s\n' "$word" "$path"
done >"$prefix-programs"
