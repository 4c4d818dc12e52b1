# Read by inside.sh for the workload `files`, recorded outside. In each of `tare_steps` rounds it times
# what payload/files.py does, by marks, with the image's own shell, mkdir, cat, rm and dd, in the new
# folder `tare_scratch`. `tare_small` files of the content `tare_content` are made, a large one of
# `tare_megabytes` from `tare_source`, which has `tare_source_megabytes`; of `tare_root` the first
# `tare_software` files are read. A number of 0 leaves a part out.
# shellcheck shell=sh disable=SC2034,SC2154

tare_newline='
'
tare_top=$tare_scratch/small tare_large=$tare_scratch/large tare_names=$tare_scratch/names
trap 'rm -rf "$tare_scratch"; exit 143' TERM INT
tare_fail() { tare_problem=${tare_problem:-$*}; } # failed or wrong, and a sentence

# Write the files of a folder that can be read, by name, then those of the folders in it.
tare_walk() {
    for tare_file in "$1"/*; do
        if [ "$tare_found" -ge "$tare_software" ]; then return; fi
        if [ -f "$tare_file" ] && [ ! -h "$tare_file" ] && [ -r "$tare_file" ]; then
            case $tare_file in *"$tare_newline"*) continue ;; esac
            printf '%s\n' "$tare_file" >&6
            tare_found=$((tare_found + 1))
        fi
    done
    for tare_file in "$1"/*; do
        if [ "$tare_found" -ge "$tare_software" ]; then return; fi
        if [ -d "$tare_file" ] && [ ! -h "$tare_file" ]; then tare_walk "$tare_file"; fi
    done
}

# Print all files of the installed software, a hundred by each `cat`.
tare_print_software() {
    set --
    for tare_file in $tare_paths; do
        set -- "$@" "$tare_file"
        if [ $# -ge 100 ]; then
            cat "$@" || tare_fail failed "files below $tare_root cannot be read"
            set --
        fi
    done
    if [ $# -gt 0 ]; then cat "$@" || tare_fail failed "files below $tare_root cannot be read"; fi
}

tare_measure_small() {
    set -- "$tare_top"
    tare_count=0
    while [ "$tare_count" -lt "$tare_small" ]; do
        set -- "$@" "$tare_top/$((tare_count / 100))"
        tare_count=$((tare_count + 100))
    done
    tare_begin part create
    mkdir "$@" || tare_fail failed "no folder can be made in $tare_scratch"
    shift
    tare_count=0
    while [ "$tare_count" -lt "$tare_small" ] && [ -z "$tare_problem" ]; do
        printf '%s' "$tare_content" >"$tare_top/$((tare_count / 100))/$tare_count.dat" ||
            tare_fail failed "no file can be written in $tare_scratch"
        tare_count=$((tare_count + 1))
    done
    tare_begin part list
    tare_count=0
    for tare_folder in "$@"; do
        set -- "$tare_folder"/*
        tare_count=$((tare_count + $#))
    done
    tare_mark part
    if [ "$tare_count" -ne "$tare_small" ]; then
        tare_fail wrong "of $tare_small files that were created $tare_count were listed"
    fi
    tare_count=0 tare_found=0
    tare_begin part stat
    while [ "$tare_count" -lt "$tare_small" ]; do
        if [ -s "$tare_top/$((tare_count / 100))/$tare_count.dat" ]; then
            tare_found=$((tare_found + 1))
        fi
        tare_count=$((tare_count + 1))
    done
    tare_begin part read
    for tare_folder in "$tare_top"/*; do
        cat "$tare_folder"/* >/dev/null || tare_fail failed "small files cannot be read"
    done
    tare_begin part delete
    rm -r "$tare_top" || tare_fail failed "small files cannot be deleted"
    tare_mark part
    if [ "$tare_found" -ne "$tare_small" ]; then
        tare_fail wrong "$tare_small files were created, and $tare_found have a content"
    fi
}

tare_measure_large() {
    tare_begin part large_write
    printf '' >"$tare_large" || tare_fail failed "no file can be written in $tare_scratch"
    tare_count=0
    while [ "$tare_count" -lt "$tare_megabytes" ] && [ -z "$tare_problem" ]; do
        tare_rest=$((tare_megabytes - tare_count)) tare_sync=notrunc,fsync
        if [ "$tare_rest" -gt "$tare_source_megabytes" ]; then
            tare_rest=$tare_source_megabytes tare_sync=notrunc
        fi
        tare_say=$(dd if="$tare_source" of="$tare_large" bs=1000000 count="$tare_rest" \
            seek="$tare_count" conv="$tare_sync" 2>&1) || tare_fail failed "dd cannot write: $tare_say"
        tare_count=$((tare_count + tare_rest))
    done
    tare_begin part large_read
    tare_say=$(dd if="$tare_large" of=/dev/null bs=1000000 2>&1) ||
        tare_fail failed "dd cannot read: $tare_say"
    tare_mark part
}

tare_measure_software() {
    tare_found=0
    tare_begin part software_list
    if ! printf '' >"$tare_names"; then # a failing `exec` would end this shell
        tare_fail failed "no file can be written in $tare_scratch"
        return
    fi
    exec 6>"$tare_names"
    tare_walk "$tare_root"
    exec 6>&-
    tare_mark part
    if [ "$tare_found" -eq 0 ]; then tare_fail failed "there is no file below $tare_root"; fi
    tare_paths=$(cat "$tare_names")
    IFS=$tare_newline tare_files=$tare_found
    set -f
    tare_begin part software_stat
    tare_found=0
    for tare_file in $tare_paths; do
        if [ -e "$tare_file" ]; then tare_found=$((tare_found + 1)); fi
    done
    tare_begin part software_read
    tare_print_software >/dev/null
    tare_mark part
    set +f
    unset IFS
}

tare_problem=''
tare_mark "free $(df -Pk "${tare_scratch%/*}" 2>/dev/null | while read -r _ _ _ tare_free _; do
    printf '%s ' "$tare_free"
done)"
read -r tare_order <&8 # the recorder says whether there is room
if ! mkdir "$tare_scratch"; then
    tare_mark "failed no folder can be made in ${tare_scratch%/*}"
    tare_steps=0
fi
while [ "$tare_steps" -gt 0 ] && read -r tare_order <&8; do
    if [ "$tare_small" -gt 0 ]; then tare_measure_small; fi
    if [ "$tare_megabytes" -gt 0 ]; then tare_measure_large; fi
    if [ "$tare_software" -gt 0 ]; then tare_measure_software; fi
    if [ -n "$tare_problem" ]; then
        tare_mark "$tare_problem"
        break
    fi
    tare_mark step
    tare_steps=$((tare_steps - 1))
done
if [ "$tare_steps" -eq 0 ] && [ "$tare_software" -gt 0 ] && [ -z "$tare_problem" ]; then
    IFS=$tare_newline
    set -f
    tare_mark "software $tare_files $(tare_print_software | wc -c 2>/dev/null)"
    set +f
    unset IFS
fi
rm -rf "$tare_scratch"
trap - TERM INT
