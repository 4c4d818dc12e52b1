"""Results in the formats that people have: from each file to the numbers that are compared."""

import contextlib
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics.published import cells
from experiments.statistics.published.columns import NOTHING_CHOSEN, Reading
from experiments.statistics.published.compare import compare_table
from experiments.statistics.published.formats import (
    FORMATS,
    join_files,
    read_sheet,
    recognise_format,
)
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.tables import read_table
from experiments.statistics.values import Stamp

FILES = Path(__file__).parent / "published_files"


@dataclass(frozen=True)
class Case:
    """What must come of a file: the first row of the baseline, and the sizes of the comparison."""

    file: str
    format: str
    baseline: str
    value: float
    rows: int
    pairs: int = 1
    unit: str = "s"
    sd: float | None = None
    se: float | None = None
    n: int | None = None
    one_process: bool = False
    chosen: Reading = NOTHING_CHOSEN


JSON_OF = "JSON of "
TABLE = "a table with commas, semicolons or tabs"
CASES = [
    Case("hyperfine.json", JSON_OF + "hyperfine", "bare metal", 0.755944056, 16),
    Case("hyperfine_parameters.json", JSON_OF + "hyperfine", "true", 0.002892434, 8),
    Case(
        "pytest_benchmark.json",
        JSON_OF + "pytest-benchmark",
        "test_bare_metal",
        0.025104168998950627,
        16,
        one_process=True,
    ),
    Case(
        "pytest_benchmark_stats.json",
        JSON_OF + "pytest-benchmark",
        "test_bare_metal",
        0.006414075001885067,
        2,
        sd=0.002811849583613719,
        n=8,
        one_process=True,
    ),
    Case(
        "google_benchmark.json",
        JSON_OF + "Google Benchmark",
        "bare_metal",
        4.3163773583752154e-6,
        10,
        one_process=True,
    ),
    Case(
        "google_benchmark_aggregates.json",
        JSON_OF + "Google Benchmark",
        "bare_metal",
        4.195626120053931e-6,
        2,
        sd=1.0743796628921842e-6,
        n=5,
        one_process=True,
    ),
    Case("mlperf.log", "MLPerf's log (:::MLLOG)", "bare metal", 1800.25, 6),
    Case("reframe.log", "ReFrame's performance log", "bare_metal", 0.005905985999561381, 6),
    Case("mlflow.csv", "MLflow's CSV of runs", "bare metal", 100.00250264181328, 8),
    Case("mlflow_page.csv", "MLflow's CSV of runs", "bare metal", 100.64409237657773, 4),
    Case(
        "wandb_runs.csv",
        "the table of runs of Weights & Biases",
        "bare metal",
        1201.9,
        6,
        unit="images/s",
    ),
    Case("pandas_index.csv", TABLE, "bare metal", 361.2, 2, sd=1.8, n=5),
    Case("decimal_commas.csv", TABLE, "bare metal", 1234.5, 2, sd=8.1, n=5),
    Case("brackets.csv", TABLE, "bare metal", 1234.5, 2, sd=8.1, n=5),
    Case("systems.csv", TABLE, "Bare metal", 361.2, 4, pairs=2, sd=1.8, n=5),
    Case("interval.csv", TABLE, "bare metal", 361.2, 2, se=0.80679, n=5),
    Case("cv.csv", TABLE, "bare metal", 361.2, 2, sd=1.806, n=5),
    Case("plus_minus.md", "a table of Markdown", "bare metal", 361.2, 2, sd=1.8, n=5),
    Case(
        "systems.tex",
        "a table of LaTeX",
        "Bare metal",
        361.2,
        4,
        pairs=2,
        sd=1.8,
        n=5,
        chosen=Reading(unit="s"),
    ),
    Case(
        "groups.tex",
        "a table of LaTeX",
        "Bare metal",
        361.2,
        4,
        pairs=2,
        sd=1.8,
        n=3,
        chosen=Reading(n=3),
    ),
]


