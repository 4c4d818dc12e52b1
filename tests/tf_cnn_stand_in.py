"""A stand-in for tf_cnn_benchmarks: it takes its options and prints as it does, and trains nothing.

As that program on TensorFlow 2.21 it needs Keras 2: tf_keras beside it, and the variable for it.
"""

import argparse
import os
import sys
import time


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--num_batches", type=int, default=20)
    parser.add_argument("--num_warmup_batches", type=int, default=2)
    parser.add_argument("--display_every", type=int, default=2)
    parser.add_argument("--model", default="trivial")
    options, _ = parser.parse_known_args()
    if os.environ.get("TF_USE_LEGACY_KERAS") != "1":
        sys.exit("AttributeError: `BasicLSTMCell` is not available with Keras 3.")
    import tf_keras  # noqa: F401

    say("TensorFlow:  2.21", f"Model:       {options.model}", "Mode:        training")
    say(f"Batch size:  {options.batch_size} global", "==========")
    say("Running warm up", "Done warm up", "Step\tImg/sec\ttotal_loss")
    began = time.perf_counter()
    for step in range(1, options.num_batches + 1):
        time.sleep(0.005)
        if step == 1 or step % options.display_every == 0:
            rate = options.batch_size * step / (time.perf_counter() - began)
            loss = 8 - step / 100
            say(f"{step}\timages/sec: {rate:.1f} +/- 0.0 (jitter = 0.0)\t{loss:.3f}")
    total = options.batch_size * options.num_batches / (time.perf_counter() - began)
    say("-" * 64, f"total images/sec: {total:.2f}", "-" * 64)


if __name__ == "__main__":
    main()
