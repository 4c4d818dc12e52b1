"""Lists a job's directory and fetches files from it, those that Tare reads first.

Whatever a program leaves there, a checkpoint of 50 GB or 100,000 small files, its run's numbers
come from a few files with known names. These are fetched whole; of the others as many as fit into
a budget, to compare their check sums; of the rest only names and sizes are known.
"""

import io
import re
import tarfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from runners.errors import Refused, TryAgain
from runners.node_samples import PROCESSES, RAPL, SAMPLES
from runners.transports import Transport
from runners.transports.base import MIB, MISSING, Bounded, Hashed, require_success
from runners.untrusted import clean_text

LIST_LIMIT = 32 * MIB  # of all names and sizes
FETCH_LIMIT = 256 * MIB  # of what comes in one transfer
OUR_FILE_LIMIT = 64 * MIB  # of a needed file that is read whole: a million steps take 40 MiB
OUR_LIMIT = 160 * MIB  # of all of these
OTHER_FILE_LIMIT = 8 * MIB  # of a file of the program's own
OTHER_LIMIT = 32 * MIB  # of all of these
OTHER_COUNT = 5_000
LIST_EACH_LIMIT = 128 * 1024  # of the names and sizes of one of several jobs
LIST_TOGETHER_LIMIT = 16 * MIB  # of those of all of them, with the jobs' directories
FETCH_EACH_LIMIT = 4 * MIB  # of the files of one of several jobs
FETCH_TOGETHER_LIMIT = 64 * MIB  # of the files of all of them
END_LIMIT = 4 * MIB  # of the end of a file that is too large to be read whole
END_COUNT = 16
HEAD_LIMIT = 4 * MIB  # of the beginning of what such a program printed
FETCH_SECONDS = 300
FETCH_TOGETHER_SECONDS = 60
NOT_THE_FILE = 68  # exit code of COPY for a link
END = "/end"
"""Added to the name of a file that is too large, for its last bytes. No file has such a name."""
HEAD = "/head"
"""The same for its first bytes, of what programs print alone."""

# The files from which results, outcomes and pages are read, in the folder of any process.
IN_RUNS = (
    *("exit_code", "failure", "command", "runtime_version", "spec.json", "inside.json"),
    *("output.txt", "result.json", "result.jsonl", "tare-result.json", "tare-result.jsonl"),
)
LATER = ("loaded_modules", "ended", "page_cache.json", "segment.json")
"""More of them, by which nothing is looked for: gates know the command that lists files."""
AROUND = (
    *("started", "exit_code", "journal.ndjson", "sha256sums", "time-limit", "failure.json"),
    *("output.txt", "job.out", "result.json", "job.sh", "failure"),
)
NO_ENDS = ("result.json", "result.jsonl", "spec.json", "inside.json")
"""Files of which the end alone is useless."""
NAMES_WITH_ENDS = [
    name
    for name in dict.fromkeys(
        PurePosixPath(path).name for path in (*AROUND, *IN_RUNS, *SAMPLES, PROCESSES, RAPL)
    )
    if name not in NO_ENDS
]
"""What the files are called of which both ends come, where they are carried by hand."""
SNAPSHOT = re.compile(r"snapshot/|scheduler[^/]*\.out$")
PLACE = re.compile(r"runs/[^/]+/(?:(?:rank|instance)-\d{1,6}/)?(.+)", re.DOTALL)
ENTRY = re.compile(rb"([0-9]{1,20}) (.*)", re.DOTALL)  # a file in a list: its size and its name
NOT_FETCHED = re.compile(r"(payload|files)/|(.*/)?\.", re.DOTALL)
"""Files that were sent with the job, and caches."""

_NAMED = " -o ".join(f"-name {name}" for name in dict.fromkeys(IN_RUNS + AROUND))
# The needed files come first, however many others there are.
LIST = f"""[ -d "$1" ] || exit {MISSING}
cd "$1" || exit
{{
    find . -maxdepth 4 -type f \\( {_NAMED} -o -path './scheduler*' -o -path './snapshot/*' \\) \\
        -printf '%s %P\\0'
    find . -type f -printf '%s %P\\0'
}} 2>/dev/null | head -c "$2"
"""
# Of several directories by one process, each entry after the directory's name. If there is more
# than the limit, the listing ends in the middle.
LIST_EACH = """limit=$1
shift
find "$@" -type f -printf '%H\\0%s %P\\0' 2>/dev/null | head -c "$limit"
"""
# A file that was removed meanwhile, or that may not be read, is left out.
PACK = f"""[ -d "$1" ] || exit {MISSING}
unset TAR_OPTIONS
cd "$1" && exec tar -cf - --null --no-recursion --hard-dereference --ignore-failed-read \\
    --verbatim-files-from -T -
"""
# Reads a regular file below the directory, even if links were made since it was listed.
COPY = f"""[ -d "$1" ] || exit {MISSING}
[ -e "$2" ] || exit {MISSING + 1}
[ -f "$2" ] && [ "$(realpath "$2")" = "$(realpath "$1")${{2#"$1"}}" ] || exit {NOT_THE_FILE}
exec head -c "$3" "$2"
"""


