"""How each published calculator is asked for the KV cache of one config.json.

Run by `ask.py` with the calculator's own interpreter, so this file imports nothing of this project,
and each function only what its environment has. Each uses the functions that the calculator itself
calls for its command, and asks for 16-bit keys and values, one request, one GPU, and no safety
factor on top; where a calculator tells constant state apart, it is left out. It returns bytes, or
None where the calculator says that it cannot tell; whatever it raises counts as a refusal.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

GIB, MIB, GB = 2**30, 2**20, 10**9


@dataclass(frozen=True)
class Case:
    """One question: a folder with config.json, the same file as a cached hub repository, tokens."""

    folder: str
    repo: str
    context_len: int

    @cached_property
    def config(self) -> dict[str, Any]:
        """Return the parsed file."""
        parsed: dict[str, Any] = json.loads(Path(self.folder, "config.json").read_text("utf-8"))
        return parsed


def _load(module: str) -> Any:
    return importlib.import_module(module)


def kvfit(case: Case) -> float:
    """Add up its components but those of constant size."""
    estimate = _load("kvfit").estimate_cache(case.config, context_tokens=case.context_len)
    constant = ("-history", "-state")
    return float(sum(c.bytes for c in estimate.components if not c.name.endswith(constant)))


def hf_mem(case: Case) -> float:
    """Give it the section that `hf_mem.run` would take; the rest of `run` needs the network."""
    config = case.config
    names = config.get("architectures") or []
    if not any("ForCausalLM" in n or "ForConditionalGeneration" in n for n in names):
        raise ValueError("it does not estimate this architecture")
    if "text_config" in config and any("ForConditionalGeneration" in name for name in names):
        config = config["text_config"]
    cache = _load("hf_mem.safetensors.kv_cache")
    return float(cache.compute_safetensors_kv_cache_size(config, "BF16", case.context_len))


def vramcalc(case: Case) -> float:
    """Ask for inference in bf16."""
    estimate = _load("vramcalc").estimate(
        case.folder, mode="inference", dtype="bf16", seq_len=case.context_len
    )
    return float(estimate.kv_cache)


def vramscout(case: Case) -> float:
    """Plan for more memory than anything needs, and add up the parts that grow with the context.

    It stops where it cannot ask the hub how many weights there are, which its caches do not depend
    on, so it is told some number.
    """
    _load("vramscout.modern_v06")._selected_hub_metadata = lambda *_: (GB, 2 * GB)
    plan = _load("vramscout").plan_modern(
        case.folder,
        context=case.context_len,
        kv_dtype="bf16",
        indexer_dtype="bf16",
        vram_gib=1e6,
        calibration="none",
    )
    other = {"Model weights / rank", "CUDA / runtime", "Prefill scratch", "Safety reserve"}
    parts: dict[str, float] = plan.parts_gib
    return GIB * sum(gib for n, gib in parts.items() if n not in other and " state" not in n)


def ridgepoint(case: Case) -> float:
    """Fit it on one GPU, whose size changes nothing in the bytes of a sequence."""
    told = _load("ridgepoint").fit(case.repo, "h100-80gb", ctx=case.context_len, as_json=True)
    return float(json.loads(told)["capacity"]["bytes_per_seq"])


def fitcheck(case: Case) -> float:
    """Take the config from the hub's cache, as offline users do."""
    config = _load("fitcheck").fetch_model_config(case.repo)
    inference = _load("fitcheck.memory.inference")
    memory = inference.estimate_inference_memory(config, "bf16", case.context_len)
    return float(memory.kv_cache_mib) * MIB


def llm_cal(case: Case) -> float | None:
    """Detect the architecture, then size it; it labels what it cannot size as unknown."""
    profile = _load("llm_cal.architecture.detector").detect(case.config)
    formulas = _load("llm_cal.architecture.formulas.kv_cache")
    answer = formulas.compute_kv_cache_bytes(profile, case.context_len)
    return None if answer.label.name == "UNKNOWN" else float(answer.value)


