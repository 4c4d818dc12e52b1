#!/bin/sh
# Leave what software_files.py reads of an environment without Python: software.sh PREFIX ROOT WORD...,
# by any POSIX shell. Files below ROOT are copied to PREFIX-NAME; of each WORD, a program or
# an absolute path, a line of PREFIX-programs says where it is: WORD, a tab and the path, empty if there
# is none.

prefix=$1 root=$2
shift 2
copy() { if [ -r "$1" ]; then cat "$1" >"$prefix-$2"; fi; }

copy "$root"/etc/os-release os-release
copy "$root"/var/lib/dpkg/status dpkg
for file in "$root"/var/lib/dpkg/status.d/*; do # of images that are made without dpkg
    case $file in *.md5sums) continue ;; esac
    if [ -r "$file" ]; then { cat "$file" && echo; } >>"$prefix-dpkg"; fi
done
copy "$root"/usr/lib/apk/db/installed apk
copy "$root"/lib/apk/db/installed apk
copy "$root"/var/lib/rpm/rpmdb.sqlite rpm
copy "$root"/usr/lib/sysimage/rpm/rpmdb.sqlite rpm
for file in /var/lib/rpm/Packages /usr/lib/sysimage/rpm/Packages /usr/lib/sysimage/rpm/Packages.db; do
    # lists that only rpm itself reads
    if [ "$root" = / ] && [ -e "$file" ] && command -v rpm >/dev/null 2>&1; then
        rpm -qa --queryformat '%{NAME}\t%{VERSION}-%{RELEASE}\n' >"$prefix-rpm-list" 2>/dev/null </dev/null
    fi
done
for file in "$root"/opt/*/conda-meta/*.json "$root${CONDA_PREFIX:-/none}"/conda-meta/*.json; do
    name=${file##*/}
    if [ -e "$file" ]; then printf '%s\n' "${name%.json}"; fi
done >"$prefix-conda"
uname -m >"$prefix-machine" 2>/dev/null
getconf GNU_LIBC_VERSION >"$prefix-libc" 2>/dev/null
for file in "$root"/lib/ld-musl-*; do
    if [ -e "$file" ]; then echo musl >"$prefix-libc"; fi
done
for word in "$@"; do
    case $word in
        /*) if [ -e "$word" ]; then path=$word; else path=''; fi ;;
        *) path=$(command -v "$word" 2>/dev/null) || path='' ;;
    esac
    printf '%s\t%s\n' "$word" "$path"
done >"$prefix-programs"