def read(name: str) -> str:
    return (FILES / name).read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_a_file_becomes_the_numbers_that_are_compared(case: Case) -> None:
    text = read(case.file)
    assert read_sheet(text).format == case.format
    table = read_table(text, baseline=case.baseline, reading=case.chosen)
    row = next(row for row in table.rows if row.environment == case.baseline)
    assert row.mean.value == pytest.approx(case.value, rel=1e-14)
    assert (row.unit, row.n) == (case.unit, case.n)
    assert (row.sd.value if row.sd else None) == (case.sd and pytest.approx(case.sd, rel=1e-14))
    assert (row.se.value if row.se else None) == (case.se and pytest.approx(case.se, rel=1e-4))
    assert table.single_runs == (case.sd is None and case.se is None)
    assert len(table.rows) == case.rows
    compared = compare_table(table, baseline=case.baseline, margin=0.02)
    assert len(compared) == case.pairs
    for each in compared:
        assert each.pair.ci95 is not None
        assert (Stamp.ONE_PROCESS in each.pair.stamps) == case.one_process


def test_every_format_has_a_file_and_every_file_a_test() -> None:
    seen = {recognise_format(read(path.name)).name for path in FILES.glob("*.*")}
    assert seen >= {each.name for each in FORMATS}
    tested = {case.file for case in CASES} | {"README.md", "wandb_chart.csv"}
    tested.add("hyperfine_failed.json")
    assert {path.name for path in FILES.iterdir() if "pyperf" not in path.name} == tested
    readme = read("README.md")
    assert all(f"`{path.name}`" in readme for path in FILES.glob("*.json"))


