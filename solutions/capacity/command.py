"""`python -m solutions capacity CONFIG`: a config's cache by layer, and what fits on a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import click

from grader.errors import BadInputError
from solutions.capacity.fit import fit
from solutions.capacity.gpus import Gpu, gpu_named
from solutions.capacity.loading import load_config
from solutions.capacity.page import as_page
from solutions.capacity.refusal import ConfigRefusedError
from solutions.capacity.report import OnGpu, as_json, as_text, fit_text
from solutions.capacity.sections import decoder_section
from solutions.capacity.size import CacheSize, size_cache
from solutions.capacity.weights import count_weights

WHOLE = click.IntRange(min=1)
WEIGHT_BITS = 16  # of a weight, unless told
PACKED = ("quantization_config", "compression_config")  # where released files say otherwise


@click.command("capacity")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--context", type=click.IntRange(min=0), default=32_768, help="Tokens in the cache.")
@click.option("--batch", type=WHOLE, default=1, help="Requests at a time.")
@click.option("--kv-bits", type=click.Choice(["16", "8", "4"]), default="16", help="KV dtype.")
@click.option("--tp", type=WHOLE, default=1, help="GPUs of a tensor-parallel group.")
@click.option("--block-size", type=WHOLE, default=16, help="Tokens a block of the engine.")
@click.option("--encoder-len", type=click.IntRange(min=0), default=0, help="Encoder tokens.")
@click.option("--gpu", help="A GPU of data/catalog/gpus.csv: how many requests fit?")
@click.option("--params-b", type=click.FloatRange(0, 1e6, min_open=True), help="Weights, 1e9.")
@click.option("--weight-bits", type=click.FloatRange(1, 64), help="Bits a weight; default: 16.")
@click.option("--overhead-gb", type=click.FloatRange(0, 1e6), default=0, help="GB more a GPU.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every figure as JSON.",
)
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page that draws it: layers, growth, the GPU's memory.",
)
def capacity(
    config: Path,
    context: int,
    batch: int,
    kv_bits: str,
    tp: int,
    block_size: int,
    encoder_len: int,
    gpu: str | None,
    params_b: float | None,
    weight_bits: float | None,
    overhead_gb: float,
    json_file: Path | None,
    html_file: Path | None,
) -> None:
    """Say what a model keeps for each request, from its config.json, and what fits on a GPU."""
    figures = {"params-b": params_b, "weight-bits": weight_bits, "overhead-gb": overhead_gb}
    for name, figure in figures.items():
        if figure is not None and not isfinite(figure):  # a range lets nan through
            raise ConfigRefusedError([name], f"expected a number, got {figure}")
    written = [path.resolve() for path in (json_file, html_file) if path is not None]
    if len(written) > len(set(written)):
        raise ConfigRefusedError(["--html"], f"{html_file} is where --json writes; name another")
    machine = gpu_named(gpu) if gpu is not None else None
    parsed = load_config(config)
    size = size_cache(
        parsed,
        context,
        batch_size=batch,
        kv_bits=int(kv_bits),
        tp=tp,
        block_size=block_size,
        encoder_len=encoder_len,
    )
    click.echo(as_text(size))
    found: OnGpu | None = None
    if machine is not None:
        found = _fits(parsed, size, machine, params_b, weight_bits, overhead_gb)
    if json_file is not None:
        answer = as_json(size, found.fit if found else None)
        _write("--json", json_file, json.dumps(answer, indent=1, allow_nan=False) + "\n", config)
    if html_file is not None:
        _write("--html", html_file, as_page(size, found, config.name), config)


def _fits(
    config: Mapping[str, Any],
    size: CacheSize,
    gpu: Gpu,
    params_b: float | None,
    weight_bits: float | None,
    overhead_gb: float,
) -> OnGpu | None:
    """Tell what fits; None, with a sentence, where the weights are not known."""
    bits = WEIGHT_BITS if weight_bits is None else weight_bits
    if params_b is None:
        try:
            weights = count_weights(
                decoder_section(config), tuple(key for key in config if config[key])
            )
        except ConfigRefusedError as error:
            click.echo(f"\nHow many fit cannot be told without --params-b: {error.reason}.")
            return None
        params_b, told = weights.count / 1e9, weights.rule
    else:
        told = "as given by --params-b"
    packed = next((key for key in PACKED if config.get(key)), None)
    notes: tuple[str, ...] = ()
    if weight_bits is None and packed is not None:
        notes = (
            f"{packed} says that these weights are quantized, and they are counted at "
            f"{WEIGHT_BITS} bits each; say how many they have, as --weight-bits 8",
        )
    found = fit(size, gpu, params_b, bits, overhead_gb)
    on = OnGpu(found, gpu, f"{params_b:.4g}e9 weights: {told}", bits, notes)
    click.echo(fit_text(on, size))
    return on


def _write(option: str, path: Path, text: str, config: Path) -> None:
    """Write a file beside the config, and say so; ConfigRefusedError where that cannot be."""
    if path.exists() and path.samefile(config):
        raise ConfigRefusedError([option], f"{path} is the config itself; name another file")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:  # a full disk's does not name the file
        raise ConfigRefusedError([option], f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {path}.")


def main(argv: list[str]) -> int:
    """Run the command: 0 when it was answered, 2 on bad usage or a config that cannot be sized."""
    try:
        capacity.main(argv, prog_name="python -m solutions capacity", standalone_mode=False)
    except ConfigRefusedError as error:
        raise BadInputError(str(error)) from error
    except click.ClickException as error:
        error.show()
        return 2
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return 0
