"""Two models in one process: requests of one, and one that works without pause, under HPF and under WRR."""

import statistics
import threading
import time

from gpu import GPU, Model

import xmsched

REQUESTS = 15


def run(queue, model):
    """One run, launched on this thread; a command is a layer, which others may have to wait for."""
    for _ in range(model.layers):
        with queue.launch():
            model.layer()
    model.synchronize()


def main():
    gpu = GPU()
    first, other = Model(gpu, 8, 30_000), Model(gpu, 8, 30_000)
    with xmsched.XQueue(first, priority=10, weight=3) as urgent, xmsched.XQueue(
        other, weight=1, threshold=2, batch_size=1
    ) as batch:
        for policy in ("HPF", "WRR"):
            xmsched.set_policy(policy)  # the hints stay
            stop, runs = threading.Event(), []

            def work():
                gpu.use()
                while not stop.is_set():
                    run(batch, other)
                    runs.append(1)

            worker = threading.Thread(target=work)
            worker.start()
            took = []
            for _ in range(REQUESTS):
                time.sleep(0.003)
                began = time.perf_counter()
                run(urgent, first)
                took.append((time.perf_counter() - began) * 1e3)
            stop.set()
            worker.join()
            print(
                f"policy {policy}  requests: median {statistics.median(took):.1f} ms, worst {max(took):.1f} ms; "
                f"the other model: {len(runs)} runs"
            )
    first.verify()
    other.verify()


if __name__ == "__main__":
    main()
