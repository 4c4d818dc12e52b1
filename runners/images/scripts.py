"""The shell scripts of staging. They are constants: all that differs is an argument."""

# WORK COMMAND...: runs a command that works in WORK, which is removed unless the command succeeds.
# Builds as root of a user namespace leave files that belong to the user's subordinate ids.
BESIDE = """umask 022
work=$1
shift
clean() {
    {
        chmod -R u+rwX "$work"
        rm -rf "$work" || unshare --map-root-user --map-auto rm -rf "$work"
    } 2>/dev/null
}
mkdir -p "$work" || exit
trap clean EXIT
trap 'exit 143' TERM INT
export TMPDIR="$work" APPTAINER_TMPDIR="$work" APPTAINER_CACHEDIR="$work/cache"
export SINGULARITY_TMPDIR="$work" SINGULARITY_CACHEDIR="$work/cache"
"$@" || exit
trap - EXIT
"""

# WORK MADE PLACE: moves MADE to PLACE; an older one is removed with the rest of WORK.
PUT = """work=$1 made=$2 place=$3
[ -e "$made" ] || exit
if [ -e "$place" ]; then mv -T "$place" "$work/before" || exit; fi
mv -T "$made" "$place" || exit
chmod -R u+rwX "$work" 2>/dev/null
rm -rf "$work"
"""

# PLACE
REMOVE = """for each in "$1" "$1.part"; do
    [ -e "$each" ] || continue
    chmod -R u+rwX "$each" 2>/dev/null
    rm -rf "$each" || exit
done
"""

# EXECUTABLE MADE CONTENT: zstd packs and unpacks several times faster, if it can be chosen.
BUILD_SIF = """if "$0" build --help | grep -q -e --mksquashfs-args; then
    exec "$0" build --mksquashfs-args '-comp zstd -Xcompression-level 3' "$1" "$2"
fi
exec "$0" build "$1" "$2"
"""

# MKSQUASHFS ROOT MADE
SQUASH = """set -- "$1" "$2" -noappend -no-progress -quiet -no-xattrs -all-root
if "$0" -help 2>&1 | grep -q zstd; then set -- "$@" -comp zstd -Xcompression-level 3; fi
exec "$0" "$@"
"""

# ARCHIVE FOLDER
UNTAR = """mkdir -p "$2" || exit
tar -x --no-same-owner --exclude='dev/*' --exclude='./dev/*' -C "$2" -f "$1" || exit
exec chmod -R u+rwX "$2"
"""

# EXECUTABLE ARCHIVE NAME MODE: the image gets a store of its own, which is removed afterwards.
_UDOCKER = """umask 022
udocker=$0 archive=$1 name=$2 mode=$3
store=$(mktemp -d "$PWD/udocker.XXXXXX") || exit
made="$name-part"
clean() {
    "$udocker" inspect -p "$made" >/dev/null 2>&1 && "$udocker" -q rm -f "$made"
    chmod -R u+rwX "$store" 2>/dev/null
    rm -rf "$store"
}
trap clean EXIT
trap 'exit 143' TERM INT
"$udocker" inspect -p "$made" >/dev/null 2>&1 && "$udocker" -q rm -f "$made"
export UDOCKER_REPOS="$store/repos" UDOCKER_LAYERS="$store/layers" UDOCKER_TMP="$store"
mkdir -p "$UDOCKER_REPOS" "$UDOCKER_LAYERS"
@have@
"$udocker" -q create --name="$made" "$image" || exit
root=$("$udocker" inspect -p "$made") || exit
# In the F modes udocker changes programs and links, and where a node has NVIDIA's driver its files
# are copied: so the image's files are compared before that.
driver=$({
    ls /usr/lib/x86_64-linux-gnu/libcuda.so* /usr/lib64/libcuda.so*
    PATH="$PATH:/sbin" ldconfig -p | grep 'libcuda[.]so'
} 2>/dev/null)
case $mode:$driver in
F* | ??:?*) python3 payload/survey.py "$root" --output before.json || exit ;;
esac
"$udocker" -q setup --execmode="$mode" "$made" || {
    echo "udocker cannot set up mode $mode here. A check of the cluster says why."
    exit 1
}
if [ -n "$driver" ]; then
    touch before.json
    "$udocker" -q setup --nvidia --force "$made" || exit
    find "$root" -cnewer before.json \\( -type f -o -type l \\) -printf '/%P\\n' >driver.txt
fi
if "$udocker" inspect -p "$name" >/dev/null 2>&1; then "$udocker" -q rm -f "$name" || exit; fi
"$udocker" -q rename "$made" "$name"
"""
UDOCKER_LOAD = _UDOCKER.replace(
    "@have@",
    """# udocker passes over manifests of Docker's own type. The last of two files of a name counts.
DOCKERS=application/vnd.docker.distribution.manifest.v2+json
tar -xf "$archive" -C "$store" index.json || exit
if grep -q "$DOCKERS" "$store/index.json"; then
    cp "$archive" "$store/archive.tar" && archive="$store/archive.tar" || exit
    sed -i "s|$DOCKERS|application/vnd.oci.image.manifest.v1+json|" "$store/index.json"
    tar -rf "$archive" -C "$store" index.json || exit
fi
"$udocker" -q load -i "$archive" tare/image || exit
image=$("$udocker" -q images | grep -o '^tare/image:[^ ]*')
[ -n "$image" ] || { echo "udocker finds no image in the archive."; exit 1; }""",
)
UDOCKER_IMPORT = _UDOCKER.replace(
    "@have@",
    """image=tare/image:rootfs
"$udocker" -q import "$archive" "$image" || exit""",
)

