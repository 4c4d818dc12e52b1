"""Studies by the command, against the real site: launched from a file, followed, compared."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer
from tare_client.command_line import main
from tare_client.exit_codes import choose_gravest_word

from experiments.models import Experiment, Job, Run, Study, Workload
from experiments.statistics.exit_words import GRAVEST_FIRST
from experiments.statistics.exit_words import choose_gravest_word as choose_on_site
from tests.clients.test_live_site import make_token_of
from tests.dashboard.planning.test_definition_drafts import Place, make_place
from tests.dashboard.planning.test_study_drafts import write
from tests.factories import ExperimentFactory, StudyFactory

pytestmark = pytest.mark.django_db(transaction=True)
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def place() -> Place:
    return make_place()


@pytest.fixture
def ask(
    live_server: LiveServer, place: Place, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> Callable[..., int]:
    """Log in by the command, then run it."""
    monkeypatch.setattr("sys.stdin", io.StringIO(make_token_of(place.user, "experiments")))
    assert main(["login", live_server.url]) == 0
    capsys.readouterr()
    return lambda *words: main([str(word) for word in words])


def test_a_file_of_a_study_is_checked_and_launched_like_one_of_an_experiment(
    ask: Callable[..., int], place: Place, tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(write(place))
    assert ask("check", file) == 0
    assert "16 runs, 8 blocks, 8 jobs" in capsys.readouterr().out
    assert ask("launch", "--draft", file) == 0
    draft = Study.objects.get()
    assert f"study:{draft.pk} is made, 2 drafts: http" in capsys.readouterr().out
    assert ask("launch", "--key", "nightly", "--json", file) == 0
    first = json.loads(capsys.readouterr().out)
    assert ask("launch", "--key", "nightly", "--json", file) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert Experiment.objects.exclude(launched_at=None).count() == 2
    wrong = write(place).replace("repeats: 3", "repeats: many").splitlines()
    file.write_text("\n".join(wrong))
    assert ask("launch", file) == 4
    line = next(number for number, text in enumerate(wrong, start=1) if "many" in text)
    assert f"{file}:{line}:14: experiments[1].design.repeats" in capsys.readouterr().err


@pytest.mark.parametrize("write_file", [Place.write, write])
def test_workloads_that_are_not_there_are_made_if_that_is_asked_for(
    ask: Callable[..., int],
    place: Place,
    tmp_path: Path,
    capsys: Captured,
    write_file: Callable[[Place], str],
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(write_file(place))
    Workload.objects.all().delete()
    assert ask("check", file) == 4
    assert "have it made of the file" in capsys.readouterr().err
    assert ask("check", "--make-workloads", file) == 0
    assert ask("launch", file) == 4
    assert not Experiment.objects.exists()
    assert ask("launch", "--make-workloads", file) == 0
    assert Workload.objects.get().owner == place.user


def test_a_study_is_followed_until_its_gravest_verdict(
    ask: Callable[..., int], place: Place, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = ExperimentFactory(owner=place.user, question="Has it ended?")
    study = StudyFactory(owner=place.user, members=[ended], name="Two machines")
    assert ask("compare", f"study:{study.pk}") == 3  # a draft has no verdict
    assert "Has it ended?" in capsys.readouterr().out
    assert ask("follow", f"study:{study.pk}", "--json") == 3
    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["is_alive"], last["exit_word"]) == (False, "unfinished")
    assert ask("list", "--studies") == 0
    assert "Two machines" in capsys.readouterr().out
    assert ask("list", "--studies", "--filter", "q=three", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert ask("list", "--studies", "--filter", "state=alive") == 64
    assert ask("compare", "studies:5") == 64
    assert ask("compare", "study:0") == 64
    assert ask("compare", "study:4711") == 4


def test_a_live_study_has_a_line_for_each_change_and_is_cancelled(
    ask: Callable[..., int],
    place: Place,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(write(place))
    assert ask("launch", file) == 0
    study = Study.objects.get()
    capsys.readouterr()

    def end(seconds: float) -> None:
        Run.objects.update(state=Run.State.CANCELLED, ended_at=timezone.now())
        Job.objects.update(state=Job.State.CANCELLED, ended_at=timezone.now())

    monkeypatch.setattr("tare_client.commands.following.time.sleep", end)
    assert ask("follow", f"study:{study.pk}") == 3
    out = capsys.readouterr().out
    assert "And with fewer repeats?" in out
    assert "0 of 6 runs ended" in out
    assert "6 of 6 runs ended, 6 cancelled" in out
    assert "Verdict of the study, the gravest: failed" in out
    assert ask("cancel", f"study:{study.pk}") == 0
    target = tmp_path / "saved.yaml"
    assert ask("export", f"study:{study.pk}", "--definition", "-o", target) == 0
    assert target.read_text() == file.read_text()
    assert ask("export", f"study:{study.pk}") == 64


def test_the_command_and_the_site_choose_the_same_word() -> None:
    for number, word in enumerate(GRAVEST_FIRST):
        words = list(GRAVEST_FIRST[number:])
        assert choose_gravest_word(words[::-1]) == choose_on_site(words) == word
    assert choose_gravest_word([]) == choose_on_site([]) == "failed"
    assert choose_gravest_word(["equivalent", "newer"]) == "failed"