class Fetched(dict[str, bytes]):
    """The contents of fetched files by name, and the sizes in bytes of all files there."""

    def __init__(self, files: Mapping[str, bytes], sizes: Mapping[str, int]) -> None:
        super().__init__(files)
        self.sizes = dict(sizes)


def fetch_record(
    transport: Transport, directory: str, *, extra_files: Collection[str] = ()
) -> Fetched:
    """Fetch what a job left. `extra_files`: more files to fetch, by their names in a run's folder.

    FileNotFoundError if there is no such directory.
    """
    sizes = list_files(transport, directory, timeout=FETCH_SECONDS)
    whole, ends = choose_files(sizes, extra_files)
    files = fetch_files(transport, directory, whole, timeout=FETCH_SECONDS)
    for name in ends:
        offset = sizes[name] - END_LIMIT
        try:
            files[name + END] = transport.read(f"{directory}/{name}", offset=offset)[:END_LIMIT]
            if name.endswith("output.txt"):
                head = io.BytesIO()
                copy_file(transport, directory, name, head, limit=HEAD_LIMIT, timeout=FETCH_SECONDS)
                files[name + HEAD] = head.getvalue()
        except (FileNotFoundError, Refused):
            continue
    return Fetched(files, sizes)


def fetch_records(
    transport: Transport, directories: Mapping[str, Collection[str]]
) -> dict[str, Fetched]:
    """Fetch what several jobs of one folder left, by directory, in two commands.

    The values are extra files to fetch of each. A directory that is not there, or that holds much,
    is left out: `fetch_record` says what is the matter with it.
    """
    folder = str(PurePosixPath(next(iter(directories))).parent)
    chosen: dict[str, tuple[dict[str, int], list[str]]] = {}
    room = FETCH_TOGETHER_LIMIT
    for directory, sizes in _list_each(transport, list(directories)).items():
        whole, ends = choose_files(sizes, directories[directory])
        total = sum(sizes[name] for name in whole)
        is_small = not ends and total <= min(room, FETCH_EACH_LIMIT)
        if is_small and str(PurePosixPath(directory).parent) == folder:
            chosen[directory] = sizes, whole
            room -= total
    names = [
        f"{PurePosixPath(directory).name}/{name}"
        for directory, (_, whole) in chosen.items()
        for name in whole
    ]
    records = {directory: Fetched({}, sizes) for directory, (sizes, _) in chosen.items()}
    for path, content in fetch_files(
        transport, folder, names, timeout=FETCH_TOGETHER_SECONDS
    ).items():
        directory, _, name = path.partition("/")
        records[f"{folder}/{directory}"][name] = content
    return records