# EXECUTABLE NAME
UDOCKER_REMOVE = """for name in "$1-part" "$1"; do
    if "$0" inspect -p "$name" >/dev/null 2>&1; then "$0" -q rm -f "$name" || exit; fi
done
"""

# EXECUTABLE ARCHIVE NAME. The first container makes the copy of the layers for the user's ids; it
# is made here and never started, so that no run waits for it.
PODMAN_LOAD = """id=$("$0" pull --quiet "oci-archive:$1") || exit
"$0" tag "$id" "$2" || exit
container=$("$0" create --userns=keep-id --network=none "$2" true) || exit
exec "$0" rm "$container"
"""
PODMAN_IMPORT = """"$0" import --quiet "$1" "$2" || exit
container=$("$0" create --userns=keep-id --network=none "$2" true) || exit
exec "$0" rm "$container"
"""

# How the node's Python reads the files of a form whose image has none: EXECUTABLE FORM RESULT. The
# job's directory is the working directory.
READ_FOLDER = 'exec python3 payload/survey.py "$1" --output "$2"'
READ_UDOCKER = """root=$("$0" inspect -p "$1") || exit
exec python3 payload/survey.py "$root" --output "$2"
"""
# Where udocker has changed files, the result is the survey from before it did, with the hash of the
# tree as it is now, and which files of the driver it copied.
TELL_CHANGES = """[ -e before.json ] || exit 0
exec python3 -c 'import json, os, sys
survey, after = json.load(open("before.json")), json.load(open(sys.argv[1]))
survey["changed_tree"] = after["tree"]
if os.path.exists("driver.txt"):
    lines = open("driver.txt", errors="replace").read().splitlines()
    survey["driver_files"] = sorted(lines)[:1000]
with open(sys.argv[1], "w") as file:
    json.dump(survey, file)' "$1"
"""
READ_PODMAN = """# shellcheck disable=SC2016 # the shell in the user namespace expands these
exec "$0" unshare sh -c 'root=$("$0" image mount "$1") || exit
python3 payload/survey.py "$root" --output "$2"
code=$?
"$0" image unmount "$1" >/dev/null
exit "$code"' "$0" "$1" "$2"
"""
_READ_UNPACKED = """@unpack@ && python3 payload/survey.py unpacked --output "$2"
code=$?
chmod -R u+rwX unpacked
rm -rf unpacked
exit "$code"
"""
READ_SIF = _READ_UNPACKED.replace("@unpack@", '"$0" build --sandbox unpacked "$1"')
READ_SQUASHFS = _READ_UNPACKED.replace("@unpack@", 'unsquashfs -quiet -d unpacked "$1"')

# EXECUTABLE NAME. The same image may have another name, given by somebody else: then it stays.
PODMAN_REMOVE = """"$0" image exists "$1" || exit 0
id=$("$0" image inspect --format '{{.Id}}' "$1") || exit
case $1 in *@*) tag=${1%%@*}:staged ;; *) tag=$1 ;; esac
"$0" untag "$id" "$tag" || exit
[ "$("$0" image inspect --format '{{len .RepoTags}}' "$id")" != 0 ] || exec "$0" rmi --force "$id"
"""
DOCKER_REMOVE = """"$0" image inspect "$1" >/dev/null 2>&1 || exit 0
exec "$0" rmi "$1"
"""
