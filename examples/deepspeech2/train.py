"""Trains Deep Speech 2 on spoken commands, or on folders in LibriSpeech's layout.

    python -m examples.deepspeech2.train

The same command goes on where the run in --output stood when it was stopped; with other settings
only if --override says so.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from tqdm import tqdm

from examples.deepspeech2 import checkpoint, corpus, data, evaluate, report
from examples.deepspeech2.model import CELLS, PRESETS, Config, DeepSpeech2
from examples.inputs import OUTSIDE, SEED, InputError, real, whole, writable

WARM_UP = 100  # steps over which the learning rate grows from 0
TOLERATED = 20  # steps in succession without a finite gradient
BATCHES = {"batch", "seed", "train", "workers"}  # settings that decide what is in which batch


class Training:
    """A run: its network, its trainer and where it stands."""

    def __init__(self, args: argparse.Namespace, config: Config) -> None:
        self.args = args
        self.store = mx.kv.create("dist_sync") if "DMLC_ROLE" in os.environ else None
        self.rank = self.store.rank if self.store else 0
        self.workers = self.store.num_workers if self.store else 1
        self.on_error = data.OnError(args.on_error == "stop")
        writable(args.output)
        train, valid = folders(args)
        self.train = data.scan(train, config, self.on_error)
        self.valid = data.scan(valid, config, self.on_error)
        mx.random.seed(args.seed)
        np.random.seed(args.seed)
        self.net = DeepSpeech2(config, data.BLANK + 1)
        self.net.prepare()
        self.net.hybridize(static_alloc=True)
        self.options: dict[str, Any] = {"wd": args.decay}
        if args.optimizer == "nag":
            self.options["momentum"] = args.momentum
        options = {"learning_rate": args.rate, **self.options}
        parameters = self.net.collect_params()
        if self.store is None:
            self.trainer = mx.gluon.Trainer(parameters, args.optimizer, options, kvstore=None)
        else:
            # The optimizer runs in the workers: the store only adds their gradients, so that all
            # of them can clip the sum and save the optimizer's memory.
            self.trainer = StoreTrainer(
                parameters,
                args.optimizer,
                options,
                kvstore=self.store,
                update_on_kvstore=False,
                compression_params=(
                    {"type": "2bit", "threshold": args.compress} if args.compress else None
                ),
            )
        self.state: dict[str, Any] = {
            "epoch": 0,
            "batch": 0,
            "step": 0,
            "seconds": 0.0,
            "loss": 0.0,  # summed over the utterances of this epoch so far
            "utterances": 0,
            "best": None,
            "log": [],
        }
        self.failures = 0
        batches = self.batches(0)
        self.per_epoch = len(batches)
        left_out = len(self.train) - sum(map(len, batches))
        if not batches:
            raise InputError(
                f"{train}: expected an utterance for each of {self.workers} workers, "
                f"found {left_out}"
            )
        if left_out:
            self.say(f"{left_out} utterances an epoch are left out: fewer than workers")
        self.total = self.per_epoch * args.epochs
        self.last = args.output / "last.zip"
        if self.last.exists():
            self.resume()

    def settings(self) -> dict[str, Any]:
        """All that decides what a run computes, but for the sizes of the network."""
        args = self.args
        names = ["optimizer", "rate", "decay", "clip", "batch", "seed", "epochs"]
        if args.optimizer == "nag":
            names.append("momentum")
        if self.workers > 1:
            names.append("compress")
        return {
            **{name: getattr(args, name) for name in names},
            "dropout": self.net.config.dropout,
            "workers": self.workers,
            "train": data.fingerprint(self.train),
            "valid": data.fingerprint(self.valid),
        }

    def resume(self) -> None:
        """Goes on from last.zip, with the settings of now."""
        args, settings = self.args, self.settings()
        state, changed = checkpoint.restore(
            self.last, self.net, self.trainer, settings, args.override
        )
        self.state = state
        for name, saved in changed.items():
            self.say(f"{name}: {saved} before, {settings[name]} now")
        if "optimizer" in changed:
            self.say(f"what {changed['optimizer']} remembered is discarded")
        for name, value in self.options.items():
            setattr(self.trainer.optimizer, name, value)  # a loaded one has those of before
        if "valid" in changed:
            state["best"] = None  # of other utterances
        if BATCHES & changed.keys() and state["batch"]:
            state.update(batch=0, loss=0.0, utterances=0)
            self.say(f"epoch {state['epoch'] + 1} begins anew, as its batches are others now")
        if state["epoch"] < args.epochs:
            self.say(f"goes on at epoch {state['epoch'] + 1}, step {state['step']}")
        else:
            self.say(f"all {args.epochs} epochs are done; more of them need --override")

    def say(self, text: str) -> None:
        """Prints beside the progress bar, in one worker only."""
        if self.rank == 0:
            tqdm.write(text)

    def batches(self, epoch: int) -> list[list[data.Utterance]]:
        """Those of all workers together."""
        args = self.args
        return data.epoch_batches(self.train, args.batch, epoch, args.seed, self.workers)

    def run(self) -> None:
        """All epochs from where the run stands."""
        args, state = self.args, self.state
        watch = Watchdog(args.patience, self.last) if self.store else None
        with tqdm(
            total=self.total, initial=self.place(), unit="step", disable=self.rank > 0
        ) as progress:
            while state["epoch"] < args.epochs:
                joint = self.batches(state["epoch"])[state["batch"] :]
                own = [batch[self.rank :: self.workers] for batch in joint]
                progress.set_description(f"epoch {state['epoch'] + 1}/{args.epochs}")
                loader = data.prefetched(own, self._load)
                begin = time.perf_counter()
                for whole, batch in zip(joint, loader):
                    loss = self.step(batch, len(whole))
                    now = time.perf_counter()
                    state["seconds"] += now - begin
                    begin = now
                    progress.set_postfix(loss=f"{loss:.2f}")
                    progress.update()
                    if watch:
                        watch.beat()
                    if state["step"] % args.save_every == 0:
                        self.save()
                state["epoch"] += 1
                state["batch"] = 0
                self.finish_epoch()
                if watch:
                    watch.beat()

    def _load(self, utterances: list[data.Utterance]) -> data.Batch | None:
        return data.load(utterances, self.net.config, self.on_error)

    def step(self, batch: data.Batch | None, joint_size: int) -> float:
        """One update, to which a worker without a batch adds nothing; the loss of an utterance."""
        state = self.state
        learned = [p for p in self.net.collect_params().values() if p.grad_req != "null"]
        # Dropout depends on the step alone, so that a resumed run repeats it.
        mx.random.seed(self.args.seed + 1_000_003 * state["step"] + self.rank)
        total, count = 0.0, 0
        if batch is None:
            for parameter in learned:
                parameter.zero_grad()
                parameter.data()._fresh_grad = True  # else the Trainer misses a backward pass
        else:
            with mx.autograd.record():
                loss = evaluate.losses(self.net, batch)[0]
            loss.backward()
            total, count = loss.sum(), len(batch.texts)
        self.trainer.allreduce_grads()
        gradients = [p.grad() for p in learned]
        # All workers see the same sum here, and decide alike.
        norm = mx.gluon.utils.clip_global_norm(
            gradients, self.args.clip * joint_size, check_isfinite=False
        )
        if math.isfinite(float(norm.asscalar())):
            self.failures = 0
            self.trainer.set_learning_rate(self.rate())
            self.trainer.update(joint_size)
        else:
            self.failures += 1
            self.say(f"step {state['step']}: the gradient is not finite; not used")
            if self.failures == TOLERATED:
                raise InputError(f"no finite gradient in {TOLERATED} steps; lower --rate?")
        total = float(total.asscalar()) if count else 0.0
        state["step"] += 1
        state["batch"] += 1
        if math.isfinite(total):
            state["loss"] += total
            state["utterances"] += count
        return total / max(1, count)

    def place(self) -> int:
        """How many steps of all epochs are behind: fewer or more than were made in fact, if the
        size of batches has changed.
        """
        return self.state["epoch"] * self.per_epoch + self.state["batch"]

    def rate(self) -> float:
        """The learning rate: linear growth, then a cosine to 0 at the end of all epochs."""
        cosine = (1 + math.cos(math.pi * self.place() / self.total)) / 2
        return self.args.rate * min((self.state["step"] + 1) / WARM_UP, 1) * cosine

    def finish_epoch(self) -> None:
        """Evaluates, logs, saves; one worker does it, the others wait at their next step."""
        state = self.state
        loss, count = state["loss"], state["utterances"]
        state["loss"], state["utterances"] = 0.0, 0
        if self.rank:
            return
        if not count:
            raise InputError(f"epoch {state['epoch']}: no utterance could be used")
        train_loss = loss / count
        scores = evaluate.evaluate(self.net, self.valid, self.args.batch, self.on_error)
        row = {
            "epoch": state["epoch"],
            "step": state["step"],
            "seconds": round(state["seconds"], 2),
            "rate": self.trainer.learning_rate,
            "train_loss": train_loss,
            "valid_loss": scores.loss,
            "cer": scores.cer,
            "wer": scores.wer,
        }
        state["log"].append(row)
        report.write(state["log"], self.args.output)
        self.say(
            f"epoch {row['epoch']}: {row['seconds']:.0f} s, loss {train_loss:.3f}, "
            f"valid {scores.loss:.3f}, CER {scores.cer:.2%}, WER {scores.wer:.2%}"
        )
        if state["best"] is None or scores.cer <= state["best"]:
            state["best"] = scores.cer
            checkpoint.save(self.args.output / "best.zip", self.net, {"log": row})
        self.save()

    def save(self) -> None:
        """Writes last.zip."""
        if self.rank == 0:
            checkpoint.save(self.last, self.net, self.state, self.trainer, self.settings())


class StoreTrainer(mx.gluon.Trainer):
    """A Trainer over a distributed store, without two faults of MXNet's own."""

    def _init_params(self) -> None:
        super()._init_params()
        # The store's first values are still on their way into the parameters. A sum of gradients
        # that overtakes them would arrive in their place.
        mx.nd.waitall()

    def _allreduce_grads(self) -> None:
        # Not pushpull, which refuses to compress.
        for k, parameter in enumerate(self._params):
            if parameter.grad_req != "null":
                self._kvstore.push(k, parameter.list_grad(), priority=-k)
                self._kvstore.pull(k, parameter.list_grad(), priority=-k)