def _list_each(transport: Transport, directories: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the sizes of all files below each directory that has some, but not many.

    Where they have too many together, those after the limit are left out, and the one it falls in.
    """
    argv = ["sh", "-c", LIST_EACH, "list", str(LIST_TOGETHER_LIMIT), *directories]
    done = require_success(transport.run(argv, timeout=FETCH_TOGETHER_SECONDS), "listing files")
    listed: dict[str, dict[str, int]] = {}
    lengths: dict[str, int] = {}
    known = set(directories)
    entries = done.stdout.split(b"\0")
    for place, entry in zip(entries[::2], entries[1::2], strict=False):
        directory = place.decode(errors="surrogateescape")
        if directory not in known:
            odd = clean_text(place[:200]).strip()
            raise TryAgain(f"This is no list of files: {odd}", kind="busy")
        if len(done.stdout) >= LIST_TOGETHER_LIMIT and not ENTRY.fullmatch(entry):
            continue  # the last one, which was cut off
        size, name = _read_entry(entry)
        listed.setdefault(directory, {})[name] = size
        lengths[directory] = lengths.get(directory, 0) + len(entry)
    if len(done.stdout) >= LIST_TOGETHER_LIMIT and listed:
        del listed[next(reversed(listed))]  # others of its files may be missing
    return {
        directory: sizes
        for directory, sizes in listed.items()
        if lengths[directory] <= LIST_EACH_LIMIT
    }


def choose_files(
    sizes: Mapping[str, int], extra_files: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Return the names of the files to fetch whole, and of those whose end is to be fetched."""
    by_size = sorted(sizes, key=lambda name: (sizes[name], name))
    names_to_read = [name for name in by_size if is_needed(name, extra_files)]
    whole = _choose_within(names_to_read, sizes, OUR_FILE_LIMIT, OUR_LIMIT)
    rest = names_to_read[len(whole) :]
    ends = [name for name in rest if not name.endswith(NO_ENDS)][:END_COUNT]
    set_to_read = set(names_to_read)
    other_names = [
        name for name in by_size if name not in set_to_read and not NOT_FETCHED.match(name)
    ]
    return whole + _choose_within(other_names, sizes, OTHER_FILE_LIMIT, OTHER_LIMIT)[
        :OTHER_COUNT
    ], ends


def is_needed(name: str, extra_files: Collection[str] = ()) -> bool:
    """Return whether Tare reads this file of a job's directory."""
    if match := PLACE.fullmatch(name):
        return match[1] in (*IN_RUNS, *LATER) or match[1] in extra_files
    return name in (*AROUND, *SAMPLES, PROCESSES, RAPL) or bool(SNAPSHOT.match(name))


def _choose_within(
    by_size: Sequence[str], sizes: Mapping[str, int], file_limit: int, limit: int
) -> list[str]:
    """Return the first names, smallest files first, that fit into both limits."""
    total = 0
    for count, name in enumerate(by_size):
        total += sizes[name]
        if sizes[name] > file_limit or total > limit:
            return list(by_size[:count])
    return list(by_size)


def list_files(transport: Transport, directory: str, *, timeout: float = 300) -> dict[str, int]:
    """Return the size in bytes of each regular file below a directory, by its name there.

    Of more than LIST_LIMIT bytes of names the rest is left out. FileNotFoundError if there is no
    such directory.
    """
    done = transport.run(["sh", "-c", LIST, "list", directory, str(LIST_LIMIT)], timeout=timeout)
    if done.returncode == MISSING:
        raise FileNotFoundError(directory)
    sizes = {}
    for entry in require_success(done, f"listing {directory}").stdout.split(b"\0")[:-1]:
        size, name = _read_entry(entry)
        sizes[name] = size
    return sizes


def _read_entry(entry: bytes) -> tuple[int, str]:
    """Return the size and the name of a file in a list. TryAgain if it is no such list."""
    match = ENTRY.fullmatch(entry)
    if match is None:
        raise TryAgain(f"This is no list of files: {clean_text(entry[:200]).strip()}", kind="busy")
    return int(match[1]), match[2].decode(errors="surrogateescape")


def fetch_files(
    transport: Transport, directory: str, names: Sequence[str], *, timeout: float = 300
) -> dict[str, bytes]:
    """Fetch files below `directory` by their names there, in one transfer.

    Files that were removed meanwhile are left out. FileNotFoundError if there is no such directory;
    Refused if all together exceed FETCH_LIMIT.
    """
    if not names:
        return {}
    archive = Bounded(FETCH_LIMIT)
    name_list = b"".join(f"./{name}".encode(errors="surrogateescape") + b"\0" for name in names)
    script = ["sh", "-c", PACK, "pack", directory]
    done = transport.run(script, stdin=name_list, stdout=archive, timeout=timeout)
    if done.returncode == MISSING:
        raise FileNotFoundError(directory)
    if done.returncode != 1:  # 1: "file changed as we read it", and what was read is there
        require_success(done, f"fetching {directory}")
    archive.seek(0)
    return unpack(archive)


def unpack(archive: BinaryIO) -> dict[str, bytes]:
    """Return the contents of the regular files by name; without names outside the directory.

    Refused for a sparse file, which may declare any size.
    """
    files = {}
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if member.issparse():
                    raise Refused(f"The archive that came back has holes, in {name}.")
                content = tar.extractfile(member) if member.isreg() else None
                if content and not name.startswith("/") and ".." not in name.split("/"):
                    files[name] = content.read()
    except tarfile.TarError as error:
        raise TryAgain(f"What came back is no whole archive: {error}", kind="unreachable") from None
    return files


def copy_file(
    transport: Transport,
    directory: str,
    name: str,
    target: BinaryIO,
    *,
    limit: int,
    progress: Callable[[int], None] | None = None,
    timeout: float = 3600,
) -> str:
    """Stream at most `limit` bytes of a file below `directory` into `target`; their sha256 in hex.

    Refused, with the reason, if it is gone or is no regular file any more.
    """
    sink = Hashed(target, progress)
    script = ["sh", "-c", COPY, "copy", directory, f"{directory}/{name}", str(limit)]
    done = transport.run(script, stdout=cast(BinaryIO, sink), timeout=timeout)
    why = {
        MISSING: f"The directory {directory} is gone.",
        MISSING + 1: f"There is no file {name} in {directory} any more.",
        NOT_THE_FILE: f"{name} in {directory} is no regular file any more.",
    }
    if done.returncode in why:
        raise Refused(why[done.returncode])
    require_success(done, f"reading {name}")
    return sink.hash.hexdigest()