def modelinfo(case: Case) -> float:
    """Give it a config and no tensors: it sizes the cache from the config where it can."""
    calculator = _load("modelinfo.calculator")
    footprint = calculator.calculate_footprint(
        {}, config=case.config, context_length=case.context_len
    )
    return float(footprint["kv_cache_bytes"])


def canirun(case: Case) -> float | None:
    """Take the config from the hub's cache, as offline users do."""
    analyzer = _load("canirun.logic").ModelAnalyzer(case.repo, verbose=False)
    data = analyzer.fetch_model_data()
    if data is None:
        return None
    by_name = {row["quant"]: row["kv_cache"] for row in analyzer.calculate(data, case.context_len)}
    return float(by_name["FP16"])


def do_i_have_the_vram(case: Case) -> float:
    """Ask for two bytes a number."""
    model = _load("do_i_have_the_vram.memory_model")
    return float(model.calculate_kv_cache_bytes(case.config, case.context_len, 2))


def llm_mem(case: Case) -> float:
    """Take the config from the hub's cache; its errors come back as text."""
    calculator = _load("llm_mem.llm_memory_calculator").LLMMemoryCalculator()
    answer = calculator.calculate_kv_cache_memory(case.context_len, case.repo, "float16")
    if isinstance(answer, str):
        raise ValueError(answer)
    return float(answer) * GB


def llm_mem_planner(case: Case) -> float:
    """Read the dimensions and let it check them, as its command does first."""
    planner = _load("llm_mem_planner.cli")
    dims = planner.load_dims(case.config)
    planner.estimate_params(dims)
    gib = planner.estimate_kv_cache_gib(dims, batch=1, seq_len=case.context_len, kv_dtype_bytes=2)
    return float(gib) * GIB


def llm_analysis(case: Case) -> float:
    """Let its own pinned transformers read the folder."""
    config = _load("llm_analysis.config")
    analysis = _load("llm_analysis.analysis").LLMAnalysis(
        config.get_model_config_from_hf(case.folder),
        config.get_gpu_config_by_name("a100-sxm-80gb"),
        config.get_dtype_config_by_name("w16a16e16"),
    )
    layer = analysis.get_memory_kv_cache_per_layer(1, case.context_len, 2)
    return float(layer) * float(analysis.model_config.num_layers)


def vllm_wizard(case: Case) -> float:
    """Read the folder; its name says no model that it knows, so the file decides."""
    metadata = _load("vllm_wizard.models.metadata").load_model_metadata(case.folder)
    memory = _load("vllm_wizard.planning.memory")
    return float(
        memory.compute_kv_cache_memory(metadata, case.context_len, 1, fragmentation_factor=1.0)
    )


def aiconfigurator(case: Case) -> float:
    """Build its own model of the folder for vLLM with a 16-bit cache."""
    builders = _load("aiconfigurator_core.sdk.config_builders")
    one = dict.fromkeys(
        ["tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"], 1
    )
    config = builders.build_model_config(**one, kvcache_quant_mode="bfloat16")
    model = _load("aiconfigurator_core.sdk.models").get_model(case.folder, config, "vllm")
    return float(model.get_kvcache_bytes_per_sequence(case.context_len))


def sparkfit(case: Case) -> float:
    """Read the folder."""
    spark = _load("sparkfit")
    spec = spark.load_local_config(case.folder)
    return float(spark.kv_total_bytes(spec, case.context_len, 1, "bf16"))


def hf_vram_calc(case: Case) -> float:
    """Let transformers read the folder, as its `--model_path` does."""
    parsed = _load("hf_vram_calc.parser").ConfigParser.parse_config(case.folder, case.repo)
    manager = _load("hf_vram_calc.config").ConfigManager()
    calculator = _load("hf_vram_calc.calculator").VRAMCalculator(manager)
    gib = calculator.calculate_kv_cache_memory(parsed, "bf16", 1, case.context_len)
    return float(gib) * GIB
