"""JSON of documents: a key that stands twice is refused wherever a document is read."""

from pathlib import Path

import pytest

from conftest import Run
from placer.files.json_text import parse_json

TWICE = '{"schema": "placer.result/v1", "usd": 1.0, "usd": 2.0}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TWICE, "appears twice"),
        ('{"a": {"b": 1, "b": 1}}', "appears twice"),
        ('[{"c": NaN}]', "NaN is not a number"),
        (f'{{"a": [{{"b": {"7" * 400}}}]}}', r"^b is 777777777777\.\.\. and has 400 digits$"),
    ],
)
def test_a_key_that_stands_twice_is_an_error(text: str, says: str) -> None:
    """At any depth, also with equal values; and so are numbers that JSON or floats do not have."""
    with pytest.raises(ValueError, match=says):
        parse_json(text)


def test_commands_refuse_it(run: Run, tmp_path: Path) -> None:
    """`validate`, `explain`, `run` and `export`: one line that names the key, exit code 2."""
    path = tmp_path / "r.json"
    path.write_text(TWICE)
    for words in (
        ("validate", str(path)),
        ("explain", str(path)),
        ("export", str(path), "--to", "torchrun", "--dir", str(tmp_path / "out")),
    ):
        done = run(*words)
        assert done.returncode == 2
        assert "the key 'usd' appears twice" in done.stderr


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '["x\\uDFFF"]', '{"\\udc00": 1}', '"\ud800"'])
def test_half_a_character_is_refused(text: str) -> None:
    """It is no Unicode text: to print it would fail later."""
    with pytest.raises(ValueError, match="half a character"):
        parse_json(text)