def test_the_files_of_several_environments_are_compared_and_a_process_is_a_run() -> None:
    names = ["pyperf_bare_metal.json", "pyperf_apptainer.json"]
    text = join_files([(name, read(name)) for name in names])
    table = read_table(text)
    runs = json.loads(read(names[0]))["benchmarks"][0]["runs"]
    means = [sum(run["values"]) / len(run["values"]) for run in runs if run.get("values")]
    bare = [row for row in table.rows if row.environment == "pyperf_bare_metal"]
    assert [row.mean.value for row in bare] == pytest.approx(means, rel=1e-14)
    assert all(row.began for row in bare)
    (one,) = compare_table(table, baseline="pyperf_bare_metal", margin=0.02)
    assert (one.pair.n_baseline, one.pair.n_environment) == (4, 4)
    with pytest.raises(TableError, match=r"cv\.csv is a table with .* Choose files of one kind"):
        read_sheet(join_files([(name, read(name)) for name in (names[0], "cv.csv")]))
    with pytest.raises(TableError, match=r"b\.json: The file is empty"):
        read_sheet(join_files([("a.json", read(names[0])), ("b.json", "")]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (read("wandb_chart.csv"), "chart of Weights & Biases: a row for each step"),
        ('{"a": 1}', "This is JSON, and of no program that is read here."),
        ('{"results": [{"command": "x", "times": []}]}', "This is JSON of hyperfine. There is no"),
        ('{"results": [{"command": "x", "times": [1,', "breaks off or is wrong in line 1"),
        ('{"results": 3, "command": 1}', "This is JSON of hyperfine. results is not a list"),
        ("[" * 100_000, "nested too deeply"),
        ('{"results": [], "results": [{"command": 1}]}', "has the key 'results' twice"),
        (":::MLLOG {", "MLPerf's log (:::MLLOG). Line 1: what follows :::MLLOG breaks off"),
        (':::MLLOG {"key": "run_stop", "time_ms": 5}', "run_stop and no run_start"),
        (':::MLLOG {"key": "run_start", "time_ms": NaN}', "time_ms is 'NaN', not milliseconds"),
        ("environment,time (s)\na,12 s\nb,900 ms\n", "Row 3, column time (s): mixed units"),
        ("environment;time_s\na;1,234\nb;1,240\n", "'1,234' may be 1234 or 1.234"),
        ("environment;time_s\na;12.5\nb;12,5\n", "'12.5' has a decimal point and '12,5'"),
        ("environment,time_s,n\na,1.234(5),3\nb,1.3,3\n", "the number in brackets"),
        ("environment,mean_s,CV,n\na,1,0.5,3\nb,1,0.5,3\n", "is 0.5 a percentage?"),
        ("environment,mean_s,CI low,CI high,n\na,2,1,3,3\nb,2,1,3,3\n", "of which level"),
        ("environment,mean_s,95% CI low,n\na,2,1,3\nb,2,1,3\n", "an interval has two bounds"),
        ("environment,mean_s,CI95 low,CI95 high,n\na,2,1,9,3\nb,2,1,3,3\n", "is not even about 2"),
        ("environment,mean_s,CI95 low,CI95 high,n\na,4,1,3,3\nb,2,1,3,3\n", "not between 1 and 3"),
        ("GPUs,A mean (s),A SD (ms),B mean (ms)\n1,2,3,4\n", "mixed units"),
    ],
)
def test_what_is_refused_is_called_what_it_is(text: str, words: str) -> None:
    with pytest.raises(TableError) as caught:
        read_table(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("value", ["NaN", "-1", "Infinity", "-Infinity", "0", "1e400", "null"])
@pytest.mark.parametrize(
    ("file", "number"),
    [
        ("hyperfine.json", "0.755944056"),
        ("pytest_benchmark.json", "0.025104168998950627"),
        ("google_benchmark.json", "4.3163773583752154e+03"),
        ("pyperf_bare_metal.json", "0.0015629910468533126"),
        ("reframe.log", "0.005905985999561381"),
        ("mlflow.csv", "100.00250264181328"),
        ("wandb_runs.csv", "1201.9"),
        ("cv.csv", "361.2"),
        ("systems.csv", "361.2"),
    ],
)
def test_what_is_no_positive_number_is_refused_by_row_and_column(
    file: str, number: str, value: str
) -> None:
    text = read(file)
    assert number in text
    if file == "pyperf_bare_metal.json" and value == "0":
        return  # a part of a mean may be 0
    with pytest.raises(TableError, match=r"Row \d+, column"):
        read_table(text.replace(number, value))


@pytest.mark.parametrize(
    ("decimal", "value"), [("comma", 1.234), ("point", 1234.0)], ids=["comma", "point"]
)
def test_a_person_says_how_numbers_are_written_where_their_digits_do_not(
    decimal: str, value: float
) -> None:
    text = "environment;time_s\na;1,234\nb;1,240\n"
    table = read_table(text, reading=Reading(decimal=decimal))
    assert table.rows[0].mean.value == value


def test_a_number_in_another_column_tells_what_a_comma_is() -> None:
    text = 'environment,mean_s,sd_s,n\na,"3,710",1.5,3\nb,"3,730",1.5,3\n'
    assert read_table(text).rows[0].mean.value == 3710
    commas = "environment;mean_s;sd_s;n\na;3,710;1,5;3\nb;3,730;1,5;3\n"
    assert read_table(commas).rows[0].mean.value == 3.71
    labels = 'environment,gpus,mean_s\na,"1,024",2.5\nb,"1,024",2.5\n'
    assert read_table(labels).rows[0].mean.value == 2.5, "a label may be in doubt"


def write_number(value: float, thousands: str, sign: str) -> str:
    text = f"{value:,.6f}"
    return text.replace(",", "\0").replace(".", sign).replace("\0", thousands)


@given(
    st.floats(1e-5, 1e9),
    st.sampled_from([(",", "."), (".", ","), (" ", "."), ("\u202f", ","), ("'", "."), ("", ".")]),
)
def test_a_number_that_is_written_and_read_is_the_same(
    value: float, style: tuple[str, str]
) -> None:
    thousands, sign = style
    text = write_number(value, thousands, sign)
    numbers = cells.read_numbers([text])
    assert not numbers.doubt
    assert float(numbers.texts[0]) == float(f"{value:.6f}")


@given(st.integers(0, 10**9), st.sampled_from([(",", "."), (".", ",")]))
def test_a_whole_number_is_read_as_it_is_or_in_doubt(value: int, style: tuple[str, str]) -> None:
    thousands, sign = style
    text = f"{value:,}".replace(",", thousands)
    decimal = "point" if sign == "." else "comma"
    assert float(cells.to_plain(text, decimal)) == value
    numbers = cells.read_numbers([text])
    # One dot before three digits is a decimal point, as everywhere else.
    expected = float(text) if text.count(".") == 1 else value
    assert numbers.doubt or float(numbers.texts[0]) == expected


@pytest.mark.parametrize("path", sorted(FILES.glob("*.*")), ids=lambda path: path.name)
def test_a_file_with_anything_wrong_in_it_is_read_or_refused_in_words(path: Path) -> None:
    text = path.read_text()
    dice = random.Random(7)
    scraps = ["", "{", "}", "[", "]", ",", ";", "NaN", "-1", "null", '"', "\n", "&", "\\\\", "|",
              "±", "1,234", "==> a <==\n", "\u202f", "%", "true", "{}", "[]", '"x"']  # fmt: skip
    for _ in range(60):
        start = dice.randrange(len(text))
        end = min(len(text), start + dice.choice([0, 1, 5, 40]))
        broken = text[:start] + dice.choice(scraps) + text[end:]
        with contextlib.suppress(TableError):
            table = read_table(broken)
            compare_table(table, baseline=table.environments[0], margin=0.02)


def test_values_of_json_of_any_type_are_read_or_refused_in_words() -> None:
    def replace_each(value, put):  # type: ignore[no-untyped-def]
        """Yield a document for each of its places, with something else in that place."""
        keys = value if isinstance(value, dict) else range(min(len(value), 2))
        for key in list(keys):
            before = value[key]
            value[key] = put
            yield value
            value[key] = before
            if isinstance(before, dict | list):
                yield from (value for _ in replace_each(before, put))

    for path in sorted(FILES.glob("*.json")):
        document = json.loads(path.read_text())
        for put in (None, 3, "x", [], {}, [3], {"a": 1}, [[]], True):
            for changed in replace_each(document, put):
                with contextlib.suppress(TableError):
                    read_sheet(json.dumps(changed))


def test_a_run_that_failed_does_not_count() -> None:
    text = read("hyperfine_failed.json")
    assert '"exit_codes": [\n        1' in text
    table = read_table(text)
    assert (table.environments, len(table.rows), table.left_out) == (["works"], 3, 3)


@pytest.mark.parametrize(
    "text",
    [
        " " * 500_000 + "x,y",
        "a,b\n" + " x" * 50_000 + ",1\n",
        "a ± " * 30_000 + ",b\n1,2\n",
        "|a|b|\n|-|-|\n|" + "** " * 150_000 + "|1|\n",
        ":::MLLOG {" * 50_000,
        r"\begin{tabular}{ll} a & b \\ " + r"\cline(" * 70_000,
        r"\begin{tabular}{ll} a & b \\ " + r"\\[" * 150_000,
        r"\begin{tabular}" + r"\multicolumn{99}{c}{x} & " * 15_000 + r"\\",
        r"\caption{" * 50_000 + r"\begin{tabular}{ll}",
        '{"a": {' + ", ".join(f'"k{k}": 1' for k in range(40_000)) + ', "k1": 2}}',
        "==> a <==\n" * 50_000,
    ],
    ids=lambda text: text[:20].strip() + str(len(text)),
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(TableError):
        read_table(text)
    assert time.process_time() - began < 5, "work grows with the square of the length"


@pytest.mark.parametrize("rows", [1, 5000])
def test_one_row_and_thousands_are_an_answer(rows: int) -> None:
    lines = "".join(f"{name},{k},1.5\n" for k in range(rows) for name in ("bare", "box"))
    table = read_table("environment,gpus,mean_s\n" + lines)
    assert len(table.rows) == 2 * rows
    times = ",".join(["0.5"] * rows)
    text = '{"results": [{"command": "a", "times": [' + times + "]}]}"
    assert len(read_table(text).rows) == rows