class Watchdog:
    """Ends a worker whose step does not end: another worker or a server has died.

    MXNet would wait for it forever.
    """

    def __init__(self, seconds: float, last: Path) -> None:
        self._seconds, self._last = seconds, last
        self._deadline = time.monotonic() + seconds
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self) -> None:
        """A step has ended."""
        self._deadline = time.monotonic() + self._seconds

    def _watch(self) -> None:
        while time.monotonic() < self._deadline:
            time.sleep(1)
        print(
            f"No step has ended for {self._seconds:.0f} s: a worker or a server has died, or "
            f"--patience is too short. The same command resumes from {self._last}.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)


def folders(args: argparse.Namespace) -> tuple[Path, Path]:
    """Those of the training and the validation utterances."""
    if (args.train is None) != (args.valid is None):
        raise InputError("--train and --valid: expected both or neither")
    if args.train:
        return args.train, args.valid
    size = corpus.Size(*args.utterances)
    folder = corpus.cached(args.cache, size, args.seed)
    return folder / "train", folder / "valid"


def configuration(args: argparse.Namespace) -> Config:
    """The preset with what the command line changes."""
    names = {field.name for field in dataclasses.fields(Config)}
    given = {name: value for name, value in vars(args).items() if name in names}
    return dataclasses.replace(
        PRESETS[args.preset], **{k: v for k, v in given.items() if v is not None}
    )


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--output", type=Path, default=Path("runs/small"), help="folder of the run (runs/small)")
    add("--train", type=Path, help="folder of utterances; synthesised ones by default")
    add("--valid", type=Path, help="folder of utterances of other voices")
    add("--cache", type=Path, default=corpus.default_cache(), help="where to synthesise into")
    add(
        "--utterances",
        type=corpus.COUNT,
        nargs=3,
        default=corpus.Size(),
        metavar=corpus.Size._fields,
    )
    add("--on-error", choices=("skip", "stop"), default="skip", help="at bad files (skip)")
    add("--override", action="store_true", help="go on with other settings than the run had")
    sizes = parser.add_argument_group("network (what is not given is the preset's)")
    sizes.add_argument("--preset", choices=PRESETS, default="small", help="(small)")
    sizes.add_argument("--cell", choices=CELLS)
    sizes.add_argument("--layers", type=whole(1, 100))
    sizes.add_argument("--hidden", type=whole(1, 10**5))
    sizes.add_argument("--dropout", type=real(0, 0.99))
    sizes.add_argument("--no-norm", dest="norm", action="store_false", default=None)
    sizes.add_argument("--native", action="store_true", default=None, help="mx.gluon.rnn layers")
    learn = parser.add_argument_group("training")
    million = 10**6
    for name, kind, default, meaning in (
        ("epochs", whole(1, million), 6, ""),
        ("batch", whole(1, million), 32, ""),
        ("seed", whole(0, SEED), 0, ""),
        ("save-every", whole(1, million), 200, "steps between checkpoints "),
        ("rate", real(1e-12, million), 2e-3, "largest learning rate "),
        ("decay", real(0, million), 1e-5, "weight decay "),
        ("clip", real(1e-12, million), 5.0, "largest norm of an utterance's mean gradient "),
        ("momentum", real(0, 0.9999), 0.9, "of nag "),
        ("compress", real(0, million), 0.0, "threshold of 2-bit compression, several workers "),
        ("patience", real(0.1, million), 600, "seconds for a step, several workers "),
    ):
        learn.add_argument(f"--{name}", type=kind, default=default, help=f"{meaning}({default})")
    learn.add_argument("--optimizer", choices=("adam", "nag"), default="adam", help="(adam)")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    args = arguments(given)
    try:
        training = Training(args, configuration(args))
        training.run()
    except BaseException as error:
        known = isinstance(error, OUTSIDE)
        print(error if known else traceback.format_exc(), file=sys.stderr, flush=True)
        if "DMLC_ROLE" in os.environ:
            os._exit(1)  # a regular end waits for all workers
        sys.exit(1)
    if training.on_error.skipped:
        training.say(f"{training.on_error.skipped} files were left out")
    training.say(f"Wrote {args.output}: best.zip, last.zip, log.csv, curves.png")


if __name__ == "__main__":
    main()
