"""`python -m solutions capacity`: figures with their reasons, and refusals in one sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from grader.errors import BadInputError
from solutions.capacity import ConfigRefusedError
from solutions.capacity.command import main
from solutions.capacity.fit import fit
from solutions.capacity.gpus import Gpu, gpu_named
from solutions.capacity.report import WIDTH, spans
from solutions.capacity.size import size_cache
from solutions.lesson import ROOT
from tests.solutions.capacity_shapes import SHAPES, Config, llama

LLAMA_70B = llama(80, 64, 8, 8_192, vocab_size=128_256, intermediate_size=28_672)
LLAMA_70B |= {"tie_word_embeddings": False, "max_position_embeddings": 131_072}


def saved(folder: Path, config: Any) -> str:
    path = folder / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    return str(path)


def answer(folder: Path, config: Config, *options: str) -> dict[str, Any]:
    out = folder / "out.json"
    assert main([saved(folder, config), *options, "--json", str(out)]) == 0
    said: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return said


def test_the_course_s_own_example_comes_out(tmp_path: Path) -> None:
    # 70B, INT4 weights, 32,768 tokens on 80 GB: 3 requests with an FP16 cache, 7 with FP8.
    for bits, requests in (("16", 3), ("8", 7)):
        said = answer(
            tmp_path,
            LLAMA_70B,
            *("--context", "32768", "--gpu", "H100", "--weight-bits", "4"),
            *("--params-b", "70.6", "--kv-bits", bits),
        )
        assert said["concurrency"]["requests"] == requests
    assert said["concurrency"]["quotient"] == pytest.approx(7.134, abs=5e-4)


def test_json_holds_every_figure_of_one_request(tmp_path: Path) -> None:
    said = answer(tmp_path, LLAMA_70B, "--context", "1000", "--batch", "3", "--tp", "16")
    assert said["kv_bytes"] == 1_000 * 327_680
    assert said["kv_bytes_per_token"] == 327_680
    assert said["state_bytes"] == 0
    assert said["allocated_bytes"] == 1_008 * 327_680 * 2, "8 heads on 16 GPUs are kept twice"
    assert said["batch_kv_bytes"] == 3 * said["kv_bytes"]
    assert said["layers"] == {"full": 80}
    assert said["concurrency"] is None
    assert [row["layers"] for row in said["breakdown"]] == [list(range(80))]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_kind_of_config_is_answered_in_words_and_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: Any
) -> None:
    said = answer(tmp_path, shape.config, "--context", "32768", "--gpu", "H100")
    words = capsys.readouterr().out
    assert f"{said['kv_bytes']:,} bytes" in words
    assert sum(len(row["layers"]) for row in said["breakdown"]) == len(
        {i for row in said["breakdown"] for i in row["layers"]}
    )
    for row in said["breakdown"]:
        assert row["rule"] in words
        assert all(fact["key"] in words for fact in row["facts"])
    assert "requests at a time" in words or "--params-b" in words


def test_quantized_weights_are_not_counted_at_16_bits_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fp8 = LLAMA_70B | {"quantization_config": {"quant_method": "fp8"}}
    ask = "say how many they have, as --weight-bits 8"
    for config, options, asked in (
        (fp8, (), True), (fp8, ("--weight-bits", "8"), False), (LLAMA_70B, (), False),
    ):  # fmt: skip
        answer(tmp_path, config, "--gpu", "H200", *options)
        assert (ask in capsys.readouterr().out) is asked


def test_json_never_replaces_the_config_and_an_error_names_its_file(tmp_path: Path) -> None:
    config = saved(tmp_path, LLAMA_70B)
    before = Path(config).read_bytes()
    with pytest.raises(BadInputError, match="is the config itself; name another file"):
        main([config, "--json", config])
    assert Path(config).read_bytes() == before
    with pytest.raises(BadInputError, match=r"x\.json cannot be written: Not a dir"):
        main([config, "--json", str(Path(config) / "x.json")])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_page_says_what_the_words_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: Any
) -> None:
    page = tmp_path / "page.html"
    said = answer(
        tmp_path, shape.config, *("--gpu", "H100", "--params-b", "8"), "--html", str(page)
    )
    words, html = capsys.readouterr().out, page.read_text(encoding="utf-8")
    shown = " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())
    assert said["rule"] in shown
    for row in said["breakdown"]:
        assert row["rule"] in shown
        assert all(f"{fact['name']} = {fact['value']:,}" in shown for fact in row["facts"])
    lines = words[words.index("One request") :].splitlines()
    figures = [line[2 + WIDTH :].strip() for line in lines if line.startswith("  ")]
    assert len(figures) > 7
    assert [figure for figure in figures if " ".join(figure.split()) not in shown] == []
    assert html.count('<rect class="kind-') == len(said["layers"]) + sum(
        len(row["layers"]) for row in said["breakdown"]
    ), "a swatch a kind and a column a layer"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="/dev/full cannot be written: No space left"):
        main([saved(tmp_path, LLAMA_70B), "--json", "/dev/full"])


def test_weights_that_cannot_be_counted_are_asked_for_and_the_rest_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bamba = next(shape for shape in SHAPES if shape.name == "Bamba-9B").config
    assert answer(tmp_path, bamba, "--gpu", "H100")["concurrency"] is None
    assert "How many fit cannot be told without --params-b: the weights" in capsys.readouterr().out
    given = answer(tmp_path, bamba, "--gpu", "H100", "--params-b", "9.8")["concurrency"]
    assert given["weight_bytes"] == pytest.approx(19.6e9)


def test_what_does_not_fit_is_zero_and_never_negative(tmp_path: Path) -> None:
    said = answer(tmp_path, LLAMA_70B, "--gpu", "H100")["concurrency"]
    assert said["requests"] == 0
    assert said["quotient"] < 0
    four = answer(tmp_path, LLAMA_70B, "--gpu", "H100", "--tp", "4")["concurrency"]
    assert four["requests"] == 14  # (73.6e9 - 70.55e9 x 2 / 4) / (10.74e9 / 4), rounded down


def test_overhead_is_taken_from_every_gpu() -> None:
    size, gpu = size_cache(LLAMA_70B, 32_768), Gpu("x", 100)
    without, with_it = (fit(size, gpu, 10, 16, overhead) for overhead in (0, 5))
    assert without.free_bytes - with_it.free_bytes == 5e9
    assert without.free_bytes == 92e9 - 20e9


BROKEN: dict[str, tuple[Any, str]] = {
    "not JSON": ("{", "not JSON"),
    "text": ("hello", "not JSON"),
    "empty": ("", "not JSON"),
    "a list": ([1], "expected a JSON object"),
    "a number of 5,000 digits": ('{"a": ' + "9" * 5_000 + "}", "larger than any"),
    "a deep nesting": ("[" * 100_000, "larger than any"),
    "NaN": ('{"model_type": "llama", "num_hidden_layers": NaN}', "num_hidden_layers"),
    "1e30": (LLAMA_70B | {"num_hidden_layers": 1e30}, "num_hidden_layers"),
    "negative": (LLAMA_70B | {"num_key_value_heads": -8}, "num_key_value_heads"),
    "a yes": (LLAMA_70B | {"num_attention_heads": True}, "num_attention_heads"),
    "words": (LLAMA_70B | {"hidden_size": "8192"}, "hidden_size"),
    "unknown": (LLAMA_70B | {"model_type": "nobody"}, "model_type"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_sized_is_told_in_one_sentence(tmp_path: Path, what: str) -> None:
    config, said = BROKEN[what]
    with pytest.raises(BadInputError) as told:
        main([saved(tmp_path, config)])
    assert said in str(told.value)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500


@pytest.mark.parametrize("path", ["absent.json", "."])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadInputError, match="cannot be read"):
        main([str(tmp_path / path)])


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(BadInputError, match="UTF-8"):
        main([str(tmp_path / "x")])


@pytest.mark.parametrize(
    "options",
    [
        ["--context", "-1"],
        ["--context", "x"],
        ["--kv-bits", "7"],
        ["--tp", "0"],
        ["--params-b", "0"],
        ["--gpu"],
        ["--nothing"],
    ],
    ids=str,
)
def test_bad_usage_is_2(tmp_path: Path, options: list[str]) -> None:
    assert main([saved(tmp_path, LLAMA_70B), *options]) == 2


@pytest.mark.parametrize("option", ["--params-b", "--weight-bits", "--overhead-gb"])
def test_a_figure_that_is_no_number_is_refused_by_its_name(tmp_path: Path, option: str) -> None:
    with pytest.raises(BadInputError, match=option.removeprefix("--")):
        main([saved(tmp_path, LLAMA_70B), "--gpu", "H100", option, "nan"])


def test_a_gpu_is_found_by_its_class_unless_that_is_ambiguous() -> None:
    assert gpu_named("h100").memory_gb == 80
    assert gpu_named("L40S").memory_gb == 48
    with pytest.raises(ConfigRefusedError, match=r"A100-40GB.*A100-80GB"):
        gpu_named("A100")
    with pytest.raises(ConfigRefusedError, match="not in the catalog"):
        gpu_named("H1")


def test_the_command_line_exits_2_on_a_refusal_and_names_the_key(tmp_path: Path) -> None:
    broken = {key: value for key, value in LLAMA_70B.items() if key != "num_hidden_layers"}
    ran = subprocess.run(
        [sys.executable, "-m", "solutions", "capacity", saved(tmp_path, broken)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert ran.returncode == 2
    assert "num_hidden_layers" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_layer_numbers_are_written_briefly() -> None:
    assert spans([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_a_page_tells_of_a_dot_where_one_is_drawn(tmp_path: Path) -> None:
    for context, is_drawn in (("100", False), ("0", False), ("4096", True)):
        page = tmp_path / "page.html"
        answer(tmp_path, LLAMA_70B, "--context", context, "--html", str(page))
        html = page.read_text(encoding="utf-8")
        assert ('class="mark"' in html) is ("the dot is" in html) is is_drawn


def test_a_small_request_is_not_drawn_as_one_of_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    options = ("--context", "16", "--gpu", "H100", "--params-b", "1", "--html", str(page))
    said = answer(tmp_path, llama(1, 1, 1, 64), *options)
    told = f"requests of {said['concurrency']['request_bytes']:,} bytes"
    assert told in page.read_text(encoding="utf-8")


def test_a_page_does_not_take_the_place_of_the_json(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with pytest.raises(BadInputError, match="where --json writes"):
        main([saved(tmp_path, LLAMA_70B), "--json", out, "--html", out])
    assert not (tmp_path / "out").exists()
