"""Shell scripts by which a check asks the login node. The forced command knows each of them."""

SYSTEM = '. /etc/os-release; echo "$PRETTY_NAME"; uname -sr; id -un'
# In the nearest folder that exists, so that a check leaves no new one behind.
WORK_DIRECTORY = """where=$1
until [ -d "$where" ]; do where=$(dirname "$where"); done
folder=$(mktemp -d "$where/.tare-check-XXXXXX") || exit 73
trap 'rm -rf "$folder"' EXIT
head -c 1048576 /dev/zero >"$folder/a" && [ "$(wc -c <"$folder/a")" -eq 1048576 ] || exit 74
ln "$folder/a" "$folder/b" || exit 75
mv "$folder/b" "$folder/c" || exit 76
echo "$where"
"""
# The nearest parent folder that exists is on the file system that jobs will write to.
NEAREST = 'where=$1; until [ -d "$where" ]; do where=$(dirname "$where"); done; shift; '
# Writes the file that nodes have to find, and prints its path.
TOKEN = NEAREST + ': >"$where/$1" && echo "$where/$1"'
QUOTA = NEAREST + (
    'if command -v lfs >/dev/null && lfs quota -q -u "$(id -un)" "$where" 2>/dev/null; then :; '
    "elif command -v quota >/dev/null; then quota -wp || :; else exit 127; fi"
)
SPACE = NEAREST + 'df -Pk -- "$where"'
INODES = NEAREST + 'df -Pi -- "$where"'
FILE_SYSTEM = NEAREST + 'stat -f -c %T -- "$where"'
HOME = 'printf "%s\\n" "$HOME"'
MACHINE = 'nproc; sed -n "s/^MemTotal: *\\([0-9]*\\) kB/\\1/p" /proc/meminfo'
# srun is there without the plug-in, too, which adds its options.
PYXIS = "srun --help 2>/dev/null | grep -qe --container-image && echo installed"
